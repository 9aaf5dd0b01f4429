"""Lifecycle: what comes back: retries, resumes, rewinds, restarts; when writing fails; forgetting; concurrenc..."""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import weakref
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from lorebank import Bank, Message, OutboxFullError, Session, open_bank
from lorebank.seams import Skipped
from lorebank.testing import Fault

from .rig import ASKED, FACT, Rig, answer, turn, user


def test_a_resent_history_changes_nothing(rig: Rig, bank: Bank) -> None:
    """The whole history again, by the same process, by another bank object, and by a session that was opened anew."""
    history = list[Message]()
    with bank.session("s") as session:
        for number in range(3):
            turn(session, number, history)
        session.after_turn(history)
    with bank.session("s") as session:
        session.before_turn(history)
        assert session.after_turn(history).new == 0
    with rig.open().session("s") as session:
        assert session.after_turn(history).new == 0
    assert rig.kept(bank) == [message.text for message in history]


def test_a_rewind_and_another_branch_keep_both(rig: Rig, bank: Bank) -> None:
    """Going back and on in another way removes nothing and doubles nothing; coming back to the old branch adds nothing."""
    trunk = [user("One."), answer("Two.")]
    left, right = [*trunk, user("Left?"), answer("Left it is.")], [*trunk, user("Right?"), answer("Right it is.")]
    with bank.session("s") as session:
        for history in (left, right, left, right):
            session.before_turn(history[:3])
            session.after_turn(history)
    assert rig.kept(bank) == ["One.", "Two.", "Left?", "Left it is.", "Right?", "Right it is."]


def test_a_regenerated_answer_is_kept_beside_the_first(rig: Rig, bank: Bank) -> None:
    """The same question once, both answers."""
    with bank.session("s") as session:
        session.before_turn([user("One?")])
        session.after_turn([user("One?"), answer("First try.")])
        session.before_turn([user("One?")])
        session.after_turn([user("One?"), answer("Second try.")])
    assert rig.kept(bank) == ["One?", "First try.", "Second try."]


def test_an_interrupted_run_is_resumed_without_doubling(rig: Rig, bank: Bank) -> None:
    """A human in the loop: the run ends half-way, another process resumes it with the same run id."""
    with bank.session("s") as session:
        session.before_turn([user("Book it.")], run_id="r")
        session.after_turn([user("Book it."), answer("Shall I really?")], run_id="r")
    other = rig.open()
    with other.session("s") as session:
        again = [user("Book it."), answer("Shall I really?")]
        session.before_turn(again, run_id="r")
        session.after_turn([*again, answer("Booked.")], run_id="r")
    assert rig.kept(bank) == ["Book it.", "Shall I really?", "Booked."]


def test_two_observers_of_a_run_keep_it_once(rig: Rig, bank: Bank) -> None:
    """A handler with deltas and a middleware with the full history, in one run."""
    with bank.session("s") as session:
        session.before_turn([user("One?")], history="full", run_id="r")
        session.before_turn([user("One?")], history="delta", run_id="r")
        session.after_turn([user("One?"), answer("One.")], history="delta", run_id="r")
        session.after_turn([user("One?"), answer("One.")], history="full", run_id="r")
    assert rig.kept(bank) == ["One?", "One."]


def test_saying_the_same_again_is_said_again(rig: Rig, bank: Bank) -> None:
    """A user who says "yes" three times has said it three times."""
    history = list[Message]()
    with bank.session("s") as session:
        for number in range(3):
            history.append(user("Yes."))
            session.before_turn(history)
            history.append(answer(f"Understood, number {number}."))
            session.after_turn(history)
    assert Counter(rig.kept(bank))["Yes."] == 3


def test_a_reset_history_that_is_set_again_keeps_what_is_new(rig: Rig, bank: Bank) -> None:
    """An empty history in between is no rewind; what comes after it is new."""
    with bank.session("s") as session:
        session.after_turn([user("My name is Ana and I live in Porto by the sea."), answer("Hello Ana.")])
        session.after_turn([])
        session.after_turn([user("I have moved from Porto to Rome since we last spoke."), answer("Noted.")])
    assert "I have moved from Porto to Rome since we last spoke." in rig.kept(bank)


def test_host_ids_decide(rig: Rig, bank: Bank) -> None:
    """A shuffled, trimmed or repeated history with ids adds nothing; an edited message is new."""
    history = [user("One.", id="1"), answer("Two.", id="2"), user("Three.", id="3"), answer("Four.", id="4")]
    with bank.session("s") as session:
        session.after_turn(history)
        session.after_turn(history[2:])
        session.after_turn([*history[:2], *history])
        session.after_turn(list(reversed(history)))
        session.after_turn([user("One, edited.", id="1"), *history[1:]])
    assert sorted(rig.kept(bank)) == sorted(["One.", "Two.", "Three.", "Four.", "One, edited."])


