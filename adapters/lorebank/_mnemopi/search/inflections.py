"""Words of other languages than English by the stems of their own: "trabajo" and "trabajaba", "wohnt" and "gewohnt".

All terms are English stems, whatever the language of a text, so that names and identifiers meet across languages. A memory in
German, Spanish or French is indexed by the stems of that language as well ("_es_trabaj"), and a question in that language
looks for them, too. Snowball knows endings by their accents, so words are taken as they were written.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from lorebank._mnemopi.search.compounds import parts_of
from lorebank._mnemopi.search.function_words import ENGLISH, OTHERS, languages_of
from lorebank._mnemopi.search.kinds import MARK, OF_A_FORM, OF_A_KIND, Kin
from lorebank._mnemopi.search.terms import MAX_TERM, normalize, stem, stem_in

_WORD = re.compile(rf"[^\W\d_]{{3,{MAX_TERM}}}")
"""A longer run is taken piece by piece: it is no word."""
_GERMAN_VERB = re.compile(r"ge(\w{3,}?)(?:e?t|en)|(\w{4,}?)t")
"""Participles and third persons, which the stemmer leaves as they are."""


def inflected(text: str, spoken: Collection[str]) -> list[str]:
    """The stems by which a text with these words is indexed beside its terms; none where it is English."""
    languages = languages_of(spoken)
    words = dict.fromkeys(_WORD.findall(text.lower())) if languages else ()
    return list(dict.fromkeys(own for language in languages for word in words for own, _ in _stems(language, word)))


def forms_asked(text: str, spoken: Collection[str], asked: Collection[str]) -> list[Kin]:
    """What a query's terms stand for in the languages that it may be in: their forms, and the parts of compounds."""
    languages = languages_of(spoken)
    words = dict.fromkeys(_WORD.findall(text.lower())) if languages else ()
    wanted = [(term, word) for word in words if (term := stem(normalize(word))) in asked]
    found: dict[tuple[str, str], list[str]] = {}
    for language in languages:
        for term, word in wanted:
            for own, part in _stems(language, word):
                found.setdefault((term, own if part else ""), []).append(own)
    return [Kin(term, tuple(dict.fromkeys(every)), OF_A_KIND if part else OF_A_FORM) for (term, part), every in found.items()]


def _stems(language: str, word: str) -> Iterator[tuple[str, bool]]:
    """The stem of a word of meaning in this language; in German also the root of a verb, and the parts of a compound, which are
    told apart.
    """
    plain = normalize(word)
    if plain in OTHERS[language] or plain in ENGLISH or not plain.isalpha():  # one sign may stand for several words
        return
    mark = f"{MARK}{language}_"
    yield mark + normalize(stem_in(language, word)), False
    if language == "de":
        if verb := _GERMAN_VERB.fullmatch(word):
            yield mark + normalize(stem_in(language, f"{verb[1] or verb[2]}e")), False
        yield from ((mark + part, True) for part in parts_of(word))
