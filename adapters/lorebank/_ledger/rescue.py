"""A ledger that can't be used is moved aside, never deleted, and what can still be read of it is carried over.

The work is done under a lock of its own, so that of several processes that find the damage one repairs it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import Connection, Table, func, or_, select, update

from lorebank._domain.outbox import STATES, UNDERWAY
from lorebank._ledger.schema import batches, outbox, totals

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
    return saved


def _readable(aside: Path, table: Table) -> Iterator[dict[str, object]]:
    """The rows of a table that can be read: in their order up to the damage, then from the last one back to it."""
    columns = [column.name for column in table.columns]
    seen: set[object] = set()
    for order in ("ASC", "DESC"):
        statement = f"SELECT {', '.join(columns)} FROM {table.name} ORDER BY {columns[0]} {order}"  # noqa: S608 - our own names
        try:
            with closing(sqlite3.connect(f"{aside.as_uri()}?mode=ro", uri=True)) as connection:
                for row in connection.execute(statement):
                    if row[0] not in seen:
                        seen.add(row[0])
                        yield dict(zip(columns, row, strict=True))
        except sqlite3.Error:
            continue
        return
