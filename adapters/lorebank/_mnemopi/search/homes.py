"""Where candidates stand: their sessions, and what stands beside them there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorebank._mnemopi.search.candidates import Keys

SESSION_BEST = 3

Column = NDArray[np.float64]
"""One number for each candidate of a pool."""
Places = NDArray[np.intp]
"""Places of candidates in a pool."""
_Step = tuple[Places, NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class Homes:
    """Where the candidates stand: each one's session by number (how many there are), its place in it (`order` sorts by both),
    and whether it has none.
    """

    session: Places
    count: int
    spot: Keys
    order: Places
    alone: NDArray[np.bool_]
    _steps: dict[int, _Step] = field(default_factory=dict[int, _Step])

    def beside(self, values: Column, step: int) -> Column:
        """For each candidate the value of the one so many places after it in its session; 0 where there is none."""
        at, there = self._steps.get(step) or self._stepped(step)
        return np.where(there, values[at], 0.0)

    def together(self, groups: Iterable[tuple[Places, float]]) -> Column:
        """For each candidate the sum of what its session has: each group of places gives its sessions a value once."""
        sums = np.zeros(self.count)
        for places, value in groups:
            here = np.zeros(self.count, np.bool_)
            here[self.session[places]] = True
            sums += here * value
        return np.where(self.alone, 0.0, sums[self.session])

    def _stepped(self, step: int) -> _Step:
        """The place of the one so many places after each candidate, and whether there is one."""
        ordered, wanted = self.spot[self.order], self.spot + step
        at = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
        self._steps[step] = found = self.order[at], (ordered[at] == wanted) & ~self.alone
        return found


def homes_of(columns: Sequence[tuple[Any, ...]]) -> Homes:
    """The homes of a pool with these columns."""
    homes = list(zip(columns[1], columns[2], strict=True))
    numbers = {home: number for number, home in enumerate(dict.fromkeys(homes))}
    session = np.array([numbers[home] for home in homes], np.intp)
    spot = (session.astype(np.int64) << 32) + np.array([each or 0 for each in columns[3]], np.int64)
    return Homes(session, len(numbers), spot, np.argsort(spot), np.array([each is None for each in columns[2]], np.bool_))


def best_of_session(homes: Homes, scores: Column) -> Column:
    """For each candidate, the mean of its session's best scores."""
    order = np.lexsort((-scores, homes.session))
    sessions = homes.session[order]
    starts = np.searchsorted(sessions, sessions)
    ranked = np.arange(len(sessions)) - starts
    sums = np.bincount(sessions, np.where(ranked < SESSION_BEST, scores[order], 0.0), homes.count)
    return sums[homes.session] / SESSION_BEST
