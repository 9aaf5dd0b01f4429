"""What comes out of a bank (memories, receipts, results), and how what users type is parsed.

Every value here is frozen.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Any, Literal, cast, get_args

from lorebank.errors import UsageError

MemoryType = Literal["world", "experience", "observation"]
Veracity = Literal["stated", "inferred", "tool", "imported", "unknown", "true", "false"]
Budget = Literal["low", "mid", "high"]
BackendName = Literal["mnemopi", "hindsight"]
State = Literal["found", "nothing", "unavailable", "partial"]
UpdateMode = Literal["replace", "append"]

TYPES: tuple[MemoryType, ...] = get_args(MemoryType)
FACTS: tuple[MemoryType, ...] = ("world", "experience")
"""The types of what was told; an observation is a conclusion from it."""
ALIASES: Mapping[str, MemoryType] = {"fact": "world", "episode": "experience"}
MAX_TEXT = 65_536
"""Characters an explicit item may have."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes, and what is assumed of a memory where its item says nothing (contract §5)."""

    source: str
    importance: float
    veracity: Veracity
    type: MemoryType


APPLICATION = Writer("app", 0.7, "stated", "world")
TOOL = Writer("agent-retain", 0.75, "tool", "world")
EXTRACTION = Writer("extraction", 0.6, "inferred", "world")
CONSOLIDATION = Writer("consolidation", 0.6, "inferred", "observation")
TRANSCRIPT = Writer("transcript", 0.5, "unknown", "experience")


def parse_type(value: object) -> MemoryType:
    """Accepts `world`, `experience`, `observation` and the older names `fact` and `episode`."""
    if isinstance(value, str):
        for name in TYPES:
            if name == ALIASES.get(value, value):
                return name
    raise UsageError(f"`type` must be one of {', '.join(TYPES)} (or fact, episode); found {value!r}")


def parse_types(values: object) -> tuple[MemoryType, ...]:
    """The types to read, without repeats; none at all is a mistake, since it could only find nothing."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise UsageError(f"`types` must be a sequence of types; found {values!r}")
    types: dict[MemoryType, None] = dict.fromkeys([parse_type(value) for value in cast("Iterable[object]", values)])
    if not types:
        raise UsageError("`types` is empty: name at least one type, or leave it out for the default")
    return tuple(types)


_SURROGATE = re.compile("[\ud800-\udfff]")


def parse_text(value: object, name: str, *, limit: int = MAX_TEXT) -> str:
    """A text with something in it, within the limit; returned as it is."""
    if not isinstance(value, str):
        raise UsageError(f"`{name}` must be text; found {type(value).__name__}")
    if not value.strip():
        raise UsageError(f"`{name}` is blank: there is nothing to work with")
    if len(value) > limit:
        raise UsageError(f"`{name}` has {len(value):,} characters; the limit is {limit:,}. Split it into several")
    if not value.isascii() and _SURROGATE.search(value):
        raise UsageError(f"`{name}` holds a lone surrogate, which no database or server can store")
    if "\0" in value:
        raise UsageError(f"`{name}` holds a NUL character, which not every database can store")
    return value


_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def storable(text: str) -> str:
    """The text with a mark in place of what no database or server can store."""
    return text if text.isascii() and "\0" not in text else _UNSTORABLE.sub("\ufffd", text)


def parse_number(value: object, name: str, low: float, high: float) -> float:
    """A finite number between two bounds, both included."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise UsageError(f"`{name}` must be a number from {low:g} to {high:g}; found {value!r}")
    return float(value)


def parse_count(value: object, name: str) -> int:
    """A whole number of at least one."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"`{name}` must be a whole number of at least 1; found {value!r}")
    return value


def parse_moment(value: object, name: str, zone: tzinfo | None = None, *, to: tzinfo | None = UTC) -> datetime:
    """A point in time, in UTC or another zone; a naive one is read in `zone`. A zone of `None` is the system's."""
    if not isinstance(value, datetime):
        raise UsageError(f"`{name}` must be a datetime; found {type(value).__name__}")
    try:
        return (value if value.tzinfo or zone is None else value.replace(tzinfo=zone)).astimezone(to)
    except (OverflowError, ValueError, OSError) as error:
        raise UsageError(f"`{name}` is out of the calendar's range: {value!r}") from error


def parse_metadata(value: object) -> Mapping[str, Any]:
    """A mapping of text to what JSON can hold."""
    if not isinstance(value, Mapping):
        raise UsageError(f"`metadata` must be a mapping; found {type(value).__name__}")
    mapping = cast("Mapping[object, Any]", value)
    if bad := [key for key in mapping if not isinstance(key, str) or not key]:
        raise UsageError(f"`metadata` has a key that is not text: {bad[0]!r}")
    try:
        text = json.dumps(dict(mapping), allow_nan=False, ensure_ascii=False)
        text.encode()
        return cast("dict[str, Any]", json.loads(text))
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"`metadata` holds what JSON can't: {error}") from error


