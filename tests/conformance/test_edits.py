"""`get`, `list`, `update`, `invalidate`: single memories, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from lorebank import Bank, MissingError, UnsupportedError, UsageError

Caller = Callable[..., Any]
Told = Callable[..., list[str]]
Refused = Callable[..., Any]
BAD_IDS = ["", " ", None, 5, "a\nb", "x" * 513]
VERBS: list[tuple[str, dict[str, Any]]] = [("get", {}), ("update", {"content": "x y"}), ("invalidate", {}), ("forget", {})]
FACTS = ("world", "experience")


def test_list_pages_from_the_newest(bank: Bank, call: Caller, told: Told) -> None:
    """Pages follow each other without a gap or a repeat, newest first."""
    told(bank, [{"content": f"day number {n}", "timestamp": datetime(2026, 3, n, tzinfo=UTC)} for n in range(1, 6)])
    pages = [[m.text for m in call(bank, "list", types=FACTS, limit=2, offset=offset)] for offset in (0, 2, 4, 6)]
    assert pages == [["day number 5", "day number 4"], ["day number 3", "day number 2"], ["day number 1"], []]


def test_list_filters_by_session_document_and_state(bank: Bank, call: Caller, told: Told) -> None:
    """Filters are AND-ed; invalidated memories are listed on request."""
    gone, kept, _ = told(
        bank,
        [
            {"content": "number one", "session": "s1", "document_id": "d1", "timestamp": datetime(2026, 3, 1, tzinfo=UTC)},
            {"content": "number two", "session": "s1", "document_id": "d2", "timestamp": datetime(2026, 3, 2, tzinfo=UTC)},
            {"content": "number three", "session": "s2", "document_id": "d3", "timestamp": datetime(2026, 3, 3, tzinfo=UTC)},
        ],
    )
    call(bank, "invalidate", gone)

    def ids(**filters: Any) -> list[str]:
        return [memory.id for memory in call(bank, "list", types=FACTS, **filters)]

    assert ids(session="s1") == [kept]
    assert ids(session="s1", state="all") == [kept, gone]
    assert ids(session="s1", document="d1", state="invalidated") == [gone]
    assert ids(session="s2", document="d1", state="all") == []


def test_a_session_is_found_by_the_name_it_was_given(bank: Bank, call: Caller, told: Told) -> None:
    """Names are read in a filter as they are in a write: blanks around them don't count."""
    [known] = told(bank, "number one", session=" s1 ", document_id=" d1 ")
    assert [m.id for m in call(bank, "list", types=FACTS, session=" s1 ", document=" d1 ")] == [known]
    assert call(bank, "forget", session=" s1 ").ids == (known,)


def test_update_changes_the_text_and_what_is_found_by_it(bank: Bank, call: Caller, told: Told) -> None:
    """The new text is found, the old one is gone; id, tags and evidence stay."""
    [known] = told(bank, "Ana plays the cello.", tags=["music"])
    changed = call(bank, "update", known, content="Ana plays the trumpet.")
    assert (changed.id, changed.text, changed.tags, changed.evidence) == (known, "Ana plays the trumpet.", ("music",), 1)
    assert call(bank, "get", known).text == "Ana plays the trumpet."
    assert [m.id for m in call(bank, "recall", "trumpet")] == [known]
    assert "Ana plays the cello." not in [m.text for m in call(bank, "recall", "cello")]
    assert call(bank, "check").problems == ()


@pytest.mark.backends("mnemopi")
def test_what_only_the_old_text_said_is_not_found_after_an_update(bank: Bank, call: Caller, told: Told) -> None:
    """A query for the old words finds nothing. (A server finds what is alike, too, and both sentences are.)"""
    [known] = told(bank, "Ana plays the cello.")
    call(bank, "update", known, content="Ana plays the trumpet.")
    assert call(bank, "recall", "cello").state == "nothing"


