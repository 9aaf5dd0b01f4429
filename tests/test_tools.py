"""`MemoryTools`: what the model reads, what the application gets, what a failure looks like."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lorebank import (
    Bank,
    MissingError,
    OutboxFullError,
    OutboxStatus,
    Outcome,
    Receipt,
    UnavailableError,
    UsageError,
    open_bank,
    per_user,
)
from lorebank._mnemopi.backend import MnemopiBackend
from lorebank.seams import Event, MemoryTools, Recalled, Retained, Skipped, ToolFailure, offered

Caller = Callable[..., Any]
CELLO = "Ana plays the cello."


@pytest.fixture(params=["blocking", "awaited"])
def call(request: pytest.FixtureRequest) -> Caller:
    """`call(tools, "recall", ...)`: the blocking form, or its twin in a loop of its own."""

    def blocking(tools: MemoryTools, verb: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(tools, verb)(*args, **kwargs)

    def awaited(tools: MemoryTools, verb: str, *args: Any, **kwargs: Any) -> Any:
        return asyncio.run(getattr(tools, f"a{verb}")(*args, **kwargs))

    return blocking if request.param == "blocking" else awaited


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def team(url: str, events: list[Event]) -> Iterator[Bank]:
    """A bank with a shared one, whose events are heard."""
    with open_bank(url, bank="alice", shared="team", on_event=events.append) as bank:
        yield bank


@pytest.fixture
def tools(team: Bank) -> MemoryTools:
    return MemoryTools(team, editable=True)


@pytest.fixture
def busy(file: Path, url: str, events: list[Event]) -> Iterator[Bank]:
    """A bank whose file another program holds."""
    with open_bank(url, bank="alice", on_event=events.append, mnemopi={"busy_timeout": 0.1}) as bank:
        bank.retain(CELLO)
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        yield bank
        other.close()


def test_retain_tells_the_true_count(tools: MemoryTools, team: Bank, call: Caller) -> None:
    """Singular and plural; what was known or rejected is told where there is any."""
    one = call(tools, "retain", [{"content": CELLO, "context": "music"}])
    two = call(tools, "retain", [{"content": "Ben plays the harp."}, {"content": "Cleo sings."}])
    mixed = call(tools, "retain", [{"content": CELLO}, {"content": "?!"}, {"content": "Dora drums."}])
    assert [reply.text for reply in (one, two, mixed)] == [
        "1 memory stored.",
        "2 memories stored.",
        "1 memory stored. 1 already known, 1 rejected.",
    ]
    assert str(one) == "1 memory stored."
    assert [memory.context for memory in team.list() if memory.text == CELLO] == ["music"]


def test_retains_artifact_is_plain_data(tools: MemoryTools, team: Bank, call: Caller) -> None:
    """The application gets the receipt as what JSON can hold: ids and counts, no content."""
    reply = call(tools, "retain", [{"content": "password=hunter2hunter2 opens it"}])
    (memory,) = team.list()
    assert json.loads(json.dumps(reply.artifact)) == {
        "count": 1,
        "receipt": {
            "stored": [{"id": memory.id, "reason": None, "document_id": None, "operation_id": None}],
            "queued": [],
            "duplicates": [],
            "rejected": [],
            "redactions": 1,
        },
    }


def test_recall_lists_bullets_under_a_head_with_the_time(tools: MemoryTools, team: Bank, call: Caller) -> None:
    """Each memory is one line with id, source, date and score."""
    known = team.retain("Ana plays\nthe {old} cello.", timestamp=datetime(2026, 3, 4, 23, tzinfo=UTC)).stored[0].id
    reply = call(tools, "recall", "Ana's cello")
    head, blank, bullet = reply.text.split("\n")
    assert head.startswith("Found 1 relevant memory (as of 20")
    assert head.endswith(" UTC):")
    assert blank == ""
    score = reply.artifact["memories"][0]["score"]
    assert bullet == f"- Ana plays the ｛old｝ cello. (id: {known}) [app] (2026-03-04) c:{score:.1f}"


def test_recalls_artifact_is_plain_data(tools: MemoryTools, team: Bank, call: Caller) -> None:
    """Memories as mappings with ISO times; empty fields are left out."""
    team.retain(CELLO, tags=["music"], metadata={"turn": 1}, timestamp=datetime(2026, 3, 4, 23, tzinfo=UTC))
    artifact = call(tools, "recall", "Ana's cello").artifact
    assert json.loads(json.dumps(artifact)) == artifact
    (memory,) = artifact["memories"]
    assert (artifact["count"], memory["text"], memory["tags"], memory["metadata"]) == (1, CELLO, ["music"], {"turn": 1})
    assert memory["mentioned_at"] == "2026-03-04T23:00:00+00:00"
    assert not {"session", "entities", "truncated", "signals"} & set(memory)


def test_nothing_found_says_so(tools: MemoryTools, call: Caller) -> None:
    """An honest nothing, with an empty artifact."""
    found, answer = call(tools, "recall", "cello"), call(tools, "reflect", "cello")
    assert (found.text, found.artifact) == ("No relevant memories found.", {"count": 0, "memories": []})
    assert (answer.text, answer.artifact) == ("No relevant information found to reflect on.", {"count": 0, "memories": []})


def test_reflect_without_a_model_gives_the_memories(tools: MemoryTools, team: Bank, call: Caller) -> None:
    """The head says that it is no synthesis; the context is part of what is asked."""
    team.retain([CELLO, "Ben plays the harp."])
    reply = call(tools, "reflect", "What does Ana play?", "  the cello  ")
    assert reply.text.startswith(f"Based on recalled memories:\n\n- {CELLO} (id: ")
    assert reply.artifact["memories"][0]["text"] == CELLO


def test_retain_global_writes_the_shared_bank(tools: MemoryTools, team: Bank, call: Caller, events: list[Event]) -> None:
    """The shared bank alone gets it; the own one reads it."""
    assert call(tools, "retain_global", [{"content": CELLO}]).text == "1 memory stored."
    assert team.shared is not None
    assert [(memory.bank, memory.source) for memory in team.shared.list()] == [("team", "agent-retain")]
    assert (team.stats().memories, events) == (0, [Retained("team", 1, 0, 0)])
    assert call(tools, "recall", "cello").artifact["count"] == 1


def test_retain_global_without_a_shared_bank_says_so(bank: Bank, call: Caller) -> None:
    """Nothing is written anywhere."""
    with pytest.raises(ToolFailure, match=r"^retain_global was not done: no shared bank is configured"):
        call(MemoryTools(bank), "retain_global", [{"content": CELLO}])
    assert bank.list() == ()


def test_edit_updates_invalidates_and_forgets(tools: MemoryTools, team: Bank, call: Caller) -> None:
    """Each operation says what it did, and did it."""
    first, second, third = (str(o.id) for o in team.retain([CELLO, "Ana plays the harp.", "Ana plays the drum."]).stored)
    replies = [
        call(tools, "edit", "update", first, content="Ana plays the viola.", importance=0.9),
        call(tools, "edit", "invalidate", first, replacement_id=second),
        call(tools, "edit", "invalidate", second),
        call(tools, "edit", "forget", third),
    ]
    assert [reply.text for reply in replies] == [
        f"Memory {first} updated.",
        f"Memory {first} invalidated; {second} replaces it.",
        f"Memory {second} invalidated.",
        f"Memory {third} forgotten.",
    ]
    assert [reply.artifact for reply in replies] == [{"count": 1, "id": each} for each in (first, first, second, third)]
    memory = team.get(first)
    assert (memory.text, memory.importance, memory.superseded_by) == ("Ana plays the viola.", 0.9, second)
    with pytest.raises(MissingError):
        team.get(third)


def test_edit_changes_importance_alone(tools: MemoryTools, team: Bank, call: Caller) -> None:
    """An edit without a text keeps the text."""
    known = str(team.retain(CELLO).stored[0].id)
    assert call(tools, "edit", "update", known, importance=0.1).text == f"Memory {known} updated."
    assert (team.get(known).importance, team.get(known).text) == (0.1, CELLO)


@pytest.mark.parametrize(
    ("verb", "arguments", "said"),
    [
        ("retain", [[{"content": ""}]], "retain was not done: `content` is blank: there is nothing to work with."),
        ("retain", [[]], "retain was not done: `retain` was given an empty list: there is nothing to retain."),
        ("recall", [" "], "recall was not done: `query` is blank: there is nothing to work with."),
        ("edit", ["forget", "nope"], "memory_edit was not done: no memory 'nope' in 'alice'."),
        ("edit", ["burn", "nope"], "memory_edit was not done: `operation` must be update, forget or invalidate; found 'burn'."),
    ],
)
def test_a_mistake_is_told_in_a_sentence(
    tools: MemoryTools, team: Bank, call: Caller, verb: str, arguments: list[Any], said: str
) -> None:
    """The model reads what was wrong; the cause is chained; nothing is written."""
    with pytest.raises(ToolFailure) as caught:
        call(tools, verb, *arguments)
    assert str(caught.value) == said
    assert isinstance(caught.value.__cause__, (UsageError, MissingError))
    assert team.list() == ()


def test_an_edit_without_a_change_is_told_in_a_sentence(tools: MemoryTools, team: Bank, call: Caller) -> None:
    """An update needs something to change."""
    known = str(team.retain(CELLO).stored[0].id)
    with pytest.raises(ToolFailure, match="needs something to change"):
        call(tools, "edit", "update", known)


def test_an_outage_is_a_sentence_an_event_and_a_log_line(
    busy: Bank, call: Caller, events: list[Event], caplog: pytest.LogCaptureFixture
) -> None:
    """The model never takes an outage for "nothing known"; the application hears of it; no content is logged."""
    with caplog.at_level(logging.WARNING, "lorebank"), pytest.raises(ToolFailure) as caught:
        call(MemoryTools(busy), "retain", [{"content": "Ben plays the harp."}])
    assert (
        str(caught.value)
        == "Memory is unavailable right now, so retain could not be done. This does not mean that nothing is known."
    )
    assert events == [Skipped("alice", "retain", "UnavailableError")]
    assert [record.getMessage() for record in caplog.records] == ["tool retain failed on bank alice: UnavailableError"]


def test_memory_that_is_off_says_so(monkeypatch: pytest.MonkeyPatch, url: str, call: Caller) -> None:
    """With the kill switch on, a tool fails in words."""
    monkeypatch.setenv("LOREBANK_URL", "off")
    with open_bank(url) as bank, pytest.raises(ToolFailure, match="unavailable right now, so recall could not be done"):
        call(MemoryTools(bank), "recall", "cello")


def test_failures_are_raised_where_the_application_wants_them(url: str, call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `on_failure="raise"` the run ends with lorebank's own error."""
    with open_bank(url, on_failure="raise") as bank:
        with pytest.raises(UsageError):
            call(MemoryTools(bank), "recall", " ")
        with pytest.raises(MissingError):
            call(MemoryTools(bank), "edit", "forget", "nope")
    monkeypatch.setenv("LOREBANK_URL", "off")
    with open_bank(url, on_failure="raise") as bank, pytest.raises(UnavailableError):
        call(MemoryTools(bank), "reflect", "cello")


