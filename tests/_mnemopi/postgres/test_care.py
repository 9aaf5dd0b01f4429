"""What is left of a forgotten text on PostgreSQL, and how a sick index is found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from postgres_fixtures import Schema

from lorebank import Bank, Message, open_bank
from lorebank._mnemopi.dialects import postgresql

TEXT = "The xylophone of Quentin costs 4711."
TRACES = """SELECT 'SELECT ' || quote_literal(attrelid::regclass) || ' WHERE EXISTS (SELECT 1 FROM ' || attrelid::regclass ||
            ' t WHERE t::text ILIKE ''%xyloph%'')' FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid
            WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace GROUP BY attrelid"""
SIZE = """SELECT sum(pg_total_relation_size(oid)) FROM pg_class
          WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"""


@pytest.fixture
def bank(schema: Schema) -> Iterator[Bank]:
    with open_bank(schema.url, bank="alice", recall={"keep_traces": 5}) as opened:
        yield opened


@pytest.fixture
def older(schema: Schema) -> Iterator[Callable[[], None]]:
    """A transaction of another program that looks at an old snapshot until it is called."""
    with closing(psycopg.connect(schema.url)) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT 1")
        yield connection.rollback


def holders(schema: Schema) -> list[str]:
    """The tables in which a row holds something of the text."""
    return sorted(name for (statement,) in schema.sql(TRACES) for (name,) in schema.sql(statement))


def test_a_forgotten_text_is_in_no_row_at_once(bank: Bank, schema: Schema) -> None:
    """Memory, index, mental models, revisions and traces: nothing speaks of it any more."""
    bank.mental_models.create("things", name="Things", source_query="What does the xylophone cost?")
    known = bank.retain(TEXT).stored[0].id
    bank.mental_models.refresh("things")
    with bank.session("s") as session:
        session.before_turn([Message("user", "the xylophone?")])
        session.after_turn([Message("user", "the xylophone!"), Message("assistant", "It costs 4711.")])
    assert holders(schema) == ["memories", "memory_terms", "mental_model_revisions", "mental_models", "traces"]
    removal = bank.forget(known)
    bank.forget(session="s")
    bank.mental_models.delete("things")
    assert (removal.purged, removal.reason) == (True, None)
    assert removal.beyond[0] == "the server's write-ahead log, replicas and backups"
    assert holders(schema) == []


def test_no_statistics_sample_the_texts(bank: Bank, schema: Schema) -> None:
    """PostgreSQL keeps samples of columns for its planner: of these it keeps none."""
    bank.retain([f"The xylophone {n} of Quentin." for n in range(50)], speaker="Quentin", context="xylophones")
    schema.sql("ANALYZE")
    sampled = schema.sql(
        "SELECT tablename, attname FROM pg_stats WHERE schemaname = current_schema() AND pg_stats::text ~ 'xylo'"
    )
    assert sampled == []


def test_a_purge_says_when_an_older_transaction_keeps_the_rows(bank: Bank, schema: Schema, older: Callable[[], None]) -> None:
    """The deletion is done, the pages wait; the purge stays owed, and the next one does it."""
    known = bank.retain(TEXT).stored[0].id
    removal = bank.forget(known)
    assert (removal.purged, "older transaction" in (removal.reason or "")) == (False, True)
    assert schema.sql("SELECT count(*) FROM chores") == [(1,)]
    assert bank.flush(timeout=5).left == 1
    older()
    assert bank.purge() is None
    assert schema.sql("SELECT count(*) FROM chores") == [(0,)]


def test_a_large_database_leaves_it_to_the_server(bank: Bank, schema: Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    """There a deletion does not wait for a vacuum; `purge()` does."""
    monkeypatch.setattr(postgresql, "LARGE", 0)
    removal = bank.forget(bank.retain(TEXT).stored[0].id)
    assert (removal.purged, "`purge()`" in (removal.reason or "")) == (False, True)
    assert holders(schema) == []
    assert bank.purge() is None
    assert bank.flush().done


@pytest.mark.parametrize(
    ("harm", "problem"),
    [
        ("DELETE FROM memory_terms WHERE term = 'quentin'", "1 terms lack, 0 are left over"),
        ("INSERT INTO memory_terms SELECT 'zither', key FROM memories", "0 terms lack, 1 are left over"),
        ("UPDATE banks SET size = 7", "counts 7 memories"),
    ],
)
def test_check_finds_what_does_not_fit(bank: Bank, schema: Schema, harm: str, problem: str) -> None:
    """Terms that lack or are left over, and wrong counts."""
    bank.retain(TEXT)
    assert bank.check().problems == ()
    schema.sql(harm)
    assert problem in "; ".join(bank.check().problems)


def test_stats_tell_the_size_of_the_tables(bank: Bank, schema: Schema) -> None:
    """`bytes` are those of our tables with their indexes, and no other's."""
    schema.sql("CREATE TABLE foreign_things AS SELECT repeat('x', 1000) FROM generate_series(1, 1000)")
    bank.retain(TEXT)
    before = bank.stats().bytes
    bank.retain([f"{TEXT} Again {n}." for n in range(500)])
    assert 100_000 < before < 1_000_000 < before + bank.stats().bytes
    whole = schema.sql(SIZE)[0][0]
    others = schema.sql("SELECT pg_total_relation_size('foreign_things') + pg_total_relation_size('lorebank_schema')")[0][0]
    assert bank.stats().bytes == whole - others


def test_an_edit_moves_the_terms_and_drops_the_vector(schema: Schema, toy: Callable[..., Any]) -> None:
    """A changed text is found by its new words, by no old one, and gets a new vector."""
    with open_bank(schema.url, bank="alice", embedder=toy()) as bank:
        known = bank.retain(TEXT).stored[0].id
        assert bank.flush(timeout=30).done
        bank.update(known, content="The zither of Quentin costs 4711.")
        assert [bank.recall(word).state for word in ("xylophone", "zither")] == ["nothing", "found"]
        assert bank.flush(timeout=30).done
        assert schema.sql("SELECT count(*), max(number) > 1, (SELECT dropped FROM banks) FROM vectors") == [(1, True, 1)]
        assert bank.check().problems == ()
