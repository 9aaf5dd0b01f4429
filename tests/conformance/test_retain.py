"""`retain`: what is written, what the receipt says, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from lorebank import Bank, Item, UsageError

Caller = Callable[..., Any]
Opener = Callable[..., Bank]


def test_a_text_is_stored_and_comes_back_exactly(bank: Bank, call: Caller) -> None:
    """What was told comes back byte for byte, under the id of the receipt."""
    text = "Ana prefers aisle seats.\n\tAlways – naïve café 東京 🎒 "
    receipt = call(bank, "retain", text)
    assert (len(receipt), len(receipt.stored), receipt.duplicates, receipt.rejected, receipt.redactions) == (1, 1, (), (), 0)
    memory = call(bank, "get", receipt.stored[0].id)
    assert memory.text == text
    assert (memory.id, memory.bank, memory.type, memory.evidence) == (receipt.stored[0].id, "alice", "world", 1)


def test_all_fields_of_an_item_are_kept(bank: Bank, call: Caller) -> None:
    """Every field of an item can be read back from its memory."""
    fields = {
        "context": "travel",
        "tags": ["trip", "work"],
        "metadata": {"turn": "D1:3", "deep": {"n": [1, None]}},
        "timestamp": datetime(2026, 3, 4, 9, tzinfo=UTC),
        "document_id": "chat-7",
        "entities": ["Ana"],
        "session": "s1",
        "speaker": "Ana",
        "type": "experience",
    }
    memory = call(bank, "get", call(bank, "retain", "I prefer aisle seats.", **fields).stored[0].id)
    assert (memory.context, memory.tags, memory.metadata) == (
        "travel",
        ("trip", "work"),
        {"turn": "D1:3", "deep": {"n": [1, None]}},
    )
    assert memory.mentioned_at == datetime(2026, 3, 4, 9, tzinfo=UTC)
    assert (memory.document_id, memory.entities, memory.session, memory.speaker) == ("chat-7", ("Ana",), "s1", "Ana")
    assert memory.type == "experience"


def test_a_list_may_mix_texts_items_and_mappings(bank: Bank, call: Caller) -> None:
    """One receipt entry for each item, in the order given."""
    receipt = call(bank, "retain", ["first one", Item("second one", tags=["x"]), {"content": "third one", "tags": ["y"]}])
    kept = [call(bank, "get", outcome.id) for outcome in receipt.stored]
    assert [(memory.text, memory.tags) for memory in kept] == [("first one", ()), ("second one", ("x",)), ("third one", ("y",))]


def test_a_generator_of_items_is_retained(bank: Bank, call: Caller) -> None:
    """Any iterable will do."""
    assert len(call(bank, "retain", (f"fact number {n}" for n in range(3))).stored) == 3


def test_keywords_fill_only_what_an_item_leaves_out(bank: Bank, call: Caller) -> None:
    """An item's own values win over the call's."""
    receipt = call(bank, "retain", [Item("one own tag", tags=["own"]), Item("no own tag")], tags=["common"], session="s1")
    own, none = (call(bank, "get", outcome.id) for outcome in receipt.stored)
    assert (own.tags, own.session, none.tags, none.session) == (("own",), "s1", ("common",), "s1")


def test_older_names_of_types_are_accepted(bank: Bank, call: Caller) -> None:
    """`fact` is `world`, `episode` is `experience`."""
    receipt = call(bank, "retain", [{"content": "a fact told", "type": "fact"}, {"content": "a day lived", "type": "episode"}])
    assert [call(bank, "get", outcome.id).type for outcome in receipt.stored] == ["world", "experience"]


def test_a_repeated_statement_is_a_duplicate_with_more_evidence(bank: Bank, call: Caller) -> None:
    """The same statement again adds evidence, not a memory."""
    first = call(bank, "retain", "Ana lives in Oslo.").stored[0].id
    again = call(bank, "retain", "Ana lives in Oslo.")
    assert (again.stored, [(o.id, o.reason) for o in again.duplicates]) == ((), [(first, "already known")])
    assert [(memory.id, memory.evidence) for memory in call(bank, "list")] == [(first, 2)]


def test_each_repeat_within_one_call_counts_as_evidence(bank: Bank, call: Caller) -> None:
    """Three times told in one call is three pieces of evidence, of one memory."""
    receipt = call(bank, "retain", ["Ana lives in Oslo."] * 3)
    assert (len(receipt), len(receipt.stored), len(receipt.duplicates)) == (3, 1, 2)
    assert [memory.evidence for memory in call(bank, "list")] == [3]


def test_each_repeat_of_a_known_statement_counts_as_evidence(bank: Bank, call: Caller) -> None:
    """Twice more of what is known already makes three in all."""
    call(bank, "retain", "Ana lives in Oslo.")
    call(bank, "retain", ["Ana lives in Oslo."] * 2)
    assert [memory.evidence for memory in call(bank, "list")] == [3]


@pytest.mark.parametrize(
    "other", [{"tags": ["x"]}, {"session": "s"}, {"type": "experience"}, {"timestamp": datetime(2026, 1, 1, tzinfo=UTC)}]
)
def test_statements_that_differ_in_more_than_text_are_kept_apart(bank: Bank, call: Caller, other: dict[str, Any]) -> None:
    """Other tags, session, type or time make another memory."""
    call(bank, "retain", "Ana lives in Oslo.")
    assert len(call(bank, "retain", "Ana lives in Oslo.", **other).stored) == 1
    assert len(call(bank, "list")) == 2


def test_an_invalidated_statement_told_again_lives_again(bank: Bank, call: Caller) -> None:
    """What was taken back and is told again is recalled again."""
    known = call(bank, "retain", "Ana lives in Oslo.").stored[0].id
    call(bank, "invalidate", known)
    assert len(call(bank, "retain", "Ana lives in Oslo.").stored) == 1
    assert [memory.text for memory in call(bank, "recall", "Where does Ana live?")] == ["Ana lives in Oslo."]


def test_a_forgotten_statement_told_again_lives_again(bank: Bank, call: Caller) -> None:
    """Forgetting does not forbid to learn it anew."""
    call(bank, "forget", call(bank, "retain", "Ana lives in Oslo.").stored[0].id)
    assert len(call(bank, "retain", "Ana lives in Oslo.").stored) == 1
    assert [memory.text for memory in call(bank, "list")] == ["Ana lives in Oslo."]


def test_secrets_are_taken_out_before_writing(bank: Bank, call: Caller) -> None:
    """No secret reaches the store; the receipt counts them."""
    receipt = call(bank, "retain", "The password=hunter2hunter2 opens it.", metadata={"password": "opensesame"})
    memory = call(bank, "get", receipt.stored[0].id)
    assert (memory.text, memory.metadata, receipt.redactions) == (
        "The password=[redacted] opens it.",
        {"password": "[redacted]"},
        2,
    )


def test_text_without_a_letter_or_digit_is_rejected_with_a_reason(bank: Bank, call: Caller) -> None:
    """A text that says nothing is not stored; the others of the call are."""
    receipt = call(bank, "retain", ["?!…", "Ana lives in Oslo."])
    assert ([o.reason for o in receipt.rejected], len(receipt.stored)) == (["no letter or digit in it"], 1)
    assert [memory.text for memory in call(bank, "list")] == ["Ana lives in Oslo."]


def test_the_users_gate_amends_and_refuses_items(opened: Opener, call: Caller) -> None:
    """`before_enqueue` has the last word on each item; one that raises refuses."""

    def gate(item: Item) -> Item | None:
        if "crash" in item.content:
            raise ValueError(item.content)
        return None if "private" in item.content else Item(item.content.upper())

    bank = opened(bank="alice", retain={"before_enqueue": gate})
    receipt = call(bank, "retain", ["a private matter", "a crash", "a fact"])
    assert [o.reason for o in receipt.rejected] == ["refused by before_enqueue", "refused by before_enqueue: ValueError"]
    assert [memory.text for memory in call(bank, "list")] == ["A FACT"]


def test_the_longest_allowed_text_is_stored_whole(bank: Bank, call: Caller) -> None:
    """65,536 characters are stored, none is cut."""
    text = "word " * 13_107 + "z"
    assert len(text) == 65_536
    assert call(bank, "get", call(bank, "retain", text).stored[0].id).text == text


@pytest.mark.parametrize(
    "content",
    [
        "",
        " \n\t",
        [],
        5,
        None,
        b"bytes",
        ["good text", ""],
        ["good text", None],
        {},
        {"content": "x", "colour": "red"},
        "a" * 65_537,
        "\ud800x",
    ],
    ids=repr,
)
def test_bad_content_is_refused_and_nothing_is_written(bank: Bank, call: Caller, content: object) -> None:
    """One wrong item refuses the whole call."""
    with pytest.raises(UsageError):
        call(bank, "retain", content)
    assert call(bank, "list", state="all") == ()


@pytest.mark.parametrize(
    "fields",
    [
        {"importance": 1.5},
        {"importance": -0.1},
        {"importance": "high"},
        {"importance": float("nan")},
        {"importance": True},
        {"type": "dream"},
        {"tags": "abc"},
        {"tags": [""]},
        {"tags": [5]},
        {"tags": ["a\nb"]},
        {"metadata": [1]},
        {"metadata": {"k": object()}},
        {"metadata": {"k": float("nan")}},
        {"metadata": {1: "x"}},
        {"metadata": {"k": "\ud800"}},
        {"timestamp": "yesterday"},
        {"timestamp": datetime(1, 1, 1)},  # noqa: DTZ001 - meant
        {"valid_until": 5},
        {"update_mode": "merge", "document_id": "d"},
        {"update_mode": "replace"},
        {"session": ""},
        {"session": 5},
        {"speaker": "a\nb"},
        {"document_id": "x" * 513},
        {"entities": "Ana"},
        {"context": ""},
        {"context": 5},
    ],
    ids=lambda fields: repr(fields)[:36],
)
def test_a_bad_field_is_refused_and_nothing_is_written(bank: Bank, call: Caller, fields: dict[str, Any]) -> None:
    """A wrong value is named in a `UsageError`; nothing of the call is written."""
    with pytest.raises(UsageError) as caught:
        call(bank, "retain", ["a good text", "another good text"], **fields)
    assert next(iter(fields)) in str(caught.value)
    assert call(bank, "list", state="all") == ()