def test_a_full_outbox_breaks_no_turn_and_loses_nothing(served: Rig) -> None:
    """Nothing is half-written: once there is room again, the next call writes all that is missing."""
    tiny = served.open(outbox={"max_rows": 2}, retain={"every_n_turns": 100})
    history = list[Message]()
    with tiny.session("s") as session:
        for number in range(4):
            turn(session, number, history)
        skipped = [event for event in served.events if isinstance(event, Skipped)]
        assert skipped
        assert {event.reason for event in skipped} == {"OutboxFullError"}
        roomy = served.open()
        roomy.flush(timeout=30, until="completed")
        roomy.session("s").after_turn(history)
    assert served.kept(roomy) == [message.text for message in history]


def test_an_application_that_wants_failures_hears_of_a_full_outbox(served: Rig) -> None:
    """`on_failure="raise"` raises what could not be written."""
    tiny = served.open(outbox={"max_rows": 1}, retain={"every_n_turns": 100}, on_failure="raise")
    with tiny.session("s") as session:
        session.after_turn([user("One.")])
        with pytest.raises(OutboxFullError):
            session.after_turn([user("One."), answer("Two.")])


def test_a_turn_that_could_not_be_written_is_written_by_the_next(file: Path) -> None:
    """A busy file: the turn goes on with its memories, an event tells, and the next call brings all."""
    with open_bank(f"sqlite:///{file}", bank="alice", mnemopi={"busy_timeout": 0.05}, mental_models={"enabled": False}) as bank:
        bank.retain(FACT)
        with bank.session("s") as session, closing(sqlite3.connect(file, isolation_level=None)) as other:
            session.before_turn([user("Hello there.")])
            other.execute("BEGIN IMMEDIATE")
            injection = session.before_turn([user("Hello there."), answer("Hi."), user(ASKED)])
            receipt = session.after_turn([user("Hello there."), answer("Hi."), user(ASKED), answer("Aisle.")])
            other.execute("ROLLBACK")
            assert FACT in injection.memories
            assert receipt.reason is not None
            assert session.after_turn([user("Hello there."), answer("Hi."), user(ASKED), answer("Aisle.")]).new == 3
        assert [memory.text for memory in bank.list() if memory.source == "transcript"][::-1] == [
            "Hello there.",
            "Hi.",
            ASKED,
            "Aisle.",
        ]


def test_choices_survive_a_failed_call(file: Path) -> None:
    """A change of the user's that could not be stored yet is stored by the next call that can."""
    with open_bank(f"sqlite:///{file}", bank="alice", mnemopi={"busy_timeout": 0.05}, mental_models={"enabled": False}) as bank:
        bank.retain(FACT)
        session = bank.session("s")
        session.before_turn([user("Hello there.")])
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            session.mode = "read-only"
            session.after_turn([user("Hello there.")])
            assert session.mode == "read-only"
            other.execute("ROLLBACK")
        session.after_turn([user("Hello there.")])
        session.close()
    with open_bank(f"sqlite:///{file}", bank="alice") as again:
        assert again.session("s").mode == "read-only"


def test_a_refused_batch_is_a_dead_letter_and_no_error(served: Rig) -> None:
    """What the server refuses for good waits for a person; the conversation goes on."""
    bank = served.open(retain={"every_n_turns": 1})
    assert served.server is not None
    served.server.fault(Fault(status=413), method="POST", path="/memories$")
    with bank.session("s") as session:
        session.after_turn([user("One.")])
        bank.flush(timeout=10)
        served.server.heal()
        session.after_turn([user("One."), answer("Two.")])
    report = bank.flush(timeout=30, until="completed")
    assert report.left == 0
    assert bank.outbox.status().lost == 1


def test_what_was_forgotten_is_not_refilled_by_the_history(rig: Rig, bank: Bank) -> None:
    """Cursors survive `forget(session=...)` and `clear`: the same history handed over again brings nothing back."""
    for how in ("forget", "clear"):
        history = [user(f"My secret is {how}."), answer("Noted.")]
        with bank.session(f"s-{how}") as session:
            session.after_turn(history)
        assert f"My secret is {how}." in rig.kept(bank)
        if how == "forget":
            bank.forget(session="s-forget")
        else:
            bank.clear(confirm="alice")
        with rig.open().session(f"s-{how}") as session:
            history += [user("And now for something else.")]
            session.after_turn(history)
        assert f"My secret is {how}." not in rig.kept(bank)
        assert "And now for something else." in rig.kept(bank)


