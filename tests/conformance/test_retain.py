"""`retain`: what is written, what the receipt says, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from lorebank import Bank, Item, UnsupportedError

Caller = Callable[..., Any]
Opener = Callable[..., Bank]
Told = Callable[..., list[str]]
Settled = Callable[[Bank], None]
Refused = Callable[..., Any]
FACTS = ("world", "experience")


@pytest.mark.backends("mnemopi")
def test_a_text_is_stored_and_comes_back_exactly(bank: Bank, call: Caller) -> None:
    """What was told comes back byte for byte, under the id of the receipt."""
    text = "Ana prefers aisle seats.\n\tAlways – naïve café 東京 🎒 "
    receipt = call(bank, "retain", text)
    assert (len(receipt), len(receipt.stored), receipt.duplicates, receipt.rejected, receipt.redactions) == (1, 1, (), (), 0)
    memory = call(bank, "get", receipt.stored[0].id)
    assert memory.text == text
    assert (memory.id, memory.bank, memory.type, memory.evidence) == (receipt.stored[0].id, "alice", "world", 1)


@pytest.mark.backends("hindsight")
def test_a_text_is_kept_whole_on_a_server_and_known_by_its_sentences(
    bank: Bank, call: Caller, told: Told, settled: Settled
) -> None:
    """The receipt names the row and the document; the document has the text byte for byte, a memory one sentence of it."""
    text = "Ana prefers aisle seats. Always \u2013 na\u00efve caf\u00e9 \u6771\u4eac \U0001f392!"
    receipt = call(bank, "retain", text)
    assert (len(receipt), len(receipt.queued), receipt.stored, receipt.duplicates, receipt.rejected) == (1, 1, (), (), ())
    [queued] = receipt.queued
    assert call(bank.outbox, "get", queued.id).document_id == queued.document_id
    settled(bank)
    assert call(bank.documents, "get", queued.document_id).text == text
    listed = call(bank, "list", types=FACTS)
    assert {(m.type, m.document_id, m.bank) for m in listed} == {("world", queued.document_id, bank.name)}
    assert "Ana prefers aisle seats." in [m.text for m in listed]


@pytest.mark.backends("mnemopi")
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


@pytest.mark.backends("hindsight")
def test_the_fields_of_an_item_that_a_server_knows_are_kept(bank: Bank, call: Caller, told: Told) -> None:
    """Each can be read back from the memory; values of the metadata come back as text."""
    fields = {
        "context": "travel",
        "tags": ["trip", "work"],
        "metadata": {"turn": "D1:3", "deep": {"n": [1, None]}},
        "timestamp": datetime(2026, 3, 4, 9, tzinfo=UTC),
        "document_id": "chat-7",
        "entities": ["Ana"],
        "session": "s1",
        "speaker": "Ana",
    }
    memory = call(bank, "get", told(bank, "I prefer aisle seats.", **fields)[0])
    assert (memory.context, set(memory.tags)) == ("travel", {"trip", "work"})
    assert memory.metadata == {"turn": "D1:3", "deep": '{"n":[1,null]}'}
    assert memory.mentioned_at == datetime(2026, 3, 4, 9, tzinfo=UTC)
    assert (memory.document_id, memory.session, memory.speaker) == ("chat-7", "s1", "Ana")
    assert "Ana" in memory.entities


@pytest.mark.backends("hindsight")
@pytest.mark.parametrize(
    "fields", [{"type": "experience"}, {"importance": 0.5}, {"valid_until": datetime(2026, 1, 1, tzinfo=UTC)}], ids=repr
)
def test_a_field_that_a_server_lacks_is_refused_by_name(
    near: Bank, call: Caller, refused: Refused, fields: dict[str, Any]
) -> None:
    """Nothing is sent and nothing queued, not even the items without the field."""
    with refused(f"Hindsight has no `{next(iter(fields))}`") as caught:
        call(near, "retain", ["a good text", {"content": "another", **fields}])
    assert isinstance(caught.value, UnsupportedError)
    assert call(near.outbox, "list") == ()


def test_a_list_may_mix_texts_items_and_mappings(bank: Bank, call: Caller, told: Told) -> None:
    """One receipt entry for each item, in the order given."""
    ids = told(bank, ["first one", Item("second one", tags=["x"]), {"content": "third one", "tags": ["y"]}])
    kept = [call(bank, "get", each) for each in ids]
    assert [(memory.text, memory.tags) for memory in kept] == [("first one", ()), ("second one", ("x",)), ("third one", ("y",))]


def test_a_generator_of_items_is_retained(bank: Bank, call: Caller) -> None:
    """Any iterable will do."""
    receipt = call(bank, "retain", (f"fact number {n}" for n in range(3)))
    assert len(receipt.stored or receipt.queued) == len(receipt) == 3


def test_keywords_fill_only_what_an_item_leaves_out(bank: Bank, call: Caller, told: Told) -> None:
    """An item's own values win over the call's."""
    ids = told(bank, [Item("one own tag", tags=["own"]), Item("no own tag")], tags=["common"], session="s1")
    own, none = (call(bank, "get", each) for each in ids)
    assert (own.tags, own.session, none.tags, none.session) == (("own",), "s1", ("common",), "s1")


@pytest.mark.backends("mnemopi")
def test_older_names_of_types_are_accepted(bank: Bank, call: Caller) -> None:
    """`fact` is `world`, `episode` is `experience`."""
    receipt = call(bank, "retain", [{"content": "a fact told", "type": "fact"}, {"content": "a day lived", "type": "episode"}])
    assert [call(bank, "get", outcome.id).type for outcome in receipt.stored] == ["world", "experience"]


@pytest.mark.backends("mnemopi")
def test_a_repeated_statement_is_a_duplicate_with_more_evidence(bank: Bank, call: Caller) -> None:
    """The same statement again adds evidence, not a memory."""
    first = call(bank, "retain", "Ana lives in Oslo.").stored[0].id
    again = call(bank, "retain", "Ana lives in Oslo.")
    assert (again.stored, [(o.id, o.reason) for o in again.duplicates]) == ((), [(first, "already known")])
    assert [(memory.id, memory.evidence) for memory in call(bank, "list")] == [(first, 2)]


@pytest.mark.backends("mnemopi")
def test_each_repeat_within_one_call_counts_as_evidence(bank: Bank, call: Caller) -> None:
    """Three times told in one call is three pieces of evidence, of one memory."""
    receipt = call(bank, "retain", ["Ana lives in Oslo."] * 3)
    assert (len(receipt), len(receipt.stored), len(receipt.duplicates)) == (3, 1, 2)
    assert [memory.evidence for memory in call(bank, "list")] == [3]


@pytest.mark.backends("mnemopi")
def test_each_repeat_of_a_known_statement_counts_as_evidence(bank: Bank, call: Caller) -> None:
    """Twice more of what is known already makes three in all."""
    call(bank, "retain", "Ana lives in Oslo.")
    call(bank, "retain", ["Ana lives in Oslo."] * 2)
    assert [memory.evidence for memory in call(bank, "list")] == [3]


@pytest.mark.backends("hindsight")
def test_a_statement_repeated_to_a_server_changes_nothing(bank: Bank, call: Caller, told: Told, settled: Settled) -> None:
    """Within a call and as long as it waits it is known; later it is told again under the same document."""
    receipt = call(bank, "retain", ["Ana lives in Oslo."] * 3)
    assert (len(receipt), len(receipt.queued), len(receipt.duplicates)) == (3, 1, 2)
    assert {outcome.document_id for outcome in (*receipt.queued, *receipt.duplicates)} == {receipt.queued[0].document_id}
    settled(bank)
    [before] = call(bank, "list", types=FACTS)
    assert told(bank, "Ana lives in Oslo.") == [before.id]
    assert [(m.id, m.evidence) for m in call(bank, "list", types=FACTS)] == [(before.id, 1)]


@pytest.mark.backends("hindsight")
def test_statements_to_a_server_that_differ_in_tags_context_or_document_are_kept_apart(
    bank: Bank, call: Caller, told: Told
) -> None:
    """Each is a document of its own."""
    others: list[dict[str, Any]] = [{"tags": ["x"]}, {"context": "a move"}, {"document_id": "d1"}]
    ids = told(bank, [{"content": "Ana lives in Oslo.", **other} for other in ({}, *others)])
    assert {m.id for m in call(bank, "list", types=FACTS)} == set(ids)
    assert len(set(ids)) == 4


@pytest.mark.backends("mnemopi")
@pytest.mark.parametrize(
    "other", [{"tags": ["x"]}, {"session": "s"}, {"type": "experience"}, {"timestamp": datetime(2026, 1, 1, tzinfo=UTC)}]
)
def test_statements_that_differ_in_more_than_text_are_kept_apart(bank: Bank, call: Caller, other: dict[str, Any]) -> None:
    """Other tags, session, type or time make another memory."""
    call(bank, "retain", "Ana lives in Oslo.")
    assert len(call(bank, "retain", "Ana lives in Oslo.", **other).stored) == 1
    assert len(call(bank, "list")) == 2


@pytest.mark.backends("mnemopi")
def test_an_invalidated_statement_told_again_lives_again(bank: Bank, call: Caller, told: Told) -> None:
    """What was taken back and is told again is recalled again."""
    call(bank, "invalidate", told(bank, "Ana lives in Oslo.")[0])
    told(bank, "Ana lives in Oslo.")
    assert [memory.text for memory in call(bank, "recall", "Where does Ana live?")] == ["Ana lives in Oslo."]


@pytest.mark.backends("hindsight")
def test_a_statement_invalidated_on_a_server_and_told_again_lives_again(bank: Bank, call: Caller, told: Told) -> None:
    """What was taken back and is told again is recalled again."""
    call(bank, "invalidate", told(bank, "Ana lives in Oslo.")[0])
    told(bank, "Ana lives in Oslo.")
    assert [memory.text for memory in call(bank, "recall", "Where does Ana live?")] == ["Ana lives in Oslo."]


def test_a_forgotten_statement_told_again_lives_again(bank: Bank, call: Caller, told: Told) -> None:
    """Forgetting does not forbid to learn it anew."""
    call(bank, "forget", told(bank, "Ana lives in Oslo.")[0])
    told(bank, "Ana lives in Oslo.")
    assert [memory.text for memory in call(bank, "list", types=FACTS)] == ["Ana lives in Oslo."]


def test_secrets_are_taken_out_before_writing(bank: Bank, call: Caller, settled: Settled) -> None:
    """No secret reaches the store; the receipt counts them."""
    receipt = call(bank, "retain", "The password=hunter2hunter2 opens it.", metadata={"password": "opensesame"})
    settled(bank)
    [memory] = call(bank, "list", types=FACTS)
    assert (memory.text, memory.metadata, receipt.redactions) == (
        "The password=[redacted] opens it.",
        {"password": "[redacted]"},
        2,
    )


def test_text_without_a_letter_or_digit_is_rejected_with_a_reason(bank: Bank, call: Caller, settled: Settled) -> None:
    """A text that says nothing is not stored; the others of the call are."""
    receipt = call(bank, "retain", ["?!…", "Ana lives in Oslo."])
    taken = receipt.stored or receipt.queued
    assert ([o.reason for o in receipt.rejected], len(taken)) == (["no letter or digit in it"], 1)
    settled(bank)
    assert [memory.text for memory in call(bank, "list", types=FACTS)] == ["Ana lives in Oslo."]


def test_the_users_gate_amends_and_refuses_items(opened: Opener, call: Caller, settled: Settled) -> None:
    """`before_enqueue` has the last word on each item; one that raises refuses."""

    def gate(item: Item) -> Item | None:
        if "crash" in item.content:
            raise ValueError(item.content)
        return None if "private" in item.content else Item(item.content.upper())

    bank = opened(bank="alice", retain={"before_enqueue": gate})
    receipt = call(bank, "retain", ["a private matter", "a crash", "a fact"])
    assert [o.reason for o in receipt.rejected] == ["refused by before_enqueue", "refused by before_enqueue: ValueError"]
    settled(bank)
    assert [memory.text for memory in call(bank, "list", types=FACTS)] == ["A FACT"]


@pytest.mark.backends("mnemopi")
def test_the_longest_allowed_text_is_stored_whole(bank: Bank, call: Caller) -> None:
    """65,536 characters are stored, none is cut."""
    text = "word " * 13_107 + "z"
    assert len(text) == 65_536
    assert call(bank, "get", call(bank, "retain", text).stored[0].id).text == text


@pytest.mark.backends("hindsight")
def test_the_longest_allowed_text_is_kept_whole_on_a_server(bank: Bank, call: Caller, settled: Settled) -> None:
    """65,536 characters are in the document, none is cut."""
    text = "[no-facts] " + "word " * 13_105
    assert len(text) == 65_536
    [queued] = call(bank, "retain", text).queued
    settled(bank)
    assert call(bank.documents, "get", queued.document_id).text == text


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
def test_bad_content_is_refused_and_nothing_is_written(near: Bank, call: Caller, refused: Refused, content: object) -> None:
    """One wrong item refuses the whole call."""
    with refused():
        call(near, "retain", content)
    assert call(near, "list", state="all") == ()


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
def test_a_bad_field_is_refused_and_nothing_is_written(
    near: Bank, call: Caller, refused: Refused, fields: dict[str, Any]
) -> None:
    """A wrong value is named in a `UsageError`; nothing of the call is written."""
    with refused() as caught:
        call(near, "retain", ["a good text", "another good text"], **fields)
    assert next(iter(fields)) in str(caught.value)
    assert call(near, "list", state="all") == ()
