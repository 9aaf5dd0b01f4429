"""200 kills at random moments: no acknowledged write is lost, none is doubled, nothing needs repair."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lorebank import Bank, open_bank

SERVER = Path(__file__).with_name("server.py")
Kill = Callable[[Path, float, int], str]


@pytest.fixture
def kill(tmp_path: Path) -> Iterator[Kill]:
    """`kill(file, milliseconds, seed)`: a child writes to the file, for so long."""
    with subprocess.Popen([sys.executable, SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        source, answers = server.stdin, server.stdout

        def one(file: Path, milliseconds: float, seed: int) -> str:
            source.write(f"sqlite:///{file} {file.with_suffix('.log')} {milliseconds:.3f} {seed}\n")
            source.flush()
            return answers.readline().strip()

        yield one
        source.close()
        assert server.wait(30) == 0


def acknowledged(file: Path) -> list[tuple[str, str, str]]:
    """Bank, id and text of each receipt that reached the log; a torn last line was not acknowledged."""
    log = file.with_suffix(".log")
    found = []
    for line in log.read_text().splitlines() if log.exists() else []:
        if line.startswith("[") and line.endswith("]"):
            bank, memory, text = json.loads(line)
            found.append((bank, memory, text))
    return found


def stored(file: Path) -> dict[tuple[str, str], str]:
    """What another program reads in the file right after a kill, by bank and id."""
    connection = sqlite3.connect(file)
    try:
        if connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'memories'").fetchone() == (0,):
            return {}
        rows = connection.execute("SELECT b.name, m.id, m.content FROM memories m JOIN banks b ON b.number = m.bank")
        return {(bank, memory): text for bank, memory, text in rows}
    finally:
        connection.close()


def lost(file: Path) -> list[tuple[str, str, str]]:
    held = stored(file)
    return [each for each in acknowledged(file) if held.get(each[:2]) != each[2]]


def sound(bank: Bank) -> list[str]:
    return [problem for n in range(3) for problem in bank.named(f"bank-{n}").check().problems]


def test_no_acknowledged_write_is_lost_by_170_kills(kill: Kill, tmp_path: Path) -> None:
    """After each kill the next one just goes on; in the end all that was acknowledged is there, once and exact."""
    chance, file = random.Random(7), tmp_path / "memory.db"
    for number in range(170):
        assert kill(file, chance.uniform(5, 150), number) == "killed"
        if number % 10 == 9:
            with open_bank(f"sqlite:///{file}") as bank:
                assert sound(bank) == []
    assert len(acknowledged(file)) > 170
    assert lost(file) == []
    assert len(set(stored(file).values())) == len(stored(file))
    with open_bank(f"sqlite:///{file}") as bank:
        assert sound(bank) == []
        name, memory, text = acknowledged(file)[-1]
        assert bank.named(name).get(memory).text == text
        assert memory in {found.id for found in bank.named(name).recall(text.partition(" of")[0])}


def test_a_batch_is_written_whole_or_not_at_all(kill: Kill, tmp_path: Path) -> None:
    """Ten kills: the numbers a child wrote have no gap, so that no batch was cut in two."""
    chance, file = random.Random(8), tmp_path / "memory.db"
    for seed in range(10):
        assert kill(file, chance.uniform(20, 90), seed) == "killed"
    for seed in range(10):
        numbers = sorted(int(text.split()[1].split("-")[1]) for text in stored(file).values() if text.startswith(f"fact {seed}-"))
        assert numbers == list(range(len(numbers)))
    assert lost(file) == []


def test_a_kill_while_a_new_file_is_made_needs_no_repair(kill: Kill, tmp_path: Path) -> None:
    """Twenty new files, each killed within its first moments, open and work as if nothing had been."""
    chance = random.Random(9)
    for number in range(20):
        file = tmp_path / f"{number}.db"
        assert kill(file, chance.uniform(0.5, 25), number) == "killed"
        with open_bank(f"sqlite:///{file}", bank="bank-0") as bank:
            assert len(bank.retain("Life goes on.").stored) == 1
            assert sound(bank) == []
        assert lost(file) == []
