"""Killed while it imports or exports: there is all of it or nothing, and the next try goes through."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lorebank import Bank, open_bank

CARRIER = Path(__file__).with_name("carrier.py")
COUNT = 1500


def run(verb: str, bank: str, file: Path, url: str, seconds: float | None) -> str:
    """Runs to its end, or is killed so many seconds after it began; gives what it said."""
    command = [sys.executable, CARRIER, verb, url, bank, file]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as carrier:
        assert carrier.stdout is not None
        assert carrier.stdout.readline() == "begun\n"
        if seconds is not None:
            time.sleep(seconds)
            carrier.kill()
        return carrier.stdout.read()


def held(bank: Bank) -> int:
    return bank.stats().memories


@pytest.fixture
def source(bank: Bank, tmp_path: Path) -> Path:
    """The export of a bank of some size."""
    bank.retain([{"content": f"Fact {n} about topic{n % 97}.", "session": f"s{n // 40}"} for n in range(COUNT)])
    path = tmp_path / "memories.jsonl"
    bank.export(path)
    return path


def test_an_import_that_is_killed_leaves_all_or_nothing(source: Path, bank: Bank, tmp_path: Path) -> None:
    """Five kills, one at once, others in the time that an import takes; then the same import adds what is not there."""
    url = f"sqlite:///{tmp_path / 'target.db'}"
    started = time.perf_counter()
    assert run("import", "timed", source, url, None) == "done\n"
    whole, chance = time.perf_counter() - started, random.Random(3)
    found = set()
    with open_bank(url, bank="other") as target:
        target.retain("Ana sings.")
        for number, share in enumerate((0.0, *(chance.random() for _ in range(4)))):
            name = f"bank-{number}"
            run("import", name, source, url, share * whole)
            count = held(target.named(name))
            assert count in (0, COUNT)
            found.add(count)
            report = target.named(name).import_(source)
            assert (report.added, report.known) == ((COUNT, 0) if count == 0 else (0, COUNT))
            assert target.named(name).check().ok
        assert 0 in found
        assert held(target) == 1
        ours, theirs = bank.recall("Fact about topic7", limit=50), target.named("bank-0").recall("Fact about topic7", limit=50)
        assert [memory.id for memory in theirs] == [memory.id for memory in ours]


def test_an_export_that_is_killed_leaves_the_old_file(source: Path, url: str, tmp_path: Path) -> None:
    """The file under its name is whole at any time, the old one or the new one."""
    chance = random.Random(4)
    with open_bank(f"sqlite:///{tmp_path / 'target.db'}", bank="target") as target:
        assert target.import_(source).added == COUNT
        for _ in range(5):
            run("export", "alice", source, url, chance.uniform(0, 0.4))
            assert target.import_(source, dry_run=True).known == COUNT
