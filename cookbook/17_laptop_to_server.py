"""From the laptop to a server. You learn: a bank in a file of JSON Lines, its way into another backend, and that coming twice
changes nothing.

Runs offline against the server of `lorebank.testing`; `--url http://...` takes a real Hindsight server.
"""

import argparse
import tempfile
import uuid
from contextlib import nullcontext
from pathlib import Path

from lorebank import open_bank
from lorebank.testing import FaultServer

FACTS = ("Ana prefers aisle seats.", "Ana's dentist is Femi Okafor.", "Ana plays the cello.")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", help="a Hindsight server")
    given = parser.parse_args().url
    bank_name = f"ana-{uuid.uuid4().hex[:8]}"
    with tempfile.TemporaryDirectory() as folder, nullcontext() if given else FaultServer() as server:
        url, ledger = given or server.url, f"sqlite:///{folder}/outbox.db"
        archive = Path(folder) / "memories.jsonl"
        with open_bank(f"sqlite:///{folder}/laptop.db", bank="ana") as laptop:
            laptop.retain(list(FACTS), tags=["private"])
            written = laptop.export(archive)
        print(f"exported: {written.memories} memories, {len(archive.read_text().splitlines())} lines")

        with open_bank(url, bank=bank_name, ledger=ledger) as there:
            print(f"would queue: {there.import_(archive, dry_run=True).queued}")
            print(f"queued: {there.import_(archive).queued}")
            print(f"all sent: {there.flush(timeout=120, until='completed').done}")
            print(f"again: {there.import_(archive).queued} queued, each in place of itself")
            there.flush(timeout=120, until="completed")
            print(f"documents on the server: {len(there.documents.list())}")
            found = there.recall("Which seats does Ana prefer?")
            print(f"asked there: {found[0].text if len(found) else found.state}")

        with open_bank(f"sqlite:///{folder}/desktop.db", bank="ana") as desktop:
            first, second = desktop.import_(archive), desktop.import_(archive)
            print(f"on another machine: {first.added} added, then {second.known} known")


if __name__ == "__main__":
    main()