def test_update_changes_tags_alone(bank: Bank, call: Caller, told: Told) -> None:
    """Tags are replaced, or taken away by an empty list; the text stays."""
    [known] = told(bank, "Ana plays the cello.", tags=["music"])
    assert call(bank, "update", known, tags=["hobby"]).tags == ("hobby",)
    assert call(bank, "update", known, tags=[]).tags == ()
    assert call(bank, "get", known).text == "Ana plays the cello."


@pytest.mark.backends("mnemopi")
def test_update_changes_importance_alone(bank: Bank, call: Caller, told: Told) -> None:
    """Importance is changed by itself; the text stays."""
    [known] = told(bank, "Ana plays the cello.")
    changed = call(bank, "update", known, importance=0.25)
    assert (changed.importance, changed.text) == (0.25, "Ana plays the cello.")


@pytest.mark.backends("mnemopi")
def test_update_changes_metadata_alone(bank: Bank, call: Caller, told: Told) -> None:
    """Metadata is replaced by itself; the text stays."""
    [known] = told(bank, "Ana plays the cello.", metadata={"a": 1})
    changed = call(bank, "update", known, metadata={"b": [2]})
    assert (changed.metadata, changed.text) == ({"b": [2]}, "Ana plays the cello.")


@pytest.mark.backends("hindsight")
@pytest.mark.parametrize("fields", [{"importance": 0.25}, {"metadata": {"b": "2"}}], ids=repr)
def test_what_a_server_cannot_update_is_refused_by_name(bank: Bank, call: Caller, told: Told, fields: dict[str, Any]) -> None:
    """Importance and metadata of a server's memory can't be changed: nothing of the call is done."""
    [known] = told(bank, "Ana plays the cello.", metadata={"a": "1"})
    before = call(bank, "get", known)
    with pytest.raises(UnsupportedError, match=f"Hindsight.*`{next(iter(fields))}`"):
        call(bank, "update", known, content="Ana plays the trumpet.", **fields)
    assert call(bank, "get", known) == before


def test_update_takes_secrets_out(bank: Bank, call: Caller, told: Told) -> None:
    """An edit is redacted as a write is."""
    [known] = told(bank, "Ana plays the cello.")
    changed = call(bank, "update", known, content="The password=hunter2hunter2 opens it.")
    assert changed.text == "The password=[redacted] opens it."


@pytest.mark.backends("mnemopi")
@pytest.mark.parametrize(
    "fields", [{}, {"session": "s1"}, {"timestamp": datetime(2026, 3, 4, tzinfo=UTC)}, {"session": "s1", "speaker": "Ana"}]
)
def test_an_updated_statement_told_again_is_a_duplicate(bank: Bank, call: Caller, told: Told, fields: dict[str, Any]) -> None:
    """After an edit a memory is known by its new text, under the same circumstances."""
    [known] = told(bank, "Ana plays the cello.", **fields)
    call(bank, "update", known, content="Ana plays the trumpet.")
    receipt = call(bank, "retain", "Ana plays the trumpet.", **fields)
    assert [outcome.id for outcome in receipt.duplicates] == [known]


@pytest.mark.backends("mnemopi")
def test_an_old_text_told_after_an_update_is_a_new_memory(bank: Bank, call: Caller, told: Told) -> None:
    """An edited memory is no longer known by its old text."""
    call(bank, "update", told(bank, "Ana plays the cello.")[0], content="Ana plays the trumpet.")
    assert len(call(bank, "retain", "Ana plays the cello.").stored) == 1


BAD_UPDATES: list[dict[str, Any]] = [
    {},
    {"content": ""},
    {"content": 5},
    {"content": "?!"},
    {"content": "a" * 65_537},
    {"importance": 2},
    {"importance": "high"},
    {"tags": "abc"},
    {"tags": [""]},
    {"metadata": [1]},
    {"metadata": {"k": object()}},
    {"metadata": {"k": "\ud800"}},
    {"content": "good text", "importance": -1},
]


