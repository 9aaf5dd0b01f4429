"""Texts as the stub models see them: sentences, names, word stems and vectors made of them."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from typing import Any

Json = Any

STOPWORDS = frozenset(
    "a an and are as at be but by did do does for from had has have he her his how i in is it its me my of on or our "  # noqa: SIM905 - a text
    "she so that the their them they this to was we were what when where which who why will with you your about".split(" ")
)
WORD = re.compile(r"[^\W_]+", re.UNICODE)
SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
ISO_DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2})?(?:Z|[+-]\d{2}:?\d{2})?)?\b")
SPEAKER = re.compile(r"^(?:user|human):\s*", re.IGNORECASE)
ASSISTANT = "assistant:"


def stem(word: str) -> str:
    """A crude English stemmer: enough to make 'prefers' and 'prefer' meet."""
    for suffix in ("ing", "ies", "ed", "es", "s"):
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            word = word[: -len(suffix)]
            break
    return word[:-1] if word.endswith("e") and len(word) > 4 else word


def terms(text: str) -> list[str]:
    """The stems of the words that carry meaning."""
    return [stem(word) for word in (match.group(0).lower() for match in WORD.finditer(text)) if word not in STOPWORDS]


def sentences(text: str) -> list[str]:
    """The sentences that hold a word."""
    return [sentence.strip() for sentence in SENTENCE.split(text) if WORD.search(sentence)]


def overlap(a: str, b: str) -> float:
    """Shared stems over all stems, from 0 to 1."""
    left, right = set(terms(a)), set(terms(b))
    return len(left & right) / len(left | right) if left or right else 0.0


def names(text: str) -> list[str]:
    """Runs of capitalised words, less a capital that only opens the sentence."""
    found: list[str] = []
    for match in re.finditer(r"[A-Z][\w-]*(?: [A-Z][\w-]*)*", text):
        phrase = match.group(0)
        first, _, rest = phrase.partition(" ")
        if first.lower() in STOPWORDS:
            phrase = rest
        if phrase and phrase not in found:
            found.append(phrase)
    return found


def embed(text: str, dim: int) -> list[float]:
    """Signed feature hashing of word stems (weight 1) and of their bigrams (weight 0.4), of length 1."""
    vector = [0.0] * dim
    words = terms(text) or [match.group(0).lower() for match in WORD.finditer(text)] or ["\0empty"]
    features = [(word, 1.0) for word in words]
    features += [(f"{a} {b}", 0.4) for a, b in itertools.pairwise(words)]
    for feature, weight in features:
        digest = hashlib.blake2b(feature.encode(), digest_size=16).digest()
        for offset in (0, 8):  # two buckets a feature, to soften collisions
            value = int.from_bytes(digest[offset : offset + 8], "big")
            vector[value % dim] += weight if value >> 63 else -weight
    norm = math.sqrt(sum(x * x for x in vector)) or 1.0
    return [x / norm for x in vector]


def spoken(raw: str) -> str:
    """Plain text of what is to be remembered; a JSON chat transcript gives its turns."""
    try:
        parsed = json.loads(raw)
    except ValueError:
        return raw
    turns = parsed if isinstance(parsed, list) else [parsed]
    return "\n".join(_line(turn) for turn in turns)


def _line(turn: Json) -> str:
    if not isinstance(turn, dict):
        return str(turn)
    said = turn.get("content") or turn.get("text") or ""
    said = said if isinstance(said, str) else json.dumps(said)
    return f"Assistant: {said}" if turn.get("role") == "assistant" else said


def json_values(text: str) -> list[Json]:
    """Every top-level JSON array or object that stands in a text."""
    decoder, at = json.JSONDecoder(), 0
    found: list[Json] = []
    while True:
        starts = [i for i in (text.find("{", at), text.find("[", at)) if i >= 0]
        if not starts:
            return found
        at = min(starts)
        try:
            value, end = decoder.raw_decode(text[at:])
        except ValueError:
            at += 1
            continue
        if isinstance(value, dict | list):
            found.append(value)
        at += end


def found_items(value: Json) -> list[tuple[str, str]]:
    """(id, text) of every result-like object in a tool's answer."""
    if isinstance(value, list):
        return [found for item in value for found in found_items(item)]
    if not isinstance(value, dict):
        return []
    text = value.get("text") or value.get("content") or value.get("snippet")
    if value.get("id") and isinstance(text, str):
        return [(str(value["id"]), text)]
    return [found for item in value.values() for found in found_items(item)]
