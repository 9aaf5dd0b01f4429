"""Four threads that write to and read from one bank until the time is over; prints as JSON what was stored and what failed."""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from lorebank import Bank, open_bank


def live(bank: Bank, name: str, until: float) -> tuple[list[tuple[str, str]], list[str]]:
    """One thread: writes, then finds again what it wrote; every tenth memory is forgotten."""
    kept: list[tuple[str, str]] = []
    failed: list[str] = []
    number = 0
    while time.monotonic() < until:
        text = f"writer {name} noted item{name}x{number}"
        try:
            known = str(bank.retain(text, session=name).stored[0].id)
            if bank.get(known).text != text or text not in {memory.text for memory in bank.recall(f"item{name}x{number}")}:
                failed.append(f"not found again: {text}")
            if number % 10 == 9:
                bank.forget(known)
            else:
                kept.append((known, text))
        except Exception as error:  # noqa: BLE001 - whatever it is, the test must hear of it
            failed.append(repr(error))
        number += 1
    return kept, failed


def main() -> None:
    url, process, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    sys.stdin.readline()  # the start for all processes
    with open_bank(url, bank="soak") as bank, ThreadPoolExecutor(4) as pool:
        assert bank.health().ok  # all is loaded and opened
        until = time.monotonic() + seconds
        results = list(pool.map(lambda thread: live(bank, f"{process}{thread}", until), "abcd"))
    report = {
        "kept": [each for kept, _ in results for each in kept],
        "failed": [each for _, failed in results for each in failed],
    }
    print(json.dumps(report))  # noqa: T201 - the report


main()
