"""The lines of an archive: JSON objects, one a line, in UTF-8. Pure.

The first line is the header, the last one holds the SHA-256 of all bytes before it and how many lines of each kind there
are. A line says its `kind`; what is not known or empty is left out. Times are ISO 8601 in UTC, to the microsecond.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NoReturn, TypeVar, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from lorebank._domain.archive import IMPORTED, Archived, Entry, FormerText, ModelEntry, Record, item_of
from lorebank._domain.memory import MemoryType, Veracity
from lorebank._domain.mental_model import MentalModel, Trigger
from lorebank._domain.operations import Directive, Document
from lorebank.errors import GarbledError, UsageError

FORMAT, VERSION = "lorebank", 1
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_CONTROL = re.compile("[\0-\x1f\x7f\ud800-\udfff]")
LONGEST_LABEL = 1024


def _stored(text: str) -> str:
    if _UNSTORABLE.search(text):
        raise ValueError("a character that no database can store")
    return text


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError("blank")
    return _stored(text)


def _label(text: str) -> str:
    if not text.strip() or len(text) > LONGEST_LABEL or _CONTROL.search(text):
        raise ValueError("no label")
    return text


def _moment(value: object) -> datetime:
    if not isinstance(value, str):
        raise ValueError("no text")  # noqa: TRY004 - pydantic reports values only
    found = datetime.fromisoformat(value)
    if found.tzinfo is None:
        raise ValueError("no time zone")
    try:
        return found.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("out of the calendar's range") from error


def _record(value: Any) -> Any:
    """Memory ids, or for each id its version, the lines that cite it, and those that echo it."""
    _check_sources(value)
    return value


def _check_sources(value: object) -> None:
    told = cast("dict[object, object] | list[object]", value if isinstance(value, (dict, list)) else [None])
    if not all(isinstance(each, str) and each for each in told):
        raise ValueError("no ids")
    if isinstance(told, dict) and not all(_is_source(each) for each in told.values()):
        raise ValueError("no version and lines")


def _is_source(told: object) -> bool:
    """Whether it is a version and two lists of lines."""
    parts = cast("list[object]", told) if isinstance(told, list) else []
    if len(parts) != 3 or not (parts[0] is None or isinstance(parts[0], str)):
        return False
    lists = [cast("list[object]", each) for each in parts[1:] if isinstance(each, list)]
    return len(lists) == 2 and all(isinstance(line, int) for each in lists for line in each)


def _json(value: dict[str, Any]) -> dict[str, Any]:
    _stored(json.dumps(value, ensure_ascii=False, allow_nan=False))
    return value


Stored = Annotated[str, AfterValidator(_stored)]
Text = Annotated[str, AfterValidator(_text)]
Label = Annotated[str, AfterValidator(_label)]
Labels = list[Label]
Moment = Annotated[datetime, BeforeValidator(_moment)]
Mapped = Annotated[dict[str, Any], AfterValidator(_json)]
Sources = Annotated[Record, BeforeValidator(_record)]
Count = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Hex = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]


class Line(BaseModel):
    """What all lines share: nothing is converted, and no field is passed over."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Header(Line):
    """The first line."""

    kind: Literal["header"]
    format: Literal["lorebank"]
    version: int
    bank: str
    backend: str
    created: Moment
    memories: Count | None = None


class End(Line):
    """The last line."""

    kind: Literal["end"]
    counts: dict[str, Count]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class MemoryLine(Line):
    """A memory. `timed` says that its time is part of the statement."""

    kind: Literal["memory"]
    id: Label
    content: Text
    type: MemoryType
    source: Label | None = None
    importance: Share | None = None
    veracity: Veracity | None = None
    evidence: Annotated[int, Field(ge=1)] = 1
    mentioned_at: Moment | None = None
    timed: bool = False
    occurred_start: Moment | None = None
    occurred_end: Moment | None = None
    valid_until: Moment | None = None
    invalidated_at: Moment | None = None
    superseded_by: Label | None = None
    session: Label | None = None
    position: Count | None = None
    speaker: Label | None = None
    document: Label | None = None
    context: Text | None = None
    tags: Labels = Field(default_factory=list)
    metadata: Mapped = Field(default_factory=dict)
    entities: Labels = Field(default_factory=list)
    digest: Hex | None = None
    derived_from: Labels = Field(default_factory=list)

    def record(self, line: int) -> Entry:
        item = item_of(
            content=self.content,
            context=self.context,
            tags=tuple(self.tags),
            metadata=self.metadata or None,
            timestamp=self.mentioned_at if self.timed else None,
            document_id=self.document,
            entities=tuple(self.entities),
            session=self.session,
            speaker=self.speaker,
            valid_until=self.valid_until,
            importance=self.importance,
            type=self.type,
        )
        return Entry(
            self.id,
            item,
            self.source or IMPORTED.source,
            self.veracity or IMPORTED.veracity,
            self.evidence,
            self.mentioned_at,
            self.occurred_start,
            self.occurred_end,
            self.invalidated_at,
            self.superseded_by,
            self.position,
            bytes.fromhex(self.digest) if self.digest else None,
            tuple(self.derived_from),
            line=line,
        )


