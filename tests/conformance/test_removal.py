"""`forget` and `clear`: what is removed, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lorebank import Bank, MissingError, UsageError

Caller = Callable[..., Any]


def three(bank: Bank, call: Caller) -> list[str]:
    """Three memories that differ in session, document and tags."""
    items = [
        {"content": "one cello", "session": "s1", "document_id": "d1", "tags": ["a"]},
        {"content": "two cellos", "session": "s1", "document_id": "d2", "tags": ["a", "b"]},
        {"content": "three cellos", "session": "s2", "document_id": "d1", "tags": ["b"]},
    ]
    return [outcome.id for outcome in call(bank, "retain", items).stored]


def test_a_forgotten_memory_is_gone_from_every_read(bank: Bank, call: Caller) -> None:
    """No verb finds it any more; the receipt says that it is gone from the file as well."""
    one, two, three_ = three(bank, call)
    removal = call(bank, "forget", one)
    assert (removal.ids, len(removal), removal.dry_run, removal.purged, removal.reason) == ((one,), 1, False, True, None)
    with pytest.raises(MissingError):
        call(bank, "get", one)
    assert {m.id for m in call(bank, "recall", "cello")} == {two, three_}
    assert {m.id for m in call(bank, "list", state="all")} == {two, three_}
    assert call(bank, "check").problems == ()


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"session": "s1"}, [0, 1]),
        ({"document": "d1"}, [0, 2]),
        ({"tags": ["a"]}, [0, 1]),
        ({"tags": ["a", "b"]}, [1]),
        ({"session": "s1", "document": "d1"}, [0]),
        ({"session": "s2", "tags": ["a"]}, []),
        ({"session": "unknown"}, []),
    ],
)
def test_filters_are_anded_and_tags_match_all(bank: Bank, call: Caller, filters: dict[str, Any], expected: list[int]) -> None:
    """A dry run names exactly what the real one then removes."""
    ids = three(bank, call)
    wanted = tuple(ids[place] for place in expected)
    would = call(bank, "forget", **filters, dry_run=True)
    assert (would.ids, would.dry_run, would.purged, len(call(bank, "list"))) == (wanted, True, False, 3)
    assert call(bank, "forget", **filters).ids == wanted
    assert {m.id for m in call(bank, "list")} == set(ids) - set(wanted)


def test_invalidated_memories_are_forgotten_too(bank: Bank, call: Caller) -> None:
    """A filter reaches what is kept but no longer recalled."""
    one, two, _ = three(bank, call)
    call(bank, "invalidate", one)
    assert call(bank, "forget", session="s1").ids == (one, two)


def test_what_a_forgotten_memory_replaced_points_nowhere(bank: Bank, call: Caller) -> None:
    """No memory keeps the id of a forgotten successor."""
    one, two, _ = three(bank, call)
    call(bank, "invalidate", one, replacement=two)
    call(bank, "forget", two)
    assert call(bank, "get", one).superseded_by is None


@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"id": "x", "session": "s1"},
        {"tags": []},
        {"tags": "a"},
        {"tags": [""]},
        {"session": ""},
        {"session": 5},
        {"document": ["d1"]},
        {"document": " "},
    ],
    ids=repr,
)
def test_a_bad_filter_is_refused_and_removes_nothing(bank: Bank, call: Caller, filters: dict[str, Any]) -> None:
    """What could mean anything is a `UsageError`."""
    three(bank, call)
    with pytest.raises(UsageError):
        call(bank, "forget", **filters)
    assert len(call(bank, "list")) == 3


def test_clear_empties_the_bank_and_no_other(bank: Bank, call: Caller) -> None:
    """Memories and mental models of this bank go, those of others stay; the bank works on."""
    ids = three(bank, call)
    call(bank.mental_models, "create", "music", name="Music", source_query="cello")
    other = bank.named("bob")
    call(other, "retain", "Ben plays the cello.")
    removal = call(bank, "clear", confirm="alice")
    assert (set(removal.ids), removal.purged, removal.reason) == (set(ids), True, None)
    assert (call(bank, "list", state="all"), call(bank.mental_models, "list")) == ((), ())
    assert [m.text for m in call(other, "list")] == ["Ben plays the cello."]
    assert len(call(bank, "retain", "one cello").stored) == 1
    assert call(bank, "check").problems == ()


@pytest.mark.parametrize(
    "options", [{}, {"confirm": "bob"}, {"confirm": True}, {"confirm": ""}, {"what": "all", "confirm": "alice"}], ids=repr
)
def test_clear_without_the_right_confirmation_removes_nothing(bank: Bank, call: Caller, options: dict[str, Any]) -> None:
    """Only the bank's full id confirms."""
    three(bank, call)
    with pytest.raises(UsageError):
        call(bank, "clear", **options)
    assert len(call(bank, "list")) == 3


def test_clearing_local_caches_removes_no_memory(bank: Bank, call: Caller) -> None:
    """`local` means caches only."""
    three(bank, call)
    assert call(bank, "clear", what="local").ids == ()
    assert len(call(bank, "list")) == 3


def test_clearing_an_unknown_bank_removes_nothing(bank: Bank, call: Caller) -> None:
    """A bank that was never written to is empty already."""
    assert call(bank, "clear", confirm="alice").ids == ()
