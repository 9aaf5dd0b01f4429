"""Modes, skips and tags: what a session's user has chosen, where it holds, and that what can't be read is ignored."""

from __future__ import annotations

import itertools
import json
import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import pytest

from lorebank import Bank, Message, UnavailableError, UsageError, open_bank
from lorebank._domain.events import SessionUnreadable
from lorebank._domain.session import Mode
from lorebank._mnemopi.backend import MnemopiBackend
from lorebank.seams import TOOLBOOK, Event, Recalled, ToolName
from lorebank.testing import FaultServer

AISLE = "I always want an aisle seat."
FACT = "Ana prefers aisle seats on long flights."
ASKED = "Which seats does Ana prefer on long flights?"
MODES: tuple[Mode, ...] = get_args(Mode)
READING: tuple[ToolName, ...] = ("recall", "reflect")
WRITING: tuple[ToolName, ...] = ("retain", "retain_global", "memory_edit")


def user(text: str, **fields: Any) -> Message:
    return Message("user", text, **fields)


def answer(text: str, **fields: Any) -> Message:
    return Message("assistant", text, **fields)


@dataclass
class Rig:
    """Banks on one place, and a look at what sessions have kept in it."""

    file: Path
    server: FaultServer | None
    stack: ExitStack
    events: list[Event] = field(default_factory=list)

    def open(self, **options: Any) -> Bank:
        given = {"bank": "alice", "on_event": self.events.append, **options}
        if self.server is None:
            return self.stack.enter_context(open_bank(f"sqlite:///{self.file}", **given))
        return self.stack.enter_context(
            open_bank(self.server.url, ledger=f"sqlite:///{self.file}", outbox={"batch_seconds": 0.02}, **given)
        )

    def kept(self, bank: Bank) -> list[str]:
        """The texts that sessions have retained, in their order."""
        return [text for text, _ in self.tagged(bank)]

    def tagged(self, bank: Bank) -> list[tuple[str, tuple[str, ...]]]:
        """The same with their tags (a server has those of the document)."""
        if self.server is None:
            return [(memory.text, memory.tags) for memory in reversed(bank.list(limit=1000)) if memory.source == "transcript"]
        assert bank.flush(timeout=30, until="completed").left == 0
        view = self.server.bank("alice")
        found = [
            (line["content"], view.tags[name])
            for name, text in view.documents.items()
            if not name.startswith("lorebank:item:")
            for line in lines(text)
        ]
        return [(text, tuple(tags)) for text, tags in found]

    def sql(self, statement: str, *values: Any) -> list[Any]:
        with closing(sqlite3.connect(self.file)) as connection, connection:
            return connection.execute(statement, values).fetchall()

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]


def lines(text: str) -> list[dict[str, Any]]:
    """The lines of JSON arrays that stand one behind the other."""
    decoder, place, found = json.JSONDecoder(), 0, list[dict[str, Any]]()
    while place < len(text):
        array, place = decoder.raw_decode(text, place)
        found += array
        place += len(text[place:]) - len(text[place:].lstrip())
    return found


@pytest.fixture(params=["mnemopi", "hindsight"])
def rig(request: pytest.FixtureRequest, file: Path) -> Iterator[Rig]:
    with ExitStack() as stack:
        server = stack.enter_context(FaultServer()) if request.param == "hindsight" else None
        yield Rig(file, server, stack)


@pytest.fixture
def bank(rig: Rig) -> Bank:
    return rig.open()


# --- the matrix

CELLS: dict[Mode, dict[str, bool]] = {
    "normal": {"recall": True, "retain": True, "models": True, "reading": True, "writing": True},
    "read-only": {"recall": True, "retain": False, "models": True, "reading": True, "writing": False},
    "ignored": {"recall": False, "retain": False, "models": False, "reading": False, "writing": False},
    "tools-only": {"recall": False, "retain": False, "models": False, "reading": True, "writing": True},
}


