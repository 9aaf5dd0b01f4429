"""What the server answers, as pydantic models: strict about what is needed, tolerant of the rest. Pure.

Servers before 1.0 leave out what later ones send as null, and lists and single memories spell some names differently; both
readings end in the same values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar, cast

from pydantic import AfterValidator, AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from lorebank._domain.memory import TYPES, Memory
from lorebank._domain.mental_model import MentalModel, Revision
from lorebank._domain.operations import Directive, Document, Operation, OperationState
from lorebank._hindsight.wire import SESSION, SPEAKER
from lorebank.errors import GarbledError

SUPERSEDED = "superseded by "
"""How the reason of an invalidation begins that names a replacement."""


def _utc(value: datetime) -> datetime:
    return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)


def _listed(value: object) -> object:
    """A list; lists of memories give entities as one text with commas."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return () if value is None else value


def _mapped(value: object) -> object:
    return {} if value is None else value


Moment = Annotated[datetime, AfterValidator(_utc)] | None
Texts = Annotated[tuple[str, ...], BeforeValidator(_listed)]
Texted = Annotated[dict[str, Any], BeforeValidator(_mapped)]


class Answer(BaseModel):
    """What all answers share: unknown fields are passed over."""

    model_config = ConfigDict(extra="ignore", frozen=True)


Model = TypeVar("Model", bound=Answer)


def read(kind: type[Model], value: object) -> Model:
    """The answer as `kind`; `GarbledError` says which field is wrong, never what it holds."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        raise GarbledError(
            f"the server's answer is not the {kind.__name__} that was asked for ({where}: {first['type']}): "
            "check the URL, and that the server is Hindsight 0.9.1 or later"
        ) from None


class Scores(Answer):
    """Why a memory was found: `final` orders, the others are the arms' own."""

    final: float | None = None
    reranker: float | None = None
    semantic: float | None = None
    keyword: float | None = None

    def signals(self) -> dict[str, float]:
        """The arms that have found it."""
        return {name: value for name, value in self if value is not None}


class Unit(Answer):
    """A memory."""

    id: str
    text: str
    type: str = Field(validation_alias=AliasChoices("type", "fact_type"))
    context: str | None = None
    document_id: str | None = None
    entities: Texts = ()
    tags: Texts = ()
    metadata: Texted = Field(default_factory=dict)
    mentioned_at: Moment = None
    occurred_start: Moment = None
    occurred_end: Moment = None
    state: str | None = None
    invalidation_reason: str | None = None
    invalidated_at: Moment = None
    proof_count: int | None = None
    scores: Scores | None = None
    sources: Texts = Field(default=(), validation_alias=AliasChoices("source_fact_ids", "source_memory_ids"))

    @property
    def known(self) -> bool:
        """Whether its type is one of those that lorebank knows."""
        return self.type in TYPES

    @property
    def session(self) -> str | None:
        return self.metadata.get(SESSION)

    @property
    def kept(self) -> bool:
        """Whether it is valid."""
        return self.state != "invalidated"

    def memory(self, bank: str, *, explain: bool = False) -> Memory:
        """The memory as users read it."""
        if not self.known:
            raise GarbledError(f"memory {self.id!r} has the type {self.type!r}; known are {', '.join(TYPES)}")
        metadata = {name: value for name, value in self.metadata.items() if name not in (SESSION, SPEAKER)}
        return Memory(
            self.id,
            self.text,
            cast("Any", self.type),
            self.tags,
            metadata,
            None if self.scores is None else self.scores.final,
            context=self.context or None,
            document_id=self.document_id,
            session=self.session,
            speaker=self.metadata.get(SPEAKER),
            entities=self.entities,
            mentioned_at=self.mentioned_at,
            occurred_start=self.occurred_start,
            occurred_end=self.occurred_end,
            invalidated_at=self.invalidated_at if self.state == "invalidated" else None,
            superseded_by=replacement_of(self.invalidation_reason),
            evidence=max(1, self.proof_count or len(self.sources)),
            bank=bank,
            signals=self.scores.signals() if explain and self.scores is not None else None,
            backend="hindsight",
        )


_REASON = re.compile(f"{SUPERSEDED}([0-9a-f-]{{36}})")


def replacement_of(reason: str | None) -> str | None:
    """The memory that a reason names as the one that holds the truth now."""
    found = _REASON.match(reason or "")
    return found[1] if found else None


class Recall(Answer):
    """Ranked memories, best first; `source_facts` are those that observations were concluded from."""

    results: tuple[Unit, ...]
    source_facts: Annotated[dict[str, Unit], BeforeValidator(_mapped)] = Field(default_factory=dict)


class Units(Answer):
    """A page of memories."""

    items: tuple[Unit, ...]
    total: int | None = None


class BasedOn(Answer):
    """What a reflection rests on."""

    memories: tuple[Unit, ...] = ()
    mental_models: tuple[Answer, ...] = ()


class Reflect(Answer):
    """A synthesised answer."""

    text: str
    based_on: BasedOn | None = None
    structured_output: dict[str, Any] | None = None
    structured_output_error: str | None = None


