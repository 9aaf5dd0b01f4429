"""What a query asks: its terms, the words that may be names, the time it names, whether it asks for a time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from lorebank._mnemopi.search.function_words import ONESELF, OURS
from lorebank._mnemopi.search.periods import Period, asks_when, find_period
from lorebank._mnemopi.search.terms import query_terms, words

MAX_TERMS = 64
"""Distinct terms of a long query that are searched: the first half and the last half of them."""

_USER = ONESELF | {"user"}
"""Who an agent speaks of in a query ("the user's job") is who says "I" in the memories."""
_TITLES = frozenset(
    """
    book books novel novels movie movies film films show shows series song songs album albums band bands game games poem poems
    title titles buch bucher roman romane filme serie serien lied lieder spiel spiele titel libro libros novela pelicula peliculas
    cancion canciones juego juegos titulo livre livres chanson chansons jeu jeux titre
    """.split()  # noqa: SIM905 - a word list reads better as one text
)
_TITLES_CJK = re.compile("本|小説|映画|番組|曲|歌|ゲーム|书|电影|歌曲")
_FORMER = re.compile(
    r"""\b(?:before|previous(?:ly)?|former(?:ly)?|used\ to|earlier|original(?:ly)?|at\ first|in\ the\ beginning|initially|
    (?<!how\ )old|first(?!\ name)|back\ then|prior|at\ the\ start|until|did\ (?:i|we)|was|were|had|
    fr[uü]her|vorher|urspr[uü]nglich|zuerst|damals|anfangs|alte[nrs]?|war|hatte|wohnte|
    antes|anterior|al\ principio|primero|era|ten[ií]a|viv[ií]a|
    avant|auparavant|ancien(?:ne)?|au\ d[eé]but|[eé]tait)\b|
    以前|前は|最初|昔|かつて|もともと""",
    re.IGNORECASE | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Question:
    """A parsed query. `own` says that the speaker asks about themselves, or an agent about its user, `former` that what was
    before is asked for, `asks_title` that it asks for works, which have titles.
    """

    text: str
    terms: tuple[str, ...]
    words: frozenset[str]
    period: Period | None
    asks_when: bool
    own: bool
    former: bool
    asks_title: bool

    @property
    def present(self) -> bool:
        """Whether it asks how things are now."""
        return not (self.former or self.asks_when or self.period)

    @property
    def ours(self) -> bool:
        """Whether somebody asks about themselves, or about them and others."""
        return self.own or not OURS.isdisjoint(self.words)


def parse_question(query: str, anchor: datetime) -> Question:
    """The question in a query, seen from `anchor` (an aware datetime in the user's zone)."""
    found = query_terms(query)
    if len(found) > MAX_TERMS:
        found = found[: MAX_TERMS // 2] + found[-MAX_TERMS // 2 :]
    spoken = frozenset(words(query))
    return Question(
        query,
        tuple(found),
        spoken,
        find_period(query, anchor),
        asks_when(query),
        not _USER.isdisjoint(spoken),
        _FORMER.search(query) is not None,
        not _TITLES.isdisjoint(spoken) or (not query.isascii() and _TITLES_CJK.search(query) is not None),
    )
