"""Mnemopi's own words for SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import cast

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from lorebank._database.driver import Source, rows_of, run
from lorebank._database.engine import Database
from lorebank._database.sqlite import SqliteFile
from lorebank._ledger import session_schema
from lorebank._mnemopi import schema
from lorebank.errors import UnavailableError

STEPS = schema.STEPS
SESSION_STEPS = session_schema.STEPS
FRAGMENTS: Mapping[str, str] = {
    "memories_by_key": "json_each(?) w CROSS JOIN memories m ON m.key = w.value",
    "memories_by_place": (
        "json_each(?) w CROSS JOIN memories m ON m.bank = json_extract(w.value, '$[0]') "
        "AND m.session = json_extract(w.value, '$[1]') AND m.position = json_extract(w.value, '$[2]')"
    ),
    "vectors_by_key": "json_each(?) w CROSS JOIN vectors v ON v.key = w.value",
    "vectors_by_number": "json_each(?) w CROSS JOIN vectors v ON v.number = w.value",
    "facts_by_key": "json_each(?) w CROSS JOIN facts f ON f.key = w.value",
    "facts_by_relation": "json_each(?) w CROSS JOIN facts f ON f.bank = ? AND f.relation = w.value",
    "sources_by_key": "json_each(?) w CROSS JOIN sources s ON s.key = w.value",
    "sources_by_source": "json_each(?) w CROSS JOIN sources s ON s.source = w.value",
    "indexed": "(rowid, terms) VALUES (?, ?)",
    "memory_of_vector": "CROSS JOIN memories m ON m.key = v.key",
    "greater": "max",
    "joined_numbers": "group_concat(number)",
}
_POSTINGS = """SELECT group_concat(rowid) FROM (SELECT rowid FROM memory_terms WHERE memory_terms MATCH ?
               AND rowid BETWEEN ? AND ? ORDER BY rowid DESC LIMIT ?)"""
_OPTIMIZE = "INSERT INTO memory_terms (memory_terms) VALUES ('optimize')"
_MERGE = "INSERT INTO memory_terms (memory_terms, rank) VALUES ('merge', ?)"
_CHECK_INDEX = "INSERT INTO memory_terms (memory_terms, rank) VALUES ('integrity-check', 1)"
BEYOND = ("backups and copies of the file", "the host's own checkpoints and histories")
_CUT_WAIT = 100
"""Milliseconds that the cut of the log waits for readers."""


def postings(connection: Source, banks: Sequence[int], wanted: Sequence[Sequence[str]], bound: int) -> list[NDArray[np.int64]]:
    """From the full-text index, within each bank's range of keys."""
    found: list[NDArray[np.int64]] = []
    for group in wanted:
        match = " OR ".join(f'"{term}"' for term in group)
        texts = [rows_of(connection, _POSTINGS, (match, *schema.key_range(bank), bound))[0][0] for bank in banks]
        found.append(np.fromstring(",".join(filter(None, texts)), np.int64, sep=","))
    return found


def version(connection: Source) -> str:
    return f"SQLite {rows_of(connection, 'SELECT sqlite_version()')[0][0]}"


def size(connection: Connection, database: Database) -> int:
    """The file with its log."""
    del connection
    place = cast("SqliteFile", database.place)
    return sum(file.stat().st_size for file in place.files() if file.exists())


def checking(database: Database) -> AbstractContextManager[Connection]:
    """The full-text index is checked by a statement that writes."""
    return database.write()


def problems(connection: Connection) -> list[str]:
    """SQLite's own check, and the full-text index against the rows."""
    found = [str(row[0]) for row in rows_of(connection, "PRAGMA integrity_check") if row[0] != "ok"]
    try:
        run(connection, _CHECK_INDEX)
    except sqlite3.DatabaseError as error:
        found.append(f"the full-text index does not fit the memories: {error}")
    return found


def merge(connection: Source, pages: int, *, begin: bool) -> bool:
    """A merge that changed fewer than two rows has found nothing left to do (so SQLite's documentation)."""
    raw = cast("sqlite3.Connection", connection)
    before = raw.total_changes
    raw.execute(_MERGE, (-pages if begin else pages,))
    return raw.total_changes - before > 1


def purge(database: Database, wait: float, *, thorough: bool) -> str | None:
    """Removes every trace of deleted text from the file and its write-ahead log; gives why it could not, or `None`.

    Deleted rows are overwritten (`secure_delete`), but the full-text index keeps the words of deleted rows until it is
    merged, and the log keeps old pages until it is cut. A reader that still looks at an old snapshot blocks the cut; it
    is not waited for. Other writers are, for `wait` seconds. The purge stays noted until it has succeeded; one that was noted
    meanwhile stays noted, too.
    """
    del thorough
    try:
        with database.alone(wait) as connection:
            raw = cast("sqlite3.Connection", connection)
            raw.execute("BEGIN IMMEDIATE")
            owed = raw.execute(schema.OWED).fetchall()
            raw.execute(_OPTIMIZE)
            raw.execute("COMMIT")
            raw.execute(f"PRAGMA busy_timeout = {_CUT_WAIT}")
            blocked, _, _ = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if blocked:
                return "a reader still uses an old snapshot of the file: the log is cut by the next purge"
            raw.executemany("DELETE FROM chores WHERE name = ?", owed)
    except UnavailableError as error:
        return str(error)
    return None
