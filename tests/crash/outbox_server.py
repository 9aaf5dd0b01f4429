"""Makes short-lived writers to a server's bank: each line names a server, a ledger, a log, a time in milliseconds and a seed.

The parent has imported everything; each writer is a fork of it, which writes, logs each acknowledged write, and is killed
when its time is over.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time

from lorebank import Item, open_bank


def write(url: str, ledger: str, log: str, seed: int) -> None:
    """Writes until it is killed: single facts, and lines of a few documents."""
    chance = random.Random(seed)
    bank = open_bank(url, bank="kills", ledger=f"sqlite:///{ledger}", outbox={"batch_seconds": 0.01, "batch_rows": 4})
    with open(log, "a", encoding="utf-8", buffering=1) as acknowledged:
        for number in range(10_000):
            if chance.random() < 0.7:
                text, document = f"Fact s{seed}n{number} is known.", None
            else:
                text, document = f"Line s{seed}n{number} is noted.", f"log-{chance.randrange(3)}"
            mode = "append" if document else None
            bank.retain(Item(text, document_id=document, update_mode=mode))
            acknowledged.write(json.dumps([document, text]) + "\n")


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,  # loads and compiles all that a writer needs
        open_bank("http://127.0.0.1:9", ledger=f"sqlite:///{folder}/outbox.db", connection={"close_timeout": 0}) as bank,
    ):
        bank.retain("one")
    for line in sys.stdin:
        url, ledger, log, milliseconds, seed = line.split()
        child = os.fork()
        if not child:
            write(url, ledger, log, int(seed))
            os._exit(0)
        time.sleep(float(milliseconds) / 1000)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        print("killed" if os.WIFSIGNALED(status) else "ended", flush=True)  # noqa: T201 - the answer


main()
