"""The tables of a Mnemopi file, and the numbered steps that make them.

A memory's `key` holds its bank in the upper bits and its place in the bank's order of arrival in the lower ones, so
that a bank is one range of keys: the full-text index, which knows keys only, is searched within that range. Times are
microseconds since 1970 in UTC. `terms` are the search terms of the text; the full-text index is an index over
that column and keeps no text of its own. `digest` finds duplicates, `position` counts within a session.

A memory's vectors go, by trigger, when its text changes or goes; a bank counts in `dropped` how many did, so that what is
kept of them in memory can follow.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

SEQUENCE_BITS = 40
"""Bits of a key that count within a bank: room for 10^12 memories in each of 8 million banks."""

OBSERVATION = "observation"
_COUNTED = f"FROM memories m WHERE m.bank = banks.number AND m.type <> '{OBSERVATION}'"
RECOUNT = f"""UPDATE banks SET size = (SELECT count(*) {_COUNTED}), length = (SELECT coalesce(sum(CASE WHEN m.terms = '' THEN 0
    ELSE length(m.terms) - length(replace(m.terms, ' ', '')) + 1 END), 0) {_COUNTED})"""  # noqa: S608 - our own names
"""A bank counts its memories and their terms for how rare a term is. Observations repeat what memories say: they don't count."""

metadata = MetaData()

banks = Table(
    "banks",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("name", String, nullable=False, unique=True),
    Column("sequence", BigInteger, nullable=False),
    Column("size", Integer, nullable=False),
    Column("length", BigInteger, nullable=False),
    Column("dropped", Integer, nullable=False, server_default="0"),
)

