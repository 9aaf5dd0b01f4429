"""The outbox's rules: the states of a row, how a row moves between them, and how long a route rests after a failure.

A row is `held` until its cadence releases it, `pending` until it is sealed into a batch, `sealed` until the server takes
the batch, `accepted` until the server's operation ends. The operation `completed`, or it `failed` and is tried again;
when that is of no use the row is `dead`. A row that can't be read is `malformed`. What is sealed never changes: its rows,
its body and its operation id stay the same from the first sending to the answer, so that sending it twice has one effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

RowState = Literal["held", "pending", "sealed", "accepted", "failed", "completed", "dead", "malformed"]
Step = Literal["release", "seal", "accept", "complete", "fail", "retry", "lose", "split", "refuse", "expire", "spoil", "requeue"]

STATES: tuple[RowState, ...] = get_args(RowState)
UNDERWAY: tuple[RowState, ...] = ("sealed", "accepted", "failed")
"""States in which a row belongs to a batch: its document's next rows wait."""
WAITING: tuple[RowState, ...] = ("held", "pending", *UNDERWAY)
"""States from which a row still reaches the server by itself."""
LOST: tuple[RowState, ...] = ("dead", "malformed")
"""States in which a row waits for a person."""

TRANSITIONS: Mapping[tuple[RowState, Step], RowState] = {
    ("held", "release"): "pending",
    ("held", "expire"): "dead",
    ("held", "spoil"): "malformed",
    ("pending", "seal"): "sealed",
    ("pending", "expire"): "dead",
    ("pending", "spoil"): "malformed",
    ("sealed", "accept"): "accepted",
    ("sealed", "split"): "pending",
    ("sealed", "refuse"): "dead",
    ("accepted", "complete"): "completed",
    ("accepted", "fail"): "failed",
    ("accepted", "lose"): "sealed",
    ("failed", "retry"): "accepted",
    ("failed", "split"): "pending",
    ("failed", "refuse"): "dead",
    ("dead", "requeue"): "pending",
}
"""Every move a row can make. What is not here can't happen."""


def move(state: RowState, step: Step) -> RowState:
    """The state after a step; `ValueError` for a move that can't happen."""
    try:
        return TRANSITIONS[state, step]
    except KeyError:
        raise ValueError(f"a row that is {state} can't {step}") from None


def sources(step: Step) -> tuple[RowState, ...]:
    """The states from which a step is possible."""
    return tuple([state for state, known in TRANSITIONS if known == step])


def target(step: Step) -> RowState:
    """Where a step leads; each step leads to one state, wherever it starts."""
    return move(sources(step)[0], step)


FIRST_REST = 0.5
"""Seconds a route rests after its first failure."""


def rest(failures: int, chance: float, longest: float) -> float:
    """Seconds to rest after so many failures in a row: doubling, with full jitter above the half, `longest` at most.

    `chance` is a number from 0 to 1.
    """
    whole = min(FIRST_REST * (1 << min(max(failures, 1) - 1, 30)), longest)
    return whole * (0.5 + chance / 2)


def is_due(due: float, now: float, longest: float) -> bool:
    """Whether a time has come. One that lies further ahead than anything is ever put off was written by a clock that has
    been set back since, and has come too.
    """
    return due <= now or due > now + longest


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """One write on its way: ids, state, counts, never its content. Times are in UTC, `bytes` is the size of its body."""

    id: str
    bank: str
    document_id: str
    state: RowState
    created_at: datetime
    bytes: int
    session: str | None = None
    operation_id: str | None = None
    attempts: int = 0
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Rerouted:
    """What a reroute came to: the ids of the writes that were moved (in a dry run: would be), and of those that stay, since the
    former server has taken them, or a process is sending them now. `len()` counts the moved.
    """

    ids: tuple[str, ...] = ()
    underway: tuple[str, ...] = ()
    dry_run: bool = False

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class OutboxStatus:
    """The outbox of one bank, or of all: rows by state, the oldest write that waits, and how the server answers.

    `waiting` writes still reach the server by themselves; `dead` and `malformed` ones wait for a person. `resting_until`
    is set while the server is spared after a failure, with the `reason`. `used` is the share of the outbox's room, in rows or
    in bytes, that the writes of all its servers' banks take: at 1.0 it is full.
    """

    rows: Mapping[RowState, int]
    bytes: int = 0
    oldest: datetime | None = None
    last_success: datetime | None = None
    resting_until: datetime | None = None
    reason: str | None = None
    used: float = 0.0

    @property
    def waiting(self) -> int:
        """Writes that still reach the server by themselves."""
        return sum(self.rows.get(state, 0) for state in WAITING)

    @property
    def lost(self) -> int:
        """Writes that wait for a person: dead letters, and rows that can't be read."""
        return sum(self.rows.get(state, 0) for state in LOST)
