"""Recall on conversations of our own: a guard for every change of the ranking, in three languages.

`conversations/` holds chats over months with questions and the messages that answer them; questions of the category
`nothing` have no answer there. Measured with the shipped defaults; the floors below leave little room to fall.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from lorebank import Bank, Item
from lorebank.testing import temporary_bank

FILES = sorted((Path(__file__).parent / "conversations").glob("*.json"))
Conversation = dict[str, Any]


def read(file: Path) -> Conversation:
    found: Conversation = json.loads(file.read_text(encoding="utf-8"))
    return found


def items(conversation: Conversation) -> list[Item]:
    return [
        Item(
            turn["text"],
            session=f"{conversation['id']}/{turn['session']}",
            speaker=turn["speaker"],
            timestamp=datetime.fromisoformat(turn["date"]),
            metadata={"turn": f"{conversation['id']}/{turn['id']}"},
        )
        for turn in conversation["turns"]
    ]


@pytest.fixture(scope="module", params=[None, "wordllama"], ids=["words", "wordllama"])
def banks(request: pytest.FixtureRequest) -> Iterator[Bank]:
    """One file with a bank for each conversation, and one bank with all of them; by words alone, and with an embedder."""
    if request.param and find_spec(request.param) is None:
        pytest.skip("the extra `embeddings` is not installed")
    with temporary_bank("all", embedder=request.param) as everything:
        for file in FILES:
            conversation = read(file)
            everything.retain(items(conversation))
            everything.named(conversation["id"]).retain(items(conversation))
        assert everything.flush(timeout=60).done
        yield everything


def ranks(bank: Bank, conversation: Conversation) -> Iterator[tuple[str, int, int]]:
    """For each question: its category, the rank of its first evidence (0: not among the first 8), how many came back."""
    for question in conversation["qa"]:
        found = [memory.metadata["turn"] for memory in bank.recall(question["question"], limit=8)]
        wanted = {f"{conversation['id']}/{turn}" for turn in question["evidence"]}
        yield question["category"], next((i for i, turn in enumerate(found, 1) if turn in wanted), 0), len(found)


FLOORS = {"single": 0.95, "temporal": 0.96, "identifier": 1.0, "preference": 0.93, "multi": 0.93}


def test_questions_are_answered_in_every_category(banks: Bank) -> None:
    """An evidence message is among the first 8, and mostly the first."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for file in FILES:
        conversation = read(file)
        for category, rank, _ in ranks(banks.named(conversation["id"]), conversation):
            found[category].append(rank)
    hits = {category: sum(rank > 0 for rank in found[category]) / len(found[category]) for category in FLOORS}
    assert {category: hit for category, hit in hits.items() if hit < FLOORS[category]} == {}
    answered = [rank for category in FLOORS for rank in found[category]]
    assert sum(1 / rank for rank in answered if rank) / len(answered) >= 0.92


def test_questions_are_answered_from_one_bank_with_everything(banks: Bank) -> None:
    """Eight conversations in one bank don't drown each other."""
    found = [rank for file in FILES for category, rank, _ in ranks(banks, read(file)) if category != "nothing"]
    assert sum(rank > 0 for rank in found) / len(found) >= 0.96


def test_questions_without_an_answer_find_nothing(banks: Bank) -> None:
    """Off-topic questions mostly return nothing at all."""
    empty = [
        count == 0
        for file in FILES
        for category, _, count in ranks(banks.named(read(file)["id"]), read(file))
        if category == "nothing"
    ]
    assert sum(empty) / len(empty) >= 0.75


def test_the_set_is_whole() -> None:
    """At least 120 answerable questions and 12 without an answer, in three languages, evidence resolved."""
    read_all = [read(file) for file in FILES]
    questions = [question for conversation in read_all for question in conversation["qa"]]
    assert sum(bool(question["evidence"]) for question in questions) >= 120
    assert sum(not question["evidence"] for question in questions) >= 12
    assert {"en", "de", "ja"} <= {conversation["language"] for conversation in read_all}
    for conversation in read_all:
        ids = {turn["id"] for turn in conversation["turns"]}
        assert all(set(question["evidence"]) <= ids for question in conversation["qa"])
