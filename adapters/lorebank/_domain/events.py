"""What happens on its own is told to listeners as typed events: ids, counts, reasons, never content."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """What all events share: the bank they are about."""

    bank: str


@dataclass(frozen=True, slots=True)
class Recalled(Event):
    """A tool or retriever was answered: how many memories, in how many seconds."""

    count: int
    elapsed: float


@dataclass(frozen=True, slots=True)
class Retained(Event):
    """A tool wrote: how many items were stored, known already, rejected."""

    stored: int
    duplicates: int
    rejected: int


@dataclass(frozen=True, slots=True)
class Redacted(Event):
    """Secrets were taken out of a write."""

    count: int


@dataclass(frozen=True, slots=True)
class Skipped(Event):
    """A call failed where failures must not reach the host: what was tried and why it failed."""

    verb: str
    reason: str


@dataclass(frozen=True, slots=True)
class ModelRefreshed(Event):
    """A mental model was answered anew; `changed` says whether it says something else now."""

    model: str
    changed: bool


Listener = Callable[[Event], object]
