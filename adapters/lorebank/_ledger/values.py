"""What goes into a ledger and what is claimed from it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Route:
    """A server and the key it is asked with (its digest): what is sent over one route rests and goes on together."""

    url: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class Draft:
    """One write, ready for the ledger. `body` is the item as JSON; `solo` shares no batch with other documents; `fold` is
    set where neighbours of equal `fold` may be appended at once; `repeatable` ones are not queued twice in a row.
    """

    bank: str
    document: str
    body: str
    digest: str
    solo: bool = False
    fold: str | None = None
    session: str | None = None
    repeatable: bool = True


@dataclass(frozen=True, slots=True)
class Queued:
    """What became of a draft: the row's id; `known` where the same write was waiting already."""

    id: str
    known: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """A batch that this process may work on until its lease is over. `id` is the operation's id, `rows` are places."""

    id: str
    bank: str
    rows: tuple[int, ...]
    items: int
    body: bytes
    state: Literal["sealed", "accepted", "failed"]
    polls: int = 0
    retries: int = 0
    losses: int = 0

    @property
    def folded(self) -> bool:
        """Whether several rows are sent as one item."""
        return self.items == 1 and len(self.rows) > 1


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a batch could not be sent or asked after. `asked` seconds are what the server wants to be left alone for;
    `refused` is a key that is not accepted. A `suspect` batch got as far as to fail by itself (no answer in time, garbage, a
    5xx); a `broken` one is given up when that is a 5xx again and again while others pass.
    """

    reason: str
    asked: float | None = None
    refused: bool = False
    suspect: bool = False
    broken: bool = False


@dataclass(frozen=True, slots=True)
class Moment:
    """When something failed, how long a rest may be (seconds), and a number from 0 to 1 that spreads rests."""

    now: float
    longest: float
    chance: float


@dataclass(frozen=True, slots=True)
class Outage:
    """How a route's state changed: `began`, or `ended` after so many seconds and failures."""

    began: bool = False
    ended: bool = False
    seconds: float = 0.0
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a ledger takes: rows and bytes that are not delivered, and for how many seconds they may wait."""

    rows: int
    bytes: int
    age: float


def row_id(nonce: str, seq: int) -> str:
    """A row's public id."""
    return f"{nonce}{seq:x}"


NONCE = 16
_PLACED = re.compile(f"([0-9a-f]{{{NONCE}}})([0-9a-f]{{1,15}})")


def place(identifier: str) -> tuple[str, int] | None:
    """A row's nonce and place, from its id; `None` for what is no row's id."""
    found = _PLACED.fullmatch(identifier)
    return None if found is None else (found[1], int(found[2], 16))
