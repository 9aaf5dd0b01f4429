"""Between table rows and values: times, lists, memories."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple, cast

from lorebank._database.driver import Source, rows_of
from lorebank._domain.item import Item
from lorebank._domain.memory import TRANSCRIPT, Memory, Writer
from lorebank._mnemopi.dialects import spoken
from lorebank._mnemopi.entities import entities_of
from lorebank._mnemopi.facts.rules import Fact, facts_of
from lorebank._mnemopi.facts.store import realm
from lorebank._mnemopi.schema import memories
from lorebank._mnemopi.search.inflections import inflected
from lorebank._mnemopi.search.kinds import count_terms, kinds_told
from lorebank._mnemopi.search.terms import terms, words
from lorebank._mnemopi.search.traits import TIMED, traits

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_ticks(moment: datetime) -> int:
    """Microseconds since 1970, from an aware datetime."""
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def from_ticks(ticks: int) -> datetime:
    """The moment in UTC."""
    return _EPOCH + timedelta(microseconds=ticks)


def maybe_ticks(moment: datetime | None) -> int | None:
    return None if moment is None else to_ticks(moment)


def maybe_moment(ticks: int | None) -> datetime | None:
    return None if ticks is None else from_ticks(ticks)


def to_json(value: object) -> str | None:
    """Compact JSON; nothing for an empty value."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) if value else None


def tags_of(text: str | None) -> tuple[str, ...]:
    return tuple(json.loads(text)) if text else ()


PLACED = ("key", "bank", "position", "evidence", "id")
"""The columns that a row gets when it is written; a draft has all the others, in the order of `DRAFTED`."""
DRAFTED = (
    "digest", "content", "terms", "traits", "type", "source", "importance", "veracity", "mentioned_at", "valid_until",
    "session", "speaker", "document", "context", "tags", "metadata", "entities",
)  # fmt: skip


class Draft(NamedTuple):
    """One item on its way into a bank: its row without the place, and how many terms it has."""

    digest: bytes
    row: tuple[Any, ...]
    length: int
    type: str
    session: str | None
    document: str | None
    importance: float
    mentioned_at: int
    valid_until: int | None
    realm: str
    facts: tuple[Fact, ...]


def draft(item: Item, writer: Writer, *, now: datetime) -> Draft:
    """The row an item becomes; `now` is when it was said where the item does not tell."""
    kind = item.type or writer.type
    spoken = words(item.content)
    derived = content_values(item, kind, spoken, alone=writer.source == TRANSCRIPT.source)
    importance = writer.importance if item.importance is None else item.importance
    said, until = to_ticks(item.timestamp or now), maybe_ticks(item.valid_until)
    found: str = derived["terms"]
    row = (
        derived["digest"], item.content, found, derived["traits"], kind, writer.source, importance, writer.veracity,
        said, until, item.session, item.speaker, item.document_id, item.context, to_json(item.tags), to_json(item.metadata),
        to_json(item.entities),
    )  # fmt: skip
    length = count_terms(found)
    told = facts_of(item.content, spoken, item.speaker)
    home = (item.session, item.document_id)
    return Draft(derived["digest"], row, length, kind, *home, importance, said, until, realm(item.tags), told)


def content_values(item: Item, kind: str, spoken: Sequence[str], *, alone: bool) -> dict[str, Any]:
    """The columns that follow from the text with these words: when it changes, they change with it.

    A statement that stands `alone` (a message of a transcript) equals no other, however often its words are said.
    """
    return {
        "content": item.content,
        "terms": " ".join(search_terms(item, spoken)),
        "traits": traits(item.content, spoken) | (TIMED if item.timestamp is not None else 0),
        "digest": secrets.token_bytes(DIGEST_BYTES) if alone else digest(item, kind),
    }


USERS = frozenset({"user", "human"})
ROLES = USERS | {"assistant", "system", "tool", "ai"}


def search_terms(item: Item, spoken: Sequence[str]) -> list[str]:
    """The terms of the text with these words, then those of its speaker, context and entities that the text itself lacks, then
    the kinds that all of these tell of and the text's inflections.
    """
    found = terms(item.content, spoken)
    named = item.speaker if item.speaker and item.speaker.casefold() not in ROLES else None
    beside = [text for text in (named, item.context, *item.entities) if text]
    if beside:
        found += [term for text in beside for term in _label_terms(text) if term not in found]
    return found + kinds_told(found) + inflected(item.content, spoken)


@lru_cache(maxsize=4096)
def _label_terms(text: str) -> tuple[str, ...]:
    """The terms of a speaker, a context or an entity: the same few come again and again."""
    return tuple(terms(text))


DIGEST_BYTES = 16


def digest(item: Item, kind: str) -> bytes:
    """Equal for items that are the same statement: content, type, tags; with a session or a time also those and the
    speaker, with a document also that. No part holds a NUL, so that joined they stay apart.
    """
    told: tuple[str, ...] = ()
    if item.session is not None or item.timestamp is not None:
        when = "" if item.timestamp is None else str(to_ticks(item.timestamp))
        told = (item.session or "", item.speaker or "", when)
    home = ("in", item.document_id) if item.document_id is not None else ()
    parts = (item.content, kind, "\0".join(sorted(item.tags)), *told, *home)
    return hashlib.blake2b("\0\0".join(parts).encode(), digest_size=DIGEST_BYTES).digest()


COLUMNS = tuple(column.name for column in memories.columns)
_FULL = spoken(f"SELECT {', '.join(f'm.{name}' for name in COLUMNS)} FROM {{memories_by_key}}")  # noqa: S608


def full_rows(connection: Source, keys: Sequence[int]) -> list[dict[str, Any]]:
    """Whole rows by key, in any order; the caller has made sure that they may be read."""
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows_of(connection, _FULL, (json.dumps(keys),))]


def to_memory(
    row: Mapping[str, Any], bank: str, *, score: float | None = None, signals: Mapping[str, float] | None = None
) -> Memory:
    """The memory of a full row."""
    return Memory(
        id=row["id"],
        text=row["content"],
        type=row["type"],
        tags=tags_of(row["tags"]),
        metadata=cast("dict[str, Any]", json.loads(row["metadata"])) if row["metadata"] else {},
        source=row["source"],
        context=row["context"],
        document_id=row["document"],
        session=row["session"],
        speaker=row["speaker"],
        entities=tuple(dict.fromkeys((*tags_of(row["entities"]), *entities_of(row["content"])))),
        mentioned_at=from_ticks(row["mentioned_at"]),
        occurred_start=maybe_moment(row["occurred_start"]),
        occurred_end=maybe_moment(row["occurred_end"]),
        valid_until=maybe_moment(row["valid_until"]),
        invalidated_at=maybe_moment(row["invalidated_at"]),
        superseded_by=row["superseded_by"],
        importance=row["importance"],
        veracity=row["veracity"],
        evidence=row["evidence"],
        bank=bank,
        score=score,
        signals=signals,
    )


def name_words(speaker: str | None) -> tuple[str, ...]:
    """The words of a speaker's name."""
    return tuple(words(speaker)) if speaker else ()
