"""What holds now goes before what held before: by the facts that memories state, and by time where they state none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorebank._mnemopi.facts.truth import Answers

OVER = 0.001
"""How far above a memory the one stands that goes before it."""
LEADING = 8
"""Memories that are compared by time, the best."""
AS_MUCH = 0.8
"""A newer memory goes first where it holds this share of what an older one holds of the query ..."""
AS_WELL = 0.7
"""... and matches it this well."""

Column = NDArray[np.float64]
Places = NDArray[np.intp]


def settled(answers: Answers, keys: Sequence[int], scores: Column) -> Column:
    """The scores, with each statement that the question asks for lifted over those that say otherwise."""
    lifted = scores.copy()
    places = {key: place for place, key in enumerate(keys)} if answers.pairs else {}
    for first, second in answers.pairs:
        if first in places and second in places:
            lifted[places[first]] = max(lifted[places[first]], lifted[places[second]] + OVER)
    return lifted


def newest(
    columns: Sequence[tuple[Any, ...]],
    lexical: Column,
    shares: Sequence[tuple[Places, float]],
    scores: Column,
    telling: frozenset[str | None],
) -> Column:
    """The scores, with newer memories of those who are `telling` lifted over their older ones that match the query about as well.

    That is what somebody wants who asks how things are; `shares` are, term by term, who holds it and how much it counts.
    """
    speakers, times = columns[4], columns[5]
    first: list[int] = np.argsort(-scores, kind="stable")[:LEADING].tolist()
    leading = [place for place in first if speakers[place] in telling]
    holding = [(frozenset(places.tolist()), share) for places, share in shares]
    held: Mapping[int, frozenset[int]] = {
        place: frozenset(term for term, (holders, _) in enumerate(holding) if place in holders) for place in leading
    }
    lifted = scores.copy()
    for later in sorted(leading, key=lambda place: times[place]):
        for earlier in leading:
            before = times[earlier] < times[later] and speakers[earlier] == speakers[later] and lifted[earlier] >= lifted[later]
            if before and held[earlier] and lexical[later] >= AS_WELL * lexical[earlier]:
                whole = sum(holding[term][1] for term in held[earlier])
                if sum(holding[term][1] for term in held[earlier] & held[later]) >= AS_MUCH * whole:
                    lifted[later] = lifted[earlier] + OVER
    return lifted
