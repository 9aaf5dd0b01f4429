"""Memories that a question doesn't match, and that speak of the same as the best of those that it matches.

"Who is my doctor?" finds "Dr Hollis, my doctor, will see me on Monday". What came of that was told in other words: "Dr Hollis is
closing his practice, we are with Dr Anand now". Both hold a word that few others do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from lorebank._database.driver import Row
from lorebank._mnemopi.rows import USERS, name_words
from lorebank._mnemopi.search.corpus import rarity
from lorebank._mnemopi.search.everyday import everyday
from lorebank._mnemopi.search.kinds import unmarked
from lorebank._mnemopi.search.question import Question
from lorebank._mnemopi.search.traits import changed

BEST = 2
"""The user's best match is looked for among so many."""
WORDS = 8
"""Links are looked for by so many of its words ..."""
SHORTEST = 4
"""... of so many characters at least ..."""
HELD_BY = 6
"""... that so many memories hold at most, ..."""
READ = 64
"""Their holders are read up to so many, among which there may be observations."""
LINKED = 1.0
"""... and that are together as rare as one that just two hold."""
FIRST = 2.0
"""How rare they are together where the linked memory goes first."""


@dataclass(frozen=True, slots=True)
class Link:
    """The keys of a memory and of the match that it is linked to, and whether it goes before that (or else right behind)."""

    key: int
    anchor: int
    first: bool


@dataclass(frozen=True, slots=True)
class Reader:
    """How the banks are read: the newest holders of each word (so many at most), and the rows of keys."""

    size: int
    holders: Callable[[Sequence[str], int], Sequence[NDArray[np.int64]]]
    rows: Callable[[list[int]], list[Row]]


def links(question: Question, matched: Sequence[Row], reader: Reader) -> tuple[list[Row], tuple[Link, ...]]:
    """What is linked to the best match of a question about how things are or were: the rows that are not `matched`, and the
    links.
    """
    anchor = _anchor(question, matched)
    if anchor is None:
        return [], ()
    gained = _sharing(question, anchor, reader)
    known = {row[0] for row in matched}
    beyond = reader.rows([key for key in gained if key not in known]) if gained.keys() - known else []
    told = [row for row in (*matched, *beyond) if row[0] in gained and _tells(question, anchor, row)]
    found = tuple(Link(row[0], anchor[0], _goes_first(question, gained[row[0]])) for row in told)
    return [row for row in told if row[0] not in known], found


def _anchor(question: Question, matched: Sequence[Row]) -> Row | None:
    """The best match, where it is the user's."""
    if not (question.present or question.former):
        return None
    return next((row for row in matched[:BEST] if (names := name_words(row[4])) and names[0] in USERS), None)


def _sharing(question: Question, anchor: Row, reader: Reader) -> dict[int, float]:
    """The keys of the memories that share rare words with one, and how rare these are together."""
    told = [word for word in dict.fromkeys(unmarked(anchor[9]).split()) if len(word) >= SHORTEST]
    words = [word for word in told if word not in question.terms and word not in everyday()][:WORDS]
    gained: dict[int, float] = {}
    for keys in reader.holders(words, READ):
        if 1 < len(keys) <= HELD_BY:
            for key in cast("list[int]", keys.tolist()):
                gained[key] = gained.get(key, 0.0) + rarity(reader.size, len(keys)) / rarity(reader.size, 2)
    return {key: gain for key, gain in gained.items() if gain >= LINKED and key != anchor[0]}


def _tells(question: Question, anchor: Row, other: Row) -> bool:
    """Whether the other one may tell what became of it, or what was before it where that is asked for."""
    if other[4] != anchor[4]:
        return False
    return bool(other[5] < anchor[5] if question.former else other[5] > anchor[5] and changed(other[6]))


def _goes_first(question: Question, gain: float) -> bool:
    return bool(question.ended) or (question.present and gain >= FIRST)
