"""Statements straight through the database driver, for the paths where microseconds count.

They run in the transaction of what they are given: a SQLAlchemy connection, or the driver's own (`Database.direct`).
Parameters are always bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from sqlalchemy import Connection
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor

Row = tuple[Any, ...]
Source = Connection | DBAPIConnection
"""Where statements can be run."""


def rows_of(source: Source, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
    """The rows of a statement."""
    cursor = _cursor(source)
    try:
        cursor.execute(statement, parameters)
        return cast("list[Row]", cursor.fetchall())
    finally:
        cursor.close()


def run(source: Source, statement: str, parameters: Sequence[object] = ()) -> int:
    """Runs a statement; gives how many rows it changed."""
    cursor = _cursor(source)
    try:
        cursor.execute(statement, parameters)
        return cursor.rowcount
    finally:
        cursor.close()


def run_many(source: Source, statement: str, rows: Sequence[Sequence[object]]) -> None:
    """Runs a statement once for each row."""
    cursor = _cursor(source)
    try:
        cursor.executemany(statement, rows)
    finally:
        cursor.close()


def _cursor(source: Source) -> DBAPICursor:
    return source.connection.cursor() if isinstance(source, Connection) else source.cursor()
