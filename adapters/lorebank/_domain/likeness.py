"""Which texts say nearly the same: a search that grows with their number, not with its square.

A text is what its search terms are, by number, and what must not differ at all: names, numbers, weekdays, months, negations. "The
meeting is on Tuesday" and "the meeting is on Thursday" are two statements however many words they share. Texts of which at
least `ALIKE` of all terms are common share one of their rarest few terms: only those that do are compared.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

ALIKE = 0.8
"""The share of common terms (of all terms of both) from which two texts say nearly the same."""
FEWEST_TERMS, MOST_TERMS = 3, 256
"""Distinct terms that a text must have to be compared ("I'm Emily" and "You too, Emily" have one), and how many, the first, are
looked at.
"""
ROUNDING = 1e-9
"""What is added to a share before it is cut to a whole number."""
COMPANY = 64
"""How many texts, the nearest before it, a text is compared with for one of its terms."""

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_FIXED = frozenset(
    """
    monday tuesday wednesday thursday friday saturday sunday january february march april may june july august september october
    november december not no never none nobody nothing neither nor without cannot kein keine keinen nicht nie niemals ohne
    montag dienstag mittwoch donnerstag freitag samstag sonntag nunca jamás jamas nada sin ni ne pas jamais sans aucun aucune
    """.split()  # noqa: SIM905 - a word list reads better as one text
)


@dataclass(frozen=True, slots=True)
class Sketch:
    """A text as it is compared: the numbers of its distinct terms, and a mark of what must not differ."""

    terms: tuple[int, ...]
    fixed: int


@dataclass(slots=True)
class Sketcher:
    """Makes sketches that can be compared with each other."""

    terms: Callable[[str], Sequence[str]]
    _numbers: dict[str, int] = field(default_factory=dict[str, int])

    def sketch(self, text: str) -> Sketch:
        """The sketch of a text."""
        distinct = list(dict.fromkeys(self.terms(text)))[:MOST_TERMS]
        return Sketch(tuple(self._number(term) for term in distinct), hash(frozenset(self._fixed(text))))

    def _number(self, term: str) -> int:
        return self._numbers.setdefault(term, len(self._numbers))

    def _fixed(self, text: str) -> Iterator[str]:
        for word, plain in words_of(text):
            named = word[0].isupper() and bool(self.terms(word))  # a function word is no name
            if named or is_fixed(plain):
                yield plain.removesuffix("'s")


def words_of(text: str) -> Iterator[tuple[str, str]]:
    """Each word of a text as it stands there, and without case."""
    for word in _WORD.findall(text):
        yield word, word.casefold().replace("’", "'")


def is_fixed(plain: str) -> bool:
    """Whether a word (without case) must not differ: a number, a weekday, a month, a negation."""
    return plain in _FIXED or plain.endswith("n't") or any(map(str.isdigit, plain))


def groups(sketches: Sequence[Sketch]) -> Iterator[tuple[tuple[int, ...], float]]:
    """The places of sketches that are nearly the same, group by group, each with the least share that joined it."""
    parents = list(range(len(sketches)))
    least = [1.0] * len(sketches)

    def root(place: int) -> int:
        while parents[place] != place:
            parents[place] = place = parents[parents[place]]
        return place

    for one, other, share in _pairs(sketches):
        first, second = sorted((root(one), root(other)))
        least[first] = min(least[first], least[second], share)
        parents[second] = first
    members: dict[int, list[int]] = defaultdict(list)
    for place in range(len(sketches)):
        members[root(place)].append(place)
    for first, places in members.items():
        if len(places) > 1:
            yield tuple(places), least[first]


def _pairs(sketches: Sequence[Sketch]) -> Iterator[tuple[int, int, float]]:
    """Pairs that are nearly the same."""
    frequency = Counter(term for sketch in sketches for term in sketch.terms)
    before: dict[tuple[int, int], deque[int]] = defaultdict(lambda: deque(maxlen=COMPANY))
    for place, sketch in enumerate(sketches):
        if (size := len(sketch.terms)) < FEWEST_TERMS:
            continue
        own, met = frozenset(sketch.terms), set[int]()
        rarest = sorted(sketch.terms, key=lambda term: (frequency[term], term))[: 1 + int((1 - ALIKE) * size + ROUNDING)]
        for term in rarest:
            company = before[sketch.fixed, term]
            for other in company:
                if other not in met:
                    met.add(other)
                    share = _share(own, sketches[other].terms)
                    if share >= ALIKE:
                        yield other, place, share
            company.append(place)


def _share(own: frozenset[int], others: Sequence[int]) -> float:
    if min(len(own), len(others)) < ALIKE * max(len(own), len(others)):
        return 0.0
    common = sum(term in own for term in others)
    return common / (len(own) + len(others) - common)