memories = Table(
    "memories",
    metadata,
    Column("key", BigInteger, primary_key=True),
    Column("bank", Integer, nullable=False),
    Column("id", String, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("content", Text, nullable=False),
    Column("terms", Text, nullable=False),
    Column("traits", Integer, nullable=False),
    Column("type", String, nullable=False),
    Column("source", String, nullable=False),
    Column("importance", Float, nullable=False),
    Column("veracity", String, nullable=False),
    Column("evidence", Integer, nullable=False),
    Column("mentioned_at", BigInteger, nullable=False),
    Column("occurred_start", BigInteger),
    Column("occurred_end", BigInteger),
    Column("valid_until", BigInteger),
    Column("invalidated_at", BigInteger),
    Column("superseded_by", String),
    Column("session", String),
    Column("position", Integer),
    Column("speaker", String),
    Column("document", String),
    Column("context", Text),
    Column("tags", Text),
    Column("metadata", Text),
    Column("entities", Text),
)

models = Table(
    "mental_models",
    metadata,
    Column("bank", Integer, primary_key=True),
    Column("id", String, primary_key=True),
    Column("name", String, nullable=False),
    Column("source_query", Text, nullable=False),
    Column("content", Text, nullable=False),
    Column("tags", Text),
    Column("max_tokens", Integer, nullable=False),
    Column("refreshed_at", BigInteger),
    Column("based_on", Text),
    Column("trigger", String, nullable=False),
)

revisions = Table(
    "mental_model_revisions",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("bank", Integer, nullable=False),
    Column("model", String, nullable=False),
    Column("content", Text, nullable=False),
    Column("replaced_at", BigInteger, nullable=False),
    Column("based_on", Text),
)

embedding_models = Table(
    "embedding_models",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("name", String, nullable=False, unique=True),
    Column("dimensions", Integer, nullable=False),
    Column("background", LargeBinary),
)
"""The embedders whose vectors the file holds; `background` are each one's vectors of common sentences, as they are stored."""

vectors = Table(
    "vectors",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("model", Integer, nullable=False),
    Column("bank", Integer, nullable=False),
    Column("key", BigInteger, nullable=False),
    Column("vector", LargeBinary, nullable=False),
)
"""One row for each memory and model. A number is used once, so that a larger one is a newer vector."""

facts = Table(
    "facts",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("bank", Integer, nullable=False),
    Column("key", BigInteger, nullable=False),
    Column("realm", String, nullable=False),
    Column("subject", String, nullable=False),
    Column("relation", String, nullable=False),
    Column("value", String, nullable=False),
    Column("holds", Integer, nullable=False),
)
"""What memories state by rule: `value` are terms; `realm` are the memory's project tags, which keep projects apart."""

sources = Table(
    "sources",
    metadata,
    Column("key", BigInteger, primary_key=True),
    Column("source", BigInteger, primary_key=True),
)
"""What derived memories (by extraction, by consolidation) were made from: the keys of both."""

chores = Table("chores", metadata, Column("name", String, primary_key=True))
"""What is still to be done with the file, whoever opens it next."""

STEPS: Sequence[Sequence[str]] = (
    (
        """CREATE TABLE banks (number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE,
           sequence INTEGER NOT NULL, size INTEGER NOT NULL, length INTEGER NOT NULL)""",
        """CREATE TABLE memories (
           key INTEGER PRIMARY KEY, bank INTEGER NOT NULL REFERENCES banks(number), id TEXT NOT NULL, digest BLOB NOT NULL,
           content TEXT NOT NULL, terms TEXT NOT NULL, traits INTEGER NOT NULL, type TEXT NOT NULL, source TEXT NOT NULL,
           importance REAL NOT NULL, veracity TEXT NOT NULL, evidence INTEGER NOT NULL, mentioned_at INTEGER NOT NULL,
           occurred_start INTEGER, occurred_end INTEGER, valid_until INTEGER, invalidated_at INTEGER, superseded_by TEXT,
           session TEXT, position INTEGER, speaker TEXT, document TEXT, context TEXT, tags TEXT, metadata TEXT,
           entities TEXT)""",
        "CREATE UNIQUE INDEX memories_id ON memories (bank, id)",
        "CREATE INDEX memories_digest ON memories (bank, digest)",
        "CREATE INDEX memories_session ON memories (bank, session, position) WHERE session IS NOT NULL",
        "CREATE INDEX memories_document ON memories (bank, document) WHERE document IS NOT NULL",
        "CREATE INDEX memories_time ON memories (bank, mentioned_at)",
        """CREATE VIRTUAL TABLE memory_terms USING fts5 (terms, content='memories', content_rowid='key',
           detail=none, columnsize=0, tokenize="porter ascii tokenchars '_'")""",
        """CREATE TRIGGER memories_added AFTER INSERT ON memories BEGIN
           INSERT INTO memory_terms (rowid, terms) VALUES (new.key, new.terms); END""",
        """CREATE TRIGGER memories_removed AFTER DELETE ON memories BEGIN
           INSERT INTO memory_terms (memory_terms, rowid, terms) VALUES ('delete', old.key, old.terms); END""",
        """CREATE TRIGGER memories_changed AFTER UPDATE OF terms ON memories BEGIN
           INSERT INTO memory_terms (memory_terms, rowid, terms) VALUES ('delete', old.key, old.terms);
           INSERT INTO memory_terms (rowid, terms) VALUES (new.key, new.terms); END""",
        """CREATE TABLE mental_models (bank INTEGER NOT NULL REFERENCES banks(number), id TEXT NOT NULL, name TEXT NOT NULL,
           source_query TEXT NOT NULL, content TEXT NOT NULL, tags TEXT, max_tokens INTEGER NOT NULL,
           refreshed_at INTEGER, based_on TEXT, PRIMARY KEY (bank, id)) WITHOUT ROWID""",
        """CREATE TABLE mental_model_revisions (number INTEGER PRIMARY KEY, bank INTEGER NOT NULL REFERENCES banks(number),
           model TEXT NOT NULL, content TEXT NOT NULL, replaced_at INTEGER NOT NULL, based_on TEXT)""",
        "CREATE INDEX mental_model_revisions_model ON mental_model_revisions (bank, model, number)",
        "CREATE TABLE chores (name TEXT NOT NULL PRIMARY KEY) WITHOUT ROWID",
    ),
    ("ALTER TABLE mental_models ADD COLUMN \"trigger\" TEXT NOT NULL DEFAULT 'delta'",),
    (
        """CREATE TABLE embedding_models (number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE,
           dimensions INTEGER NOT NULL, background BLOB)""",
        """CREATE TABLE vectors (number INTEGER PRIMARY KEY AUTOINCREMENT,
           model INTEGER NOT NULL REFERENCES embedding_models(number), bank INTEGER NOT NULL REFERENCES banks(number),
           key INTEGER NOT NULL, vector BLOB NOT NULL)""",
        "CREATE UNIQUE INDEX vectors_memory ON vectors (key, model)",
        "CREATE INDEX vectors_bank ON vectors (model, bank, number)",
        "ALTER TABLE banks ADD COLUMN dropped INTEGER NOT NULL DEFAULT 0",
        """CREATE TRIGGER vectors_dropped AFTER DELETE ON vectors BEGIN
           UPDATE banks SET dropped = dropped + 1 WHERE number = old.bank; END""",
        """CREATE TRIGGER memories_removed_vectors AFTER DELETE ON memories BEGIN
           DELETE FROM vectors WHERE key = old.key; END""",
        """CREATE TRIGGER memories_changed_vectors AFTER UPDATE OF content ON memories WHEN new.content <> old.content BEGIN
           DELETE FROM vectors WHERE key = old.key; END""",
    ),
    (
        """CREATE TABLE facts (number INTEGER PRIMARY KEY, bank INTEGER NOT NULL REFERENCES banks(number), key INTEGER NOT NULL,
           realm TEXT NOT NULL, subject TEXT NOT NULL, relation TEXT NOT NULL, value TEXT NOT NULL, holds INTEGER NOT NULL)""",
        "CREATE INDEX facts_slot ON facts (bank, relation, subject)",
        "CREATE INDEX facts_memory ON facts (key)",
        "CREATE TRIGGER memories_removed_facts AFTER DELETE ON memories BEGIN DELETE FROM facts WHERE key = old.key; END",
    ),
    (
        "CREATE TABLE sources (key INTEGER NOT NULL, source INTEGER NOT NULL, PRIMARY KEY (key, source)) WITHOUT ROWID",
        "CREATE INDEX sources_source ON sources (source)",
        """CREATE TABLE jobs (bank INTEGER NOT NULL REFERENCES banks(number), kind TEXT NOT NULL, done INTEGER NOT NULL,
           owner TEXT, leased INTEGER NOT NULL DEFAULT 0, day INTEGER NOT NULL DEFAULT 0, spent INTEGER NOT NULL DEFAULT 0,
           PRIMARY KEY (bank, kind)) WITHOUT ROWID""",
        """CREATE TABLE redo (bank INTEGER NOT NULL REFERENCES banks(number), kind TEXT NOT NULL, key INTEGER NOT NULL,
           PRIMARY KEY (bank, kind, key)) WITHOUT ROWID""",
        "CREATE INDEX redo_key ON redo (key)",
        """CREATE TRIGGER memories_removed_sources AFTER DELETE ON memories BEGIN
           DELETE FROM sources WHERE key = old.key; DELETE FROM sources WHERE source = old.key;
           DELETE FROM redo WHERE key = old.key; END""",
        "CREATE INDEX memories_observations ON memories (bank, key) WHERE type = 'observation'",
        RECOUNT,
    ),
    ("DROP TRIGGER memories_added",),  # a trigger made a piece of the full-text index for each row (`store.index`)
)


OWED = "SELECT name FROM chores WHERE name LIKE 'purge %'"
"""The purges that are still to be done."""


def key_range(bank: int) -> tuple[int, int]:
    """The lowest and the highest key a bank can hold."""
    return bank << SEQUENCE_BITS, ((bank + 1) << SEQUENCE_BITS) - 1
