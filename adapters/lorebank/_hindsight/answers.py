"""What the server answers, read. Tolerant of fields we don't know and of optional ones that are absent (servers before 1.0
leave nulls out); strict about what we need: an answer without it is no answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError, field_validator

from lorebank._domain.memory import Memory, MemoryType
from lorebank._domain.mental_model import MentalModel, Revision
from lorebank._domain.operations import Directive, Document, Operation, OperationState
from lorebank._hindsight.faults import garbled

M = TypeVar("M", bound="Answer")
SUPERSEDED = "superseded by "
"""How the reason of an invalidation names the memory that is true now."""
_OURS = ("session_id", "speaker")


class Answer(BaseModel):
    """What all answers share."""

    model_config = ConfigDict(extra="ignore", frozen=True)


def read(kind: type[M], call: str, body: Any) -> M:
    """An answer of the expected shape; `GarbledError` for any other."""
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        raise garbled(call, f"JSON of another shape ({where}: {first['msg']})") from None


class Scores(Answer):
    """How a result was ranked; an arm that did not find it says nothing."""

    final: float | None = None
    semantic: float | None = None
    keyword: float | None = None
    reranker: float | None = None


class Fact(Answer):
    """A memory, as recall, reflect, get and list say it."""

    id: str
    text: str
    type: MemoryType = Field(default="world", validation_alias=AliasChoices("type", "fact_type"))
    context: str | None = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = Field(default_factory=dict)
    entities: tuple[str, ...] = ()
    document_id: str | None = None
    mentioned_at: datetime | None = None
    occurred_start: datetime | None = None
    occurred_end: datetime | None = None
    invalidated_at: datetime | None = None
    invalidation_reason: str | None = None
    state: Literal["valid", "invalidated"] = "valid"
    proof_count: int | None = None
    source_fact_ids: tuple[str, ...] = ()
    scores: Scores | None = None

    @field_validator("entities", mode="before")
    @classmethod
    def _entities(cls, value: object) -> object:
        """Lists say entities as one text."""
        if isinstance(value, str):
            return tuple(name.strip() for name in value.split(",") if name.strip())
        return value or ()

    @field_validator("tags", "metadata", "source_fact_ids", mode="before")
    @classmethod
    def _absent(cls, value: object, info: Any) -> object:
        return ({} if info.field_name == "metadata" else ()) if value is None else value

    def memory(self, bank: str, *, explain: bool = False, sources: Mapping[str, Fact] | None = None) -> Memory:
        """The memory in our words."""
        metadata = {key: value for key, value in self.metadata.items() if key not in _OURS}
        if sources and self.source_fact_ids:
            metadata["source_facts"] = [sources[each].text for each in self.source_fact_ids if each in sources]
        reason = self.invalidation_reason or ""
        return Memory(
            id=self.id,
            text=self.text,
            type=self.type,
            tags=self.tags,
            metadata=metadata,
            score=self.scores.final if self.scores else None,
            context=self.context or None,
            document_id=self.document_id,
            session=self.metadata.get("session_id"),
            speaker=self.metadata.get("speaker"),
            entities=self.entities,
            mentioned_at=self.mentioned_at,
            occurred_start=self.occurred_start,
            occurred_end=self.occurred_end,
            invalidated_at=self.invalidated_at,
            superseded_by=reason.removeprefix(SUPERSEDED) if reason.startswith(SUPERSEDED) else None,
            evidence=self.proof_count or 1,
            bank=bank,
            signals=self._signals() if explain else None,
        )

    def _signals(self) -> dict[str, float]:
        found = self.scores.model_dump() if self.scores else {}
        return {name: value for name, value in found.items() if value is not None}


class Recalled(Answer):
    """The results of a search, best first."""

    results: tuple[Fact, ...]
    source_facts: dict[str, Fact] = Field(default_factory=dict)

    @field_validator("source_facts", mode="before")
    @classmethod
    def _absent(cls, value: object) -> object:
        return value or {}


class Page(Answer):
    """One page of memories; servers before 1.0 say no `total` in some lists."""

    items: tuple[Fact, ...]
    total: int | None = None


class Based(Answer):
    """What a reflection rests on."""

    memories: tuple[Fact, ...] = ()


class Reflected(Answer):
    """An answer drawn from memory."""

    text: str
    based_on: Based | None = None
    structured_output: dict[str, Any] | None = None


class Taken(Answer):
    """A retain that was queued."""

    operation_id: str


class OperationAnswer(Answer):
    """An operation, single or listed: servers differ in the names."""

    id: str = Field(validation_alias=AliasChoices("operation_id", "id"))
    status: OperationState
    kind: str | None = Field(default=None, validation_alias=AliasChoices("operation_type", "task_type"))
    error_message: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    completed_at: datetime | None = None
    items_count: int | None = None
    result_metadata: dict[str, Any] | None = None
    details: dict[str, Any] | None = None

    def operation(self) -> Operation:
        """The operation in our words."""
        counts = self.result_metadata or {}
        return Operation(
            id=self.id,
            state=self.status,
            kind=self.kind,
            reason=self.error_message,
            created_at=self.created_at,
            updated_at=self.updated_at,
            completed_at=self.completed_at,
            items=self.items_count if self.items_count is not None else counts.get("items_count"),
            tokens=counts.get("total_tokens"),
            outcome=(self.details or {}).get("outcome"),
        )


class OperationList(Answer):
    operations: tuple[OperationAnswer, ...]
    total: int | None = None


class Model(Answer):
    """A mental model. Lists say the content only when asked for it."""

    id: str
    name: str
    source_query: str | None = None
    content: str | None = None
    tags: tuple[str, ...] = ()
    max_tokens: int | None = None
    trigger: dict[str, Any] | None = None
    last_refreshed_at: datetime | None = None
    created_at: datetime | None = None
    reflect_response: dict[str, Any] | None = None

    @field_validator("tags", mode="before")
    @classmethod
    def _absent(cls, value: object) -> object:
        return value or ()

    def model(self) -> MentalModel:
        """The mental model in our words."""
        return MentalModel(
            id=self.id,
            name=self.name,
            source_query=self.source_query or "",
            content=(self.content or "").strip(),
            tags=self.tags,
            max_tokens=self.max_tokens or 0,
            trigger="full" if (self.trigger or {}).get("mode") == "full" else "delta",
            refreshed_at=self.last_refreshed_at if self.content else None,
            based_on=self._based_on(),
        )

    def _based_on(self) -> tuple[str, ...]:
        groups: Any = (self.reflect_response or {}).get("based_on") or {}
        facts = [fact for name in ("world", "experience", "observation") for fact in groups.get(name) or ()]
        return tuple(fact["id"] for fact in facts if isinstance(fact.get("id"), str))


class ModelList(Answer):
    items: tuple[Model, ...]
    total: int | None = None


class ModelStarted(Answer):
    mental_model_id: str | None = None
    operation_id: str | None = None


class Former(Answer):
    """What a mental model said before a change."""

    previous_content: str | None = None
    changed_at: datetime = Field(validation_alias=AliasChoices("changed_at", "created_at", "replaced_at", "updated_at"))

    def revision(self) -> Revision:
        return Revision((self.previous_content or "").strip(), self.changed_at)


class DocumentAnswer(Answer):
    """A document; lists don't say its text."""

    id: str
    tags: tuple[str, ...] = ()
    document_metadata: dict[str, Any] | None = None
    memory_unit_count: int = 0
    created_at: datetime | None = None
    updated_at: datetime | None = None
    original_text: str | None = None

    @field_validator("tags", mode="before")
    @classmethod
    def _absent(cls, value: object) -> object:
        return value or ()

    def document(self) -> Document:
        """The document in our words."""
        return Document(
            self.id,
            self.tags,
            self.document_metadata or {},
            self.memory_unit_count,
            self.created_at,
            self.updated_at,
            self.original_text,
        )


