"""Care for the file: forgotten text is in no byte of it, blocked purges are told and retried, damage is found."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lorebank import Bank, open_bank

Look = Callable[[str], list[Any]]
TOKEN = "zqxjkw7391vyt"  # noqa: S105 - a word that stands nowhere else
TEXT = f"The cello's secret name is {TOKEN}."


@contextmanager
def reader(file: Path) -> Iterator[None]:
    """Another process's reader, which looks at the file as it is now."""
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM memories").fetchone()
    try:
        yield
    finally:
        connection.close()


@pytest.fixture
def holds(bytes_of: Callable[[], bytes]) -> Callable[[], bool]:
    """Whether the token stands in any byte of the file or its log, in any case."""
    return lambda: TOKEN.encode() in bytes_of().lower()


def test_a_forgotten_text_is_in_no_byte_of_the_file(bank: Bank, holds: Callable[[], bool]) -> None:
    """Rows, indexes, free pages and log: the text and its words are gone."""
    bank.retain([f"note {n} about the cello and {n * 7919}" for n in range(400)])
    known = bank.retain(TEXT, metadata={"k": TOKEN}, context=TOKEN, entities=[TOKEN], speaker=TOKEN).stored[0].id
    bank.retain([f"later note {n} about the harp" for n in range(400)])
    assert holds()
    assert bank.forget(known).purged is True
    assert not holds()


def test_a_very_long_forgotten_text_is_in_no_byte_of_the_file(bank: Bank, holds: Callable[[], bool]) -> None:
    """Text that filled pages of its own is gone from them."""
    bank.forget(bank.retain(f"{TOKEN} and more words {'x y z ' * 9_000} {TOKEN}").stored[0].id)
    assert not holds()


@pytest.mark.parametrize("filters", [{"session": "s"}, {"document": "d"}, {"tags": ["t"]}])
def test_a_filter_leaves_no_byte_either(bank: Bank, holds: Callable[[], bool], filters: dict[str, Any]) -> None:
    """However memories are chosen, forgetting is complete."""
    bank.retain([f"{TEXT} {n}" for n in range(50)], session="s", document_id="d", tags=["t"])
    assert holds()
    assert bank.forget(**filters).purged is True
    assert not holds()


def test_a_cleared_bank_leaves_no_byte(bank: Bank, holds: Callable[[], bool]) -> None:
    """Memories, models and their history go from the file, too."""
    bank.retain(TEXT)
    bank.mental_models.create("m", name=TOKEN, source_query=f"What is {TOKEN}?")
    bank.mental_models.update("m", content=f"It is {TOKEN}.")
    assert bank.clear(confirm="alice").purged is True
    assert not holds()


def test_a_forgotten_text_leaves_mental_models_and_their_history(bank: Bank, holds: Callable[[], bool]) -> None:
    """What was written from a forgotten memory is rewritten; former answers that held it are dropped."""
    known = bank.retain(TEXT).stored[0].id
    bank.mental_models.create("m", name="Cello", source_query="What is the cello's secret name?")
    bank.mental_models.update("m", content="Nobody knows.")
    bank.forget(known)
    assert not holds()


def test_a_forgotten_text_that_was_cut_leaves_the_history(bank: Bank, holds: Callable[[], bool]) -> None:
    """An excerpt in a former answer counts as the text."""
    known = bank.retain(f"{TEXT} {'It was told at length on a long evening. ' * 30}").stored[0].id
    assert bank.mental_models.create(
        "m", name="Cello", source_query="What is the cello's secret name?", max_tokens=64
    ).content.endswith("…")
    bank.mental_models.update("m", content="Nobody knows.")
    bank.forget(known)
    assert not holds()


def test_forgetting_drops_what_the_memory_said_before_an_update(bank: Bank, holds: Callable[[], bool]) -> None:
    """The text before an edit is gone from former answers, too."""
    known = bank.retain(TEXT).stored[0].id
    bank.mental_models.create("m", name="Cello", source_query="What is the cello's secret name?")
    bank.update(known, content="The cello's secret name is a secret.")
    bank.forget(known)
    assert not holds()


def test_an_updated_text_is_gone_after_a_purge(bank: Bank, holds: Callable[[], bool]) -> None:
    """The text before an edit is deleted text: a purge leaves no byte of it."""
    bank.update(bank.retain(TEXT).stored[0].id, content="The cello has no name.")
    assert bank.purge() is None
    assert not holds()


@pytest.mark.parametrize("how", ["forget", "clear"])
def test_a_text_forgotten_in_the_shared_bank_leaves_the_models_of_its_readers(
    url: str, holds: Callable[[], bool], how: str
) -> None:
    """Models of every bank in the file that were written from the memory are rewritten."""
    with open_bank(url, bank="alice", shared="team") as bank, open_bank(url, bank="team") as team:
        known = team.retain(TEXT).stored[0].id
        bank.mental_models.create("m", name="Cello", source_query="What is the cello's secret name?")
        removal = team.forget(known) if how == "forget" else team.clear(confirm="team")
        assert removal.ids == (known,)
        assert TOKEN not in bank.mental_models.get("m").content
        assert not holds()


def test_a_text_forgotten_in_the_base_bank_leaves_the_models_of_its_projects(url: str, holds: Callable[[], bool]) -> None:
    """A project's model that was written from a memory of the base bank is rewritten when that is forgotten there."""
    with open_bank(url, bank="alice") as base, open_bank(url, bank="alice", project="Atlas") as project:
        known = base.retain(TEXT).stored[0].id
        project.mental_models.create("m", name="Cello", source_query="What is the cello's secret name?")
        base.forget(known)
        assert not holds()


