"""Which facts a question asks for: their relations, and whose they are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from lorebank._mnemopi.facts.rules import USER
from lorebank._mnemopi.search.question import Question

MOST_TERMS = 8
"""Terms of a question that may be what a fact is about: longer ones are stories."""
_CUES = {
    "home": "live living lives lived home address city town reside based moved wohne wohnst wohnt lebe lebst wohnort stadt "
    "adresse vivo vives vive ciudad direccion habite habites vis ville",
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
    for _word in _words.split():
        _RELATIONS[_word] = (*_RELATIONS.get(_word, ()), _relation)
_ABOUT_TERMS = ("likes {}", "prefers {}")
_OF_TERMS = ("is {}", "favourite {}", "use {}")
_NAME = re.compile(r"(?<!^)(?<![.!?] )\b[A-Z][a-z]+")


@dataclass(frozen=True, slots=True)
class Asked:
    """The facts that a question asks for. `named` says that it may be about somebody else than the user."""

    relations: tuple[str, ...]
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
    found = dict.fromkeys(relation for word in question.words for relation in _RELATIONS.get(word, ()))
    about = [term.replace("colour", "color") for term in question.terms[:MOST_TERMS]]
    found |= dict.fromkeys(form.format(term) for form in _ABOUT_TERMS for term in about)
    pairs = (" ".join(sorted(pair)) for pair in combinations(about, 2))
    found |= dict.fromkeys(form.format(term) for term in (*about, *pairs) for form in _OF_TERMS)
    named = _NAME.search(question.text) is not None
    return Asked(tuple(found), question.words, question.own, named)