_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def parse_name(value: object, name: str) -> str:
    """A short label (session, speaker, document, entity): text without control characters, 512 characters at most."""
    return _clean_name(value, name) if isinstance(value, str) else parse_text(value, name)


@lru_cache(maxsize=4096)
def _clean_name(value: str, name: str) -> str:
    """The same few names come again and again."""
    text = parse_text(value, name, limit=512).strip()
    if _CONTROL.search(text):
        raise UsageError(f"`{name}` holds a control character: {text!r}")
    return text


@dataclass(frozen=True, slots=True)
class Memory:
    """One remembered statement.

    Times are in UTC. `score` orders the memories of one result (higher is better) and does not compare across
    backends; outside a recall it is `None`. `signals` is what each signal added to the score, with `explain=True`.
    `truncated` says that `text` is the start of a longer text, cut to the result's token bound; `get(id)` has it whole.
    `backend` is set where a joined bank read it. `derived_from` are the ids of the memories that Mnemopi made it of, where
    `get` or `list` gave it.
    """

    id: str
    text: str
    type: MemoryType = "world"
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    score: float | None = None
    source: str | None = None
    context: str | None = None
    document_id: str | None = None
    session: str | None = None
    speaker: str | None = None
    entities: tuple[str, ...] = ()
    mentioned_at: datetime | None = None
    occurred_start: datetime | None = None
    occurred_end: datetime | None = None
    valid_until: datetime | None = None
    invalidated_at: datetime | None = None
    superseded_by: str | None = None
    importance: float | None = None
    veracity: Veracity | None = None
    evidence: int = 1
    bank: str | None = None
    truncated: bool = False
    signals: Mapping[str, float] | None = None
    backend: BackendName | None = None
    derived_from: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one item: the memory's id (queued: the outbox row's) and, where there is one, the reason."""

    id: str | None
    reason: str | None = None
    document_id: str | None = None
    operation_id: str | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a write, item by item; never their content.

    `len(receipt)` is the number of items. `redactions` counts the secrets that were taken out before writing.
    """

    stored: tuple[Outcome, ...] = ()
    queued: tuple[Outcome, ...] = ()
    duplicates: tuple[Outcome, ...] = ()
    rejected: tuple[Outcome, ...] = ()
    redactions: int = 0

    def __len__(self) -> int:
        return len(self.stored) + len(self.queued) + len(self.duplicates) + len(self.rejected)

    def __bool__(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Removal:
    """What `forget` and `clear` removed (or, in a dry run, would remove).

    `purged` says that the file and its WAL hold no byte of it any more; `reason` says why not. `rows` are the writes that
    were still in the outbox and were taken out of it. `beyond` names copies that lorebank can't reach.
    """

    ids: tuple[str, ...]
    dry_run: bool = False
    purged: bool = False
    reason: str | None = None
    beyond: tuple[str, ...] = ("backups and copies of the file", "the host's own checkpoints and histories")
    rows: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def __bool__(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class RecallTrace:
    """How a recall came to its result (`explain=True`).

    `terms` are the query's search terms with their weight (inverse document frequency), `period` the spans of time it
    names, `pool` how many memories were scored, `evidence` how much of it is answered (0 to 1) against the
    `floor`, `dropped` the ids that the token bound left out, `elapsed` seconds.
    """

    terms: Mapping[str, float]
    period: tuple[tuple[datetime, datetime], ...]
    pool: int
    evidence: float
    floor: float
    dropped: tuple[str, ...]
    elapsed: float


@dataclass(frozen=True, slots=True)
class RecallResult:
    """The memories that answer a query, best first; iterate over it.

    `state` is `found`, `nothing` (memory was asked and knows nothing), `unavailable` (memory could not be asked) or
    `partial` (a part of it could not; `unavailable` names it).
    """

    state: State
    query: str
    memories: tuple[Memory, ...] = ()
    unavailable: tuple[str, ...] = ()
    trace: RecallTrace | None = None

    def __iter__(self) -> Iterator[Memory]:
        return iter(self.memories)

    def __len__(self) -> int:
        return len(self.memories)

    def __getitem__(self, index: int) -> Memory:
        return self.memories[index]

    def __bool__(self) -> bool:
        return bool(self.memories)


@dataclass(frozen=True, slots=True)
class Reflection:
    """An answer drawn from several memories; `based_on` are those. `structured` follows the asked schema, if any."""

    text: str
    based_on: tuple[Memory, ...] = ()
    structured: Mapping[str, Any] | None = None


_WIDE = re.compile("[\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003134f]")


def count_tokens(text: str) -> int:
    """Estimates tokens: one for each CJK character, one for each four other characters, rounded up."""
    wide = 0 if text.isascii() else len(_WIDE.findall(text))
    return wide + math.ceil((len(text) - wide) / 4)
