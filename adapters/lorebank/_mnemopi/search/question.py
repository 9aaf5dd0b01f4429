"""What a query asks: its terms, the words that may be names, the time it names, whether it asks for a time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lorebank._mnemopi.search.periods import Period, asks_when, find_period
from lorebank._mnemopi.search.terms import query_terms, words

MAX_TERMS = 64
"""Distinct terms of a long query that are searched: the first half and the last half of them."""

_FIRST_PERSON = frozenset("i me my mine myself ich mich mir mein meine meinen yo mi mí je moi mon ma".split())  # noqa: SIM905


@dataclass(frozen=True, slots=True)
class Question:
    """A parsed query. `own` says that the speaker asks about themselves."""

    text: str
    terms: tuple[str, ...]
    words: frozenset[str]
    period: Period | None
    asks_when: bool
    own: bool


def parse_question(query: str, anchor: datetime) -> Question:
    """The question in a query, seen from `anchor` (an aware datetime in the user's zone)."""
    found = query_terms(query)
    if len(found) > MAX_TERMS:
        found = found[: MAX_TERMS // 2] + found[-MAX_TERMS // 2 :]
    spoken = frozenset(words(query))
    return Question(query, tuple(found), spoken, find_period(query, anchor), asks_when(query), bool(spoken & _FIRST_PERSON))
