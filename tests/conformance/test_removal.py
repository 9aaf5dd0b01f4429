"""`forget` and `clear`: what is removed, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lorebank import Bank, MissingError

Caller = Callable[..., Any]
Told = Callable[..., list[str]]
Refused = Callable[..., Any]
Beside = Callable[[Bank, str], Bank]
FACTS = ("world", "experience")


def three(bank: Bank, told: Told) -> list[str]:
    """Three memories that differ in session, document and tags."""
    return told(
        bank,
        [
            {"content": "one cello", "session": "s1", "document_id": "d1", "tags": ["a"]},
            {"content": "two cellos", "session": "s1", "document_id": "d2", "tags": ["a", "b"]},
            {"content": "three cellos", "session": "s2", "document_id": "d3", "tags": ["b"]},
        ],
    )


def test_a_forgotten_memory_is_gone_from_every_read(bank: Bank, call: Caller, told: Told) -> None:
    """No verb finds it any more; the receipt says that nothing of it is left, on a server with its document."""
    one, two, three_ = three(bank, told)
    removal = call(bank, "forget", one)
    reason = {"mnemopi": None, "hindsight": "deleted, with its document 'd1'"}[bank.backend]
    assert (removal.ids, len(removal), removal.dry_run, removal.purged, removal.reason) == ((one,), 1, False, True, reason)
    with pytest.raises(MissingError):
        call(bank, "get", one)
    assert {m.id for m in call(bank, "recall", "cello")} == {two, three_}
    assert {m.id for m in call(bank, "list", types=FACTS, state="all")} == {two, three_}
    assert "one cello" not in [m.text for m in call(bank, "list", state="all")]
    assert call(bank, "check").problems == ()


@pytest.mark.backends("hindsight")
def test_nothing_of_what_is_forgotten_can_be_seen_on_a_server(bank: Bank, call: Caller, told: Told) -> None:
    """Neither the document nor an answer tells of it, nor the trace that it has left in the outbox."""
    one, *_ = three(bank, told)
    call(bank, "forget", one)
    assert {document.id for document in call(bank.documents, "list")} == {"d2", "d3"}
    assert "one cello" not in call(bank, "reflect", "one cello").text
    assert call(bank.outbox, "list") == ()


@pytest.mark.backends("hindsight")
def test_one_memory_of_several_in_a_document_is_invalidated(bank: Bank, call: Caller, told: Told) -> None:
    """A server deletes documents only: the receipt says that the memory was taken back, and what deletes it."""
    receipt = call(bank, "retain", "Ana plays the cello. Ana lives in Oslo.", document_id="d1")
    call(bank, "flush", timeout=60, until="completed")
    ids = {memory.text: memory.id for memory in call(bank, "list", types=FACTS)}
    known = ids["Ana plays the cello."]
    removal = call(bank, "forget", known)
    assert (len(receipt.queued), removal.ids, removal.purged) == (1, (known,), False)
    assert "holds 1 other memory" in removal.reason
    assert [m.text for m in call(bank, "recall", "Ana cello")] == ["Ana lives in Oslo."]
    assert set(call(bank, "forget", document="d1").ids) == set(ids.values())
    assert call(bank, "list", types=FACTS, state="all") == ()


FILTERS: list[tuple[dict[str, Any], list[int]]] = [
    ({"session": "s1"}, [0, 1]),
    ({"document": "d1"}, [0]),
    ({"tags": ["a"]}, [0, 1]),
    ({"tags": ["a", "b"]}, [1]),
    ({"session": "s1", "document": "d1"}, [0]),
    ({"session": "s2", "tags": ["a"]}, []),
    ({"session": "unknown"}, []),
]


def test_filters_are_anded_and_tags_match_all(bank: Bank, call: Caller, told: Told) -> None:
    """A dry run names exactly what the real one then removes."""
    ids = three(bank, told)
    for filters, expected in FILTERS:
        would = call(bank, "forget", **filters, dry_run=True)
        assert (filters, set(would.ids), would.dry_run, would.purged) == (filters, {ids[n] for n in expected}, True, False)
    assert len(call(bank, "list", types=FACTS)) == 3
    for filters, expected in (FILTERS[5], FILTERS[3], FILTERS[4]):
        assert set(call(bank, "forget", **filters).ids) == {ids[n] for n in expected}
    assert [m.id for m in call(bank, "list", types=FACTS)] == [ids[2]]


@pytest.mark.backends("mnemopi")
def test_a_document_of_two_sessions_is_forgotten_as_one_or_in_part(bank: Bank, call: Caller, told: Told) -> None:
    """Memories share a document and differ in the rest. (On a server a document has one session and one set of tags.)"""
    one, two = told(bank, [{"content": f"cello {name}", "document_id": "d1", "session": name} for name in ("s1", "s2")])
    assert call(bank, "forget", document="d1", dry_run=True).ids == (one, two)
    assert call(bank, "forget", document="d1", session="s2").ids == (two,)


def test_invalidated_memories_are_forgotten_too(bank: Bank, call: Caller, told: Told) -> None:
    """A filter reaches what is kept but no longer recalled."""
    one, two, _ = three(bank, told)
    call(bank, "invalidate", one)
    assert set(call(bank, "forget", session="s1").ids) == {one, two}


@pytest.mark.backends("mnemopi")
def test_what_a_forgotten_memory_replaced_points_nowhere(bank: Bank, call: Caller, told: Told) -> None:
    """No memory keeps the id of a forgotten successor."""
    one, two, _ = three(bank, told)
    call(bank, "invalidate", one, replacement=two)
    call(bank, "forget", two)
    assert call(bank, "get", one).superseded_by is None


@pytest.mark.backends("hindsight")
def test_a_forgotten_successor_is_missing_on_a_server(bank: Bank, call: Caller, told: Told) -> None:
    """A server keeps the reason of an invalidation: the id in it leads nowhere, and tells nothing of the text."""
    one, two, _ = three(bank, told)
    call(bank, "invalidate", one, replacement=two)
    call(bank, "forget", two)
    assert call(bank, "get", one).superseded_by == two
    with pytest.raises(MissingError):
        call(bank, "get", two)


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
def test_a_bad_filter_is_refused_and_removes_nothing(
    near: Bank, call: Caller, told: Told, refused: Refused, filters: dict[str, Any]
) -> None:
    """What could mean anything is a `UsageError`."""
    three(near, told)
    with refused():
        call(near, "forget", **filters)
    assert len(call(near, "list", types=FACTS)) == 3


def test_clear_empties_the_bank_and_no_other(bank: Bank, call: Caller, told: Told, beside: Beside) -> None:
    """Memories and mental models of this bank go, those of others stay; the bank works on."""
    ids = three(bank, told)
    call(bank.mental_models, "create", "music", name="Music", source_query="cello")
    other = beside(bank, "bob")
    told(other, "Ben plays the cello.")
    removal = call(bank, "clear", confirm=bank.name)
    assert set(ids) <= set(removal.ids)
    assert (removal.purged, removal.reason) == (True, None)
    assert (call(bank, "list", state="all"), call(bank.mental_models, "list")) == ((), ())
    assert [m.text for m in call(other, "list", types=FACTS)] == ["Ben plays the cello."]
    told(bank, "one cello")
    assert [m.text for m in call(bank, "list", types=FACTS)] == ["one cello"]
    assert call(bank, "check").problems == ()


@pytest.mark.parametrize(
    "options", [{}, {"confirm": "bob"}, {"confirm": True}, {"confirm": ""}, {"what": "all", "confirm": "alice"}], ids=repr
)
def test_clear_without_the_right_confirmation_removes_nothing(
    near: Bank, call: Caller, told: Told, refused: Refused, options: dict[str, Any]
) -> None:
    """Only the bank's full id confirms."""
    three(near, told)
    with refused():
        call(near, "clear", **options)
    assert len(call(near, "list", types=FACTS)) == 3


def test_clearing_local_caches_removes_no_memory(near: Bank, call: Caller, told: Told) -> None:
    """`local` means caches only."""
    three(near, told)
    assert call(near, "clear", what="local").ids == ()
    assert len(call(near, "list", types=FACTS)) == 3


def test_clearing_an_unknown_bank_removes_nothing(bank: Bank, call: Caller) -> None:
    """A bank that was never written to is empty already."""
    assert call(bank, "clear", confirm=bank.name).ids == ()