class Former(Line):
    """What a mental model said before."""

    content: Text
    replaced_at: Moment
    based_on: Sources | None = None


class ModelLine(Line):
    """A mental model, its history oldest first."""

    kind: Literal["mental_model"]
    id: Label
    name: Text
    source_query: Text
    content: Stored = ""
    tags: Labels = Field(default_factory=list)
    max_tokens: Annotated[int, Field(ge=1)] = 800
    trigger: Trigger = "delta"
    refreshed_at: Moment | None = None
    based_on: Sources | None = None
    revisions: list[Former] = Field(default_factory=list)

    def record(self, line: int) -> ModelEntry:
        asked = (self.id, self.name, self.source_query, self.content)
        model = MentalModel(*asked, tuple(self.tags), self.max_tokens, self.trigger, self.refreshed_at)
        history = tuple(FormerText(each.content, each.replaced_at, each.based_on) for each in self.revisions)
        return ModelEntry(model, self.based_on, history, line)


class DirectiveLine(Line):
    """A standing instruction."""

    kind: Literal["directive"]
    id: Label
    name: Text
    content: Text
    priority: int = 0
    inactive: bool = False
    tags: Labels = Field(default_factory=list)

    def record(self, line: int) -> Directive:
        del line
        return Directive(self.id, self.name, self.content, self.priority, not self.inactive, tuple(self.tags))


class DocumentLine(Line):
    """What is known of a document beside its memories."""

    kind: Literal["document"]
    id: Label
    tags: Labels = Field(default_factory=list)
    metadata: Mapped = Field(default_factory=dict)
    memories: Count = 0
    created_at: Moment | None = None
    updated_at: Moment | None = None

    def record(self, line: int) -> Document:
        del line
        told = (self.id, tuple(self.tags), self.metadata, self.memories)
        return Document(*told, created_at=self.created_at, updated_at=self.updated_at)


_KINDS: Mapping[str, type[MemoryLine | ModelLine | DirectiveLine | DocumentLine]] = {
    "memory": MemoryLine,
    "mental_model": ModelLine,
    "directive": DirectiveLine,
    "document": DocumentLine,
}
KINDS = tuple(_KINDS)
Kind = TypeVar("Kind", bound=Line)


_NOTHING: tuple[object, ...] = (None, (), {})


def encoded(fields: Mapping[str, Any]) -> bytes:
    """One line; what is not known, empty or false is left out."""
    told = {name: value for name, value in fields.items() if value not in _NOTHING and value is not False}
    text = json.dumps(told, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=datetime.isoformat)
    return text.encode() + b"\n"


def header(bank: str, backend: str, created: datetime, memories: int | None) -> bytes:
    """The first line of an archive; it tells how many memories follow where that is known."""
    told = {"format": FORMAT, "version": VERSION, "bank": bank, "backend": backend, "created": created, "memories": memories}
    return encoded({"kind": "header", **told})


def end(counts: Mapping[str, int], sha256: str) -> bytes:
    """The last line of an archive."""
    return encoded({"kind": "end", "counts": {kind: counts.get(kind, 0) for kind in KINDS}, "sha256": sha256})


def line_of(record: Archived) -> tuple[str, bytes]:
    """A record's kind and its line."""
    kind, fields = _FIELDS[type(record)]
    return kind, encoded({"kind": kind, **fields(record)})


def kind_of(record: Archived) -> str:
    """A record's kind."""
    return _FIELDS[type(record)][0]


