"""Writing on Mnemopi: duplicates, revival, documents, places in a session, what is assumed of whom."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lorebank import Bank, UnsupportedError
from lorebank._domain.memory import TRANSCRIPT
from lorebank.seams import MemoryTools

Look = Callable[[str], list[Any]]
NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


def test_an_application_states_what_it_retains(bank: Bank) -> None:
    """Source `app`, importance 0.7, veracity `stated`, type `world`."""
    memory = bank.get(bank.retain("Ana plays the cello.").stored[0].id)
    assert (memory.source, memory.importance, memory.veracity, memory.type) == ("app", 0.7, "stated", "world")


def test_a_tool_writes_as_a_tool(bank: Bank) -> None:
    """Source `agent-retain`, importance 0.75, veracity `tool`, type `world`."""
    MemoryTools(bank).retain([{"content": "Ana plays the cello."}])
    (memory,) = bank.list()
    assert (memory.source, memory.importance, memory.veracity, memory.type) == ("agent-retain", 0.75, "tool", "world")


def test_transcript_messages_are_never_merged(bank: Bank) -> None:
    """The same words said twice in a conversation are two messages."""
    receipt = bank.write(["yes please", "yes please"], {"session": "s"}, TRANSCRIPT)
    again = bank.write("yes please", {"session": "s"}, TRANSCRIPT)
    assert (len(bank.list()), len(receipt), len(again.stored)) == (3, 2, 1)


def test_a_transcript_message_that_was_edited_is_still_never_merged(bank: Bank) -> None:
    """An edit does not make a message the same statement as another."""
    known = bank.write("yes please", {"session": "s"}, TRANSCRIPT).stored[0].id
    bank.update(known, content="no thanks")
    assert len(bank.retain("no thanks", session="s", type="experience", timestamp=bank.get(known).mentioned_at).stored) == 1


def test_a_memory_was_said_when_it_is_written_where_it_does_not_tell(timed: Bank) -> None:
    """The clock gives the time of what has none."""
    assert timed.get(timed.retain("Ana plays the cello.").stored[0].id).mentioned_at == NOON


def test_a_duplicate_may_raise_importance_but_never_lowers_it(bank: Bank) -> None:
    """The most that was ever said of a statement's importance counts."""
    known = bank.retain("Ana plays the cello.", importance=0.5).stored[0].id
    assert [bank.retain("Ana plays the cello.", importance=each) and bank.get(known).importance for each in (0.9, 0.1)] == [
        0.9,
        0.9,
    ]


def test_a_duplicate_resets_nothing(timed: Bank, clock: Any) -> None:
    """Time, metadata and context of the first telling stay."""
    known = timed.retain("Ana plays the cello.", metadata={"turn": 1}, context="music").stored[0].id
    clock.now = NOON + timedelta(days=1)
    timed.retain("Ana plays the cello.", metadata={"turn": 2}, context="work")
    memory = timed.get(known)
    assert (memory.mentioned_at, memory.metadata, memory.context, memory.evidence) == (NOON, {"turn": 1}, "music", 2)


def test_an_expired_memory_is_not_recalled_but_kept(timed: Bank, clock: Any) -> None:
    """After `valid_until` a memory is no longer recalled or listed as valid; `get` still has it."""
    known = timed.retain("Ana is in Rome.", valid_until=NOON + timedelta(hours=1)).stored[0].id
    assert timed.recall("Where is Ana?").state == "found"
    clock.now = NOON + timedelta(hours=1)
    assert timed.recall("Where is Ana?").state == "nothing"
    assert (timed.list(), [m.id for m in timed.list(state="invalidated")]) == ((), [known])
    assert timed.get(known).text == "Ana is in Rome."


def test_an_expired_statement_told_again_lives_again(timed: Bank, clock: Any) -> None:
    """Told anew without an end, it has none; it was said now, and its evidence grew."""
    known = timed.retain("Ana is in Rome.", valid_until=NOON + timedelta(hours=1)).stored[0].id
    clock.now = NOON + timedelta(days=1)
    receipt = timed.retain("Ana is in Rome.")
    assert [(outcome.id, outcome.reason) for outcome in receipt.stored] == [(known, "lives again")]
    memory = timed.get(known)
    assert (memory.valid_until, memory.mentioned_at, memory.evidence) == (None, clock.now, 2)
    assert timed.recall("Where is Ana?").state == "found"


