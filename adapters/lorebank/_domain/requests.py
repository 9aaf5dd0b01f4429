"""What the verbs ask of a backend, parsed: values that travel together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from lorebank._domain.memory import Budget, MemoryType
from lorebank._domain.scope import TagRule

Kept = Literal["valid", "invalidated", "all"]


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """One search. `moment` is the anchor of phrases such as "yesterday", aware, in the user's zone; `rule` the tag
    filter of scope and caller together.
    """

    query: str
    limit: int
    max_tokens: int
    types: tuple[MemoryType, ...]
    moment: datetime
    count_tokens: Callable[[str], int]
    rule: TagRule | None = None
    budget: Budget = "mid"
    min_score: float | None = None
    prefer_observations: bool = False
    include_source_facts: bool = False
    explain: bool = False


@dataclass(frozen=True, slots=True)
class ReflectRequest:
    """One question to answer from memory: `recall` finds the material, `context` narrows the question."""

    recall: RecallRequest
    context: str | None = None
    response_schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """Which memories: filters AND-ed; `tags` match all."""

    ids: tuple[str, ...] = ()
    session: str | None = None
    document: str | None = None
    tags: tuple[str, ...] = ()
    rule: TagRule | None = None


@dataclass(frozen=True, slots=True)
class ListRequest:
    """One page of a bank, newest first; with `before`, of what was said before that moment."""

    limit: int
    offset: int = 0
    types: tuple[MemoryType, ...] | None = None
    kept: Kept = "valid"
    selection: Selection = field(default_factory=Selection)
    before: datetime | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """What `update` changes; `None` leaves a field as it is."""

    content: str | None = None
    importance: float | None = None
    tags: tuple[str, ...] | None = None
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts of one bank. `bytes` is the whole database's size, whatever banks it holds."""

    bank: str
    memories: int
    invalidated: int
    by_type: Mapping[str, int]
    by_source: Mapping[str, int]
    sessions: int
    mental_models: int
    oldest: datetime | None
    newest: datetime | None
    bytes: int | None


@dataclass(frozen=True, slots=True)
class Health:
    """Whether a backend answers now; `detail` says what is wrong or what it is, `latency` is in seconds. `skew` is by how many
    seconds a server's clock is ahead of this machine's, to the second; `None` where it does not tell the time.
    """

    ok: bool
    backend: str
    detail: str
    latency: float | None = None
    skew: float | None = None


@dataclass(frozen=True, slots=True)
class Integrity:
    """What a check of the stored data found; no problems means that it is sound."""

    problems: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.problems


@dataclass(frozen=True, slots=True)
class FlushReport:
    """What is left undone when a flush ends, and why. `dead` writes were given up earlier and wait for a person."""

    left: int = 0
    reason: str | None = None
    dead: int = 0

    @property
    def done(self) -> bool:
        return not self.left


@dataclass(frozen=True, slots=True)
class Consolidation:
    """What a consolidation came to: how many observations were written, anew or for the first time, from how many memories. On a
    server it goes on in the background: `operation_id` is its operation there. `tokens` is about what a completer was sent
    and gave; `reason` says why not all was done.
    """

    observations: int = 0
    memories: int = 0
    tokens: int = 0
    reason: str | None = None
    operation_id: str | None = None
