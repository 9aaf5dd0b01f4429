"""Modes: the matrix; where a choice holds; skip_next."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from lorebank import Bank, UsageError
from lorebank._domain.session import Mode
from lorebank.seams import TOOLBOOK

from .rig import AISLE, ASKED, CELLS, FACT, MODES, READING, WRITING, Rig, allows, answer, recalls, retains, shows_models, user


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


def test_an_unknown_mode_is_refused(bank: Bank) -> None:
    """`UsageError` that names the four; the mode stays."""
    unknown: tuple[Any, ...] = ("Normal", "off", "", None, True, 1, ["normal"], {"mode": "normal"})
    with bank.session("s") as session:
        for mode in unknown:
            with pytest.raises(UsageError, match="read-only"):
                session.mode = mode
        assert session.mode == "normal"


def test_retain_is_on_or_off(bank: Bank) -> None:
    """Nothing that is merely false-like."""
    unknown: tuple[Any, ...] = ("no", 0, None)
    with bank.session("s") as session:
        for value in unknown:
            with pytest.raises(UsageError, match="retain_enabled"):
                session.retain_enabled = value
        assert session.retain_enabled is True


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
