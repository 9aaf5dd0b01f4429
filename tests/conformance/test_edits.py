"""`get`, `list`, `update`, `invalidate`: single memories, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from lorebank import Bank, MissingError, UsageError

Caller = Callable[..., Any]
BAD_IDS = ["", " ", None, 5, "a\nb", "x" * 513]


def told(bank: Bank, call: Caller, text: str, **fields: Any) -> str:
    return call(bank, "retain", text, **fields).stored[0].id


def test_list_pages_from_the_newest(bank: Bank, call: Caller) -> None:
    """Pages follow each other without a gap or a repeat, newest first."""
    for day in range(1, 6):
        told(bank, call, f"day number {day}", timestamp=datetime(2026, 3, day, tzinfo=UTC))
    pages = [[memory.text for memory in call(bank, "list", limit=2, offset=offset)] for offset in (0, 2, 4, 6)]
    assert pages == [["day number 5", "day number 4"], ["day number 3", "day number 2"], ["day number 1"], []]


def test_list_filters_by_session_document_and_state(bank: Bank, call: Caller) -> None:
    """Filters are AND-ed; invalidated memories are listed on request."""
    gone = told(bank, call, "one", session="s1", document_id="d1")
    kept = told(bank, call, "two", session="s1", document_id="d2")
    told(bank, call, "three", session="s2", document_id="d1")
    call(bank, "invalidate", gone)
    assert [m.id for m in call(bank, "list", session="s1")] == [kept]
    assert [m.id for m in call(bank, "list", session="s1", state="all")] == [kept, gone]
    assert [m.id for m in call(bank, "list", session="s1", document="d1", state="invalidated")] == [gone]


def test_a_session_is_found_by_the_name_it_was_given(bank: Bank, call: Caller) -> None:
    """Names are read in a filter as they are in a write: blanks around them don't count."""
    known = told(bank, call, "one", session=" s1 ", document_id=" d1 ")
    assert [m.id for m in call(bank, "list", session=" s1 ", document=" d1 ")] == [known]
    assert call(bank, "forget", session=" s1 ").ids == (known,)


def test_update_changes_the_text_and_what_is_found_by_it(bank: Bank, call: Caller) -> None:
    """The new text is found, the old one is not; id, tags and evidence stay."""
    known = told(bank, call, "Ana plays the cello.", tags=["music"])
    changed = call(bank, "update", known, content="Ana plays the trumpet.")
    assert (changed.id, changed.text, changed.tags, changed.evidence) == (known, "Ana plays the trumpet.", ("music",), 1)
    assert call(bank, "recall", "cello").state == "nothing"
    assert [m.id for m in call(bank, "recall", "trumpet")] == [known]
    assert call(bank, "check").problems == ()


def test_update_changes_tags_alone(bank: Bank, call: Caller) -> None:
    """Tags are replaced, or taken away by an empty list; the text stays."""
    known = told(bank, call, "Ana plays the cello.", tags=["music"])
    assert call(bank, "update", known, tags=["hobby"]).tags == ("hobby",)
    assert call(bank, "update", known, tags=[]).tags == ()
    assert call(bank, "get", known).text == "Ana plays the cello."


def test_update_changes_importance_alone(bank: Bank, call: Caller) -> None:
    """Importance is changed by itself; the text stays."""
    known = told(bank, call, "Ana plays the cello.")
    changed = call(bank, "update", known, importance=0.25)
    assert (changed.importance, changed.text) == (0.25, "Ana plays the cello.")


def test_update_changes_metadata_alone(bank: Bank, call: Caller) -> None:
    """Metadata is replaced by itself; the text stays."""
    known = told(bank, call, "Ana plays the cello.", metadata={"a": 1})
    changed = call(bank, "update", known, metadata={"b": [2]})
    assert (changed.metadata, changed.text) == ({"b": [2]}, "Ana plays the cello.")


def test_update_takes_secrets_out(bank: Bank, call: Caller) -> None:
    """An edit is redacted as a write is."""
    known = told(bank, call, "Ana plays the cello.")
    assert (
        call(bank, "update", known, content="The password=hunter2hunter2 opens it.").text == "The password=[redacted] opens it."
    )


