"""What a bank of the small Hindsight holds: facts, documents, operations, mental models, directives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

__all__ = ["Bank", "Directive", "Document", "Fact", "Item", "MentalModel", "Operation", "Statement"]

Statement = tuple[frozenset[str], frozenset[str]]
"""The words and tags that make two facts the same observation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One item of a retain, checked. `timestamp` None means that the text has none."""

    content: str
    document_id: str
    named: bool
    append: bool
    tags: tuple[str, ...]
    metadata: Mapping[str, str]
    timestamp: datetime | None
    context: str
    entities: tuple[str, ...]
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A fact, or an observation with the facts it rests on as `sources`."""

    id: str
    text: str
    type: str
    words: frozenset[str]
    document_id: str | None
    chunk: int
    tags: tuple[str, ...]
    metadata: Mapping[str, str]
    context: str
    mentioned_at: datetime | None
    start: datetime | None
    end: datetime | None
    entities: tuple[str, ...]
    updated_at: datetime
    consolidated_at: datetime | None = None
    state: str = "valid"
    reason: str | None = None
    invalidated_at: datetime | None = None
    edited_at: datetime | None = None
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document: its chunks joined by newlines are its text."""

    id: str
    chunks: tuple[str, ...]
    facts: tuple[str, ...]
    tags: tuple[str, ...]
    metadata: Mapping[str, str]
    params: Mapping[str, Any]
    created_at: datetime
    updated_at: datetime

    @property
    def text(self) -> str:
        """The whole text."""
        return "\n".join(self.chunks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Something done in the background; a `batch_retain` is the parent of its `retain`."""

    id: str
    type: str
    status: str
    created_at: datetime
    updated_at: datetime
    completed_at: datetime | None = None
    error_message: str | None = None
    items: tuple[Item, ...] = ()
    parent: str | None = None
    children: tuple[str, ...] = ()
    mental_model_id: str | None = None
    facts: int = 0
    retries: int = 0
    outcome: str | None = None

    @property
    def document_id(self) -> str | None:
        """The document, where the operation is about one."""
        return self.items[0].document_id if len(self.items) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class MentalModel:
    """A mental model; `history` holds earlier contents, newest first."""

    id: str
    name: str
    source_query: str
    tags: tuple[str, ...]
    max_tokens: int
    trigger: Mapping[str, Any]
    created_at: datetime
    refreshed_at: datetime | None = None
    seen_at: datetime | None = None
    content: str = ""
    outcome: str | None = None
    based_on: tuple[str, ...] = ()
    history: tuple[tuple[datetime, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Directive:
    """A rule for every answer, or for those whose tags fit."""

    id: str
    name: str
    content: str
    priority: int
    is_active: bool
    tags: tuple[str, ...]
    created_at: datetime
    updated_at: datetime


@dataclass(slots=True)
class Bank:
    """All of one bank, each thing by its id in the order of arrival."""

    id: str
    created_at: datetime
    updated_at: datetime
    name: str | None = None
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    documents: dict[str, Document] = field(default_factory=dict[str, Document])
    facts: dict[str, Fact] = field(default_factory=dict[str, Fact])
    entities: dict[str, str] = field(default_factory=dict[str, str])
    operations: dict[str, Operation] = field(default_factory=dict[str, Operation])
    mental_models: dict[str, MentalModel] = field(default_factory=dict[str, MentalModel])
    directives: dict[str, Directive] = field(default_factory=dict[str, Directive])
    observed: dict[Statement, str] = field(default_factory=dict[Statement, str])
    unseen: dict[str, None] = field(default_factory=dict[str, None])

    def put(self, fact: Fact) -> None:
        """Keep a fact; one without its observation waits for the next consolidation."""
        self.facts[fact.id] = fact
        if fact.type != "observation" and fact.state == "valid" and fact.consolidated_at is None:
            self.unseen[fact.id] = None
        else:
            self.unseen.pop(fact.id, None)

    def facts_of(self, document_id: str) -> list[Fact]:
        """The facts of a document, in order."""
        document = self.documents.get(document_id)
        return [] if document is None else [self.facts[each] for each in document.facts if each in self.facts]

    def observations_of(self, fact_id: str) -> list[Fact]:
        """The observations that rest on a fact."""
        return [each for each in self.facts.values() if fact_id in each.sources]
