"""What a server works on and keeps beside memories: operations, documents, directives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

OperationState = Literal["pending", "processing", "completed", "failed", "cancelled", "not_found"]
RUNNING: tuple[OperationState, ...] = ("pending", "processing")
"""The states of an operation that is not over."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One piece of work of the server's. `kind` is its own word (`batch_retain`, `consolidation`, ...), `reason` says why
    it failed; `items` and `tokens` are `None` where the server doesn't count them. An unknown id is `not_found`.
    """

    id: str
    state: OperationState
    kind: str | None = None
    reason: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    completed_at: datetime | None = None
    items: int | None = None
    tokens: int | None = None
    outcome: str | None = None

    @property
    def running(self) -> bool:
        """Whether it is not over."""
        return self.state in RUNNING


@dataclass(frozen=True, slots=True)
class Document:
    """What one retain created or extended. `text` is `None` in lists and where the server keeps none."""

    id: str
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    memories: int = 0
    created_at: datetime | None = None
    updated_at: datetime | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Directive:
    """A standing instruction for `reflect`; untagged ones always apply, higher `priority` first."""

    id: str
    name: str
    content: str
    priority: int = 0
    active: bool = True
    tags: tuple[str, ...] = ()
