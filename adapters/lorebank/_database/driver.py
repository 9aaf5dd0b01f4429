"""Statements straight through the database driver, for the paths where microseconds count.

Same transaction as the SQLAlchemy connection they are given; parameters are always bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from sqlalchemy import Connection

Row = tuple[Any, ...]


def rows_of(connection: Connection, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
    """The rows of a statement."""
    cursor = connection.connection.cursor()
    try:
        cursor.execute(statement, parameters)
        return cast("list[Row]", cursor.fetchall())
    finally:
        cursor.close()


def run(connection: Connection, statement: str, parameters: Sequence[object] = ()) -> int:
    """Runs a statement; gives how many rows it changed."""
    cursor = connection.connection.cursor()
    try:
        cursor.execute(statement, parameters)
        return cursor.rowcount
    finally:
        cursor.close()


def run_many(connection: Connection, statement: str, rows: Sequence[Sequence[object]]) -> None:
    """Runs a statement once for each row."""
    cursor = connection.connection.cursor()
    try:
        cursor.executemany(statement, rows)
    finally:
        cursor.close()
