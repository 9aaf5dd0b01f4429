"""What people have said, as far as something may be derived from it; and whether something derived stands there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lorebank._database.driver import Source
from lorebank._domain.memory import CONSOLIDATION, EXTRACTION, Memory
from lorebank._mnemopi.rows import full_rows, to_memory
from lorebank._mnemopi.search.function_words import ENGLISH
from lorebank._mnemopi.search.kinds import unmarked
from lorebank._mnemopi.search.terms import stem, terms, words

MACHINES = frozenset({"assistant", "ai", "system", "tool"})
"""Speakers whose words are nobody's wishes."""
_DERIVED = (EXTRACTION.source, CONSOLIDATION.source)
_NUMBER = re.compile(r"\d+")
_NAME = re.compile(r"[^\W\d_a-zß-öø-ÿ][\w'’-]*")
ENOUGH = 0.5
"""The share of a derived text's words that its sources must have."""

Row = Mapping[str, Any]


def told_rows(connection: Source, keys: Sequence[int], now: int) -> list[dict[str, Any]]:
    """The rows of those of these memories that people told and that hold now, by key, with the terms alone."""
    rows = [row | {"terms": unmarked(row["terms"])} for row in full_rows(connection, keys) if _told(row, now)]
    return sorted(rows, key=lambda row: row["key"])


def _told(row: Row, now: int) -> bool:
    valid = row["invalidated_at"] is None and (row["valid_until"] is None or row["valid_until"] > now)
    speaker = (row["speaker"] or "").casefold().strip()
    return valid and row["type"] != "observation" and row["source"] not in _DERIVED and speaker not in MACHINES


def memory(row: Row) -> Memory:
    """The row's memory, for a prompt."""
    return to_memory(dict(row), "")


def unchanged(connection: Source, shown: Iterable[Row], now: int) -> set[int]:
    """The keys of those of these rows that are there as they were."""
    before = {row["key"]: (row["digest"], row["tags"]) for row in shown}
    return {row["key"] for row in told_rows(connection, list(before), now) if (row["digest"], row["tags"]) == before[row["key"]]}


def stands(text: str, sources: Sequence[Row]) -> bool:
    """Whether the sources can say this: all its numbers and names stand there, and half of its words."""
    said = " ".join(f"{row['speaker'] or ''} {row['content']}" for row in sources)
    spoken = words(said)
    known = frozenset(map(stem, spoken))
    numbers = frozenset(_NUMBER.findall(said))
    names = [word for name in _NAME.findall(text) for word in words(name)]
    if not all(stem(word) in known or word in ENGLISH or word == "user" for word in names):
        return False
    found = [term for term in terms(text) if term != "user"]
    held = sum(term in known or term in frozenset(terms(said)) for term in found)
    return numbers.issuperset(_NUMBER.findall(text)) and bool(found) and held >= ENOUGH * len(found)
