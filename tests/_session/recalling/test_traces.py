"""Recalling: traces; compaction."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from lorebank import Message, UnavailableError
from lorebank.seams import Recalled
from lorebank.testing import Fault

from .rig import ASKED, FACT, HARP, RECALL, Rig, answer, query, seconds, traces, turn, user


def test_the_last_turn_can_be_traced(rig: Rig) -> None:
    """Query, ids, scores by signal, what was dropped, and how long it took."""
    bank = rig.open(recall={"limit": 1})
    rig.tell(bank, FACT, "Ana prefers trains to short flights.")
    with bank.session("s") as session:
        assert session.last_recall() is None
        shown = session.before_turn([user(ASKED)]).result
        trace = session.last_recall()
        assert shown is not None
        assert trace is not None
        assert (trace.query, trace.state) == (ASKED, "found")
        assert [each.id for each in trace.shown] == [memory.id for memory in shown]
        assert trace.shown[0].score is not None
        assert trace.shown[0].signals
        assert len(trace.dropped) == 1
        assert 0 < trace.elapsed < 30
        turn(session, [user(ASKED), answer("Aisle seats.")], "Who plays the harp?")
        assert query(session) == "Who plays the harp?"


def test_traces_are_kept_in_memory_only_by_default(rig: Rig) -> None:
    """A restart knows nothing, and no query is on the disk."""
    with rig.open().session("s") as session:
        turn(session, [], ASKED)
        assert query(session) == ASKED
    assert traces(rig) == []
    assert rig.open().session("s").last_recall() is None


def test_kept_traces_survive_a_restart_and_are_bounded(rig: Rig) -> None:
    """The newest `keep_traces` of each session, one for a turn however many model calls."""
    bank = rig.open(recall={"keep_traces": 2})
    history = list[Message]()
    with bank.session("s") as session, bank.session("t") as other:
        for text in ("First question?", "Second question?", "Third question?"):
            turn(session, history, text)
            session.before_turn([*history[:-1]])
        turn(other, [], "Another question?")
    kept = [json.loads(body)["query"] for body in traces(rig)]
    assert kept == ["Second question?", "Third question?", "Another question?"]
    again = rig.open(recall={"keep_traces": 2})
    assert (query(again.session("s")), query(again.session("t"))) == ("Third question?", "Another question?")
    whole = again.session("s").last_recall()
    assert whole is not None
    assert whole.state == "nothing"


@pytest.mark.parametrize("how", ["forget", "clear"])
def test_traces_go_with_what_is_forgotten(rig: Rig, how: str) -> None:
    """They hold queries: `forget(session=...)` and `clear` take them from the ledger and from the live session."""
    bank = rig.open(recall={"keep_traces": 5})
    rig.tell(bank, FACT)
    with bank.session("s") as session, bank.session("t") as other:
        turn(session, [], ASKED)
        turn(other, [], "Another question?")
        if how == "forget":
            bank.forget(session="s")
        else:
            bank.clear(confirm="alice")
        assert ASKED not in "".join(traces(rig))
        assert ("Another question?" in "".join(traces(rig))) == (how == "forget")
        assert rig.open(recall={"keep_traces": 5}).session("s").last_recall() is None
        assert session.last_recall() is None


def test_a_trace_is_never_an_earlier_turns(rig: Rig) -> None:
    """A turn in which memory could not be asked is told as that, not by the trace of the turn before it."""
    bank = rig.open(recall={"keep_traces": 5})
    history = list[Message]()
    with bank.session("s") as session:
        turn(session, history, "First question?")
        rig.server.fault(Fault(status=500), path=RECALL)
        turn(session, history, "Second question?")
        assert query(session) != "First question?"
        rig.server.heal()


def test_an_unreadable_trace_breaks_nothing(rig: Rig) -> None:
    """Garbage in the ledger is no trace."""
    bank = rig.open(recall={"keep_traces": 5})
    with bank.session("s") as session:
        turn(session, [], ASKED)
    with closing(sqlite3.connect(rig.folder / "outbox.db")) as connection, connection:
        connection.execute("UPDATE traces SET body = '{'")
    assert rig.open(recall={"keep_traces": 5}).session("s").last_recall() is None


def test_a_compaction_gets_a_block_of_its_own(rig: Rig) -> None:
    """What is known about the newest message, for the summariser; the session's own memories may be among them."""
    bank = rig.open()
    rig.tell(bank, FACT)
    history = [user("My flight is number 7 to Porto."), answer("Noted."), user("Which seats does Ana prefer on my flight?")]
    with bank.session("s") as session:
        session.after_turn(history[:2])
        session.retain_now()
        bank.flush(timeout=30, until="completed")
        block = session.before_compaction(history)
    assert block.startswith("<memories>\n")
    assert FACT in block
    assert "number 7" in block


def test_a_compaction_changes_nothing_of_the_turn(rig: Rig) -> None:
    """It records no message, is no turn, has no trace, and does not take the turn's memories away."""
    bank = rig.open()
    rig.tell(bank, FACT, HARP)
    with bank.session("s") as session:
        first = session.before_turn([user(ASKED)])
        session.before_compaction([user("Who plays the harp?"), answer("I can't say.")])
        assert query(session) == ASKED
        assert session.before_turn([user(ASKED), answer("Hm.")]).memories == first.memories
    assert rig.recalls() == 2
    assert rig.kept() == [ASKED, "Hm."] or rig.kept() == [ASKED]
    assert len([event for event in rig.events if isinstance(event, Recalled)]) == 2


def test_a_compaction_of_what_says_nothing_is_empty(rig: Rig) -> None:
    """Nothing known, no message, nothing to ask: no block at all."""
    with rig.open().session("s") as session:
        assert session.before_compaction([user(ASKED)]) == ""
        assert session.before_compaction([]) == ""
        assert session.before_compaction([answer("Hello."), user("?")]) == ""


def test_a_compaction_has_the_same_deadline(rig: Rig) -> None:
    """A server that hangs costs it once; it raises only where that is wanted."""
    bank = rig.open(recall={"deadline": 0.5})
    rig.server.fault(Fault(hang=True), path=RECALL)
    with bank.session("s") as session:
        assert seconds(lambda: session.before_compaction([user(ASKED)])) < 2.0
        assert session.before_compaction([user(ASKED)]) == ""
        rig.server.heal()
    loud = rig.open(on_failure="raise")
    rig.server.fault(Fault(status=500), path=RECALL)
    with loud.session("t") as session, pytest.raises(UnavailableError):
        session.before_compaction([user(ASKED)])
