"""A ledger that can't be used is moved aside, never deleted, and what can still be read of it is carried over.

The work is done under a lock of its own, so that of several processes that find the damage one repairs it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import Connection, Table, func, or_, select, update

from lorebank._database.driver import rows_of, run
from lorebank._domain.outbox import STATES, UNDERWAY
from lorebank._ledger.schema import batches, outbox, totals
from lorebank._ledger.session_schema import ADDRESS, DETAILS, SESSION

SUFFIXES = ("", "-wal", "-shm")
GUARD_WAIT = 30.0


@contextmanager
def guarded(path: Path) -> Generator[None]:
    """Holds the lock beside the ledger."""
    guard = path.with_name(f"{path.name}.guard")
    with closing(sqlite3.connect(guard, timeout=GUARD_WAIT, isolation_level=None)) as lock:
        lock.execute("BEGIN EXCLUSIVE")
        yield


def move_aside(path: Path, word: str) -> Path:
    """Renames the ledger's files; gives the new name."""
    aside = path.with_name(f"{path.name}.{word}-{time.time_ns():x}")
    for suffix in reversed(SUFFIXES):
        file = path.with_name(path.name + suffix)
        if file.exists():
            file.rename(aside.with_name(aside.name + suffix))
    return aside


def sound(path: Path) -> bool:
    """Whether SQLite finds nothing wrong with the file."""
    try:
        with closing(sqlite3.connect(path, timeout=GUARD_WAIT)) as connection:
            return bool(connection.execute("PRAGMA integrity_check(1)").fetchone() == ("ok",))
    except sqlite3.Error:
        return False


def salvage(connection: Connection, aside: Path) -> int:
    """Copies what can be read of a ledger into this one; gives how many rows.

    Into an empty ledger rows come with their places and batches, so that what was sealed stays so; else, and where a row's
    batch can't be read, it waits to be sealed anew.
    """
    empty = connection.scalar(select(func.count()).select_from(outbox)) == 0
    saved = 0
    for row in _readable(aside, outbox):
        if row["state"] != "completed" and row["body"] is not None:
            fresh = row if empty else {name: value for name, value in row.items() if name != "seq"}
            saved += connection.execute(outbox.insert().prefix_with("OR IGNORE").values(**fresh)).rowcount
    for batch in _readable(aside, batches) if empty else ():
        connection.execute(batches.insert().prefix_with("OR IGNORE").values(**batch))
    orphans = outbox.c.state.in_(UNDERWAY) & or_(outbox.c.batch.is_(None), outbox.c.batch.not_in(select(batches.c.id)))
    connection.execute(update(outbox).where(orphans).values(state="pending", batch=None))
    unknown = outbox.c.state.not_in(STATES)
    connection.execute(update(outbox).where(unknown).values(state="malformed", reason="the row can't be read"))
    whole = select(func.count(), func.coalesce(func.sum(outbox.c.size), 0)).where(outbox.c.state != "completed")
    rows, size = connection.execute(whole).one()
    connection.execute(update(totals).values(rows=rows, bytes=size))
    _salvage_sessions(connection, aside)
    return saved


def _salvage_sessions(connection: Connection, aside: Path) -> None:
    """Carries sessions over: what was switched off stays off, and what the cursors know is not told again."""
    numbers: dict[object, int] = {}
    for number, *values in _rows(aside, "sessions", ("number", *SESSION), keys=1):
        marks = ", ".join("?" * len(SESSION))
        run(connection, f"INSERT OR IGNORE INTO sessions ({', '.join(SESSION)}) VALUES ({marks})", values)  # noqa: S608
        address = tuple(values[: len(ADDRESS)])
        numbers[number] = rows_of(connection, f"SELECT number FROM sessions WHERE {' = ? AND '.join(ADDRESS)} = ?", address)[0][0]  # noqa: S608
    for name, columns in DETAILS.items():
        marks = ", ".join("?" * (len(columns) + 1))
        for session, *values in _rows(aside, name, ("session", *columns), keys=2):
            if session in numbers:
                statement = f"INSERT OR IGNORE INTO {name} (session, {', '.join(columns)}) VALUES ({marks})"  # noqa: S608
                run(connection, statement, (numbers[session], *values))


def _readable(aside: Path, table: Table) -> Iterator[dict[str, object]]:
    """The rows of a table that can be read."""
    columns = tuple(column.name for column in table.columns)
    for row in _rows(aside, table.name, columns, keys=1):
        yield dict(zip(columns, row, strict=True))


def _rows(aside: Path, name: str, columns: Sequence[str], *, keys: int) -> Iterator[tuple[object, ...]]:
    """Rows in their order up to the damage, then from the last one back to it. The first columns are the key."""
    seen: set[object] = set()
    for order in ("ASC", "DESC"):
        by = ", ".join(f"{column} {order}" for column in columns[:keys])
        statement = f"SELECT {', '.join(columns)} FROM {name} ORDER BY {by}"  # noqa: S608 - our own names
        try:
            with closing(sqlite3.connect(f"{aside.as_uri()}?mode=ro", uri=True)) as connection:
                for row in connection.execute(statement):
                    if row[:keys] not in seen:
                        seen.add(row[:keys])
                        yield row
        except sqlite3.Error:
            continue
        return
