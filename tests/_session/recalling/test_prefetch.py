"""`prefetch` gives what a turn will need and leaves the running turn as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from lorebank import Bank, Message, open_bank
from lorebank.seams import Event, Recalled

FACT = "Ana prefers aisle seats on long flights."
ASKED = [Message("user", "Which seats does Ana prefer?")]
ECHO = Message("assistant", "Ana prefers aisle seats on long flights, yes.")


@pytest.fixture
def told() -> list[Event]:
    return []


@pytest.fixture
def bank(file: Path, told: list[Event]) -> Bank:
    opened = open_bank(f"sqlite:///{file}", bank="ana", on_event=told.append)
    opened.retain(FACT)
    return opened


def recalls(told: list[Event]) -> int:
    return sum(isinstance(event, Recalled) for event in told)


def test_asking_for_the_prefix_alone_leaves_the_turn(bank: Bank, told: list[Event]) -> None:
    """Without a user message there is nothing to recall: the turn keeps its memories, and its echoes are known as such."""
    with bank, bank.session("t") as session:
        session.before_turn(ASKED, history="delta", run_id="1")
        assert session.prefetch([]).system_prefix
        session.before_turn(ASKED, history="delta", run_id="1")
        assert recalls(told) == 1
        assert session.after_turn([*ASKED, ECHO], history="delta", run_id="1").echoes == 1


def test_what_was_prefetched_serves_the_turn(bank: Bank, told: list[Event]) -> None:
    """Whoever asks first, one recall is made, and the next turn with the same words makes one of its own."""
    with bank, bank.session("t") as session:
        ahead = session.prefetch(ASKED, history="delta", run_id="1")
        assert FACT in ahead.memories
        assert session.before_turn(ASKED, history="delta", run_id="1").memories == ahead.memories
        assert recalls(told) == 1
        session.after_turn([*ASKED, Message("assistant", "Row twelve.")], history="delta", run_id="1")
        session.before_turn(ASKED, history="delta", run_id="2")
        assert recalls(told) == 2


def test_the_mental_models_of_the_prefix_are_there_alone(bank: Bank) -> None:
    """For hosts without a system message: the block without the instructions ahead of it."""
    with bank, bank.session("t") as session:
        bank.mental_models.create("seats", name="Seats", source_query="Which seats does Ana prefer?")
        session.reload_mental_models()
        injection = session.before_turn(ASKED)
    assert injection.mental_models.startswith("<mental_models>")
    assert injection.system_prefix.endswith(injection.mental_models)
    assert not injection.system_prefix.startswith("<mental_models>")