def test_forgetting_reaches_what_is_held(served: Rig) -> None:
    """A conversation that has not been sent yet never arrives."""
    bank = served.open(retain={"every_n_turns": 10})
    session = bank.session("s")
    session.after_turn([user("My secret is out.")])
    bank.forget(session="s")
    session.after_turn([user("My secret is out."), answer("It is not.")])
    session.close()
    assert served.kept(bank) == ["It is not."]


def test_a_forgotten_memory_is_not_recalled_in_the_running_turn(rig: Rig, bank: Bank) -> None:
    """At the latest with the next turn it is gone from the block."""
    outcome = bank.retain(FACT)
    bank.flush(timeout=30, until="completed")
    with bank.session("s") as session:
        assert FACT in session.before_turn([user(ASKED)]).memories
        for memory in bank.recall(ASKED):
            if memory.text == FACT:
                bank.forget(memory.id)
        assert FACT not in session.before_turn([user(ASKED), answer("Aisle."), user("Which seats, again?")]).memories
    assert outcome


def test_calls_of_one_session_are_serialised(rig: Rig, bank: Bank) -> None:
    """Sixteen threads, one session, a run each: every message is kept once."""

    def run(number: int) -> None:
        messages = [user(f"Question number {number}."), answer(f"Answer number {number}.")]
        session.before_turn(messages[:1], history="delta", run_id=f"r{number}")
        session.after_turn(messages, history="delta", run_id=f"r{number}")

    with bank.session("s") as session, ThreadPoolExecutor(16) as pool:
        list(pool.map(run, range(32)))
    kept = Counter(rig.kept(bank))
    assert set(kept.values()) == {1}
    assert len(kept) == 64


async def test_many_tasks_of_one_loop(rig: Rig, bank: Bank) -> None:
    """More conversations at once than there are threads: all go on, none blocks the loop."""

    async def converse(number: int) -> None:
        async with bank.session(f"s{number}") as session:
            await session.abefore_turn([user(f"Question number {number}.")])
            await session.aafter_turn([user(f"Question number {number}."), answer(f"Answer number {number}.")])

    async with asyncio.timeout(60):
        await asyncio.gather(*(converse(number) for number in range(20)))
    kept = await asyncio.to_thread(rig.kept, bank)
    assert Counter(kept) == Counter([f"{who} number {n}." for n in range(20) for who in ("Question", "Answer")])


async def test_a_cancelled_await_leaves_the_session_usable(served: Rig) -> None:
    """The host gives up waiting for a slow memory: the words are kept, and the next call works."""
    bank = served.open(recall={"deadline": 0.5})
    assert served.server is not None
    served.server.fault(Fault(delay=3.0), path="/recall$", times=1)
    session = bank.session("s")
    task = asyncio.create_task(session.abefore_turn([user("One.")]))
    while not any(request.path.endswith("/recall") for request in served.server.requests):
        await asyncio.wait([task], timeout=0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    receipt = await session.aafter_turn([user("One."), answer("Two.")])
    assert receipt.new == 1
    await session.aclose()
    served.server.heal()
    assert await asyncio.to_thread(served.kept, bank) == ["One.", "Two."]


def test_closing_while_others_open(rig: Rig, bank: Bank) -> None:
    """Threads that open, use and close the same id: no call meets a closed session, and nothing is lost."""

    def visit(number: int) -> None:
        with bank.session("s") as session:
            session.after_turn([user(f"Visitor number {number}.")], history="delta", run_id=f"r{number}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(visit, range(24)))
    assert Counter(rig.kept(bank)) == Counter(f"Visitor number {number}." for number in range(24))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_sessions_of_its_own(rig: Rig, bank: Bank) -> None:
    """A live session in the parent: the child opens the same id and keeps its words, and so does the parent."""
    with bank.session("s") as session:
        session.before_turn([user("The parent asks.")])
        child = os.fork()
        if not child:
            status = 1
            try:
                with bank.session("s") as own:
                    own.before_turn([user("The parent asks."), answer("Hm."), user("The child asks.")])
                bank.flush(timeout=20)
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        session.after_turn([user("The parent asks."), answer("Hm.")])
    assert sorted(rig.kept(bank)) == ["Hm.", "The child asks.", "The parent asks."]


def test_closed_sessions_leave_nothing_behind(bank: Bank) -> None:
    """A server that has seen a million conversations holds those that are open."""
    gone = list[weakref.ref[Session]]()
    for number in range(8):
        with bank.session(f"s{number}") as session:
            session.before_turn([user("Hello there.")])
            gone.append(weakref.ref(session))
    del session
    gc.collect()
    assert [each for each in gone if each() is not None] == []
