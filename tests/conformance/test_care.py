"""`stats`, `health`, `check`, `purge`, `flush`: how a bank is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from lorebank import Bank

Caller = Callable[..., Any]
Told = Callable[..., list[str]]
Refused = Callable[..., Any]
Beside = Callable[[Bank, str], Bank]
FACTS = ("world", "experience")


@pytest.mark.backends("mnemopi")
def test_stats_count_this_bank_alone(bank: Bank, call: Caller) -> None:
    """Counts by state, type, source and session, and the span of time; other banks don't weigh in."""
    old, new = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
    call(
        bank,
        "retain",
        [{"content": "one", "timestamp": new, "session": "s"}, {"content": "two", "timestamp": old, "type": "experience"}],
    )
    call(bank, "invalidate", call(bank, "list")[0].id)
    call(bank.named("bob"), "retain", ["three", "four"])
    call(bank.mental_models, "create", "music", name="Music", source_query="one?")
    stats = call(bank, "stats")
    assert (stats.bank, stats.memories, stats.invalidated, stats.sessions, stats.mental_models) == ("alice", 2, 1, 1, 1)
    assert (stats.by_type, stats.by_source) == ({"experience": 1, "world": 1}, {"app": 2})
    assert (stats.oldest, stats.newest) == (old, new)


@pytest.mark.backends("hindsight")
def test_stats_count_what_a_server_tells_of_this_bank(bank: Bank, call: Caller, told: Told, beside: Beside) -> None:
    """Memories by state and type, mental models and the span of time; a server tells no sources, sessions or sizes."""
    old, new = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
    items = [{"content": "number one", "timestamp": new, "session": "s"}, {"content": "number two", "timestamp": old}]
    _, two = told(bank, items)
    told(beside(bank, "bob"), ["number three", "number four"])
    call(bank.mental_models, "create", "music", name="Music", source_query="one?")
    stats = call(bank, "stats")
    assert (stats.bank, stats.by_type["world"], stats.invalidated, stats.mental_models) == (bank.name, 2, 0, 1)
    assert (stats.oldest, stats.newest) == (old, new)
    assert (stats.by_source, stats.sessions, stats.bytes) == ({}, 0, None)
    call(bank, "invalidate", two)
    assert call(bank, "stats").invalidated == 1


def test_stats_of_an_unknown_bank_are_zero(bank: Bank, call: Caller) -> None:
    """A bank that was never written to holds nothing."""
    stats = call(bank, "stats")
    assert (stats.memories, stats.invalidated, stats.sessions, stats.by_type, stats.oldest) == (0, 0, 0, {}, None)


def test_a_working_bank_is_healthy_sound_and_has_nothing_left_to_do(bank: Bank, call: Caller, told: Told) -> None:
    """Health, check, purge and flush of a bank in order."""
    told(bank, "Ana plays the cello.")
    health = call(bank, "health")
    assert (health.ok, health.backend, health.latency is not None) == (True, bank.backend, True)
    assert (call(bank, "check").ok, call(bank, "check").problems) == (True, ())
    assert call(bank, "purge") is None
    report = call(bank, "flush", timeout=5, until="completed")
    assert (report.done, report.left, report.reason) == (True, 0, None)


@pytest.mark.parametrize(
    "options", [{"timeout": -1}, {"timeout": "5"}, {"timeout": float("inf")}, {"until": "tomorrow"}], ids=repr
)
def test_a_bad_bound_of_flush_is_refused(near: Bank, call: Caller, refused: Refused, options: dict[str, Any]) -> None:
    """Waiting has an end, and a known one."""
    with refused():
        call(near, "flush", **options)


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("retain", ["x y"]),
        ("recall", ["x"]),
        ("reflect", ["x"]),
        ("explain", ["x"]),
        ("get", ["x"]),
        ("list", []),
        ("update", ["x"]),
        ("invalidate", ["x"]),
        ("forget", ["x"]),
        ("clear", []),
        ("purge", []),
        ("stats", []),
        ("health", []),
        ("check", []),
        ("flush", []),
    ],
)
def test_every_verb_after_close_is_refused(near: Bank, call: Caller, refused: Refused, verb: str, arguments: list[str]) -> None:
    """A closed bank says that it is closed, in each verb, and of its `named` banks too."""
    other = near.named("bob")
    options = {"update": {"content": "x y"}, "clear": {"confirm": "alice"}}.get(verb, {})
    call(near, "close")
    with refused("closed"):
        call(near, verb, *arguments, **options)
    with refused("closed"):
        call(other, verb, *arguments, **({"confirm": "bob"} if verb == "clear" else options))
    with refused("closed"):
        near.mental_models.list()
    call(near, "close")


def test_closing_a_named_bank_leaves_the_connections_open(near: Bank, call: Caller, told: Told, refused: Refused) -> None:
    """Only the bank that was opened closes the connections."""
    other = near.named("bob")
    call(other, "close")
    with refused("closed"):
        call(other, "list")
    assert told(near, "Ana plays the cello.")