class DocumentList(Answer):
    items: tuple[DocumentAnswer, ...]
    total: int | None = None


class DirectiveAnswer(Answer):
    id: str
    name: str
    content: str
    priority: int = 0
    is_active: bool = True
    tags: tuple[str, ...] = ()

    @field_validator("tags", mode="before")
    @classmethod
    def _absent(cls, value: object) -> object:
        return value or ()

    def directive(self) -> Directive:
        """The directive in our words."""
        return Directive(self.id, self.name, self.content, self.priority, self.is_active, self.tags)


class DirectiveList(Answer):
    items: tuple[DirectiveAnswer, ...]


class TagCount(Answer):
    tag: str
    count: int


class TagList(Answer):
    items: tuple[TagCount, ...]
    total: int | None = None


class StatsAnswer(Answer):
    """Counts of a bank."""

    total_nodes: int = 0
    total_documents: int = 0
    nodes_by_fact_type: dict[str, int] = Field(default_factory=dict)
    pending_operations: int = 0
    failed_operations: int = 0
    failed_consolidation: int = 0
    total_observations: int = 0


class BankRow(Answer):
    bank_id: str


class BankList(Answer):
    banks: tuple[BankRow, ...]
    total: int | None = None


class ConfigAnswer(Answer):
    """A bank's settings: what was set for it alone."""

    overrides: dict[str, Any] = Field(default_factory=dict)


class VersionAnswer(Answer):
    api_version: str


def memories(facts: Sequence[Fact], bank: str) -> tuple[Memory, ...]:
    """Facts in our words."""
    return tuple(fact.memory(bank) for fact in facts)
