"""Observations push nothing out of recall: conversations of our own, asked before and after they were consolidated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from lorebank import Bank
from lorebank.testing import temporary_bank

FOLDER = Path(__file__).parent / "conversations"
NAMES = ("05-alltag-deutsch", "06-nichijou-nihongo", "08-support-desk", "12-altbau-und-chor")
"""Those of which most observations are made."""
FACTS, ALL = ("world", "experience"), ("world", "experience", "observation")


@pytest.fixture(scope="module", params=NAMES)
def told(request: pytest.FixtureRequest) -> Iterator[tuple[Bank, dict[str, Any]]]:
    conversation = json.loads((FOLDER / f"{request.param}.json").read_text(encoding="utf-8"))
    with temporary_bank() as bank:
        for turn in conversation["turns"]:
            bank.retain(
                turn["text"],
                session=str(turn["session"]),
                speaker=turn["speaker"],
                timestamp=datetime.fromisoformat(turn["date"]),
                document_id=turn["id"],
            )
        yield bank, conversation


def found(bank: Bank, asked: dict[str, Any], types: tuple[str, ...]) -> list[str | None]:
    return [memory.document_id for memory in bank.recall(asked["question"], limit=10, types=types)]


def test_recall_answers_as_before(told: tuple[Bank, dict[str, Any]]) -> None:
    """Not one result differs; where all types are asked for, as many questions find their evidence."""
    bank, conversation = told
    questions = [asked for asked in conversation["qa"] if asked["evidence"]]
    before = [found(bank, asked, FACTS) for asked in questions]
    assert bank.consolidate().observations >= 3
    assert [found(bank, asked, FACTS) for asked in questions] == before
    everything = [found(bank, asked, ALL) for asked in questions]
    hits = [
        [not set(asked["evidence"]).isdisjoint(answer) for asked, answer in zip(questions, answers, strict=True)]
        for answers in (before, everything)
    ]
    assert sum(hits[1]) >= sum(hits[0])
