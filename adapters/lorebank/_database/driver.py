"""Statements straight through the database driver, for the paths where microseconds count.

They run in the transaction of what they are given: a SQLAlchemy connection, or the driver's own (`Database.direct`).
Parameters are always bound, and written `?`, whatever the driver wants. A statement that PostgreSQL says in other words is
a `Spoken`: for SQLite, and for whoever reads it, it is plain text.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, Self, cast

from sqlalchemy import Connection
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor

Dialect = Literal["sqlite", "postgresql"]
Row = tuple[Any, ...]
Source = Connection | DBAPIConnection
"""Where statements can be run."""


class Spoken(str):
    """A statement in SQLite's words, with PostgreSQL's beside them."""

    __slots__ = ("postgresql",)
    postgresql: str

    def __new__(cls, sqlite: str, postgresql: str) -> Self:
        made = super().__new__(cls, sqlite)
        made.postgresql = postgresql
        return made


def dialect_of(source: Source) -> Dialect:
    """Which database a statement would run in."""
    if isinstance(source, Connection):
        return "sqlite" if source.dialect.name == "sqlite" else "postgresql"
    return "sqlite" if isinstance(source, sqlite3.Connection) else "postgresql"


def rows_of(source: Source, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
    """The rows of a statement."""
    cursor = _cursor(source)
    try:
        cursor.execute(_said(cursor, statement), parameters)
        return cast("list[Row]", cursor.fetchall())
    finally:
        cursor.close()


def run(source: Source, statement: str, parameters: Sequence[object] = ()) -> int:
    """Runs a statement; gives how many rows it changed."""
    cursor = _cursor(source)
    try:
        cursor.execute(_said(cursor, statement), parameters)
        return cursor.rowcount
    finally:
        cursor.close()


def run_many(source: Source, statement: str, rows: Sequence[Sequence[object]]) -> None:
    """Runs a statement once for each row."""
    cursor = _cursor(source)
    try:
        cursor.executemany(_said(cursor, statement), rows)
    finally:
        cursor.close()


def _cursor(source: Source) -> DBAPICursor:
    return source.connection.cursor() if isinstance(source, Connection) else source.cursor()


def _said(cursor: DBAPICursor, statement: str) -> str:
    """The statement as this cursor's driver wants it."""
    if isinstance(cursor, sqlite3.Cursor):
        return statement
    return _for_psycopg(statement.postgresql if isinstance(statement, Spoken) else statement)


@lru_cache(maxsize=2048)
def _for_psycopg(statement: str) -> str:
    return statement.replace("%", "%%").replace("?", "%s")