def test_a_tool_of_a_closed_bank_is_a_mistake_of_the_application(url: str, call: Caller) -> None:
    """A closed bank raises; the model can do nothing about it."""
    bank = open_bank(url)
    bank.close()
    with pytest.raises(UsageError, match="closed"):
        call(MemoryTools(bank), "recall", "cello")


def test_every_answer_is_an_event(tools: MemoryTools, call: Caller, events: list[Event]) -> None:
    """Listeners hear counts, never content."""
    call(tools, "retain", [{"content": CELLO}, {"content": CELLO}, {"content": "?!"}])
    call(tools, "recall", "cello")
    assert events[0] == Retained("alice", 1, 1, 1)
    assert isinstance(events[1], Recalled)
    assert (events[1].bank, events[1].count, events[1].elapsed > 0, len(events)) == ("alice", 1, True, 2)


def test_what_is_offered_follows_the_bank_and_the_choice(bank: Bank, team: Bank) -> None:
    """By default three tools, `retain_global` with a shared bank; `memory_edit` only when asked for."""
    assert offered(None, bank) == ("retain", "recall", "reflect")
    assert offered(None, team) == ("retain", "recall", "reflect", "retain_global")
    assert offered(["memory_edit", "recall"], bank) == ("recall", "memory_edit")
    assert offered(["retain_global"], per_user(team)) == ("retain_global",)


