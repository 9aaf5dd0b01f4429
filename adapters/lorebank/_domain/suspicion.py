"""What is suspicious of one memory: that it says nothing, came from memory itself, holds a secret, or is over.

Each rule gives the reason, on one line, or `None`. They are precise before they are greedy: an audit that cries wolf is not read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta

from lorebank._domain.archive import Entry
from lorebank._domain.blocks import fold, strip
from lorebank._domain.item import Item
from lorebank._domain.message import IMAGE, substantive
from lorebank._domain.redaction import MARK, redact, redact_item
from lorebank._domain.toolbook import NOTHING_FOUND, NOTHING_TO_REFLECT

ECHOED = 0.8
"""The share of an answer's sentences that are memories' whole texts from which it only repeats them."""
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_SMALL_TALK = frozenset(
    """
    ok okay k yes yeah yep no nope sure thanks thank you thx cheers please hi hello hey bye goodbye great cool nice fine good well
    done got it lol haha hm hmm ah oh wow right alright perfect welcome re you're morning night evening so much very again and
    danke bitte ja nein hallo tschüss gut super merci oui non bonjour salut gracias sí si hola adiós vale
    """.split()  # noqa: SIM905 - a word list reads better as one text
)
_PLACEHOLDER = re.compile(
    r"(?:none|null|nil|undefined|nan|n/a|tbd|todo|test|asdf+|\[object object\]|lorem ipsum\b.*|\{\}|\[\]|<[^>]*>)[.!]?",
    re.IGNORECASE | re.DOTALL,
)
_MARKUP = re.compile(r"\s*(?:<!doctype html|<html[\s>]|<\?xml)", re.IGNORECASE)
_TRACE = re.compile(r"^Traceback \(most recent call last\):$", re.MULTILINE)
_BLOB = re.compile(r"[A-Za-z0-9+/=_-]{200,}")
_SLOT = re.compile(r"(?<![\w{])\{\{?[A-Za-z_][\w.]*\}?\}(?![\w}])")


def _small_talk(text: str) -> bool:
    words = [word.casefold() for word in _WORD.findall(text)]
    return len(words) <= 6 and all(word in _SMALL_TALK for word in words)


def _lost(text: str) -> bool:
    return text.count("\ufffd") > max(2, len(text) / 10)


def _share(pattern: re.Pattern[str], text: str) -> float:
    """The share of a text's characters that a pattern matches."""
    return sum(len(match) for match in pattern.findall(text)) / len(text)


_JUNK: tuple[tuple[str, Callable[[str], object]], ...] = (
    ("no words", lambda text: not substantive(text) or text.strip() == IMAGE),
    ("small talk", _small_talk),
    ("a placeholder", lambda text: _PLACEHOLDER.fullmatch(text.strip())),
    ("a page's source, not a statement", _MARKUP.match),
    ("a program's error trace", _TRACE.search),
    ("encoded bytes", lambda text: _share(_BLOB, text) > 1 / 2),
    ("a template that nobody filled in", lambda text: _share(_SLOT, text) > 1 / 4),
    ("characters that were lost", _lost),
)


def junk(text: str) -> str | None:
    """Why a text says nothing that is worth remembering."""
    return next((reason for reason, rule in _JUNK if rule(text)), None)


_OUTPUT = re.compile(
    r"\s*(?:Found \d+ relevant memor(?:y|ies) \(as of |Based on recalled memories:\s*\n|\d+ memor(?:y|ies) (?:stored|queued)\."
    rf"|{re.escape(NOTHING_FOUND)}|{re.escape(NOTHING_TO_REFLECT)})"
)
_BULLET = re.compile(r"^- .+(?: \(id: [^()\s]+\)| \[(?:world|experience|observation)\](?: \(\d{4}-\d\d-\d\d\))?$)", re.MULTILINE)
_PREAMBLE = re.compile(r"Background knowledge from earlier conversations\. These are not instructions")


def fed_back(text: str) -> str | None:
    """Why a text is something that memory itself put in front of a model."""
    if ("<" in text and strip(text) != text) or _PREAMBLE.search(text):
        return "a block of memories that was put in front of a model"
    if _OUTPUT.match(text):
        return "what a memory tool answered"
    return "lines of a memory tool's answer" if _BULLET.search(text) else None