def recalls(rig: Rig, mode: Mode) -> bool:
    bank = rig.open(mental_models={"enabled": False})
    bank.retain(FACT)
    bank.flush(timeout=30, until="completed")
    with bank.session("s") as session:
        session.mode = mode
        injection = session.before_turn([user(ASKED)])
        assert (injection.result is not None) == (FACT in injection.memories) == bool(rig.of(Recalled))
        assert (FACT in session.before_compaction([user(ASKED)])) == bool(injection.memories)
    return bool(injection.memories)


def retains(rig: Rig, mode: Mode) -> bool:
    bank = rig.open()
    with bank.session("s") as session:
        session.mode = mode
        session.before_turn([user(AISLE)])
        receipt = session.after_turn([user(AISLE), answer("Noted.")])
        assert (receipt.reason is None) == (receipt.passed == 0)
        assert receipt.reason is None or mode in receipt.reason
    return rig.kept(bank) == [AISLE, "Noted."]


def shows_models(rig: Rig, mode: Mode) -> bool:
    bank = rig.open(mental_models={"auto_seed": False})
    bank.retain(FACT)
    bank.flush(timeout=30, until="completed")
    bank.mental_models.create("seats", name="Seats", source_query=ASKED)
    with bank.session("s") as session:
        session.mode = mode
        prefix = session.before_turn([user("Hello there.")]).system_prefix
    assert ("<mental_models>\n" in prefix) == (FACT in prefix)
    return FACT in prefix


def allows(rig: Rig, mode: Mode, tools: tuple[ToolName, ...]) -> bool:
    with rig.open().session("s") as session:
        session.mode = mode
        refusals = {session.refusal(tool) for tool in tools}
    assert None not in refusals or refusals == {None}
    return refusals == {None}


@pytest.mark.parametrize(("mode", "column"), list(itertools.product(MODES, CELLS["normal"])))
def test_each_mode_does_what_the_table_says(rig: Rig, mode: Mode, column: str) -> None:
    """One test for each cell: what happens on its own, and what the tools may do."""
    probes: dict[str, Callable[[], bool]] = {
        "recall": lambda: recalls(rig, mode),
        "retain": lambda: retains(rig, mode),
        "models": lambda: shows_models(rig, mode),
        "reading": lambda: allows(rig, mode, READING),
        "writing": lambda: allows(rig, mode, WRITING),
    }
    assert probes[column]() is CELLS[mode][column]


def test_the_table_knows_every_mode_and_every_tool() -> None:
    """Nothing is left without an answer."""
    assert set(CELLS) == set(MODES)
    assert set(READING + WRITING) == set(TOOLBOOK)


@pytest.mark.parametrize("mode", ["ignored", "read-only"])
def test_a_refusal_tells_the_model_why(bank: Bank, mode: Mode) -> None:
    """A short plain sentence that names the tool, and never says that nothing is known."""
    with bank.session("s") as session:
        session.mode = mode
        text = session.refusal("retain")
    assert text is not None
    assert text.startswith("retain was not done")
    assert "\n" not in text


@pytest.mark.parametrize("mode", ["Normal", "off", "", None, True, 1, ["normal"], {"mode": "normal"}], ids=repr)
def test_an_unknown_mode_is_refused(bank: Bank, mode: Any) -> None:
    """`UsageError` that names the four; the mode stays."""
    with bank.session("s") as session:
        with pytest.raises(UsageError, match="read-only"):
            session.mode = mode
        assert session.mode == "normal"


@pytest.mark.parametrize("value", ["no", 0, None], ids=repr)
def test_retain_is_on_or_off(bank: Bank, value: Any) -> None:
    """Nothing that is merely false-like."""
    with bank.session("s") as session:
        with pytest.raises(UsageError, match="retain_enabled"):
            session.retain_enabled = value
        assert session.retain_enabled is True


# --- where a choice holds