class Retained(Answer):
    """Acknowledged work: a write, or a consolidation."""

    operation_id: str


class Work(Answer):
    """An operation, single or in a list."""

    id: str = Field(validation_alias=AliasChoices("operation_id", "id"))
    status: OperationState
    kind: str | None = Field(default=None, validation_alias=AliasChoices("operation_type", "task_type"))
    error_message: str | None = None
    created_at: Moment = None
    updated_at: Moment = None
    completed_at: Moment = None
    items_count: int | None = None
    result_metadata: Texted = Field(default_factory=dict)
    details: Texted = Field(default_factory=dict)

    def operation(self) -> Operation:
        """The operation as users read it."""
        counted = self.result_metadata
        return Operation(
            self.id,
            self.status,
            self.kind,
            self.error_message or self.details.get("failure_reason") or counted.get("failure_reason"),
            self.created_at,
            self.updated_at,
            self.completed_at,
            items=_whole(counted.get("items_count", self.items_count)),
            tokens=_whole(counted.get("total_tokens")),
            outcome=self.details.get("outcome") or counted.get("outcome"),
        )


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


class Works(Answer):
    """A page of operations."""

    operations: tuple[Work, ...]


class Paper(Answer):
    """A document, single or in a list."""

    id: str
    tags: Texts = ()
    document_metadata: Texted = Field(default_factory=dict)
    memory_unit_count: int = 0
    created_at: Moment = None
    updated_at: Moment = None
    original_text: str | None = None

    def document(self) -> Document:
        """The document as users read it."""
        times = self.created_at, self.updated_at
        return Document(self.id, self.tags, self.document_metadata, self.memory_unit_count, *times, self.original_text)


class Papers(Answer):
    """A page of documents."""

    items: tuple[Paper, ...]
    total: int | None = None


class Standing(Answer):
    """A directive."""

    id: str
    name: str
    content: str
    priority: int = 0
    is_active: bool = True
    tags: Texts = ()

    def directive(self) -> Directive:
        """The directive as users read it."""
        return Directive(self.id, self.name, self.content, self.priority, self.is_active, self.tags)


class Standings(Answer):
    """A page of directives; servers before 1.0 give all of them at once and no total."""

    items: tuple[Standing, ...]
    total: int | None = None


class TagCount(Answer):
    """How many memories carry a tag."""

    tag: str
    count: int


class TagCounts(Answer):
    """A page of tags."""

    items: tuple[TagCount, ...]
    total: int | None = None


class Curated(Answer):
    """A mental model. What was not asked for is null."""

    id: str
    name: str
    source_query: str | None = None
    content: str | None = None
    tags: Texts = ()
    max_tokens: int | None = None
    trigger: Texted = Field(default_factory=dict)
    last_refreshed_at: Moment = None
    created_at: Moment = None
    reflect_response: Texted = Field(default_factory=dict)

    def model(self) -> MentalModel:
        """The mental model as users read it."""
        refreshed = self.last_refreshed_at if self.last_refreshed_at != self.created_at else None
        return MentalModel(
            self.id,
            self.name,
            self.source_query or "",
            self.content or "",
            self.tags,
            self.max_tokens or 2048,
            "delta" if self.trigger.get("mode") == "delta" else "full",
            refreshed,
            self.cited(),
        )

    def cited(self) -> tuple[str, ...]:
        """The ids of the memories that its content was made from."""
        kinds: Mapping[str, Any] = self.reflect_response.get("based_on") or {}
        return tuple(dict.fromkeys(each["id"] for kind in TYPES for each in kinds.get(kind) or () if "id" in each))


class Curation(Answer):
    """A page of mental models."""

    items: tuple[Curated, ...]
    total: int | None = None


class Begun(Answer):
    """An operation that was begun; servers may answer without one."""

    operation_id: str | None = None


class Former(Answer):
    """What a mental model said before."""

    previous_content: str | None = None
    changed_at: Moment = None

    def revision(self) -> Revision | None:
        """The revision as users read it; nothing where it said nothing."""
        if not self.previous_content or self.changed_at is None:
            return None
        return Revision(self.previous_content, self.changed_at)


class Formers(Answer):
    """The whole history of a mental model, newest first."""

    revisions: tuple[Former, ...]


class Counts(Answer):
    """A bank's numbers."""

    total_nodes: int
    nodes_by_fact_type: Annotated[dict[str, int], BeforeValidator(_mapped)] = Field(default_factory=dict)
    failed_operations: int = 0
    failed_consolidation: int = 0


class Config(Answer):
    """A bank's settings as they apply, and those of its own."""

    config: dict[str, Any]
    overrides: Texted = Field(default_factory=dict)


class BankName(Answer):
    """A bank in the list of all."""

    bank_id: str


class Banks(Answer):
    """A page of banks."""

    banks: tuple[BankName, ...]
    total: int | None = None


class Version(Answer):
    """What the server is."""

    api_version: str

    def number(self) -> tuple[int, int]:
        """Major and minor; a text that says neither counts as 1.1."""
        found = re.match(r"(\d+)\.(\d+)", self.api_version)
        return (int(found[1]), int(found[2])) if found else (1, 1)
