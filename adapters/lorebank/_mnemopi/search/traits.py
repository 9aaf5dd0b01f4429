"""What a memory's text is like, found once when it is written: time words, and how much of it asks.

Both are packed into one small number, so that a recall needs no look at the text.
"""

from __future__ import annotations

import re

_TIME_WORDS = re.compile(
    r"\b(?:yesterday|today|tonight|tomorrow|ago|last|next|recently|since|just"
    r"|this (?:week|month|year|morning|evening|weekend|summer|autumn|fall|spring|winter)"
    r"|(?:mon|tues?|wednes|thurs?|fri|satur|sun)day|(?:mon|tue|wed|thu|fri|sat|sun)\b"
    r"|january|february|march|april|june|july|august|september|october|november|december"
    r"|(?:week|month|year)s?|weekends?|(?:19|20)\d\d|\d{1,2}(?:st|nd|rd|th)"
    r"|gestern|heute|morgen|letzte[nrs]?|ayer|hoy|mañana|hier|demain)\b"
    r"|昨日|今日|明日|先週|来週|先月|来月|去年|今年|来年|\d月|\d日",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？]*")
_STEPS = 6


def traits(text: str) -> int:
    """The packed traits of a text: bit 0 for time words, the rest for the share of questions, in sixths."""
    return int(_TIME_WORDS.search(text) is not None) | round(question_share(text) * _STEPS) << 1


def question_share(text: str) -> float:
    """Which share of the sentences are questions (0 to 1)."""
    if "?" not in text and "？" not in text:
        return 0.0
    sentences = [each.rstrip() for each in _SENTENCE.findall(text) if each.strip()]
    return sum(each.endswith(("?", "？")) for each in sentences) / len(sentences) if sentences else 0.0


def has_time_words(packed: int) -> bool:
    return bool(packed & 1)


def asks(packed: int) -> float:
    """The share of questions, from packed traits."""
    return (packed >> 1) / _STEPS
