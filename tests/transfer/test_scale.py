"""Exports and imports of many memories: one moment, little memory, vectors afterwards."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lorebank import Bank, UnavailableError, open_bank

MANY = 900


def test_an_export_is_one_moment(bank: Bank, path: Path) -> None:
    """What is written, changed and forgotten while it runs is not in it, and does not wait for it."""
    bank.retain([f"Fact number {n}." for n in range(MANY)])
    newest = bank.list(limit=1)[0].id

    def meddle(done: int, total: int) -> None:
        assert total >= MANY
        if done == 200:
            bank.retain("Fact that came late.")
            bank.update(newest, content="Fact that was changed.")
            bank.forget(bank.list(limit=2)[-1].id)

    assert bank.export(path, progress=meddle).memories == MANY
    told = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()[1:-1]]
    assert [each["content"] for each in told] == [f"Fact number {n}." for n in range(MANY)]
    assert bank.check().ok


def test_a_big_bank_needs_little_memory(url: str, other: Bank, path: Path) -> None:
    """A file of 20 MB is written and read with a fraction of that."""
    with open_bank(url, bank="alice", retain={"redactor": None}) as bank, open_bank(url, bank="carl") as target:
        for start in range(0, 2500, 100):
            bank.retain([{"content": f"Fact number {start + n}.", "metadata": {"x": "y" * 8000}} for n in range(100)])
        for body in (lambda: bank.export(path), lambda: target.import_(path)):
            tracemalloc.start()
            try:
                body()
                assert tracemalloc.get_traced_memory()[1] < 0.6 * path.stat().st_size
            finally:
                tracemalloc.stop()
        assert path.stat().st_size > 20_000_000
        assert target.stats().memories == 2500


def test_an_import_is_written_whole_though_others_write(bank: Bank, path: Path) -> None:
    """Another writer of the same database waits for its turn, and both are there."""
    bank.retain([f"Fact number {n}." for n in range(MANY)])
    bank.export(path)
    carl, failed = bank.named("carl"), list[str]()

    def meddle(done: int, total: int) -> None:
        if total // 2 < done < total:
            try:
                with open_bank(bank.connections.backend.database.settings.url, mnemopi={"busy_timeout": 0.1}) as rude:  # type: ignore[attr-defined]
                    rude.retain("In a hurry.")
            except UnavailableError as error:
                failed.append(str(error))

    assert carl.import_(path, progress=meddle).added == MANY
    assert failed
    assert "busy" in failed[0]
    assert (carl.stats().memories, bank.named("default").stats().memories) == (MANY, 0)


def test_vectors_are_made_anew(told: Bank, url: str, path: Path, toy: Callable[..., Any]) -> None:
    """They are not in the file; recall by meaning works once they are made."""
    told.retain("kitten sleeps")
    told.export(path)
    assert "vector" not in path.read_text(encoding="utf-8")
    with open_bank(url, bank="dora", embedder=toy()) as dora:
        dora.import_(path)
        assert dora.flush(timeout=30, until="completed").done
        assert dora.recall("feline sleeps")[0].text == "kitten sleeps"
        assert dora.check().ok


def test_a_joined_bank_is_its_first_part(told: Bank, other: Bank, path: Path) -> None:
    """What is exported is the bank that is written to."""
    other.retain("Ben plays the cello.")
    joined = other.joined(told)
    assert joined.export(path).memories == 1
    told.export(path, overwrite=True)
    assert joined.import_(path).added == 10
    assert other.stats().memories == 11


@pytest.mark.parametrize("kind", ["empty", "not ours"])
def test_a_file_of_no_known_kind_is_read_in_bounds(bank: Bank, path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another library's file is read whole, up to a bound."""
    monkeypatch.setattr("lorebank._transfer.LARGEST_FOREIGN", 100)
    path.write_bytes(b"[" * 101 if kind == "not ours" else b"")
    with pytest.raises(Exception, match="more than 100 bytes" if kind == "not ours" else "none that is known"):
        bank.import_(path)
