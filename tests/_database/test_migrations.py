"""Migrations: ordered steps, each run once, all or nothing; and the schema they make is the one the code reads."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest
from sqlalchemy import Table, text

from lorebank import Bank, LorebankError, UnsupportedError
from lorebank._database.engine import Database, DatabaseSettings
from lorebank._database.migrations import migrate
from lorebank._mnemopi.schema import metadata

FIRST = ("CREATE TABLE things (name TEXT NOT NULL)", "INSERT INTO things VALUES ('old')")
SECOND = ("ALTER TABLE things ADD COLUMN size INTEGER NOT NULL DEFAULT 7",)


def opened(url: str, steps: Sequence[Sequence[str]], component: str = "test") -> Database:
    return Database(DatabaseSettings(url), lambda database: migrate(database, component, steps))


def rows(database: Database, statement: str) -> list[tuple[object, ...]]:
    try:
        with database.read() as connection:
            return [tuple(row) for row in connection.execute(text(statement))]
    finally:
        database.close()


def test_steps_run_in_order_and_only_once(url: str) -> None:
    """Opening again runs nothing again."""
    for _ in range(2):
        assert rows(opened(url, [FIRST, SECOND]), "SELECT * FROM things") == [("old", 7)]


def test_an_older_file_is_brought_up_to_date_with_its_rows(url: str) -> None:
    """Only the missing steps run; what was there stays."""
    assert rows(opened(url, [FIRST]), "SELECT * FROM things") == [("old",)]
    assert rows(opened(url, [FIRST, SECOND]), "SELECT * FROM things") == [("old", 7)]
    assert rows(opened(url, [FIRST, SECOND]), "SELECT component, version FROM lorebank_schema") == [("test", 2)]


def test_a_newer_file_is_refused(url: str) -> None:
    """A file that knows more steps is refused, with both numbers."""
    rows(opened(url, [FIRST, SECOND]), "SELECT 1")
    with pytest.raises(UnsupportedError, match=r"newer lorebank \(test schema 2\D+1\)"):
        rows(opened(url, [FIRST]), "SELECT 1")


def test_a_failing_step_undoes_all_steps(url: str, file: Path) -> None:
    """The upgrade happens whole or not at all, and can be tried again."""
    with pytest.raises(LorebankError):
        rows(opened(url, [FIRST, ("CREATE NONSENSE",)]), "SELECT 1")
    connection = sqlite3.connect(file)
    assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    connection.close()
    assert rows(opened(url, [FIRST, SECOND]), "SELECT * FROM things") == [("old", 7)]


def test_components_of_one_file_have_versions_of_their_own(url: str) -> None:
    """Two parts of lorebank share a file without minding each other."""
    rows(opened(url, [FIRST]), "SELECT 1")
    rows(opened(url, [("CREATE TABLE others (x)",), ("CREATE TABLE more (x)",)], "other"), "SELECT 1")
    found = rows(opened(url, [FIRST]), "SELECT component, version FROM lorebank_schema ORDER BY component")
    assert found == [("other", 2), ("test", 1)]


@pytest.mark.parametrize("table", metadata.sorted_tables, ids=lambda table: table.name)
def test_migrated_tables_have_the_columns_that_the_code_names(bank: Bank, file: Path, table: Table) -> None:
    """Name, order, nullability, key and kind of each column are the same in the file and in the SQLAlchemy table."""
    bank.stats()
    connection = sqlite3.connect(file)
    found = connection.execute('SELECT name, type, "notnull", pk > 0 FROM pragma_table_info(?)', (table.name,)).fetchall()
    connection.close()
    kinds = {"INTEGER": "INTEGER", "BIGINT": "INTEGER", "VARCHAR": "TEXT", "TEXT": "TEXT", "FLOAT": "REAL", "BLOB": "BLOB"}
    expected = [(c.name, kinds[str(c.type)], int(not c.nullable), int(c.primary_key)) for c in table.columns]
    assert [(name, kind, null or key, key) for name, kind, null, key in found] == expected  # a key is never null, said or not


def test_there_are_no_tables_that_the_code_does_not_name(bank: Bank, file: Path) -> None:
    """Beside the tables of the code there are only the versions and the full-text index."""
    bank.stats()
    connection = sqlite3.connect(file)
    found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    connection.close()
    own = {name for name in found if not name.startswith(("memory_terms", "sqlite_"))}
    sessions = {"sessions", "cursors", "histories", "traces"}
    models = {"mental_models", "mental_model_revisions", "embedding_models"}
    follow_up = {"facts", "jobs", "redo", "sources"}
    assert own - sessions - models - follow_up == {"banks", "chores", "memories", "vectors", "lorebank_schema"}
    assert models | follow_up < own
    assert sessions < own
