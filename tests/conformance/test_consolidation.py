"""`consolidate`: what several memories say together, written down as observations; the memories stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lorebank import Bank

Caller = Callable[..., Any]
Told = Callable[..., list[str]]
SEATS = [
    "Ana prefers aisle seats on long flights.",
    "Ana booked an aisle seat for the flight to Lima.",
    "On the flight to Oslo Ana had a window seat.",
]
FACTS = ("world", "experience")


@pytest.mark.backends("mnemopi")
def test_observations_are_there_when_it_returns(bank: Bank, call: Caller, told: Told) -> None:
    """The receipt counts them and their sources; a second time there is nothing to do."""
    ids = told(bank, SEATS)
    done = call(bank, "consolidate")
    assert (done.observations, done.memories, done.operation_id) == (1, 3, None)
    assert len(call(bank, "list", types=["observation"])) == 1
    assert {memory.id for memory in call(bank, "list", types=FACTS)} == set(ids)
    assert call(bank, "consolidate").observations == 0
    assert call(bank, "check").ok


@pytest.mark.backends("hindsight")
def test_a_server_goes_on_under_an_operation(bank: Bank, call: Caller, told: Told, settled: Callable[[Bank], None]) -> None:
    """It can be followed; all that was told stays."""
    ids = told(bank, SEATS)
    done = call(bank, "consolidate")
    assert (done.observations, done.memories) == (0, 0)
    operation = call(bank.operations, "get", done.operation_id)
    assert operation.id == done.operation_id
    assert operation.state in ("pending", "processing", "completed")
    settled(bank)
    assert {memory.id for memory in call(bank, "list", types=FACTS)} == set(ids)


def test_a_bank_that_is_not_there_has_nothing_to_consolidate(bank: Bank, call: Caller) -> None:
    """It is no error, and makes no bank's memories."""
    assert call(bank, "consolidate").observations == 0
    assert call(bank, "list") == ()


def test_it_reaches_whatever_holds_the_bank(near: Bank, call: Caller) -> None:
    """Also the small server of users' own tests: it has an operation of this id."""
    call(near, "retain", SEATS)
    call(near, "flush", until="completed")
    done = call(near, "consolidate")
    if near.backend == "hindsight":
        assert call(near.operations, "get", done.operation_id).kind == "consolidation"
    else:
        assert done.observations == 1
