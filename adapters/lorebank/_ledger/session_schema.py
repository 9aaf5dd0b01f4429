"""The tables of sessions, beside a server's outbox or in Mnemopi's own file: records, cursors, histories, traces.

A cursor holds identities only (digests), never text. `histories` are the digests of the last full history without host ids,
in chunks, so that one that grows is appended to. Traces hold queries, and go with what is forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields

from lorebank._domain.session import Progress

ADDRESS = ("place", "bank", "label", "id")
PROGRESS = tuple(field.name for field in fields(Progress))
SESSION = (*ADDRESS, "choices", *PROGRESS)
DETAILS: Mapping[str, Sequence[str]] = {
    "cursors": ("identity", "run", "holder", "kept", "seen"),
    "histories": ("chunk", "digests"),
    "traces": ("number", "body"),
}
"""What belongs to a session, by its number."""

STEPS: Sequence[Sequence[str]] = (
    (
        """CREATE TABLE sessions (
            number INTEGER PRIMARY KEY, place TEXT NOT NULL, bank TEXT NOT NULL, label TEXT NOT NULL, id TEXT NOT NULL,
            choices TEXT NOT NULL, turns INTEGER NOT NULL, unreleased INTEGER NOT NULL, messages INTEGER NOT NULL,
            history INTEGER NOT NULL, head BLOB, segment INTEGER NOT NULL, segment_turns INTEGER NOT NULL,
            segment_bytes INTEGER NOT NULL, apart INTEGER NOT NULL, window BLOB, opened BLOB,
            UNIQUE (place, bank, label, id))""",
        """CREATE TABLE cursors (
            session INTEGER NOT NULL, identity BLOB NOT NULL, run BLOB, holder BLOB, kept INTEGER NOT NULL,
            seen REAL NOT NULL,
            PRIMARY KEY (session, identity)) WITHOUT ROWID""",
        """CREATE TABLE histories (
            session INTEGER NOT NULL, chunk INTEGER NOT NULL, digests BLOB NOT NULL,
            PRIMARY KEY (session, chunk)) WITHOUT ROWID""",
        """CREATE TABLE traces (
            session INTEGER NOT NULL, number INTEGER NOT NULL, body TEXT NOT NULL,
            PRIMARY KEY (session, number)) WITHOUT ROWID""",
    ),
)