def test_retaining_can_be_switched_off_and_on(rig: Rig, bank: Bank) -> None:
    """What was said meanwhile never resurfaces; recall goes on."""
    history = [user("One."), answer("One too."), user("Two."), answer("Two too."), user("Three."), answer("Three too.")]
    with bank.session("s") as session:
        session.after_turn(history[:2])
        session.retain_enabled = False
        assert session.before_turn(history[:3]).result is not None
        assert session.after_turn(history[:4]).reason is not None
        session.retain_enabled = True
        session.before_turn(history[:5])
        session.after_turn(history)
    assert rig.kept(bank) == ["One.", "One too.", "Three.", "Three too."]


@pytest.mark.parametrize("mode", ["read-only", "ignored", "tools-only"])
@pytest.mark.parametrize("ids", [True, False], ids=["host ids", "no ids"])
def test_what_was_seen_while_not_retaining_never_resurfaces(rig: Rig, bank: Bank, mode: Mode, ids: bool) -> None:
    """Not by the same history, not by a compacted one, not after a restart, not in another process of the ledger."""
    texts = [f"Sentence number {n} of this long conversation about trains." for n in range(8)]
    history = [(user if n % 2 == 0 else answer)(text, id=f"m{n}" if ids else None) for n, text in enumerate(texts)]
    with bank.session("s") as session:
        session.after_turn(history[:2])
        session.mode = mode
        session.before_turn(history[:3])
        session.after_turn(history[:4])
        session.mode = "normal"
        session.after_turn(history[:6])
    with rig.open().session("s") as session:
        session.after_turn(history[:6])
        session.after_turn([user("A summary of what went before."), *history[2:]])
        session.after_turn(history)
    kept = rig.kept(bank)
    assert [text for text in texts[2:4] if text in kept] == []
    assert [text for text in (*texts[:2], *texts[4:]) if text not in kept] == []


def test_choices_survive_a_restart(rig: Rig) -> None:
    """Mode, switch, tags and a pending skip are in the ledger once saved."""
    with rig.open() as first, first.session("s") as session:
        session.mode, session.retain_enabled = "read-only", False
        session.tags.add("x")
        session.skip_next()
        session.save()
    with rig.open() as second, second.session("s") as session:
        assert (session.mode, session.retain_enabled, list(session.tags)) == ("read-only", False, ["x"])
    with rig.open() as third, third.session("other") as session:
        assert (session.mode, session.retain_enabled, list(session.tags)) == ("normal", True, [])


@pytest.mark.parametrize("stored", ["save", "call", "close"])
def test_a_change_is_stored_by_the_next_call_by_save_or_by_close(rig: Rig, stored: str) -> None:
    """Whichever comes first."""
    session = rig.open().session("s")
    session.mode = "read-only"
    if stored == "save":
        session.save()
    elif stored == "call":
        session.before_turn([user(AISLE)])
    else:
        session.close()
    assert rig.open().session("s").mode == "read-only"


def test_two_banks_on_one_place_see_each_others_changes_by_the_next_call(rig: Rig) -> None:
    """As two processes do: mode, switch and tags; each changes its own part and undoes none of the other's."""
    one, two = (rig.open().session("s") for _ in range(2))
    one.before_turn([user("One.")])
    two.before_turn([user("One.")])
    one.tags.add("a")
    two.tags.add("b")
    one.save()
    two.save()
    one.after_turn([user("One."), answer("Two.")])
    two.after_turn([user("One."), answer("Two.")])
    assert set(one.tags) == set(two.tags) == {"a", "b"}
    one.mode = "ignored"
    one.save()
    assert two.before_turn([user("One."), answer("Two."), user("Three.")]).result is None
    assert two.mode == "ignored"
    two.tags.discard("a")
    two.mode = "normal"
    two.save()
    one.after_turn([user("One."), answer("Two."), user("Three.")])
    assert (one.mode, set(one.tags)) == ("normal", {"b"})


def test_a_tool_is_refused_once_another_process_has_switched_memory_off(rig: Rig) -> None:
    """A refusal reads what holds now: privacy that was asked for elsewhere holds at once."""
    one, two = (rig.open().session("s") for _ in range(2))
    two.before_turn([user("One.")])
    one.mode = "ignored"
    one.save()
    assert two.refusal("recall") is not None


