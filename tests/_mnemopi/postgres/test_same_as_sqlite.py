"""PostgreSQL finds what SQLite finds: the same memories in the same order with the same scores."""

from __future__ import annotations

import json
import string
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from postgres_fixtures import Schema

from lorebank import Bank, Item, open_bank

FOLDER = Path(__file__).parents[2] / "evaluation" / "conversations"
CONVERSATIONS = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(FOLDER.glob("*.json"))]
QUESTIONS = [str(asked["question"]) for told in CONVERSATIONS for asked in told["qa"]][::3]
ODD = [
    "is it as",
    "ms of 5s",
    "generally generating generations",
    "build_id",
    "v2.10.1 of PAY-1423",
    "東京 カフェ",
    "",
    "me?",
    "C++ or C#",
]
MOMENT = datetime(2026, 6, 1, tzinfo=UTC)
Pair = tuple[Bank, Bank]


def items(told: dict[str, Any]) -> list[Item]:
    return [
        Item(
            turn["text"],
            session=f"{told['id']}/{turn['session']}",
            speaker=turn["speaker"],
            timestamp=datetime.fromisoformat(turn["date"]),
            tags=[f"part{number % 3}"],
        )
        for number, turn in enumerate(told["turns"])
    ]


@pytest.fixture(params=["words", "meaning"])
def pair(request: pytest.FixtureRequest, url: str, schema: Schema, toy: Callable[..., Any]) -> Iterator[Pair]:
    """The same eight conversations, and some odd texts, in a file and on the server."""
    with ExitStack() as stack:
        embedder = {"embedder": toy()} if request.param == "meaning" else {}
        found = [stack.enter_context(open_bank(place, bank="all", **embedder)) for place in (url, schema.url)]
        for bank in found:
            for told in CONVERSATIONS:
                bank.retain(items(told))
            bank.retain([Item(f"The odd one says {text}.", timestamp=MOMENT) for text in ODD if text])
            assert bank.flush(timeout=60).done
        yield found[0], found[1]


def test_the_same_questions_have_the_same_answers(pair: Pair) -> None:
    """Every question of the evaluation, some with filters: texts, order, scores and signals are equal."""
    for number, question in enumerate([*QUESTIONS, *filter(None, ODD)]):
        filters = ({}, {"tags": ["part1"]}, {"types": ["world"], "budget": "high"}, {"query_timestamp": MOMENT})[number % 4]
        mine, theirs = (bank.recall(question, limit=20, max_tokens=5_000, explain=True, **filters) for bank in pair)
        assert [memory.text for memory in mine] == [memory.text for memory in theirs], question
        assert [memory.signals for memory in mine] == [pytest.approx(memory.signals, rel=1e-4, abs=1e-6) for memory in theirs]
        assert (mine.state, mine.trace.terms if mine.trace else None) == (
            theirs.state,
            theirs.trace.terms if theirs.trace else None,
        )


def test_lists_documents_tags_and_counts_are_the_same(pair: Pair) -> None:
    """What is told of a bank beside recall is equal, too, in the same order."""
    mine, theirs = ([memory.text for memory in bank.list(limit=10_000)] for bank in pair)
    assert mine == theirs
    assert pair[0].tags() == pair[1].tags()
    told = [bank.stats() for bank in pair]
    assert {(each.memories, each.sessions, each.oldest, each.newest, tuple(each.by_type.items())) for each in told} == {
        (told[0].memories, told[0].sessions, told[0].oldest, told[0].newest, tuple(told[0].by_type.items()))
    }
    assert [bank.check().problems for bank in pair] == [(), ()]


def test_the_lexemes_are_those_of_the_other_index(bank: Bank, schema: Schema, look: Callable[[str], list[Any]]) -> None:
    """Both stem the terms of a text alike: short ones stay whole, long ones, numbers and other scripts, too."""
    endings = ["ing", "ation", "ational", "fulness", "ies", "s", "ed", "y", "ly", "ousli", "", "ement", "ize", "ically"]
    words = [f"{start}{end}" for start in ("gener", "hop", "b", "tr", "zig", "naïv", "straß") for end in endings]
    words += [*string.ascii_lowercase, "x" * 64, "1423", "5s", "as", "東京", "pay_1423"]
    with open_bank(schema.url, bank="alice") as other:
        for each in (bank, other):
            each.retain(" ".join(words))
    look("CREATE VIRTUAL TABLE vocabulary USING fts5vocab(memory_terms, row)")
    lexemes = [row[0] for row in schema.sql("SELECT term FROM memory_terms ORDER BY term")]
    assert lexemes == sorted(look("SELECT term FROM vocabulary"))
    assert len(lexemes) > 60
