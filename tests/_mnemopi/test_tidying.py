"""The full-text index is merged while memories arrive: few pieces, nothing lost, nobody kept waiting."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from lorebank import open_bank
from lorebank._mnemopi import tidying


def pieces(file: Path) -> int:
    """How many pieces the full-text index has."""
    with closing(sqlite3.connect(file)) as connection:
        [(count,)] = connection.execute("SELECT count(DISTINCT segid) FROM memory_terms_idx").fetchall()
    return int(count)


@contextmanager
def write_lock(file: Path) -> Iterator[None]:
    """Another process's write, as the file sees it."""
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def batch(number: int, size: int = 40) -> list[str]:
    return [f"note {number} {place}: the heron stood by pond {number * size + place}" for place in range(size)]


@pytest.fixture
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A merge begins with the 100th new memory."""
    monkeypatch.setattr(tidying, "AT_LEAST", 100)


@pytest.mark.usefixtures("early")
@pytest.mark.parametrize("pages", [1, 64])
def test_an_index_that_grows_is_merged_as_it_grows(url: str, file: Path, monkeypatch: pytest.MonkeyPatch, pages: int) -> None:
    """Without merges these writes leave fifteen pieces; a merge takes one step, or several."""
    monkeypatch.setattr(tidying, "PAGES", pages)
    with open_bank(url, bank="alice") as bank:
        seen: list[int] = []
        for number in range(30):
            bank.retain(batch(number))
            seen.append(pieces(file))
        assert seen.count(1) > 3
        assert max(seen) < 8
        assert bank.check().ok
        assert bank.stats().memories == 1200
        assert [memory.text for memory in bank.recall("pond 1199", limit=1)] == [batch(29)[-1]]


def test_a_merge_waits_until_an_eighth_is_new(url: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After many memories a few new ones are not worth it."""
    monkeypatch.setattr(tidying, "AT_LEAST", 100)
    with open_bank(url, bank="alice") as bank:
        bank.retain(batch(0, 2000))
    with open_bank(url, bank="alice") as bank:
        for number in range(1, 8):
            bank.retain(batch(number))
        assert pieces(file) == 8
        bank.retain(batch(8))
        assert pieces(file) == 1


def test_a_batch_is_one_piece(url: str, file: Path) -> None:
    """However many memories it has: a piece for each would cost writes and searches several times as much."""
    with open_bank(url, bank="alice") as bank:
        bank.retain(batch(0))
        assert pieces(file) == 1
        bank.retain(batch(1))
        assert pieces(file) == 2


@pytest.mark.usefixtures("early")
def test_a_merge_waits_for_no_other_writer(url: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written is acknowledged; the merge comes with a later write."""
    with open_bank(url, bank="alice") as bank:
        bank.retain(batch(0))
        wrote = tidying.Tidying.wrote

        def beside(self: tidying.Tidying, count: int) -> None:
            with write_lock(file):
                wrote(self, count)

        monkeypatch.setattr(tidying.Tidying, "wrote", beside)
        for number in range(1, 4):
            assert len(bank.retain(batch(number))) == 40
        assert pieces(file) == 4
        monkeypatch.setattr(tidying.Tidying, "wrote", wrote)
        for number in range(4, 8):
            bank.retain(batch(number))
        assert pieces(file) < 4


@pytest.mark.usefixtures("early")
def test_a_merge_that_fails_fails_no_write(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The memories are stored by then: whoever wrote them is told so."""

    def broken(*_: object, **__: object) -> bool:
        raise sqlite3.DatabaseError("database disk image is malformed")

    monkeypatch.setattr("lorebank._mnemopi.dialects.sqlite.merge", broken)
    with open_bank(url, bank="alice") as bank:
        for number in range(4):
            assert len(bank.retain(batch(number)).stored) == 40
        assert bank.stats().memories == 160
