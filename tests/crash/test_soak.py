"""Processes and threads that write and read one file at once, for `LOREBANK_SOAK_SECONDS` (default 6)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from lorebank import open_bank

WRITERS = Path(__file__).with_name("writers.py")


def test_processes_and_threads_lose_nothing(url: str) -> None:
    """Two processes with four threads each: no error, every write is found at once and at the end, every removal stays."""
    seconds = os.environ.get("LOREBANK_SOAK_SECONDS", "6" if url.startswith("sqlite") else "3")
    command = [sys.executable, str(WRITERS), url]
    processes = [
        subprocess.Popen([*command, name, seconds], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for name in ("p", "q")
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    reports = [json.loads(process.communicate(timeout=float(seconds) + 120)[0]) for process in processes]
    assert [report["failed"] for report in reports] == [[], []]
    kept = {memory: text for report in reports for memory, text in report["kept"]}
    with open_bank(url, bank="soak") as bank:
        assert {memory.id: memory.text for memory in bank.list(state="all", limit=1_000_000)} == kept
        assert bank.check().problems == ()
        assert bank.stats().sessions == 8
