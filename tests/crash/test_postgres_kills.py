"""Clients of a PostgreSQL server, killed at random moments: no acknowledged write is lost, none is doubled."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from postgres_fixtures import Schema

from lorebank import Bank, open_bank

KILLS = int(os.environ.get("LOREBANK_POSTGRES_KILLS", "20"))
Kill = Callable[[float, int], str]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "receipts.log"


@pytest.fixture
def kill(schema: Schema, log: Path) -> Iterator[Kill]:
    """`kill(milliseconds, seed)`: a child writes to the server, for so long."""
    command = [sys.executable, Path(__file__).with_name("server.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        source, answers = server.stdin, server.stdout

        def one(milliseconds: float, seed: int) -> str:
            source.write(f"{schema.url} {log} {milliseconds:.3f} {seed}\n")
            source.flush()
            return answers.readline().strip()

        yield one
        source.close()
        assert server.wait(30) == 0


def acknowledged(log: Path) -> list[tuple[str, str, str]]:
    """Bank, id and text of each receipt that reached the log; a torn last line was not acknowledged."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [(bank, known, text) for line in lines if line[:1] + line[-1:] == "[]" for bank, known, text in [json.loads(line)]]


def sound(bank: Bank) -> list[str]:
    return [problem for n in range(3) for problem in bank.named(f"bank-{n}").check().problems]


def test_no_acknowledged_write_is_lost_or_doubled(kill: Kill, schema: Schema, log: Path) -> None:
    """After each kill the next client just goes on; batches are whole, places in a session count without a gap."""
    chance = random.Random(7)
    with open_bank(schema.url) as bank:
        assert bank.health().ok
    for number in range(KILLS):
        assert kill(chance.uniform(20, 400), number) == "killed"
    with open_bank(schema.url) as bank:
        assert sound(bank) == []
    rows = schema.sql("SELECT b.name, m.id, m.content, m.position FROM memories m JOIN banks b ON b.number = m.bank")
    stored = {(bank, known): text for bank, known, text, _ in rows}
    told = acknowledged(log)
    assert len(told) > KILLS
    assert [each for each in told if stored.get(each[:2]) != each[2]] == []
    assert len({text for _, _, text, _ in rows}) == len(rows)
    for seed in range(KILLS):
        mine = [(int(text.split()[1].split("-")[1]), place) for _, _, text, place in rows if text.startswith(f"fact {seed}-")]
        assert sorted(mine) == [(n, n) for n in range(len(mine))]


def test_a_kill_while_the_tables_are_made_needs_no_repair(kill: Kill, schema: Schema) -> None:
    """Killed within its first moments, again and again: the next client finds all or nothing, and works."""
    chance = random.Random(9)
    for number in range(6):
        assert kill(chance.uniform(5, 120), number) == "killed"
        with open_bank(schema.url, bank="bank-0") as bank:
            assert len(bank.retain(f"Life goes on, {number}.").stored) == 1
            assert sound(bank) == []
        schema.sql(f"DROP SCHEMA {schema.name} CASCADE; CREATE SCHEMA {schema.name}")