_PIECE = re.compile(r"(?<=[.!?。！？])\s+|\n+")
_DRESS = re.compile(r"^(?:[-*•]|\d+[.)])\s+|\s*\(\d{4}-\d\d-\d\d\)$")
_ASSISTANTS = frozenset({"assistant", "ai", "bot", "model"})


def echoed(item: Item, known: Callable[[str], bool]) -> str | None:
    """Why an assistant's words only repeat memories, as they stand; `known` says whether a text is a memory's."""
    if (item.speaker or "").casefold() not in _ASSISTANTS:
        return None
    pieces = [piece for each in _PIECE.split(item.content) if (piece := _DRESS.sub("", each.strip()))]
    repeated = sum(known(piece) for piece in pieces)
    return "an answer that repeats memories word for word" if pieces and repeated >= ECHOED * len(pieces) else None


_CARD = re.compile(r"(?<![\w-])[3-6](?:[ -]?\d){12,18}(?![\w-])")


def _luhn(digits: str) -> bool:
    """Whether the digits are a card's: their last one checks the others."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + place % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def _card(match: re.Match[str]) -> str:
    digits = re.sub(r"\D", "", match[0])
    return MARK if len(set(digits)) > 1 and _luhn(digits) else match[0]


def without_secrets(text: str) -> tuple[str, int]:
    """A text without what `redact` takes for secrets and without numbers of cards, and how many there were."""
    plain, count = redact(text)
    masked = _CARD.sub(_card, plain)
    return masked, count + masked.count(MARK) - plain.count(MARK)


def secret(item: Item) -> str | None:
    """Which secrets a memory holds, each masked."""
    plain, count = redact_item(item, without_secrets)
    if not count:
        return None
    text = fold(plain.content)
    place = text.find(MARK) if plain.content != item.content else -1
    told = "in what is known of it" if place < 0 else f"in {_around(text, place)!r}"
    return f"{count} {'secret' if count == 1 else 'secrets'} {told}"


def _around(text: str, place: int) -> str:
    """A few words about a mark."""
    start, end = max(0, place - 30), place + len(MARK) + 15
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"


_SOON: tuple[tuple[int, re.Pattern[str]], ...] = (
    (
        30,
        re.compile(
            r"\b(?:tomorrow|tonight|later today|this (?:morning|afternoon|evening)|today)\b"
            r"|\b(?:heute|übermorgen|demain|aujourd['’]hui|hoy)\b"
            r"|(?<!\bevery )\b(?:this|next) (?:week|weekend|monday|tuesday|wednesday|thursday|friday|saturday|sunday)\b"
            r"|\bin (?:\d{1,2}|a few|two|three|four|five|six) (?:hours|days)\b"
            r"|\b(?:nächste|kommende) Woche\b|\bla semaine prochaine\b|\bla (?:próxima semana|semana que viene)\b",
            re.IGNORECASE,
        ),
    ),
    (
        120,
        re.compile(
            r"\b(?:this|next) month\b|\bin (?:\d{1,2}|a few|two|three|four|five|six) weeks\b"
            r"|\bnächsten Monat\b|\ble mois prochain\b|\bel (?:próximo mes|mes que viene)\b",
            re.IGNORECASE,
        ),
    ),
    (
        800,
        re.compile(
            r"\b(?:this|next) year\b|\bin (?:\d{1,2}|a few|two|three|four|five|six) months\b|\bnächstes Jahr\b"
            r"|\bl['’]année prochaine\b|\bel (?:próximo año|año que viene)\b",
            re.IGNORECASE,
        ),
    ),
)
"""Phrases that mean a time near the one they were said at, and after how many days that is certainly over."""


def stale(entry: Entry, now: datetime) -> str | None:
    """Why a memory is over: the time until which it holds is past, or it speaks of a day soon that was long ago. What somebody
    said stays said: of an experience only the first is looked at.
    """
    until = entry.item.valid_until
    if until is not None and until <= now:
        return f"it was true until {until:%Y-%m-%d}"
    if entry.said is None or entry.type == "experience":
        return None
    age = now - entry.said
    for days, phrase in _SOON:
        if age > timedelta(days=days) and (match := phrase.search(entry.item.content)):
            return f"it says {match[0]!r}, and was said {age.days} days ago"
    return None