@pytest.mark.parametrize(
    ("include", "words"), [([], "at least one"), ("recall", "list"), (["recal"], "recal"), (["retain_global"], "shared bank")]
)
def test_a_wrong_choice_of_tools_is_refused(bank: Bank, include: Any, words: str) -> None:
    """Unknown names and what the bank can't do are refused."""
    with pytest.raises(UsageError, match=words):
        offered(include, bank)


# Writes that are on their way


class Queueing(MnemopiBackend):
    """Says that it queues; `rows` are the outbox's states, `error` is what fails."""

    rows: dict[Any, int]
    error: Exception | None = None

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.rows, self.outbox = {}, self  # type: ignore[assignment]

    def status(self, bank: str | None) -> OutboxStatus:
        if isinstance(self.error, UnavailableError):
            raise self.error
        return OutboxStatus(self.rows if bank == "alice" else {})

    def retain(self, *_args: Any) -> Receipt:
        if self.error:
            raise self.error
        return Receipt(queued=(Outcome("r1"), Outcome("r2")))


@pytest.fixture
def queueing(url: str) -> Queueing:
    return Queueing(url)


@pytest.fixture
def queued(queueing: Queueing, events: list[Event]) -> Iterator[Bank]:
    with open_bank(backend=queueing, bank="alice", on_event=events.append) as bank:
        yield bank


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ({"pending": 1}, "1 write is queued and can't be found yet."),
        ({"held": 1, "sealed": 1, "accepted": 1, "completed": 9, "dead": 9}, "3 writes are queued and can't be found yet."),
    ],
)
def test_recall_says_what_can_not_be_found_yet(
    queued: Bank, queueing: Queueing, call: Caller, rows: dict[Any, int], told: str
) -> None:
    """Below the memories, or below "none", after a blank line; the artifact counts them."""
    queueing.rows = rows
    reply = call(MemoryTools(queued), "recall", "cello")
    assert reply.text == f"No relevant memories found.\n\n{told}"
    assert reply.artifact == {"count": 0, "memories": [], "queued": int(told.split(maxsplit=1)[0])}


