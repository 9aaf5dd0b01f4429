"""A ledger in a file of its own, opened as often as asked, and what it told of being moved aside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lorebank._ledger.ledger import Ledger


@pytest.fixture
def moved() -> list[tuple[Path, str, int]]:
    """Where to, why, and how many rows were carried over, for each ledger that was moved aside."""
    return []


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The ledger's file, in a folder that does not exist yet."""
    return tmp_path / "new folder" / "outbox #1.db"


@pytest.fixture
def opening(place: Path, moved: list[tuple[Path, str, int]]) -> Iterator[Callable[[], Ledger]]:
    opened: list[Ledger] = []

    def one() -> Ledger:
        opened.append(Ledger(f"sqlite:///{place}", moved=lambda *told: moved.append(told)))
        return opened[-1]

    yield one
    for each in opened:
        each.close()


@pytest.fixture
def ledger(opening: Callable[[], Ledger]) -> Ledger:
    return opening()
