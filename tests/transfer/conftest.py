"""Two banks in two files: one with a past, and an empty one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lorebank import Bank, open_bank

DAY = datetime(2026, 3, 1, 8, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a test exports to."""
    return tmp_path / "memories.jsonl"


@pytest.fixture
def told(bank: Bank) -> Bank:
    """The bank `alice` with a bit of everything that a bank can hold."""
    bank.retain("Ana prefers aisle seats.", tags=["trip"], metadata={"turn": 3, "seen": [1.5, None]}, importance=0.9)
    bank.retain("Ana prefers aisle seats.", tags=["trip"])
    bank.retain(["Ana flew to Oslo.", "Ben stayed in Rome."], session="s1", speaker="Ana", context="travel", entities=["Oslo"])
    bank.retain("The flight was late.", session="s1", timestamp=DAY, document_id="trips", type="experience")
    bank.retain("Ana has a visa.", valid_until=DAY.replace(year=2126))
    old = bank.retain("Ana lives in Rome.").stored[0].id
    new = bank.retain("Ana lives in Bern.").stored[0].id
    assert old is not None
    bank.invalidate(old, replacement=new)
    with bank.session("chat") as session:
        messages = [
            {"role": "user", "content": "ok"},
            {"role": "assistant", "content": "Fine."},
            {"role": "user", "content": "ok"},
        ]
        session.after_turn(messages, history="full")
    bank.mental_models.create("home", name="Home", source_query="Where does Ana live?", tags=["trip"])
    bank.mental_models.update("home", content="In Bern.")
    return bank


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Bank]:
    """The bank `bob` in another file."""
    with open_bank(f"sqlite:///{tmp_path / 'other.db'}", bank="bob") as opened:
        yield opened
