"""The tables of a ledger, and the numbered steps that make them.

A row's id is its `nonce`, random, and its `seq` behind it, so that it is found by its place and needs no index of its own.
`seq` is the order of arrival; no clock decides it. Times are seconds since 1970. `fold` says which appends to a document may
be sent as one; `part` holds apart what a split batch has become; `solo` rows share no batch with other documents.
A batch is what is sent at once: its `body` and its id, which is the operation's, never change.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import BigInteger, Column, Float, Integer, LargeBinary, MetaData, String, Table, Text

metadata = MetaData()

outbox = Table(
    "outbox",
    metadata,
    Column("seq", BigInteger, primary_key=True),
    Column("nonce", String, nullable=False),
    Column("route", String, nullable=False),
    Column("key", String, nullable=False),
    Column("bank", String, nullable=False),
    Column("document", String, nullable=False),
    Column("state", String, nullable=False),
    Column("solo", Integer, nullable=False),
    Column("fold", String),
    Column("part", String),
    Column("session", String),
    Column("digest", String, nullable=False),
    Column("body", Text),
    Column("size", Integer, nullable=False),
    Column("batch", String),
    Column("generation", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("created", Float, nullable=False),
    Column("since", Float, nullable=False),
    Column("reason", Text),
)

batches = Table(
    "batches",
    metadata,
    Column("id", String, primary_key=True),
    Column("route", String, nullable=False),
    Column("key", String, nullable=False),
    Column("bank", String, nullable=False),
    Column("rows", Text, nullable=False),
    Column("items", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("state", String, nullable=False),
    Column("due", Float, nullable=False),
    Column("owner", String),
    Column("lease", Float, nullable=False),
    Column("polls", Integer, nullable=False),
    Column("retries", Integer, nullable=False),
    Column("losses", Integer, nullable=False),
    Column("strikes", Integer, nullable=False),
    Column("seen", Integer, nullable=False),
    Column("doomed", Integer, nullable=False),
    Column("reason", Text),
)

routes = Table(
    "routes",
    metadata,
    Column("route", String, primary_key=True),
    Column("key", String, primary_key=True),
    Column("failures", Integer, nullable=False),
    Column("successes", Integer, nullable=False),
    Column("down_since", Float),
    Column("rest_until", Float, nullable=False),
    Column("asked", Integer, nullable=False),
    Column("refused", Integer, nullable=False),
    Column("reason", Text),
    Column("last_success", Float),
)

totals = Table("totals", metadata, Column("rows", Integer, nullable=False), Column("bytes", BigInteger, nullable=False))

outcomes = Table(
    "outcomes",
    metadata,
    Column("route", String, primary_key=True),
    Column("bank", String, primary_key=True),
    Column("document", String, primary_key=True),
    Column("operation", String, nullable=False),
    Column("items", Integer),
    Column("tokens", Integer),
    Column("at", Float, nullable=False),
)

missions = Table(
    "missions",
    metadata,
    Column("route", String, primary_key=True),
    Column("bank", String, primary_key=True),
    Column("sent", Text, nullable=False),
)

STEPS: Sequence[Sequence[str]] = (
    (
        """CREATE TABLE outbox (
            seq INTEGER PRIMARY KEY, nonce TEXT NOT NULL, route TEXT NOT NULL, key TEXT NOT NULL, bank TEXT NOT NULL,
            document TEXT NOT NULL, state TEXT NOT NULL, solo INTEGER NOT NULL, fold TEXT, part TEXT, session TEXT,
            digest TEXT NOT NULL, body TEXT, size INTEGER NOT NULL, batch TEXT, generation INTEGER NOT NULL,
            attempts INTEGER NOT NULL, created REAL NOT NULL, since REAL NOT NULL, reason TEXT)""",
        "CREATE INDEX outbox_place ON outbox (route, state, bank, document)",
        "CREATE INDEX outbox_pending ON outbox (route, key, seq) WHERE state = 'pending'",
        """CREATE TABLE batches (
            id TEXT PRIMARY KEY, route TEXT NOT NULL, key TEXT NOT NULL, bank TEXT NOT NULL, rows TEXT NOT NULL,
            items INTEGER NOT NULL, body BLOB NOT NULL, state TEXT NOT NULL, due REAL NOT NULL, owner TEXT,
            lease REAL NOT NULL, polls INTEGER NOT NULL, retries INTEGER NOT NULL, losses INTEGER NOT NULL,
            strikes INTEGER NOT NULL, seen INTEGER NOT NULL, doomed INTEGER NOT NULL, reason TEXT) WITHOUT ROWID""",
        "CREATE INDEX batches_due ON batches (route, key, state, due, doomed, owner, lease)",
        """CREATE TABLE routes (
            route TEXT NOT NULL, key TEXT NOT NULL, failures INTEGER NOT NULL, successes INTEGER NOT NULL, down_since REAL,
            rest_until REAL NOT NULL, asked INTEGER NOT NULL, refused INTEGER NOT NULL, reason TEXT, last_success REAL,
            PRIMARY KEY (route, key)) WITHOUT ROWID""",
        "CREATE TABLE totals (rows INTEGER NOT NULL, bytes INTEGER NOT NULL)",
        "INSERT INTO totals VALUES (0, 0)",
        """CREATE TABLE outcomes (
            route TEXT NOT NULL, bank TEXT NOT NULL, document TEXT NOT NULL, operation TEXT NOT NULL, items INTEGER,
            tokens INTEGER, at REAL NOT NULL, PRIMARY KEY (route, bank, document)) WITHOUT ROWID""",
        """CREATE TABLE missions (
            route TEXT NOT NULL, bank TEXT NOT NULL, sent TEXT NOT NULL, PRIMARY KEY (route, bank)) WITHOUT ROWID""",
    ),
)
