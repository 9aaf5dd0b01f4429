"""What a memory's text is like, found once when it is written: time words, how much of it asks, whether it tells of its
speaker or of a change, and whether it has a number or a title in quotation marks.

All are packed into one small number, so that a recall needs no look at the text. The number also keeps whether the time
of the memory was told (`TIMED`) or is just when it was written, which decides what counts as the same statement.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lorebank._mnemopi.search.function_words import FIRST_PERSON

_TIME_WORDS = frozenset(
    """
    yesterday today tonight tomorrow ago last next recently since just monday tuesday wednesday thursday friday saturday
    sunday mon tue tues wed thu thur thurs fri sat sun january february march april june july august september october
    november december week weeks month months year years weekend weekends gestern heute morgen letzte letzten letzter letztes
    ayer hoy mañana manana hier demain
    """.split()  # noqa: SIM905 - a word list reads better as one text
)
_DATED = re.compile(r"(?:19|20)\d\d|\d{1,2}(?:st|nd|rd|th)")
_PERIODS = frozenset("morning evening summer autumn fall spring winter".split())  # noqa: SIM905
_CJK = re.compile(r"昨日|今日|明日|先週|来週|先月|来月|去年|今年|来年|\d月|\d日")
_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？]*")
_OWN_CJK = re.compile("[私僕俺我]")
_QUOTED = re.compile('["“„«「『][^"“”„«»「」『』]{3,60}["“”»」』]')
_CHANGE = frozenset(
    """
    now new newly since instead anymore longer lately nowadays finally switched swapped changed moved moving replaced replacement
    sold quit left retired stopped started gave given became promoted cancelled canceled rescheduled postponed renamed upgraded
    migrated rewrote dropped gone ended rather turned raised lowered increased reduced bumped extended closed closing broke
    married divorced outgrew decommissioned officially
    jetzt nun inzwischen mittlerweile neu neue neuer neuen neuem neues seit statt stattdessen endlich gewechselt umgestiegen
    umgezogen gezogen ausgezogen verkauft gekundigt verschoben verlegt verlangert erhoht geandert ersetzt aufgehort aufgegeben
    rausgeworfen abgeschafft befordert geworden zurzeit derzeit rente
    ahora ya nuevo nueva desde ultimamente finalmente cambie cambiado cambiamos mude mudado mudamos vendi vendido deje dejado
    dejamos pase pasamos pasado subio bajo resulta renovamos
    maintenant desormais nouveau nouvelle nouvel depuis finalement change changee demenage vendu revendu quitte quittes arrete
    remplace abandonne resilie passe fini
    """.split()  # noqa: SIM905 - a word list reads better as one text
)
_CHANGE_HINTS = frozenset("more days after turns as moment mehr plus".split())  # noqa: SIM905
"""Words that all of `_CHANGE_TOLD` have one of: most texts need no search then."""
_CHANGE_TOLD = re.compile(
    r"\b(?:no more|any more|these days|after all|turns out|as of|at the moment|(?:nicht|keine?[nrms]?)\b[^.,;!?]{0,20} mehr|"
    r"im moment|n[e']\W?\w+ plus)\b",
    re.IGNORECASE,
)
_CHANGE_CJK = re.compile("今は|もう|変わ|変え|新し|やめ|辞め|引っ越|替え|代わり|売っ|になっ")
_NUMBERS = frozenset(
    """
    two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen
    twenty thirty forty fifty sixty seventy eighty ninety hundred hundreds thousand thousands million dozen half percent twice
    zwei drei vier funf sechs sieben acht neun zehn elf zwolf zwanzig dreissig hundert tausend halb prozent
    dos tres cuatro cinco seis siete ocho nueve diez doce veinte treinta cien mil ciento
    deux trois quatre cinq sept huit neuf dix onze douze vingt trente cent mille demi
    """.split()  # noqa: SIM905 - a word list reads better as one text
)
_NUMBERS_CJK = re.compile("[一二三四五六七八九十百千万半]")
_STEPS = 6
TIMED = 1 << 4
_OWN, _TITLED, _CHANGED, _NUMBERED = 1 << 5, 1 << 6, 1 << 7, 1 << 8


def traits(text: str, spoken: Sequence[str]) -> int:
    """The packed traits of a text with these words: bit 0 for time words, three for the share of questions, in sixths, bit 5
    for words of oneself, bit 6 for words in quotation marks, bit 7 for words of change, bit 8 for numbers.
    """
    asked = round(question_share(text) * _STEPS) << 1 if "?" in text or "？" in text else 0
    own = not FIRST_PERSON.isdisjoint(spoken) or (not text.isascii() and _OWN_CJK.search(text) is not None)
    quoted = _QUOTED.search(text) is not None
    digits = [word for word in spoken if word[0] <= "9"]
    told = int(_tells_time(text, spoken, digits)) | _CHANGED * _tells_change(text, spoken)
    return told | asked | _OWN * own | _TITLED * quoted | _NUMBERED * (bool(digits) or _has_number_words(text, spoken))


def _tells_change(text: str, spoken: Sequence[str]) -> bool:
    if not _CHANGE.isdisjoint(spoken):
        return True
    if not _CHANGE_HINTS.isdisjoint(spoken) and _CHANGE_TOLD.search(text) is not None:
        return True
    return not text.isascii() and _CHANGE_CJK.search(text) is not None


def _has_number_words(text: str, spoken: Sequence[str]) -> bool:
    return not _NUMBERS.isdisjoint(spoken) or (not text.isascii() and _NUMBERS_CJK.search(text) is not None)


def _tells_time(text: str, spoken: Sequence[str], digits: Sequence[str]) -> bool:
    if not _TIME_WORDS.isdisjoint(spoken):
        return True
    if any(map(_DATED.fullmatch, digits)):
        return True
    if "this" in spoken and any(a == "this" and b in _PERIODS for a, b in pairwise(spoken)):
        return True
    return not text.isascii() and _CJK.search(text) is not None


def question_share(text: str) -> float:
    """Which share of the sentences are questions (0 to 1)."""
    if "?" not in text and "？" not in text:
        return 0.0
    sentences = [each.rstrip() for each in _SENTENCE.findall(text) if each.strip()]
    return sum(each.endswith(("?", "？")) for each in sentences) / len(sentences) if sentences else 0.0


def time_words(packed: NDArray[np.int64]) -> NDArray[np.float64]:
    """1 where a text has time words, from packed traits."""
    return (packed & 1).astype(np.float64)


def asking(packed: NDArray[np.int64]) -> NDArray[np.float64]:
    """The share of questions of each text, from packed traits."""
    return (packed >> 1 & 7) / _STEPS


def of_own(packed: NDArray[np.int64]) -> NDArray[np.float64]:
    """1 where a text tells of its speaker, from packed traits."""
    return (packed >> 5 & 1).astype(np.float64)


def titled(packed: NDArray[np.int64]) -> NDArray[np.float64]:
    """1 where a text has words in quotation marks, from packed traits."""
    return (packed >> 6 & 1).astype(np.float64)


def changed(packed: int) -> bool:
    """Whether a text tells that something is no longer as it was, from its packed traits."""
    return packed & _CHANGED != 0


def numbered(packed: NDArray[np.int64]) -> NDArray[np.float64]:
    """1 where a text has a number, from packed traits."""
    return (packed >> 8 & 1).astype(np.float64)
