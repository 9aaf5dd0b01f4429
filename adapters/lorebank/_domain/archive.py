"""What an export holds and an import brings: memories and mental models with all that a bank knows of them, and the reports."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, cast

from lorebank._domain.item import Item
from lorebank._domain.memory import Memory, MemoryType, Veracity, Writer
from lorebank._domain.mental_model import MentalModel
from lorebank._domain.operations import Directive, Document

ArchiveFormat = Literal["auto", "lorebank", "langchain", "llamaindex", "mem0"]
Progress = Callable[[int, int], object]
"""Called with how much is done and how much there is to do."""
IMPORTED = Writer("import", 0.6, "imported", "world")
IMPORTED_CHAT = Writer("import", 0.5, "imported", "experience")
MOST_REASONS = 100
"""Rejections that a report tells one by one; it counts them all."""
Record = list[str] | dict[str, list[Any]]
"""What a mental model's text was written from: memory ids, or for each id its version and its lines."""

_BLANK = Item("-")


@dataclass(frozen=True, slots=True)
class Entry:
    """A memory on its way from one bank to another: the item it was retained as, and what a bank knows of it.

    `item.timestamp` is set only where the time is part of the statement; `said` is when it was said in any case. `digest`
    tells a statement from all others whatever its words. `sources` are the ids of the memories that it was derived from.
    `told` is its text in the file, where secrets were taken out of it since; `line` its place in the file.
    """

    id: str
    item: Item
    source: str = IMPORTED.source
    veracity: Veracity = IMPORTED.veracity
    evidence: int = 1
    said: datetime | None = None
    occurred_start: datetime | None = None
    occurred_end: datetime | None = None
    invalidated_at: datetime | None = None
    superseded_by: str | None = None
    position: int | None = None
    digest: bytes | None = None
    sources: tuple[str, ...] = ()
    told: str | None = None
    line: int = 0

    @property
    def type(self) -> MemoryType:
        return self.item.type or "world"

    @property
    def importance(self) -> float:
        writer = IMPORTED_CHAT if self.type == "experience" else IMPORTED
        return writer.importance if self.item.importance is None else self.item.importance

    def with_item(self, item: Item) -> Entry:
        """The same memory with its item as it may be written."""
        told = self.item.content if self.told is None else self.told
        return self if item is self.item else replace(self, item=item, told=told)

    def spare_id(self, attempt: int) -> str:
        """An id for the case that another memory has its own: the same whenever the same file is read."""
        said = f"{attempt}\0{self.id}\0{self.item.content}"
        return hashlib.blake2b(said.encode(), digest_size=8).hexdigest()


def item_of(**fields: Any) -> Item:
    """An item of what has been checked: a stored text may be longer than what `retain` takes, since marks were put in it."""
    return _BLANK.rewritten(**fields)


def entry_of(memory: Memory) -> Entry:
    """The entry of a memory, as far as it tells."""
    item = item_of(
        content=memory.text,
        context=memory.context,
        tags=memory.tags,
        metadata=memory.metadata or None,
        document_id=memory.document_id,
        entities=memory.entities,
        session=memory.session,
        speaker=memory.speaker,
        valid_until=memory.valid_until,
        importance=memory.importance,
        type=memory.type,
    )
    return Entry(
        memory.id,
        item,
        memory.source or IMPORTED.source,
        memory.veracity or IMPORTED.veracity,
        memory.evidence,
        memory.mentioned_at,
        memory.occurred_start,
        memory.occurred_end,
        memory.invalidated_at,
        memory.superseded_by,
    )


@dataclass(frozen=True, slots=True)
class FormerText:
    """What a mental model said before, when it was replaced, and what it was written from."""

    content: str
    replaced_at: datetime
    record: Record | None = None


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A mental model with its history, oldest first, and the records of what its texts were written from."""

    model: MentalModel
    record: Record | None = None
    history: tuple[FormerText, ...] = ()
    line: int = 0


def following(record: Record | None, ids: Mapping[str, str]) -> Record | None:
    """A record that names memories by their new ids."""
    if record is None:
        return None
    if isinstance(record, list):
        return [ids.get(each, each) for each in record]
    return {ids.get(each, each): told for each, told in record.items()}


def sources_of(record: object) -> Record | None:
    """A stored record as it is exported; nothing for an empty one."""
    return cast("Record", record) if record else None


Archived = Entry | ModelEntry | Directive | Document
"""What one line of an archive may hold."""


@dataclass(frozen=True, slots=True)
class Dump:
    """All that a scope may read of its own bank, in the order in which it arrived: memories first. `memories` is about how many
    there are, for showing progress.
    """

    memories: int
    records: Iterator[Archived]


@dataclass(frozen=True, slots=True)
class Rejection:
    """What was not imported, by its id, and why; `line` is its line in the file (0: it has none)."""

    id: str | None
    reason: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a backend made of an import."""

    added: int = 0
    known: int = 0
    queued: int = 0
    mental_models: int = 0
    directives: int = 0
    rejected: tuple[Rejection, ...] = ()


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What an export wrote. `sha256` is the checksum that the file's last line holds."""

    path: str
    bytes: int
    memories: int
    mental_models: int
    documents: int
    directives: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What became of an import (in a dry run: would become), in numbers; never content.

    `added` memories are new, `known` ones were there and stay as they are, `queued` ones wait for the server. `rejected`
    counts what was not imported; `reasons` tell of the first 100. `skipped` are messages of a chat that are left out:
    those of tools and of the system, and those without text. `redactions` counts the secrets that were taken out.
    """

    path: str
    format: str
    added: int = 0
    known: int = 0
    queued: int = 0
    rejected: int = 0
    reasons: tuple[Rejection, ...] = ()
    mental_models: int = 0
    directives: int = 0
    skipped: int = 0
    redactions: int = 0
    dry_run: bool = False