@pytest.mark.parametrize(
    "fields", [{}, {"session": "s1"}, {"timestamp": datetime(2026, 3, 4, tzinfo=UTC)}, {"session": "s1", "speaker": "Ana"}]
)
def test_an_updated_statement_told_again_is_a_duplicate(bank: Bank, call: Caller, fields: dict[str, Any]) -> None:
    """After an edit a memory is known by its new text, under the same circumstances."""
    known = told(bank, call, "Ana plays the cello.", **fields)
    call(bank, "update", known, content="Ana plays the trumpet.")
    receipt = call(bank, "retain", "Ana plays the trumpet.", **fields)
    assert [outcome.id for outcome in receipt.duplicates] == [known]


def test_an_old_text_told_after_an_update_is_a_new_memory(bank: Bank, call: Caller) -> None:
    """An edited memory is no longer known by its old text."""
    call(bank, "update", told(bank, call, "Ana plays the cello."), content="Ana plays the trumpet.")
    assert len(call(bank, "retain", "Ana plays the cello.").stored) == 1


@pytest.mark.parametrize(
    "fields",
    [
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
    ],
    ids=lambda fields: repr(fields)[:36],
)
def test_a_bad_update_is_refused_and_changes_nothing(bank: Bank, call: Caller, fields: dict[str, Any]) -> None:
    """A wrong value is a `UsageError`; the memory stays as it was."""
    known = told(bank, call, "Ana plays the cello.", tags=["music"])
    before = call(bank, "get", known)
    with pytest.raises(UsageError):
        call(bank, "update", known, **fields)
    assert call(bank, "get", known) == before


def test_invalidate_keeps_the_memory_and_names_its_replacement(bank: Bank, call: Caller) -> None:
    """What is no longer true can still be read by id, with the time and the successor."""
    old, new = told(bank, call, "Ana lives in Oslo."), told(bank, call, "Ana lives in Rome.")
    gone = call(bank, "invalidate", old, replacement=new)
    assert (gone.id, gone.superseded_by, gone.invalidated_at is not None) == (old, new, True)
    assert call(bank, "get", old) == gone
    assert [m.id for m in call(bank, "recall", "Where does Ana live?")] == [new]


def test_invalidating_twice_keeps_the_first_time(bank: Bank, call: Caller) -> None:
    """A repeated call changes nothing."""
    old = told(bank, call, "Ana lives in Oslo.")
    assert call(bank, "invalidate", old) == call(bank, "invalidate", old)


def test_a_memory_cannot_replace_itself(bank: Bank, call: Caller) -> None:
    """A memory is never its own successor; it stays valid."""
    known = told(bank, call, "Ana lives in Oslo.")
    with pytest.raises(UsageError, match="itself"):
        call(bank, "invalidate", known, replacement=known)
    assert call(bank, "get", known).invalidated_at is None


def test_an_unknown_replacement_changes_nothing(bank: Bank, call: Caller) -> None:
    """The replacement must exist, else the memory stays valid."""
    known = told(bank, call, "Ana lives in Oslo.")
    with pytest.raises(MissingError):
        call(bank, "invalidate", known, replacement="nope")
    assert call(bank, "get", known).invalidated_at is None


@pytest.mark.parametrize(("verb", "fields"), [("get", {}), ("update", {"content": "x y"}), ("invalidate", {}), ("forget", {})])
def test_an_unknown_id_is_missing(bank: Bank, call: Caller, verb: str, fields: dict[str, Any]) -> None:
    """Unknown ids raise `MissingError`, also in a bank that was never written to."""
    with pytest.raises(MissingError, match="nope"):
        call(bank, verb, "nope", **fields)
    told(bank, call, "Ana plays the cello.")
    with pytest.raises(MissingError, match="nope"):
        call(bank, verb, "nope", **fields)


@pytest.mark.parametrize("bad", BAD_IDS, ids=lambda bad: repr(bad)[:10])
@pytest.mark.parametrize(("verb", "fields"), [("get", {}), ("update", {"content": "x y"}), ("invalidate", {}), ("forget", {})])
def test_a_bad_id_is_refused(bank: Bank, call: Caller, verb: str, fields: dict[str, Any], bad: object) -> None:
    """An id is a short text; anything else is a `UsageError` and touches nothing."""
    told(bank, call, "Ana plays the cello.")
    with pytest.raises(UsageError):
        call(bank, verb, bad, **fields)
    assert [m.text for m in call(bank, "list")] == ["Ana plays the cello."]


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
def test_a_bad_option_of_list_is_refused(bank: Bank, call: Caller, options: dict[str, Any]) -> None:
    """A wrong filter is a `UsageError`, never an empty or an unfiltered page."""
    told(bank, call, "Ana plays the cello.")
    with pytest.raises(UsageError):
        call(bank, "list", **options)
