"""What happens on its own is told to listeners as typed events: ids, counts, reasons, never content."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Event:
    """What all events share: the bank they are about."""

    bank: str


@dataclass(frozen=True, slots=True)
class Recalled(Event):
    """A tool, a retriever or a turn was answered: how many memories, in how many seconds."""

    count: int
    elapsed: float


@dataclass(frozen=True, slots=True)
class Retained(Event):
    """A tool or a session wrote: how many items were stored, known already, rejected, queued for the server."""

    stored: int
    duplicates: int
    rejected: int
    queued: int = 0


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


@dataclass(frozen=True, slots=True)
class Extracted(Event):
    """A completer looked for facts: in how many memories, how many facts were kept and how many dropped since their memory does
    not say them, in how many requests, and about how many tokens these sent and got.
    """

    memories: int
    facts: int
    dropped: int
    requests: int
    sent: int
    received: int


@dataclass(frozen=True, slots=True)
class Consolidated(Event):
    """Observations were written, from so many memories; what a completer was asked for it, as for `Extracted`."""

    observations: int
    memories: int
    requests: int
    sent: int
    received: int


@dataclass(frozen=True, slots=True)
class OutageStarted(Event):
    """The server stopped answering: `writes` wait in the outbox, or the automatic `recall` gives nothing. Or an embedder
    did: memories wait for their `vectors`, or a `query` has none; recall goes on by words. Or a `completer` did: facts and
    observations wait.
    """

    reason: str
    part: Literal["writes", "recall", "vectors", "query", "completer"] = "writes"


@dataclass(frozen=True, slots=True)
class OutageEnded(Event):
    """The server, or the embedder, answers again, after so many seconds and failed attempts."""

    seconds: float
    failures: int
    part: Literal["writes", "recall", "vectors", "query", "completer"] = "writes"


@dataclass(frozen=True, slots=True)
class DeadLettered(Event):
    """Writes were given up; they stay in the outbox until somebody requeues or purges them."""

    rows: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class KeyTakenOver(Event):
    """Writes that were queued under another key of the same server are sent with this one."""

    count: int


@dataclass(frozen=True, slots=True)
class LedgerMoved(Event):
    """A ledger that could not be used was moved aside; `saved` of its writes were carried over into the new one."""

    path: str
    reason: str
    saved: int


@dataclass(frozen=True, slots=True)
class IgnoredParameters(Event):
    """The server did not know these parameters."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BankPrepared(Event):
    """A bank was looked for on the server before its first write: whether it was made, or why that could not be told."""

    made: bool
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class SessionUnreadable(Event):
    """What a session's user has chosen can't be read: nothing is recalled or retained in it until a mode is set again."""

    session: str


Listener = Callable[[Event], object]
