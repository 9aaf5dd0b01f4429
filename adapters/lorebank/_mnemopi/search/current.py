"""What holds now goes before what held before: by the facts that memories state, by time, and by links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lorebank._mnemopi.facts.truth import Answers
from lorebank._mnemopi.search.corpus import SMALL, rarity
from lorebank._mnemopi.search.everyday import everyday
from lorebank._mnemopi.search.homes import Column, Places
from lorebank._mnemopi.search.kinds import MARK
from lorebank._mnemopi.search.linked import Link
from lorebank._mnemopi.search.traits import changed

OVER = 0.001
"""How far above a memory the one stands that goes before it."""
LEADING = 8
"""Memories that are compared by time, the best."""
AS_MUCH = 0.8
"""A newer memory goes first where it holds this share of what an older one holds of the query ..."""
AS_WELL = 0.7
"""... and matches it this well ..."""
LINKED = 2.5
"""... or where the words that both share are this often as rare as one that just these two hold, ..."""
AT_ALL = 0.5
"""... and it matches the query at all, this well beside the older one."""
CHANGE_LINKED = 1.2
CHANGE_AT_ALL = 0.3
"""The same where the newer one has words of change (measured: without these, single facts lose their first places)."""
CHANGE_KIND = 0.5
"""How much a kind that both tell of counts there beside a word (a Golf, a Tesla); elsewhere it is no sign."""


@dataclass(frozen=True, slots=True)
class Matched:
    """How well each candidate matches the query, and term by term who holds it and how much that counts.

    A query may name what `ended` that which it asks for ("before the move"): the terms of that have no share.
    """

    lexical: Column
    shares: Sequence[tuple[Places, float]]
    ended: bool


def settled(answers: Answers, keys: Sequence[int], scores: Column) -> Column:
    """The scores, with each statement that the question asks for lifted over those that say otherwise."""
    lifted = scores.copy()
    places = {key: place for place, key in enumerate(keys)} if answers.pairs else {}
    for first, second in answers.pairs:
        if first in places and second in places:
            lifted[places[first]] = max(lifted[places[first]], lifted[places[second]] + OVER)
    return lifted


def followed(links: Sequence[Link], keys: Sequence[int], scores: Column) -> Column:
    """The scores, with each memory that is linked to a better match beside that one."""
    lifted = scores.copy()
    places = {key: place for place, key in enumerate(keys)} if links else {}
    for link in links:
        one, other = places[link.key], places[link.anchor]
        lifted[one] = max(lifted[one], lifted[other] + (OVER if link.first else -OVER))
    return lifted


def by_time(
    columns: Sequence[tuple[Any, ...]], matched: Matched, scores: Column, telling: frozenset[str | None], former: bool
) -> Column:
    """The scores, with newer memories of those who are `telling` lifted over older ones of theirs about the same.

    That is what somebody wants who asks how things are; who asks how they were (`former`) gets the older ones first.
    """
    speakers, times = columns[4], columns[5]
    first: list[int] = np.argsort(-scores, kind="stable")[:LEADING].tolist()
    leading = [place for place in first if speakers[place] in telling]
    same = _Same(columns, matched, leading)
    lifted = scores.copy()
    for one in sorted(leading, key=lambda place: times[place], reverse=former):
        for other in leading:
            late = times[one] < times[other] if former else times[one] > times[other]
            below = late and speakers[one] == speakers[other] and lifted[other] >= lifted[one]
            if below and (same.former(one, other) if former else same.current(one, other)):
                lifted[one] = lifted[other] + OVER
    return lifted


class _Same:
    """Whether two of the leading memories are about the same."""

    def __init__(self, columns: Sequence[tuple[Any, ...]], matched: Matched, leading: Sequence[int]) -> None:
        self._lexical, self._ended, self._traits, self._texts = matched.lexical, matched.ended, columns[6], columns[9]
        holding = [(frozenset(places.tolist()), share) for places, share in matched.shares]
        self._held = {place: {term: share for term, (who, share) in enumerate(holding) if place in who} for place in leading}
        self._words = {place: frozenset(self._texts[place].split()) - everyday() for place in leading}
        self._rarity = dict[str, float]()

    def current(self, later: int, earlier: int) -> bool:
        """Whether the later one answers in the earlier one's place."""
        well = self._lexical[later] >= AS_WELL * self._lexical[earlier]
        return (well and bool(self._held[earlier]) and self._holds(later, earlier)) or self._linked(later, earlier, later)

    def former(self, earlier: int, later: int) -> bool:
        """Whether the earlier one tells what was before the later one."""
        return (self._ended and self._holds(earlier, later)) or self._linked(earlier, later, later)

    def _holds(self, one: int, other: int) -> bool:
        """Whether one holds most of what the other holds of the query."""
        held, others = self._held[one], self._held[other]
        enough = AS_MUCH * sum(others.values())
        return bool(held) and sum(share for term, share in others.items() if term in held) >= enough

    def _linked(self, one: int, other: int, later: int) -> bool:
        """Whether one shares so rare words with the other that it speaks of the same thing, and matches the query, too."""
        told = changed(self._traits[later])
        if self._lexical[one] < (CHANGE_AT_ALL if told else AT_ALL) * self._lexical[other]:
            return False
        both = self._words[one] & self._words[other]
        kind = CHANGE_KIND if told else 0.0
        shared = sum(self._rare(word) * (kind if word[0] == MARK else 1.0) for word in both)
        return shared >= (CHANGE_LINKED if told else LINKED)

    def _rare(self, word: str) -> float:
        """How rare a word is among the candidates, beside one that two of them hold."""
        if word not in self._rarity:
            size = max(SMALL, len(self._texts))
            holders = sum(word in text and f" {word} " in f" {text} " for text in self._texts)
            self._rarity[word] = rarity(size, holders) / rarity(size, 2)
        return self._rarity[word]
