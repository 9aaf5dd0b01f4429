"""Words that stand for others: a question asks for the kind ("pets"), a memory tells of one of it ("my cat").

`kinds.txt` has a line for each kind: the words that a question uses, a bar, and words that tell of such a thing. `forms.txt`
has lines of words that are forms of one word, where a stemmer does not bring them together. Both are written for lorebank:
everyday talk in English, and what people tell an assistant about themselves in German, Spanish and French.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from lorebank._mnemopi.search.terms import terms

OF_A_KIND = 0.5
"""A memory that tells of one of a kind is half as much evidence as one that names the kind (measured: 0.3 to 0.7 are alike)."""
OF_A_FORM = 0.8


@dataclass(frozen=True, slots=True)
class Kin:
    """What a query's term stands for: the terms, and how much one of them counts beside the term itself."""

    term: str
    words: tuple[str, ...]
    share: float


def kin_of(asked: Sequence[str]) -> list[Kin]:
    """What the terms of a query stand for; a term of the query itself is no one's kin."""
    own = frozenset(asked)
    every = [(term, known.get(term, frozenset()) - own, share) for term in asked for known, share in _tables()]
    return [Kin(term, tuple(sorted(words)), share) for term, words, share in every if words]


@cache
def _tables() -> tuple[tuple[dict[str, frozenset[str]], float], ...]:
    """For each term the terms that it stands for; made when the first question is asked."""
    forms, kinds = dict[str, frozenset[str]](), dict[str, frozenset[str]]()
    for line in _lines("forms.txt"):
        alike = frozenset(terms(line))
        forms |= {each: forms.get(each, frozenset()) | alike - {each} for each in alike}
    for line in _lines("kinds.txt"):
        asked, _, told = line.partition("|")
        members = frozenset(terms(told))
        kinds |= {each: kinds.get(each, frozenset()) | members - {each} for each in terms(asked)}
    return (forms, OF_A_FORM), (kinds, OF_A_KIND)


def _lines(name: str) -> Iterator[str]:
    text = (files("lorebank._mnemopi.search") / name).read_text(encoding="utf-8")
    return (line for line in text.splitlines() if line.strip())