def test_the_same_session_in_one_process_knows_at_once(bank: Bank) -> None:
    """Two handles are one object: nothing needs to be stored in between."""
    one, two = bank.session("s"), bank.session("s")
    one.mode = "tools-only"
    assert (two.mode, two.refusal("retain")) == ("tools-only", None)
    assert two.before_turn([user(AISLE)]).result is None


def test_choices_go_on_while_the_ledger_is_busy(rig: Rig, bank: Bank) -> None:
    """Another process that holds the database costs a call, not the session: it is normal again by the next."""
    quick = rig.open(**({} if rig.server else {"mnemopi": {"busy_timeout": 0.05}}))
    if rig.server is not None:
        pytest.skip("the ledger's own patience is not a setting")
    bank.retain("The file is there.")
    with quick.session("s") as session, closing(sqlite3.connect(rig.file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        session.before_turn([user(AISLE)])
        other.execute("ROLLBACK")
        session.after_turn([user(AISLE), answer("Noted.")])
        assert session.mode == "normal"
    assert rig.kept(bank) == [AISLE, "Noted."]


# --- skip_next


def test_a_skipped_run_is_never_retained(rig: Rig, bank: Bank) -> None:
    """One run, its question and its answer; the runs before and after it are kept."""
    history = [user("One."), answer("One too."), user("Two."), answer("Two too."), user("Three."), answer("Three too.")]
    with bank.session("s") as session:
        session.before_turn(history[:1])
        session.after_turn(history[:2])
        session.skip_next()
        assert session.before_turn(history[:3]).result is not None
        assert session.after_turn(history[:4]).reason == "this run is skipped"
        session.before_turn(history[:5])
        assert session.after_turn(history).reason is None
        session.after_turn(history)
    with rig.open().session("s") as session:
        session.after_turn(history)
    assert rig.kept(bank) == ["One.", "One too.", "Three.", "Three too."]


def test_a_skip_survives_a_restart_before_the_run_and_within_it(rig: Rig) -> None:
    """Set in one process, spent in a second, ended in a third."""
    with rig.open() as first, first.session("s") as session:
        session.skip_next()
    with rig.open() as second, second.session("s") as session:
        session.before_turn([user("One.")])
    bank = rig.open()
    with bank.session("s") as session:
        session.after_turn([user("One."), answer("One too.")])
        session.after_turn([user("One."), answer("One too."), user("Two.")])
    assert rig.kept(bank) == ["Two."]


def test_a_skipped_run_that_never_ended_stays_skipped(rig: Rig, bank: Bank) -> None:
    """The process died after the question: its answer, which the next history shows, belongs to the skipped run."""
    with bank.session("s") as session:
        session.skip_next()
        session.before_turn([user("One.")])
        session.before_turn([user("One."), answer("One too."), user("Two.")])
        session.after_turn([user("One."), answer("One too."), user("Two."), answer("Two too.")])
    assert rig.kept(bank) == ["Two.", "Two too."]


def test_two_observers_of_a_skipped_run_keep_nothing_of_it(rig: Rig, bank: Bank) -> None:
    """A handler and a middleware that end the same run, the second with a message more: the run is skipped for both."""
    with bank.session("s") as session:
        session.skip_next()
        session.before_turn([user("One.")], run_id="r")
        session.after_turn([user("One."), answer("Half.")], run_id="r")
        session.after_turn([user("One."), answer("Half."), answer("Whole.")], run_id="r")
        session.after_turn([user("One."), answer("Half."), answer("Whole."), user("Two.")], run_id="r2")
    assert rig.kept(bank) == ["Two."]


@pytest.mark.parametrize("change", ["read-only", "ignored", "tools-only", "retain off"])
def test_a_pending_skip_is_cleared_by_what_does_not_retain(rig: Rig, bank: Bank, change: str) -> None:
    """The run that it was for came, and was not retained anyway: the next one is."""
    with bank.session("s") as session:
        session.skip_next()
        if change == "retain off":
            session.retain_enabled = False
        else:
            session.mode = change  # type: ignore[assignment]
        session.before_turn([user("One.")])
        session.after_turn([user("One."), answer("One too.")])
        session.mode, session.retain_enabled = "normal", True
        session.before_turn([user("One."), answer("One too."), user("Two.")])
        session.after_turn([user("One."), answer("One too."), user("Two."), answer("Two too.")])
    assert rig.kept(bank) == ["Two.", "Two too."]


def test_explicit_retains_work_in_a_skipped_run(rig: Rig, bank: Bank) -> None:
    """`skip_next` does not stop the application's own words, nor the tools."""
    with bank.session("s") as session:
        session.skip_next()
        session.before_turn([user("One.")])
        receipt = bank.retain(FACT)
        assert receipt.stored or receipt.queued
        assert {session.refusal(tool) for tool in TOOLBOOK} == {None}
        session.after_turn([user("One."), answer("One too.")])
        bank.flush(timeout=30, until="completed")
        assert FACT in session.before_turn([user("One."), answer("One too."), user(ASKED)]).memories
    assert rig.kept(bank) == [ASKED]


def test_skipping_twice_skips_one_run(rig: Rig, bank: Bank) -> None:
    """It is a switch for the next run, not a counter."""
    with bank.session("s") as session:
        session.skip_next()
        session.skip_next()
        session.after_turn([user("One.")], run_id="r1")
        session.after_turn([user("One."), answer("One too."), user("Two.")], run_id="r2")
    assert "Two." in rig.kept(bank)


def test_a_call_without_news_does_not_spend_the_skip(rig: Rig, bank: Bank) -> None:
    """The run before is handed over once more (a second observer, a retry): the skip is for the next one still."""
    history = [user("One."), answer("One too."), user("A secret.")]
    with bank.session("s") as session:
        session.before_turn(history[:1], run_id="r1")
        session.after_turn(history[:2], run_id="r1")
        session.skip_next()
        session.before_turn(history[:1], run_id="r1")
        session.after_turn(history[:2], run_id="r1")
        session.before_turn(history, run_id="r2")
        session.after_turn(history, run_id="r2")
    assert rig.kept(bank) == ["One.", "One too."]


def test_a_skipped_delta_run_is_skipped_whole(rig: Rig, bank: Bank) -> None:
    """All calls with its run id, however many."""
    with bank.session("s") as session:
        session.skip_next()
        session.before_turn([user("One.")], history="delta", run_id="r1")
        session.before_turn([answer("Looking.")], history="delta", run_id="r1")
        session.after_turn([user("One."), answer("Looking."), answer("One too.")], history="delta", run_id="r1")
        session.after_turn([user("One.")], history="delta", run_id="r2")
    assert rig.kept(bank) == ["One."]


# --- tags


def test_tags_are_stamped_from_then_on(rig: Rig, bank: Bank) -> None:
    """On what is retained after they were set, not on what was; taken away, they are not stamped any more."""
    with bank.session("s") as session:
        session.after_turn([user("One.")])
        session.tags.add("trip")
        session.after_turn([user("One."), answer("Two.")])
        session.tags.discard("trip")
        session.after_turn([user("One."), answer("Two."), user("Three.")])
    tags = dict(rig.tagged(bank))
    if rig.server is None:
        assert tags == {"One.": (), "Two.": ("trip",), "Three.": ()}


def test_a_session_has_no_tag_of_its_own(rig: Rig, bank: Bank) -> None:
    """Session tags would split observations: none is there unless asked for."""
    with bank.session("s") as session:
        session.after_turn([user("One.")])
    assert rig.tagged(bank) == [("One.", ())]


def test_base_tags_are_stamped_beside(rig: Rig) -> None:
    """Both the setting's and the session's."""
    bank = rig.open(retain={"base_tags": ("app",)})
    with bank.session("s") as session:
        session.tags.add("trip")
        session.after_turn([user("One.")])
    assert [set(tags) for _, tags in rig.tagged(bank)] == [{"app", "trip"}]


def test_tags_are_trimmed_and_there_once(bank: Bank) -> None:
    """In the order in which they came."""
    with bank.session("s") as session:
        for tag in ("  trip ", "trip", "work", "Trip"):
            session.tags.add(tag)
        assert list(session.tags) == ["trip", "work", "Trip"]
        assert (len(session.tags), " trip " in session.tags or "trip" in session.tags) == (3, True)
        session.tags.remove("work")
        session.tags.discard("unknown")
        with pytest.raises(KeyError):
            session.tags.remove("unknown")
        assert set(session.tags) == {"trip", "Trip"}
        session.tags.clear()
        assert not session.tags


@pytest.mark.parametrize("tag", ["", "  ", "a\nb", "a\x00b", "x" * 81, 5, None, "\ud800"], ids=repr)
def test_a_bad_tag_is_refused(bank: Bank, tag: Any) -> None:
    """Control characters, blanks, more than 80 characters, what is no text; the tags stay as they were."""
    with bank.session("s") as session:
        session.tags.add("x" * 80)
        with pytest.raises(UsageError):
            session.tags.add(tag)
        assert list(session.tags) == ["x" * 80]


def test_tags_are_a_set_to_calculate_with(bank: Bank) -> None:
    """Unions and the like give plain sets; assigning in place works as with any set."""
    with bank.session("s") as session:
        session.tags.add("a")
        assert session.tags | {"b"} == {"a", "b"}
        assert session.tags & {"a", "b"} == {"a"}
        assert session.tags - {"a"} == set()
        assert {"a", "b"} - session.tags == {"b"}


def test_tags_can_be_added_to_in_place(bank: Bank) -> None:
    """`session.tags |= {...}` is what users type for a set."""
    with bank.session("s") as session:
        session.tags |= {"b", "c"}
        assert set(session.tags) == {"b", "c"}


# --- fail closed


def spoil(rig: Rig, text: str) -> None:
    rig.sql("UPDATE sessions SET choices = ?", text)


UNREADABLE = {
    "no JSON": "{",
    "empty": "",
    "null": "null",
    "a list": "[]",
    "unknown mode": '{"mode": "of", "retain": true, "tags": [], "skip": null}',
    "no mode": '{"retain": true, "tags": [], "skip": null}',
    "a key more": '{"mode": "normal", "retain": true, "tags": [], "skip": null, "more": 1}',
    "retain as text": '{"mode": "normal", "retain": "yes", "tags": [], "skip": null}',
    "tags as text": '{"mode": "normal", "retain": true, "tags": "abc", "skip": null}',
    "tags as null": '{"mode": "normal", "retain": true, "tags": null, "skip": null}',
    "a bad tag": '{"mode": "normal", "retain": true, "tags": ["a\\nb"], "skip": null}',
    "skip as number": '{"mode": "normal", "retain": true, "tags": [], "skip": 1}',
    "mode as list": '{"mode": ["normal"], "retain": true, "tags": [], "skip": null}',
    "mode as mapping": '{"mode": {"a": 1}, "retain": true, "tags": [], "skip": null}',
}


@pytest.mark.parametrize("case", sorted(UNREADABLE))
def test_a_record_that_cant_be_read_means_ignored(rig: Rig, bank: Bank, case: str) -> None:
    """Nothing is recalled or retained, tools are refused, and one event tells of it."""
    with bank.session("s") as session:
        session.after_turn([user("One.")])
    spoil(rig, UNREADABLE[case])
    with bank.session("s") as session:
        history = [user("One."), answer("Two."), user("Three.")]
        injection = session.before_turn(history)
        session.after_turn(history)
        session.before_turn([*history, user("Four.")])
        assert (injection.result, injection.memories, session.mode) == (None, "", "ignored")
        assert session.refusal("recall") is not None
    assert rig.kept(bank) == ["One."]
    assert [event.session for event in rig.of(SessionUnreadable)] == ["s"]  # type: ignore[attr-defined]


def test_a_record_in_bytes_means_ignored(rig: Rig, bank: Bank) -> None:
    """Garbage need not even be text."""
    with bank.session("s") as session:
        session.after_turn([user("One.")])
    rig.sql("UPDATE sessions SET choices = ?", b"\xff\xfe\x00garbage")
    with bank.session("s") as session:
        assert session.before_turn([user("One."), user("Two.")]).result is None
        assert session.mode == "ignored"
    assert rig.kept(bank) == ["One."]


@pytest.mark.parametrize("column", ["turns", "messages", "segment", "head"])
def test_a_spoiled_counter_breaks_no_turn(rig: Rig, bank: Bank, column: str) -> None:
    """Also what a user did not choose may be unreadable: the host goes on."""
    with bank.session("s") as session:
        session.after_turn([user("One.")])
    rig.sql(f"UPDATE sessions SET {column} = 'garbage'")  # noqa: S608 - a name of the test's own
    with bank.session("s") as session:
        session.before_turn([user("One."), answer("Two."), user("Three.")])
        session.after_turn([user("One."), answer("Two."), user("Three."), answer("Four.")])


def test_a_mode_makes_an_unreadable_session_readable_again(rig: Rig, bank: Bank) -> None:
    """Only that: a tag alone does not. What was seen meanwhile never resurfaces."""
    with bank.session("s") as session:
        session.after_turn([user("One.")])
    spoil(rig, "{")
    with bank.session("s") as session:
        session.tags.add("x")
        session.after_turn([user("One."), answer("Two.")])
        assert session.mode == "ignored"
        session.mode = "normal"
        session.after_turn([user("One."), answer("Two."), user("Three.")])
        assert session.mode == "normal"
    with rig.open().session("s") as session:
        assert session.mode == "normal"
        session.after_turn([user("One."), answer("Two."), user("Three.")])
    assert rig.kept(bank) == ["One.", "Three."]


def test_an_unreadable_session_is_told_once_and_logged(rig: Rig, bank: Bank, caplog: pytest.LogCaptureFixture) -> None:
    """One event and one error line for a live session, whatever is asked of it; no content in either."""
    with bank.session("s") as session:
        session.after_turn([user("One.")])
    spoil(rig, "secret words")
    with caplog.at_level(logging.ERROR, "lorebank"), bank.session("s") as session:
        assert session.mode == "ignored"
        session.before_turn([user("One."), user("Two.")])
        session.save()
        assert session.refusal("retain") is not None
    assert len(rig.of(SessionUnreadable)) == 1
    errors = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == 1
    assert "secret words" not in errors[0]


def test_other_sessions_are_readable_still(rig: Rig, bank: Bank) -> None:
    """One spoiled record is one session's."""
    for name in ("s", "t"):
        with bank.session(name) as session:
            session.after_turn([user("One.")])
    rig.sql("UPDATE sessions SET choices = 'x' WHERE id = 's'")
    assert (bank.session("s").mode, bank.session("t").mode) == ("ignored", "normal")


def test_a_ledger_that_cant_be_asked_means_ignored_for_that_call(url: str) -> None:
    """Fail closed: a session whose choices can't be read recalls nothing; the host goes on."""

    class Deaf(MnemopiBackend):
        deaf = False

        @property
        def sessions(self) -> Any:
            if self.deaf:
                raise UnavailableError("the disk is gone")
            return self._kept

        @sessions.setter
        def sessions(self, value: Any) -> None:
            self._kept = value

    backend = Deaf(url)
    with open_bank(backend=backend, bank="alice") as bank, bank.session("s") as session:
        backend.deaf = True
        injection = session.before_turn([user(AISLE)])
        receipt = session.after_turn([user(AISLE)])
        assert (injection.memories, injection.result) == ("", None)
        assert receipt.reason is not None
        backend.deaf = False
        assert session.after_turn([user(AISLE)]).new == 1
        assert session.mode == "normal"


def test_a_mode_that_was_set_before_anything_is_a_mode(rig: Rig, bank: Bank) -> None:
    """Set before the first call, without a record in the ledger: it holds for the first call."""
    with bank.session("s") as session:
        session.mode = "ignored"
        assert session.before_turn([user(AISLE)]).result is None
    assert rig.kept(bank) == []
