"""Laws of archives: whatever a bank holds comes back, and is found as before."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lorebank import Bank, Item, open_bank
from lorebank._domain.archive import Entry, item_of
from lorebank._domain.records import line_of, read_line

WORDS = [
    "cello",
    "Oslo",
    "東京",
    "naïve",
    "rate_limits.py",
    "ok",
    "7",
    "\u2028",
    "\r\n",
    "\n",
    "\t",
    '"',
    "\\",
    "{",
    "\x1b",
    "é",
    "😀",
]
STORABLE = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
TEXTS = st.lists(st.sampled_from(WORDS) | st.text(STORABLE, max_size=6), min_size=1, max_size=8).map(" ".join)
HOSTILE = TEXTS.filter(lambda text: any(char.isalnum() for char in text))
LABELS = st.sampled_from(["a", "s1", "cello", "Ana", "<b>", "東", "a b"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(STORABLE, max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(STORABLE, min_size=1, max_size=4), inner, max_size=3),
    max_leaves=8,
)
TIMES = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))  # noqa: DTZ001 - bounds are naive
ITEMS = st.builds(
    Item,
    HOSTILE,
    context=st.none() | HOSTILE,
    tags=st.lists(LABELS, max_size=3),
    metadata=st.none() | st.dictionaries(st.text(STORABLE, min_size=1, max_size=5), JSON, max_size=3),
    timestamp=st.none() | TIMES,
    document_id=st.none() | LABELS,
    entities=st.lists(LABELS, max_size=2),
    session=st.none() | LABELS,
    speaker=st.none() | LABELS,
    valid_until=st.none() | TIMES,
    importance=st.none() | st.floats(0, 1),
    type=st.none() | st.sampled_from(["world", "experience", "observation"]),
)
EDITS = st.lists(st.tuples(st.sampled_from(["invalidate", "replace", "update", "forget", "tag"]), st.integers(0, 50)), max_size=6)


def lived(bank: Bank, items: list[Item], edits: list[tuple[str, int]]) -> None:
    """A past: items, then what becomes of them."""
    bank.retain(items)
    for edit, number in edits:
        ids = [memory.id for memory in bank.list(state="all", limit=100)]
        if not ids:
            return
        chosen, next_ = ids[number % len(ids)], ids[(number + 1) % len(ids)]
        if edit == "invalidate":
            bank.invalidate(chosen)
        elif edit == "replace" and chosen != next_:
            bank.invalidate(chosen, replacement=next_)
        elif edit == "update":
            bank.update(chosen, content=f"edited cello {number % 3}")
        elif edit == "tag":
            bank.update(chosen, tags=["cello"], metadata={"edited": True})
        elif edit == "forget":
            bank.forget(chosen)


def seen(bank: Bank) -> list[Any]:
    """What the bank holds, and what it finds, without its name."""
    queries = ("cello in Oslo", "東京", "edited", "what did Ana say?", "rate_limits.py")
    listed = [replace(memory, bank=None) for memory in bank.list(state="all", limit=1000)]
    types = ("world", "experience", "observation")
    when = datetime(2026, 6, 1, tzinfo=UTC)
    found = [bank.recall(query, limit=20, types=types, query_timestamp=when) for query in queries]
    return [listed, [[(m.id, round(m.score or 0, 3)) for m in each] for each in found]]


@settings(max_examples=60)
@given(st.lists(ITEMS, min_size=1, max_size=12), EDITS)
def test_recall_after_equals_recall_before(items: list[Item], edits: list[tuple[str, int]]) -> None:
    """Whatever was told and changed; and the export of the import is the same file."""
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder) / "a.jsonl", Path(folder) / "b.jsonl"
        with open_bank(f"sqlite:///{folder}/a.db") as before, open_bank(f"sqlite:///{folder}/b.db", bank="b") as after:
            lived(before, items, edits)
            before.export(first)
            report = after.import_(first)
            assert (report.rejected, report.known, report.redactions) == (0, 0, 0)
            assert seen(after) == seen(before)
            after.export(second)
            assert second.read_bytes().splitlines()[1:-1] == first.read_bytes().splitlines()[1:-1]
            assert after.import_(first).added == 0
            assert after.check().ok


@settings(max_examples=60)
@given(st.lists(ITEMS, min_size=1, max_size=8), st.lists(ITEMS, max_size=8), EDITS)
def test_merging_loses_and_changes_nothing(items: list[Item], own: list[Item], edits: list[tuple[str, int]]) -> None:
    """All statements of both are there, what the bank held is as it was, and again adds nothing."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "a.jsonl"
        with open_bank(f"sqlite:///{folder}/a.db") as source, open_bank(f"sqlite:///{folder}/b.db") as target:
            lived(source, items, edits)
            source.export(file)
            if own:
                target.retain(own)
            before = {memory.id: memory for memory in target.list(state="all", limit=1000)}
            report = target.import_(file)
            after = {memory.id: memory for memory in target.list(state="all", limit=1000)}
            assert {known: after[known] for known in before} == before
            assert len(after) == len(before) + report.added
            assert {m.text for m in source.list(state="all", limit=1000)} <= {m.text for m in after.values()}
            again = target.import_(file)
            assert (again.added, again.known) == (0, report.added + report.known)
            assert {m.id: m for m in target.list(state="all", limit=1000)} == after
            assert target.check().ok


@given(ITEMS, st.none() | TIMES, st.none() | st.binary(min_size=16, max_size=16), st.integers(0, 2**40))
def test_a_line_says_all_of_an_entry(item: Item, time: datetime | None, digest: bytes | None, number: int) -> None:
    """Written and read again it is the same; it is one line, and plain JSON."""
    plain = item_of(**{name: getattr(item, name) for name in ("content", "context", "metadata", "session", "importance")})
    plain = plain.rewritten(tags=tuple(item.tags), entities=tuple(item.entities), type=item.type or "world")
    entry = Entry("m1", plain, "app", "stated", 1 + number, time, time, None, time, "m2", number, digest, line=3)
    _, line = line_of(entry)
    assert line.count(b"\n") == 1
    assert json.loads(line)["content"] == item.content
    assert read_line(line, 3) == replace(entry, item=plain.rewritten(metadata=plain.metadata or None))