def test_recall_says_nothing_of_an_outbox_without_waiting_writes(queued: Bank, queueing: Queueing, call: Caller) -> None:
    """Nothing waits, only other writes are dead, or the outbox can't be read: the text is as ever."""
    queueing.rows = {"completed": 3, "dead": 1}
    assert call(MemoryTools(queued), "recall", "cello").artifact == {"count": 0, "memories": []}
    queueing.error = UnavailableError("the ledger is busy")
    assert call(MemoryTools(queued), "recall", "cello").text == "No relevant memories found."


def test_queued_writes_are_counted_in_the_event(queued: Bank, events: list[Event], call: Caller) -> None:
    """What waits for the server is neither stored nor lost."""
    assert call(MemoryTools(queued), "retain", [{"content": CELLO}, {"content": "Ben drums."}]).artifact["count"] == 2
    assert events == [Retained("alice", 0, 0, 0, 2)]


def test_a_full_outbox_says_that_nothing_was_saved(queued: Bank, queueing: Queueing, call: Caller) -> None:
    """The model must not believe that it is written down; nor that nothing is known."""
    queueing.error = OutboxFullError("full")
    with pytest.raises(ToolFailure, match="nothing was saved") as told:
        call(MemoryTools(queued), "retain", [{"content": CELLO}])
    assert "unavailable" not in str(told.value)
