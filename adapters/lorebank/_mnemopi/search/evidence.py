"""How much of a question is answered by what was found, whatever the order: where it is too little, nothing is returned."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from lorebank._mnemopi.rows import name_words
from lorebank._mnemopi.search.candidates import Pool
from lorebank._mnemopi.search.corpus import SMALL, Corpus, rarity
from lorebank._mnemopi.search.everyday import EVIDENCE_SHARE, counted
from lorebank._mnemopi.search.homes import Column, Homes, Places
from lorebank._mnemopi.search.question import FORMER_TERMS, USER_TERMS, Question
from lorebank._mnemopi.search.requests import OWN
from lorebank._mnemopi.search.terms import stem

RELATED_HELD = 0.75
"""How much of its weight what a term stands for counts as evidence."""
ANSWERED_TERMS = 4
"""A question counts as answered when it is matched as much as this many rare terms: long ones can't be matched whole."""
KNOWN_TERMS = 10
"""It counts as known when so much of it as this many rare terms was ever spoken of."""


def asked_for(pool: Pool, speakers: Sequence[str | None], question: Question) -> Mapping[str, float]:
    """The weights of the question's terms but for who it is about, and that it is about what was, where it asks for more: neither
    is evidence that a memory answers.
    """
    if question.anything and not any(map(len, pool.holders.values())):
        return {}
    people = USER_TERMS | _names(speakers)
    asked = {term: weight for term, weight in pool.weights.items() if term not in people}
    if question.former:
        asked = {term: weight for term, weight in asked.items() if term not in FORMER_TERMS} or asked
    return counted(asked, EVIDENCE_SHARE)


def evidence(pool: Pool, held: Column, in_session: Column, asked: Mapping[str, float], corpus: Corpus) -> float:
    """How much of what is `asked` is answered, by weight (0 to 1): the mean of what the best candidate has `held` of it and the
    best session, times the root of what the banks know of it at all.
    """
    total, one = sum(asked.values()), rarity(max(corpus.size, SMALL), 1)
    if not total:
        return 1.0
    related = {each.term for each in pool.related}
    known = sum(weight for term, weight in asked.items() if len(pool.holders[term]) or term in related)
    enough = min(total, ANSWERED_TERMS * one)
    best = [min(1.0, float(each.max(initial=0.0)) / enough) for each in (held, np.maximum(held, in_session))]
    return (sum(best) / 2) * math.sqrt(min(1.0, known / min(total, KNOWN_TERMS * one)))


def whose(pool: Pool, speakers: Sequence[str | None], question: Question) -> float:
    """What evidence counts times: a question about somebody needs less of it, a general request more (`requests`)."""
    named = not (_names(speakers) - USER_TERMS).isdisjoint(pool.weights)
    return OWN if named else question.matter


def _names(speakers: Sequence[str | None]) -> frozenset[str]:
    """The terms of the speakers' names."""
    return frozenset(stem(word) for speaker in set(speakers) for word in name_words(speaker))


def held_in_session(
    homes: Homes, pool: Pool, holding: Mapping[str, Places], related: Sequence[Places], asked: Mapping[str, float]
) -> Column:
    """The weight of the asked terms that each candidate's session holds, by themselves or by what they stand for."""
    kin: dict[str, list[Places]] = {}
    for each, places in zip(pool.related, related, strict=True):
        kin.setdefault(each.term, []).append(places)
    return homes.together((np.concatenate([holding[term], *kin.get(term, ())]), weight) for term, weight in asked.items())
