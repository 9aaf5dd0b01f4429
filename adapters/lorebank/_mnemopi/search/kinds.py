"""Words that stand for others: a question asks for the kind ("pets"), a memory tells of one of it ("my cat").

`kinds.txt` has a line for each kind: the words that a question uses, a bar, and words that tell of such a thing. A memory is
indexed by the kinds that it tells of, too, so that a question reads one list for a kind, however many words tell of it.
`forms.txt` has lines of words that are forms of one word, where a stemmer does not bring them together. Both are written for
lorebank: everyday talk in English, and what people tell an assistant about themselves in German, Spanish and French.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from lorebank._mnemopi.search.terms import terms

OF_A_KIND = 0.5
"""A memory that tells of one of a kind is half as much evidence as one that names the kind (measured: 0.3 to 0.7 are alike)."""
OF_A_FORM = 0.8
MARK = "_"
"""What begins a kind, or a stem of another language (`inflections`), behind the terms of a memory; no term begins so."""


@dataclass(frozen=True, slots=True)
class Kin:
    """What a query's term stands for: terms, kinds or stems, and how much one of them counts beside the term itself."""

    term: str
    words: tuple[str, ...]
    share: float


@dataclass(frozen=True, slots=True)
class _Kinds:
    """The kinds, each by the first word of its line: those that a term asks for, and those that it tells of."""

    asked: Mapping[str, Sequence[str]]
    told: Mapping[str, Sequence[str]]


def kin_of(asked: Sequence[str]) -> list[Kin]:
    """What the terms of a query stand for; a term of the query itself is no other one's form."""
    own, forms, kinds = frozenset(asked), _forms(), _kinds().asked
    alike = [Kin(term, tuple(sorted(forms[term] - own)), OF_A_FORM) for term in asked if not own.issuperset(forms.get(term, ()))]
    return alike + [Kin(term, tuple(kinds[term]), OF_A_KIND) for term in asked if term in kinds]


def kinds_told(found: Iterable[str]) -> list[str]:
    """The kinds that a text with these terms tells of, each once."""
    told = _kinds().told
    return list(dict.fromkeys(kind for term in found if term in told for kind in told[term]))


def count_terms(found: str) -> int:
    """How many terms a memory has, what is marked behind them aside."""
    return found.count(" ") - found.count(f" {MARK}") + 1 if found else 0


def unmarked(found: str) -> str:
    """The terms of a memory, without what is marked behind them."""
    return found.partition(f" {MARK}")[0]


@cache
def _forms() -> Mapping[str, frozenset[str]]:
    found = dict[str, frozenset[str]]()
    for line in _lines("forms.txt"):
        alike = frozenset(terms(line))
        found |= {each: found.get(each, frozenset()) | alike - {each} for each in alike}
    return found


@cache
def _kinds() -> _Kinds:
    asked, told = dict[str, list[str]](), dict[str, list[str]]()
    for line in _lines("kinds.txt"):
        before, _, behind = line.partition("|")
        names = list(dict.fromkeys(terms(before)))
        for found, part in ((asked, names), (told, dict.fromkeys(terms(behind)))):
            for term in part:
                found.setdefault(term, []).append(MARK + names[0])
    return _Kinds(asked, told)


def _lines(name: str) -> Iterator[str]:
    text = (files("lorebank._mnemopi.search") / name).read_text(encoding="utf-8")
    return (line for line in text.splitlines() if line.strip())