@pytest.mark.parametrize(("first", "second", "expected"), [(1, 2, 2), (2, 1, 2), (1, None, None), (None, 1, None)])
def test_the_longest_validity_that_was_told_counts(
    timed: Bank, first: int | None, second: int | None, expected: int | None
) -> None:
    """A repeat may extend how long a statement holds, and never shortens it."""
    until = {hours: hours and NOON + timedelta(hours=hours) for hours in (1, 2, None)}
    known = timed.retain("Ana is in Rome.", valid_until=until[first]).stored[0].id
    timed.retain("Ana is in Rome.", valid_until=until[second])
    assert timed.get(known).valid_until == until[expected]


def test_revival_forgets_what_replaced_it(bank: Bank) -> None:
    """A statement that is true again has no successor."""
    old, new = (bank.retain(text).stored[0].id for text in ("Ana lives in Oslo.", "Ana lives in Rome."))
    bank.invalidate(old, replacement=new)
    assert bank.retain("Ana lives in Oslo.").stored[0].id == old
    assert (bank.get(old).superseded_by, bank.get(old).invalidated_at) == (None, None)


def test_a_replaced_document_keeps_only_its_new_statements(bank: Bank) -> None:
    """What the new version no longer says is invalidated, what it still says stays, other documents are untouched."""
    bank.retain(["old line", "common line"], document_id="d1")
    bank.retain("other line", document_id="d2")
    bank.retain(["new line", "common line"], document_id="d1", update_mode="replace")
    assert {m.text for m in bank.list()} == {"new line", "common line", "other line"}
    assert [m.text for m in bank.list(state="invalidated")] == ["old line"]


def test_a_document_is_replaced_in_this_bank_alone(bank: Bank) -> None:
    """The same document id in another bank is another document."""
    bank.named("bob").retain("bob's line", document_id="d1")
    bank.retain("new line", document_id="d1", update_mode="replace")
    assert [m.text for m in bank.named("bob").list()] == ["bob's line"]


@pytest.mark.parametrize("mode", ["append", None])
def test_an_extended_document_keeps_what_it_had(bank: Bank, mode: Any) -> None:
    """Without `replace` a document grows."""
    bank.retain("old line", document_id="d1")
    bank.retain("new line", document_id="d1", update_mode=mode)
    assert [m.text for m in bank.list(document="d1")] == ["new line", "old line"]


def test_places_in_a_session_follow_the_order_of_arrival(bank: Bank, look: Look) -> None:
    """Sessions count on their own, across calls; what has no session has no place."""
    bank.retain(
        [{"content": "a one", "session": "a"}, {"content": "b one", "session": "b"}, {"content": "a two", "session": "a"}, "none"]
    )
    bank.retain([{"content": "b two", "session": "b"}, {"content": "a three", "session": "a"}])
    bank.named("bob").retain("a one", session="a")
    found = look("SELECT content, position FROM memories WHERE bank = 1 ORDER BY content")
    assert found == [("a one", 0), ("a three", 2), ("a two", 1), ("b one", 0), ("b two", 1), ("none", None)]
    assert look("SELECT position FROM memories WHERE bank = 2") == [0]


def test_a_duplicate_takes_no_place_in_the_session(bank: Bank, look: Look) -> None:
    """Places have no gaps where a statement was told twice."""
    bank.retain(["one", "two", "one"], session="s")
    bank.retain(["two", "three"], session="s")
    assert look("SELECT content, position FROM memories ORDER BY position") == [("one", 0), ("two", 1), ("three", 2)]


def test_a_forgotten_key_is_not_used_again(bank: Bank, look: Look) -> None:
    """Keys grow within a bank, also after its newest memory or all of them went."""
    bank.forget(bank.retain("one").stored[0].id)
    bank.retain("two")
    bank.clear(confirm="alice")
    bank.retain("three")
    assert look("SELECT key - (bank << 40) FROM memories") == [3]


def test_counts_of_a_bank_follow_every_change(bank: Bank, look: Look) -> None:
    """Size and length are what the rows hold after writes, edits, and removals."""
    ids = [outcome.id for outcome in bank.retain(["red cello", "red violin made of wood", "harp"]).stored]
    assert look("SELECT size, length FROM banks") == [(3, 7)]
    bank.update(str(ids[0]), content="cello")
    assert look("SELECT size, length FROM banks") == [(3, 6)]
    bank.forget(ids[1])
    assert look("SELECT size, length FROM banks") == [(2, 2)]
    assert bank.check().problems == ()


@pytest.mark.parametrize("option", ["prefer_observations", "include_source_facts"])
def test_options_of_another_backend_are_refused(bank: Bank, option: str) -> None:
    """What Mnemopi can't do is refused, never silently dropped."""
    options: dict[str, Any] = {option: True}
    with pytest.raises(UnsupportedError, match=option):
        bank.recall("cello", **options)
    with pytest.raises(UnsupportedError, match="response_schema"):
        bank.reflect("cello", response_schema={"type": "object"})
