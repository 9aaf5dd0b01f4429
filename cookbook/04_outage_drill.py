"""Stop the memory server in mid-conversation, go on, start it again: nothing is lost. You learn: receipts, the outbox, flush.

Runs offline against a small server of lorebank.testing. `--url http://...` puts it in front of a real Hindsight server,
where "stopped" means that the line to it is cut.
"""

import argparse
import tempfile
import uuid
from pathlib import Path

from lorebank import Bank, UnavailableError, open_bank
from lorebank.testing import FaultServer

TOLD = [
    "Ana prefers aisle seats.",
    "Ana's dentist is Femi Okafor.",
    "Ana moved to Porto.",
    "Ana is allergic to peanuts.",
    "Ana drives a red van.",
    "Ana plays the cello.",
]
ASKED = {
    "Which seats does Ana prefer?": "aisle",
    "Who is Ana's dentist?": "Okafor",
    "Where has Ana moved?": "Porto",
    "What is Ana allergic to?": "peanuts",
    "What van does Ana drive?": "red van",
    "What does Ana play?": "cello",
}


def tell(bank: Bank, text: str) -> None:
    """One thing the user says."""
    print("told:", text, "->", "queued" if bank.retain(text).queued else "lost")


def drill(server: FaultServer, ledger: str) -> None:
    """Up, down, and up again."""
    name = f"drill-{uuid.uuid4().hex[:8]}"
    events: list[object] = []
    with open_bank(server.url, bank=name, ledger=ledger, on_event=events.append, outbox={"batch_seconds": 0.05}) as bank:
        for text in TOLD[:2]:
            tell(bank, text)
        print("left in the outbox:", bank.flush(until="completed").left)

        server.stop()
        print("-- the server is stopped")
        for text in TOLD[2:]:
            tell(bank, text)
        try:
            bank.recall("Where has Ana moved?")
        except UnavailableError:
            print("recall: unavailable, which is not the same as nothing known")
        print("left in the outbox:", bank.flush(timeout=1).left)

        server.start()
        print("-- the server is back")
        print("left in the outbox:", bank.flush(timeout=60, until="completed").left)
        for question, answer in ASKED.items():
            found = [memory.text for memory in bank.recall(question)]
            print("asked:", question, "->", next((text for text in found if answer in text), "LOST"))
        bank.clear(confirm=name)
    print("events:", *(type(event).__name__ for event in events if "Outage" in type(event).__name__))


arguments = argparse.ArgumentParser(description=__doc__)
arguments.add_argument("--url", help="a real Hindsight server")
with tempfile.TemporaryDirectory() as folder, FaultServer(upstream=arguments.parse_args().url) as line:
    drill(line, f"sqlite:///{Path(folder) / 'outbox.db'}")
