"""Turning text into search terms, the same way for memories and for queries.

A word becomes its lower-case stem (Snowball, English), without accents; function words are dropped. An identifier keeps
its parts and gets one term for the whole, the same one for `build_id`, `buildId` and `build-id2`-like spellings where
they join letters; paths, versions, dates and ticket numbers get a whole term with underscores. Text of scripts that
put no blanks between words becomes overlapping pairs of characters, and each Han character by itself.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import cast

import Stemmer

from lorebank._mnemopi.search.function_words import ENGLISH, is_grammar, of_query

MAX_TERM = 64
"""Characters a term may have; longer runs (hashes, base64) are cut."""

_WORD = re.compile(r"[^\W_]+")
_PLAIN = "".join(chr(code).lower() if chr(code).isalnum() else " " for code in range(128))
"""Maps ASCII to lower case, and all that is no letter or digit to a blank: splitting then is faster than matching."""
_UNSEGMENTED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Myanmar, Khmer
    "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Japanese syllables
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"  # Han
    "\uac00-\ud7a3"  # Korean: blanks part phrases, endings cling to words
)
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f]")
_RUN = re.compile(f"[{_UNSEGMENTED}\u0300-\u036f]+|[^{_UNSEGMENTED}]+")
_IS_UNSEGMENTED = re.compile(f"[{_UNSEGMENTED}]")
_ACCENT = re.compile("[\u0300-\u036f]")
_COMPOUND = re.compile(r"(?<![^\W_])[^\W_]+(?:[_./\\:-]+[^\W_]+)+|(?<![A-Za-z0-9])[A-Za-z][a-z0-9]*[A-Z][A-Za-z0-9]*(?![^\W_])")
_HUMP = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_JOINED = re.compile(r"[._/\\:](?<=[^\W_].)(?=[^\W_]|[._/\\:-])|-(?=[0-9])|[0-9]-(?=[^\W_])")
"""Signs of an identifier; a hyphen alone joins ordinary words, which are no identifier unless one is a number."""
_HUMPED = re.compile(r"[A-Z](?<=[A-Za-z0-9].)[A-Za-z]*")
_SYMBOLIC = re.compile(r"(?<!\w)([A-Za-z])(\+\+|#)(?!\w)")
_SYMBOLS = {"++": "plusplus", "#": "sharp"}


class _Stemmers(threading.local):
    """Each thread's own stemmers, by language: a Snowball stemmer keeps state while it works."""

    def __init__(self) -> None:
        self._known = dict[str, Callable[[str], str]]()

    def stem(self, language: str, word: str) -> str:
        if language not in self._known:
            found: object = Stemmer.Stemmer(language).stemWord  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            self._known[language] = cast("Callable[[str], str]", found)
        return self._known[language](word)


_stemmers = _Stemmers()
_known: dict[str, str] = {}
_MAX_KNOWN = 200_000


def stem(word: str) -> str:
    """The word's stem."""
    found = _known.get(word)
    if found is None:
        if len(_known) >= _MAX_KNOWN:
            _known.clear()
        found = _known[word] = _stemmers.stem("en", word[:MAX_TERM])
    return found


@lru_cache(maxsize=65_536)
def stem_in(language: str, word: str) -> str:
    """The stem of a lower-case word in a language (its two letters), with the accents that the language's stemmer leaves."""
    return _stemmers.stem(language, word[:MAX_TERM])


def normalize(text: str) -> str:
    """Lower-case text without compatibility forms or accents."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    return unicodedata.normalize("NFC", _ACCENT.sub("", decomposed))


def words(text: str) -> list[str]:
    """The words of a text, lower-case, in order, function words included."""
    return text.translate(_PLAIN).split() if text.isascii() else _WORD.findall(normalize(text))


def terms(text: str, spoken: Sequence[str] | None = None) -> list[str]:
    """The search terms of a text, in order, repeats kept; `spoken` are its `words`, where they are known."""
    told = words(text) if spoken is None else spoken
    if text.isascii():
        found = [_known.get(word) or stem(word) for word in told if word not in ENGLISH]
    else:
        found = [term for word in told if word not in ENGLISH for term in _terms_of(word)]
    found.extend(_identifiers(text))
    return found


def query_terms(text: str) -> list[str]:
    """The distinct terms of a query, without its function words and words of asking where other words remain."""
    distinct = list(dict.fromkeys(terms(text)))
    quiet = frozenset(map(stem, of_query(words(text))))
    telling = [term for term in distinct if term not in quiet] or distinct
    return [term for term in telling if not is_grammar(term)] or telling


def content_words(text: str) -> list[str]:
    """The words of a query, lower-case, without function words and words of asking."""
    told = words(text)
    quiet = ENGLISH | of_query(told)
    return [word for word in told if word not in quiet]


def _terms_of(word: str) -> Iterable[str]:
    if word.isascii() or _IS_UNSEGMENTED.search(word) is None:
        return (stem(word),)
    return _unsegmented(word)


def _unsegmented(word: str) -> Iterator[str]:
    for run in _RUN.findall(word):
        if _IS_UNSEGMENTED.match(run) is None:
            if run not in ENGLISH:
                yield stem(run)
            continue
        if len(run) == 1:
            yield run
            continue
        yield from (run[i : i + 2] for i in range(len(run) - 1))
        yield from _HAN.findall(run)


def _identifiers(text: str) -> Iterator[str]:
    """The whole-identifier terms of a text, and the parts that plain words don't give."""
    plain = text if text.isascii() else _ACCENT.sub("", unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text)))
    if _JOINED.search(plain) is None and _HUMPED.search(plain) is None and "#" not in plain and "++" not in plain:
        return
    for match in _COMPOUND.finditer(plain):
        yield from filter(None, _compound(match[0]))
    for match in _SYMBOLIC.finditer(plain):
        yield match[1].lower() + _SYMBOLS[match[2]]


def _compound(token: str) -> Iterator[str]:
    segments = re.split(r"[/\\]+", token)
    if len(segments) > 1:
        yield _whole(token)
    for segment in segments:
        pieces = re.split(r"[.:]+", segment)
        if len(pieces) > 1:
            yield _whole(segment)
            if pieces[0][:1] in "vV" and pieces[0][1:].isdigit():
                yield _whole(segment[1:])
        for piece in pieces:
            yield from _joined(piece)


def _joined(piece: str) -> Iterator[str]:
    """`build_id` and `buildId` both give `buildid`; the latter also its humps; `PAY-1423` gives `pay_1423`."""
    parts = [part for part in re.split(r"[_-]+", piece) if part]
    if len(parts) > 1 and any(part.isdigit() for part in parts):
        yield _whole(piece)
    elif "_" in piece and len(parts) > 1:
        yield "".join(parts).lower()[:MAX_TERM]
    for part in parts:
        humps = _HUMP.findall(part) if part.isascii() else []
        if len(humps) > 1 and not part.isupper() and any(map(str.isupper, part[1:])):
            yield from (stem(hump.lower()) for hump in humps if hump.lower() not in ENGLISH)


def _whole(token: str) -> str:
    return "_".join(_WORD.findall(normalize(token)))[:MAX_TERM]
