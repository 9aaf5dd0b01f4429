"""Whose matters a query asks for: those of the user, those of the world, or either.

"How do I boil an egg?" is asked of an assistant, not of a memory. Such a request finds a word of it in most banks, so what
matches has to match better before it counts as an answer. Words and forms are those of English, German, Spanish, French and
Japanese; other languages ask for either.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lorebank._mnemopi.search.function_words import FIRST_PERSON, OWN_CJK, THE_USER, YOURS

OWN, EITHER, GENERAL = 2.0, 1.0, 0.6
"""How much a match counts as evidence for a question about the user or somebody who speaks in the bank, for one that may be
about anything, and for a general request (measured on conversations of our own and on questions from elsewhere)."""

_IMPERSONAL = re.compile(
    r"""\bhow\ do\ (?:i|we)\b|\b(?:how|what|where|which|why|when|who)\b.{,12}?\ (?:can|could|should|would|must|may)\ (?:i|we)\b|
    \b(?:if|when)\ (?:i|we)\b|\b(?:kann|soll|muss|wenn)\ (?:ich|wir)\b|\bwie\ (?!hei)\w+e\ ich\b|
    \bk(?:annst|[öo]nn(?:te|test|en|ten))\ (?:du|sie|ihr)\ (?:mir|uns)\b|\b(?:me|nos)\ (?:puedes?|podr[ií]as?)\b|
    \b(?:puis|dois|peux)[\ -]je\b|\bje\ peux\b|\bpe(?:ux-tu|ut-on|uvez-vous)\ (?:me|nous)\b|
    \b(?:give|tell|show|help|teach|send|recommend|suggest|explain\ to|gib|sag|zeig|erkl[aä]re?|schreib|nenn|hilf|dis|donne|
    explique|aide)[\ -](?:me|mir|moi)\b""",
    re.IGNORECASE | re.VERBOSE,
)
"""First persons that say nothing of themselves."""
_OF_ONE = FIRST_PERSON | THE_USER
_OPENING = frozenset(
    """
    explain write translate convert calculate suggest recommend give list show help summarize summarise draft create make generate
    describe compare name fix rewrite proofread
    erklar erklare schreib schreibe ubersetz ubersetze nenn nenne gib empfiehl berechne rechne vergleiche erstell erstelle
    explica explicame escribe escribeme traduce recomienda recomiendame dame calcula compara haz hazme corrige
    explique ecris redige traduis propose donne calcule compare corrige conseille
    """.split()  # noqa: SIM905 - a word list reads better as one text
)
_POLITE = frozenset("please bitte por favor can could you kannst du puedes peux tu pouvez vous me mir moi".split())  # noqa: SIM905
_GENERAL = YOURS | frozenset(
    """
    a an any some ein eine einen einem einer un una unos une des best better difference between vs mean means meaning example
    examples idea ideas tip tips recipe why safe without unterschied bedeutet beispiel beispiele ideen tipps rezept warum ohne
    beste besten diferencia significa ejemplo ejemplos consejos receta mejor sin signifie exemple exemples idees conseils recette
    pourquoi meilleur meilleure sans
    """.split()  # noqa: SIM905
)
_HOW_TO = re.compile(
    r"\bhow (?:do|does|can|to|long|many|much|often|is|are)\b|"
    r"\bwie (?:kann|macht|man|viele|lange|funktioniert|geht|bekomm\w*|(?!hei)\w+e ich)\b|"
    r"\bc[oó]mo (?:se|puedo|hago|hacer)\b|\bpor qu[eé]\b|\bcomment (?:faire|on|fonctionne|puis|est)\b|"
    r"方法|やり方|作り方|どうやって|仕方|違い|意味|おすすめ|とは|説明|書いて|訳して|なぜ|教えて",
    re.IGNORECASE,
)


def matter(query: str, spoken: Sequence[str]) -> float:
    """`OWN`, `EITHER` or `GENERAL`, for a query of these words."""
    if _of_one(query, spoken):
        return OWN
    opening = next((word for word in spoken if word not in _POLITE), "")
    general = opening in _OPENING or not _GENERAL.isdisjoint(spoken) or _HOW_TO.search(query) is not None
    return GENERAL if general else EITHER


def _of_one(query: str, spoken: Sequence[str]) -> bool:
    """Whether it asks about the user."""
    told = _OF_ONE.intersection(spoken)
    if told and _IMPERSONAL.search(query) is not None:
        told = _OF_ONE.intersection(re.findall(r"\w+", _IMPERSONAL.sub(" ", query).casefold()))
    return bool(told) or (not query.isascii() and OWN_CJK.search(query) is not None)
