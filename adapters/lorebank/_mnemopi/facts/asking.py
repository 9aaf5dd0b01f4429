"""Which facts a question asks for: their relations, and whose they are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from lorebank._mnemopi.facts.rules import USER
from lorebank._mnemopi.search.question import USER_TERMS, Question
from lorebank._mnemopi.search.terms import stem, words

MOST_TERMS = 8
"""Terms of a question that may be what a fact is about: longer ones are stories."""
_CUES = {
    "home": "live living lives lived home address city town location residence reside based moved wohne wohnst wohnt lebe lebst "
    "wohnort stadt gewohnt gelebt adresse vivo vives vive ciudad direccion habite habites vis ville",
    "work": "work works working employer company job arbeite arbeitest arbeitgeber firma trabajo trabajas empresa travaille "
    "entreprise",
    "role": "job role title occupation profession work works position beruf stelle trabajo puesto metier poste living",
    "name": "name called heisse heisst llamo appelle",
    "age": "old age alt edad",
    "diet": "diet vegetarian vegan eat eats food meat ernahrung essen",
    "car": "car drive drives auto coche voiture",
}
_RELATIONS: dict[str, tuple[str, ...]] = {}
for _relation, _words in _CUES.items():
    for _term in dict.fromkeys(map(stem, _words.split())):
        _RELATIONS[_term] = (*_RELATIONS.get(_term, ()), _relation)
_MAINLY = 0.5
"""A question asks for where somebody lives, and the like, where so much of it is words for that, names not counted."""
_ABOUT_TERMS = ("likes {}", "prefers {}")
_OF_TERMS = ("is {}", "favourite {}", "use {}")
_NAME = re.compile(r"(?<!^)(?<![.!?] )\b[A-Z][a-z]+")


@dataclass(frozen=True, slots=True)
class Asked:
    """The facts that a question may ask for, and those that it mainly asks for. `named` says that it may be about somebody
    else than the user.
    """

    relations: tuple[str, ...]
    mainly: frozenset[str]
    words: frozenset[str]
    own: bool
    named: bool

    def about(self, subjects: Iterable[str]) -> frozenset[str]:
        """Of the subjects whose facts are there, those that are meant: who is named, else the user. What is nobody's in
        particular ("the deadline") is always meant.
        """
        there = set(subjects)
        named = {subject for subject in there if subject in self.words}
        if not named and (self.own or not self.named):
            named = there & {USER}
        return frozenset(named | (there & {""}))


def asked(question: Question) -> Asked:
    """What a question asks for."""
    names = frozenset(stem(word) for name in _NAME.findall(question.text) for word in words(name))
    rest = [term for term in question.terms if term not in names | USER_TERMS]
    cues = [term for term in rest if term in _RELATIONS]
    enough = len(cues) >= _MAINLY * len(rest)
    mainly = frozenset(relation for cue in cues for relation in _RELATIONS[cue] if enough)
    found = dict.fromkeys(sorted(mainly))
    about = [term.replace("colour", "color") for term in question.terms[:MOST_TERMS]]
    found |= dict.fromkeys(form.format(term) for form in _ABOUT_TERMS for term in about)
    pairs = (" ".join(sorted(pair)) for pair in combinations(about, 2))
    found |= dict.fromkeys(form.format(term) for term in (*about, *pairs) for form in _OF_TERMS)
    return Asked(tuple(found), mainly, question.words, question.own, bool(names))
