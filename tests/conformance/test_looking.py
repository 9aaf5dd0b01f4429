"""`revalidate`, `entities`, `sessions` and `list(before=...)`: what a person needs who looks through a bank."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from lorebank import Bank, Message, MissingError
from lorebank.seams import Entity, Together

Caller = Callable[..., Any]
Told = Callable[..., list[str]]
Opener = Callable[..., Bank]
Refused = Callable[..., Any]
FACTS = ("world", "experience")
AISLE = "Ana prefers aisle seats."


def test_an_invalidation_is_taken_back(bank: Bank, call: Caller, told: Told) -> None:
    """The memory is recalled again, with the text and tags it had, and nothing replaces it."""
    gone, other = told(bank, [{"content": AISLE, "tags": ["trip"]}, "Ana plays the cello."])
    call(bank, "invalidate", gone, replacement=other)
    back = call(bank, "revalidate", gone)
    assert (back.id, back.text, back.tags, back.invalidated_at, back.superseded_by) == (gone, AISLE, ("trip",), None, None)
    assert AISLE in [memory.text for memory in call(bank, "recall", "Which seats does Ana prefer?", types=FACTS)]
    assert call(bank, "revalidate", gone).invalidated_at is None
    with pytest.raises(MissingError):
        call(bank, "revalidate", "no-such-memory")


def test_a_list_begins_before_a_moment(bank: Bank, call: Caller, told: Told) -> None:
    """That very moment is not in it; pages follow each other within it."""
    told(bank, [{"content": f"day number {n}", "timestamp": datetime(2026, 3, n, tzinfo=UTC)} for n in range(1, 6)])
    early = datetime(2026, 3, 4, tzinfo=UTC)
    assert [m.text for m in call(bank, "list", types=FACTS, before=early, limit=2)] == ["day number 3", "day number 2"]
    assert [m.text for m in call(bank, "list", types=FACTS, before=early, limit=2, offset=2)] == ["day number 1"]


def test_what_is_no_moment_and_no_number_is_refused(near: Bank, call: Caller, refused: Refused) -> None:
    """Before any I/O."""
    with refused("`before` must be a datetime"):
        call(near, "list", before="yesterday")
    with refused("`limit` must be a whole number"):
        call(near, "entities", limit=0)


def test_names_are_counted_and_paired(bank: Bank, call: Caller, told: Told) -> None:
    """The most frequent first; a pair says how many memories have both. An empty bank names nothing."""
    assert (call(bank, "entities").names, call(bank, "entities").pairs) == ((), ())
    told(bank, ["then Ana met Boris in Lisbon.", "then Ana wrote to Boris."])
    found = call(bank, "entities", limit=2)
    assert found.names == (Entity("Ana", 2), Entity("Boris", 2))
    assert found.pairs == (Together("Ana", "Boris", 2),)


def test_a_project_counts_what_it_may_read(opened: Opener, call: Caller, told: Told) -> None:
    """Another project's names are not among them."""
    told(opened(bank="alice", project="zeus"), "then Ana wrote to Boris.")
    bank = opened(bank="alice", project="atlas")
    told(bank, "then Ana wrote to Chloe.")
    found = call(bank, "entities")
    assert set(found.names) == {Entity("Ana", 1), Entity("Chloe", 1)}
    assert found.pairs == (Together("Ana", "Chloe", 1),)


def test_sessions_are_listed_with_their_traces(opened: Opener, call: Caller, told: Told) -> None:
    """Those with the newest messages first; a trace says what a turn was shown, and why. Other banks' are not among them."""
    recall = {"keep_traces": 2, "deadline": 30}
    bank = opened(bank="alice", recall=recall, mental_models={"enabled": False})
    [known] = told(bank, AISLE)
    for name in ("monday", "tuesday"):
        with bank.session(name) as session:
            session.before_turn([Message("user", "Which seats does Ana prefer?")])
    found = call(bank.sessions, "list")
    assert {(each.id, each.mode, each.traces) for each in found} == {("monday", "normal", 1), ("tuesday", "normal", 1)}
    assert call(bank.sessions, "list", limit=1, offset=1) == found[1:]
    [trace] = call(bank.sessions, "traces", "monday")
    assert (trace.query, trace.state) == ("Which seats does Ana prefer?", "found")
    assert known in [each.id for each in trace.shown]
    assert call(bank.sessions, "traces", "nosuch") == ()
    assert call(bank.named("nobody").sessions, "list") == ()