def test_a_purge_that_a_reader_blocks_says_so_and_is_retried(file: Path, url: str, holds: Callable[[], bool]) -> None:
    """The memory is gone at once for every read; the receipt says that bytes are left; `flush` tries again."""
    with open_bank(url, bank="alice", mnemopi={"busy_timeout": 0.2}) as bank:
        known = bank.retain(TEXT).stored[0].id
        with reader(file):
            removal = bank.forget(known)
            assert (removal.ids, removal.purged, "reader" in str(removal.reason)) == ((known,), False, True)
            assert (bank.list(), holds()) == ((), True)
            report = bank.flush()
            assert (report.done, report.left, "reader" in str(report.reason)) == (False, 1, True)
        assert bank.flush().done
        assert not holds()


def test_a_blocked_purge_is_retried_on_close(file: Path, url: str, holds: Callable[[], bool]) -> None:
    """Closing leaves nothing undone that can be done."""
    with open_bank(url, bank="alice", mnemopi={"busy_timeout": 0.2}) as bank:
        known = bank.retain(TEXT).stored[0].id
        with reader(file):
            assert bank.forget(known).purged is False
    assert not holds()


def test_a_purge_that_a_writer_blocks_says_so(file: Path, url: str) -> None:
    """A purge needs its turn to write; without one it gives the reason."""
    with open_bank(url, bank="alice", mnemopi={"busy_timeout": 0.2}) as bank:
        bank.retain(TEXT)
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        assert "busy" in str(bank.purge())
        other.close()
        assert bank.purge() is None


def test_forgetting_nothing_is_done_at_once(bank: Bank) -> None:
    """A filter that matches nothing has nothing to purge."""
    removal = bank.forget(session="unknown")
    assert (removal.ids, removal.purged, removal.reason) == ((), True, None)


def test_a_dry_run_writes_nothing(bank: Bank, bytes_of: Callable[[], bytes]) -> None:
    """Asking what would go changes no byte."""
    known = bank.retain(TEXT).stored[0].id
    before = bytes_of()
    assert bank.forget(known, dry_run=True).ids == (known,)
    assert bytes_of() == before


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        ("UPDATE banks SET size = size + 1", "counts 3 memories"),
        ("UPDATE banks SET length = length + 1", "terms"),
        ("UPDATE memories SET key = key + 1000 WHERE content = 'one cello'", "outside its range"),
        ("INSERT INTO memory_terms (memory_terms) VALUES ('delete-all')", "full-text index"),
        ("INSERT INTO memory_terms (rowid, terms) VALUES (77, 'stray')", "full-text index"),
    ],
)
def test_check_finds_damage(bank: Bank, look: Look, damage: str, found: str) -> None:
    """Wrong counts, stray keys and an index that does not fit are found and named; a sound bank has no problem."""
    bank.retain(["one cello", "two cellos"])
    assert bank.check().problems == ()
    look(damage)
    result = bank.check()
    assert result.ok is False
    assert any(found in problem for problem in result.problems)


def test_check_reports_this_banks_counts_alone(bank: Bank, look: Look) -> None:
    """Another bank's wrong count is not this bank's problem; its own check finds it."""
    bank.retain("one cello")
    bank.named("bob").retain("two cellos")
    look("UPDATE banks SET size = 9 WHERE name = 'bob'")
    assert bank.check().problems == ()
    assert len(bank.named("bob").check().problems) == 1


def test_checking_writes_nothing(bank: Bank, look: Look) -> None:
    """A check changes no row."""
    bank.retain("one cello")
    before = look("SELECT * FROM memories"), look("SELECT * FROM banks")
    bank.check()
    assert (look("SELECT * FROM memories"), look("SELECT * FROM banks")) == before


def test_stats_tell_the_size_of_the_files(bank: Bank, file: Path) -> None:
    """`bytes` is the file with its log."""
    bank.retain("one cello")
    assert bank.stats().bytes == file.stat().st_size + file.with_name("memory.db-wal").stat().st_size


def test_a_purge_that_fails_leaves_writers_their_patience(bank: Bank, file: Path) -> None:
    """A flush with a short bound meets a writer; the connection it used waits for others as long as before."""
    bank.retain(TEXT)
    database = bank.connections.backend.database  # type: ignore[attr-defined]
    with reader(file):
        assert bank.forget(bank.list()[0].id).purged is False
    blocker = sqlite3.connect(file, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    assert bank.flush(timeout=0.05).left == 1
    blocker.execute("ROLLBACK")
    blocker.close()
    with database.direct() as connection:
        cursor = connection.cursor()
        cursor.execute("PRAGMA busy_timeout")
        [(waits,)] = cursor.fetchall()
        cursor.close()
    assert waits == database.settings.busy_timeout * 1000
    assert bank.flush().done


def test_a_purge_settles_only_what_was_owed_when_it_began(bank: Bank, look: Look) -> None:
    """Each deletion notes a purge of its own, so that one process never settles another's."""
    for text in ("one x", "two x"):
        bank.retain(text)
    bank.forget(bank.list()[0].id)
    assert look("SELECT name FROM chores") == []
    backend = bank.connections.backend
    from lorebank._mnemopi.upkeep import owe_purge

    with backend.database.write() as connection:  # type: ignore[attr-defined]
        owe_purge(connection)
        owe_purge(connection)
    assert len(look("SELECT name FROM chores")) == 2
    assert bank.flush().done
    assert look("SELECT name FROM chores") == []