def _memory(entry: Entry) -> dict[str, Any]:
    item = entry.item
    return {
        "id": entry.id, "content": item.content, "type": entry.type, "source": entry.source, "importance": item.importance,
        "veracity": entry.veracity, "evidence": entry.evidence, "mentioned_at": entry.said,
        "timed": item.timestamp is not None, "occurred_start": entry.occurred_start, "occurred_end": entry.occurred_end,
        "valid_until": item.valid_until, "invalidated_at": entry.invalidated_at, "superseded_by": entry.superseded_by,
        "session": item.session, "position": entry.position, "speaker": item.speaker, "document": item.document_id,
        "context": item.context, "tags": tuple(item.tags), "metadata": dict(item.metadata or {}),
        "entities": tuple(item.entities), "digest": entry.digest.hex() if entry.digest else None,
        "derived_from": entry.sources,
    }  # fmt: skip


def _model(entry: ModelEntry) -> dict[str, Any]:
    model = entry.model
    former = [
        {"content": each.content, "replaced_at": each.replaced_at} | ({"based_on": each.record} if each.record else {})
        for each in entry.history
    ]
    return {
        "id": model.id, "name": model.name, "source_query": model.source_query, "content": model.content, "tags": model.tags,
        "max_tokens": model.max_tokens, "trigger": model.trigger, "refreshed_at": model.refreshed_at,
        "based_on": entry.record, "revisions": tuple(former),
    }  # fmt: skip


def _directive(directive: Directive) -> dict[str, Any]:
    told = {"id": directive.id, "name": directive.name, "content": directive.content, "priority": directive.priority}
    return {**told, "tags": directive.tags, "inactive": not directive.active}


def _document(document: Document) -> dict[str, Any]:
    told = {"id": document.id, "tags": document.tags, "metadata": dict(document.metadata), "memories": document.memories}
    return {**told, "created_at": document.created_at, "updated_at": document.updated_at}


_FIELDS: Mapping[type, tuple[str, Callable[[Any], dict[str, Any]]]] = {
    Entry: ("memory", _memory),
    ModelEntry: ("mental_model", _model),
    Directive: ("directive", _directive),
    Document: ("document", _document),
}


def read_header(line: bytes) -> Header:
    """The first line; `UsageError` where it is of a format that this release does not know."""
    told = _object(line, 1)
    version = told.get("version")
    if told.get("format") == FORMAT and isinstance(version, int) and version > VERSION:
        raise UsageError(f"the file has version {version} of its format; this lorebank reads up to {VERSION}: update it")
    return _shaped(Header, told, 1)


def read_line(line: bytes, number: int) -> Archived | End:
    """A line after the first; `GarbledError` names its number and what is wrong with it, never what it holds."""
    told = _object(line, number)
    kind = told.get("kind")
    if kind == "end":
        found = _shaped(End, told, number)
        if line != encoded({"kind": "end", "counts": found.counts, "sha256": found.sha256}):
            raise GarbledError(f"line {number}: the last line was changed")
        return found
    if (shape := _KINDS.get(str(kind))) is None:
        raise GarbledError(f"line {number}: `kind` is none of {', '.join(KINDS)} or end")
    return _shaped(shape, told, number).record(number)


def is_header(line: bytes) -> bool:
    """Whether a file that begins so is an archive."""
    try:
        return _object(line, 1).get("format") == FORMAT
    except GarbledError:
        return False


def tally(counts: Counter[str]) -> dict[str, int]:
    """How many lines of each kind, as the last line tells it."""
    return {kind: counts[kind] for kind in KINDS}


def _object(line: bytes, number: int) -> dict[str, Any]:
    try:
        told: object = json.loads(line.decode(), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise GarbledError(f"line {number}: no JSON ({type(error).__name__})") from None
    if not isinstance(told, dict):
        raise GarbledError(f"line {number}: no JSON object")
    return cast("dict[str, Any]", told)


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)


def _shaped(shape: type[Kind], told: Mapping[str, Any], number: int) -> Kind:
    try:
        return shape.model_validate(told)
    except (ValidationError, RecursionError) as error:
        first = error.errors(include_url=False, include_input=False)[0] if isinstance(error, ValidationError) else None
        where = ".".join(map(str, first["loc"][:2])) if first else "metadata"
        raise GarbledError(f"line {number}: `{where}` is wrong ({first['type'] if first else 'too deep'})") from None