def test_a_bad_update_is_refused_and_changes_nothing(near: Bank, call: Caller, told: Told, refused: Refused) -> None:
    """A wrong value is a `UsageError`; the memory stays as it was."""
    [known] = told(near, "Ana plays the cello.", tags=["music"])
    before = call(near, "get", known)
    for fields in BAD_UPDATES:
        with refused():
            call(near, "update", known, **fields)
        assert call(near, "get", known) == before, fields


def test_invalidate_keeps_the_memory_and_names_its_replacement(bank: Bank, call: Caller, told: Told) -> None:
    """What is no longer true can still be read by id, with the time and the successor."""
    old, new = told(bank, ["Ana lives in Oslo.", "Ana lives in Rome."])
    gone = call(bank, "invalidate", old, replacement=new)
    assert (gone.id, gone.superseded_by, gone.invalidated_at is not None) == (old, new, True)
    assert call(bank, "get", old) == gone
    assert [m.id for m in call(bank, "recall", "Where does Ana live?")] == [new]


def test_invalidating_twice_keeps_the_first_time(bank: Bank, call: Caller, told: Told) -> None:
    """A repeated call changes nothing."""
    [old] = told(bank, "Ana lives in Oslo.")
    assert call(bank, "invalidate", old) == call(bank, "invalidate", old)


def test_a_memory_cannot_replace_itself(bank: Bank, call: Caller, told: Told) -> None:
    """A memory is never its own successor; it stays valid."""
    [known] = told(bank, "Ana lives in Oslo.")
    with pytest.raises(UsageError, match="itself"):
        call(bank, "invalidate", known, replacement=known)
    assert call(bank, "get", known).invalidated_at is None


def test_an_unknown_replacement_changes_nothing(bank: Bank, call: Caller, told: Told) -> None:
    """The replacement must exist, else the memory stays valid."""
    [known] = told(bank, "Ana lives in Oslo.")
    with pytest.raises(MissingError):
        call(bank, "invalidate", known, replacement="nope")
    assert call(bank, "get", known).invalidated_at is None


@pytest.mark.parametrize("unknown", ["nope", "00000000-0000-4000-8000-000000000000"])
def test_an_unknown_id_is_missing(bank: Bank, call: Caller, told: Told, unknown: str) -> None:
    """Unknown ids raise `MissingError` in every verb, also in a bank that was never written to."""
    for verb, fields in VERBS:
        with pytest.raises(MissingError, match=unknown):
            call(bank, verb, unknown, **fields)
    told(bank, "Ana plays the cello.")
    for verb, fields in VERBS:
        with pytest.raises(MissingError, match=unknown):
            call(bank, verb, unknown, **fields)


@pytest.mark.parametrize("bad", BAD_IDS, ids=lambda bad: repr(bad)[:10])
def test_a_bad_id_is_refused(near: Bank, call: Caller, told: Told, refused: Refused, bad: object) -> None:
    """An id is a short text; anything else is a `UsageError` in every verb and touches nothing."""
    told(near, "Ana plays the cello.")
    for verb, fields in VERBS:
        with refused():
            call(near, verb, bad, **fields)
    assert [m.text for m in call(near, "list", types=FACTS)] == ["Ana plays the cello."]


@pytest.mark.parametrize(
    "options",
    [
        {"limit": 0},
        {"limit": "all"},
        {"offset": -1},
        {"offset": 1.5},
        {"offset": True},
        {"state": "gone"},
        {"types": []},
        {"tags": []},
        {"tags": ["a"], "tags_match": "some"},
        {"session": ""},
        {"session": 5},
        {"session": ["s1"]},
        {"document": ""},
        {"document": ["d1"]},
        {"session": "\ud800"},
    ],
    ids=repr,
)
def test_a_bad_option_of_list_is_refused(near: Bank, call: Caller, refused: Refused, options: dict[str, Any]) -> None:
    """A wrong filter is a `UsageError`, never an empty or an unfiltered page."""
    with refused():
        call(near, "list", **options)
