"""Who and what a bank's memories name, and which names stand together. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

NEWEST = 2_000
"""Memories that names are counted over where no index of them is kept: the newest."""
PAIRS_EACH = 4
"""Pairs that are given for each name, on the average."""


@dataclass(frozen=True, slots=True)
class Entity:
    """A name, and how many memories have it."""

    name: str
    count: int


@dataclass(frozen=True, slots=True)
class Together:
    """Two names that the same memories have, and how many memories that are."""

    first: str
    second: str
    count: int


@dataclass(frozen=True, slots=True)
class Entities:
    """The names of a bank, the most frequent first, and the pairs among them that stand together most often.

    `counted` is how many memories were read for it, the newest; `None` where the server has counted all.
    """

    names: tuple[Entity, ...] = ()
    pairs: tuple[Together, ...] = ()
    counted: int | None = None


def counted(memories: Iterable[Sequence[str]], limit: int) -> Entities:
    """The `limit` most frequent names, from the names of each memory."""
    each = [tuple(dict.fromkeys(names)) for names in memories]
    found = Counter(name for names in each for name in names)
    shown = sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))[:limit]
    wanted = {name for name, _ in shown}
    pairs: Counter[tuple[str, str]] = Counter()
    for names in each:
        pairs.update(combinations(sorted(wanted.intersection(names)), 2))
    linked = tuple(Together(*pair, count) for pair, count in pairs.items())
    return Entities(tuple(Entity(*pair) for pair in shown), strongest(linked, limit), len(each))


def strongest(pairs: Iterable[Together], limit: int) -> tuple[Together, ...]:
    """The pairs that stand together most often, for so many names."""
    return tuple(sorted(pairs, key=lambda each: (-each.count, each.first, each.second))[: limit * PAIRS_EACH])
