"""Forks children that write to a bank until they are killed. Everything is imported once, so that a child costs little.

Each line on stdin, `<url> <log> <milliseconds> <seed>`, starts a child, lets it live that long, kills it, and answers
`killed` (or what else became of it) on stdout.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
from contextlib import suppress

from lorebank import UsageError, open_bank
from lorebank.testing import temporary_bank


def write(url: str, log: str, seed: int) -> None:
    """Retains singles and batches; each receipt is on the disk before the next write begins."""
    chance = random.Random(seed)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(descriptor, b"\n")
    bank = open_bank(url, bank=f"bank-{seed % 3}")
    number = 0
    while True:
        size = chance.choice((1, 1, 2, 20))
        texts = [f"fact {seed}-{number + n} of a crash {'with words ' * chance.randrange(30)}" for n in range(size)]
        number += size
        receipt = bank.retain(texts[0] if size == 1 else texts, session=f"s{seed}")
        lines = [json.dumps([bank.name, outcome.id, text]) for outcome, text in zip(receipt.stored, texts, strict=True)]
        os.write(descriptor, "".join(f"{line}\n" for line in lines).encode())
        os.fsync(descriptor)


def live(url: str, log: str, milliseconds: float, seed: int) -> str:
    """Starts one child and kills it in time; says how it ended."""
    child = os.fork()
    if child == 0:
        try:
            write(url, log, seed)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test must hear of it
            os.write(1, f"failed: {error!r} ".encode())
        os._exit(1)
    select.select([], [], [], milliseconds / 1000)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return "killed" if os.WIFSIGNALED(status) else "ended by itself"


def main() -> None:
    with suppress(UsageError):  # the extra is not there
        open_bank("postgresql://127.0.0.1:1/x").health()
    with temporary_bank() as bank:  # loads and compiles all that a child needs
        bank.retain(["one", "two"], session="s")
    for line in sys.stdin:
        url, log, milliseconds, seed = line.split()
        print(live(url, log, float(milliseconds), int(seed)), flush=True)  # noqa: T201 - the answer


main()
