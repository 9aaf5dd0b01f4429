"""What a query asks: its terms, the words that may be names, the time it names, whether it asks for a time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from lorebank._mnemopi.search.function_words import ONESELF, OURS, OWN_CJK, THE_USER, YOURS, language_of
from lorebank._mnemopi.search.periods import Period, asks_when, find_period
from lorebank._mnemopi.search.requests import matter
from lorebank._mnemopi.search.terms import query_terms, terms, words

MAX_TERMS = 64
"""Distinct terms of a long query that are searched: the first half and the last half of them."""

_OWN = ONESELF | THE_USER
USER_TERMS = frozenset(terms(" ".join(THE_USER)))
"""The terms of a query that only say that it is about the user."""
FORMER_TERMS = frozenset(
    terms(
        """
        previous former formerly earlier original originally initially first old ursprünglich alt alte alten zuerst anterior
        primero ancien ancienne
        """
    )
)
"""The terms of a query that only say that it is about what was."""
_ANYTHING = USER_TERMS.union(
    terms(
        """
        profile summary overview background info information detail details facts anything everything history memory memories
        profil zusammenfassung uberblick hintergrund informationen alles perfil resumen informacion todo resume infos tout
        プロフィール 概要
        """
    )
)
_TITLES = frozenset(
    """
    book books novel novels movie movies film films show shows series song songs album albums band bands game games poem poems
    title titles buch bucher roman romane filme serie serien lied lieder spiel spiele titel libro libros novela pelicula peliculas
    cancion canciones juego juegos titulo livre livres chanson chansons jeu jeux titre
    """.split()  # noqa: SIM905 - a word list reads better as one text
)
_TITLES_CJK = re.compile("本|小説|映画|番組|曲|歌|ゲーム|书|电影|歌曲")
_ASKS_NUMBER = re.compile(
    r"""\b(?:how\ (?:many|much|old|long|far|often|tall|big|late|early|fast|high|heavy|large)|
    (?:what|which)\ (?:time|share|size|age|year|amount|floor|room)|number|percentage|price|costs?|code|score|phone|pin|salary|
    budget|rent|weight?|height|booking|serial|invoice|plate|policy|ticket|account|id|port|version|
    wie\ ?(?:viele?|lange?|oft|alt|weit|gro(?:ß|ss)|hoch|sp[äa]t)|nummer|preis|kostet|prozent|uhrzeit|
    cu[áa]nt[oa]s?|n[úu]mero|precio|c[óo]digo|porcentaje|qu[ée]\ hora|
    combien|num[ée]ro|prix|pourcentage|quelle\ heure)\b|
    何(?:人|個|回|時|歳|円|年|本|冊|キロ|枚|番|分|度|階)|いくら|いくつ|番号|ど(?:れ|の)くらい""",
    re.IGNORECASE | re.VERBOSE,
)
_FORMER = re.compile(
    r"""\b(?:previous(?:ly)?|former(?:ly)?|used\ to|earlier|original(?:ly)?|at\ first|in\ the\ beginning|initially|
    (?<!how\ )old|first(?!\ name)|back\ then|prior|at\ the\ start|did\ (?:i|we)|were|had|
    fr[uü]her|vorher|davor|zuvor|urspr[uü]nglich|zuerst|damals|anfangs|alte[nrs]?|war|hatten?|wohnten?|lebten?|
    arbeiteten?|
    anterior|al\ principio|primero|era|(?:ten|viv|hac|com|beb|deb|conduc|prefer)[ií]a(?:mos|n)?|
    (?:trabaj|us|llam|est|tom|pag|jug|estudi)[aá]ba(?:mos|n)?|
    auparavant|ancien(?:ne)?|au\ d[eé]but|[eé]t(?:ais|ait|ions)|
    (?:av|habit|viv|travaill|utilis|jou|pay|mange|buv|pren|dev|fais|conduis|appel)(?:ais|ait|ions))\b|
    以前|(?<![名午手])前は|最初|昔|かつて|もともと""",
    re.IGNORECASE | re.VERBOSE,
)
_WAS = re.compile(r"\bwas\b", re.IGNORECASE)
"""In German it asks, and tells nothing of the past."""
_BEFORE = re.compile(r"\b(?:before|bevor|antes|avant)\b", re.IGNORECASE)
_AHEAD = re.compile(
    r"\b(?:do|does|should|must|need|can|will|am|is|are|muss|m[uü]ssen|soll|kann|wird|ist|sind|tengo que|debo|puedo|hay que|"
    r"dois|peux|faut)\b",
    re.IGNORECASE,
)
"""The present: what is still to be done before something, or when something is."""
_ENDED = re.compile(
    r"(?i:\b(?:before|prior to|bevor|avant(?: de| que)?|antes de(?: que)?) ([^,;?]+))|"
    r"\b[Vv]or(?! allem\b)(?! (?:\w+ )?(?:Tag|Woche|Monat|Jahr|Stunde|Minute))(?: [a-zäöü]+){0,2} ((?:[A-ZÄÖÜ][\w-]+ ?)+)"
)
"""What ended that which is asked for: "where did I live before the move?"."""


@dataclass(frozen=True, slots=True)
class Question:
    """A parsed query. `own` says that the speaker asks about themselves, or an agent about its user, `former` that what was
    before is asked for, `asks_title` that it asks for works, which have titles, `asks_number` for how many or which number.
    `ended` are the terms of what came next, where it asks for what was before that, `matter` whose matters it asks for
    (`requests`, the module).
    """

    text: str
    terms: tuple[str, ...]
    words: frozenset[str]
    period: Period | None
    asks_when: bool
    own: bool
    former: bool
    asks_title: bool
    asks_number: bool
    ended: frozenset[str]
    matter: float

    @property
    def present(self) -> bool:
        """Whether it asks how things are now, or when something is to be."""
        return not (self.former or self.period) and (not self.asks_when or _AHEAD.search(self.text) is not None)

    @property
    def anything(self) -> bool:
        """Whether it asks for what is known of the user, and for nothing in particular."""
        return self.own and _ANYTHING.issuperset(self.terms)

    @property
    def ours(self) -> bool:
        """Whether somebody asks about themselves, or about them and others."""
        return self.own or not OURS.isdisjoint(self.words)

    @property
    def yours(self) -> bool:
        """Whether the assistant is asked what it said or did."""
        return not YOURS.isdisjoint(self.words)


def parse_question(query: str, anchor: datetime) -> Question:
    """The question in a query, seen from `anchor` (an aware datetime in the user's zone)."""
    found = query_terms(query)
    if len(found) > MAX_TERMS:
        found = found[: MAX_TERMS // 2] + found[-MAX_TERMS // 2 :]
    told = words(query)
    spoken = frozenset(told)
    period = find_period(query, anchor)
    former, ended = _former(query, told, period)
    return Question(
        query,
        tuple(found),
        spoken,
        period,
        asks_when(query),
        not _OWN.isdisjoint(spoken) or (not query.isascii() and OWN_CJK.search(query) is not None),
        former,
        not _TITLES.isdisjoint(spoken) or (not query.isascii() and _TITLES_CJK.search(query) is not None),
        _ASKS_NUMBER.search(query) is not None,
        ended,
        matter(query, told),
    )


def _former(query: str, told: Sequence[str], period: Period | None) -> tuple[bool, frozenset[str]]:
    """Whether a query asks for what was, and the terms of what ended that."""
    former = _FORMER.search(query) is not None or (_WAS.search(query) is not None and language_of(told) != "de")
    if not former and _AHEAD.search(query) is not None:
        return False, frozenset()
    ended = _ENDED.search(query) if period is None else None
    next_came = frozenset(terms(ended[1] or ended[2])) if ended else frozenset[str]()
    return former or ended is not None or _BEFORE.search(query) is not None, next_came
