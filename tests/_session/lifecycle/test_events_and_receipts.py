"""Lifecycle: events and receipts."""

from __future__ import annotations

from pathlib import Path

import pytest

from lorebank import Bank, Message, MissingError, Session, UnavailableError, open_bank
from lorebank.seams import Event, Recalled, Retained
from lorebank.testing import Fault

from .rig import ASKED, FACT, Rig, answer, lines, user


def test_events_count_and_never_tell(rig: Rig, bank: Bank, caplog: pytest.LogCaptureFixture) -> None:
    """One event for each recall and each write; no word of the conversation in events, receipts, logs or reprs."""
    word = "xylophone"
    bank.retain(f"Ana plays the {word}.")
    bank.flush(timeout=30, until="completed")
    rig.events.clear()
    with caplog.at_level("DEBUG", "lorebank"), bank.session("s") as session:
        session.before_turn([user(f"Who plays the {word}?")])
        receipt = session.after_turn([user(f"Who plays the {word}?"), answer(f"Nobody but her has a {word} in the house.")])
        told = [repr(rig.events), repr(receipt), repr(session), repr(session.alias()), caplog.text]
    assert [type(event) for event in rig.events if isinstance(event, (Recalled, Retained))] == [Retained, Recalled, Retained]
    assert [text for text in told if word in text] == []


def test_a_listener_that_fails_breaks_no_turn(rig: Rig) -> None:
    """It is logged, and the words are kept."""

    def failing(_event: Event) -> None:
        raise RuntimeError("no")

    bank = rig.open(on_event=failing)
    with bank.session("s") as session:
        assert session.before_turn([user("One.")]).result is not None
        assert session.after_turn([user("One."), answer("Two.")]).reason is None
    assert rig.kept(bank) == ["One.", "Two."]


def test_a_listener_may_use_the_session(rig: Rig) -> None:
    """What hears of a recall may ask for its trace."""
    seen = list[object]()
    holder = list[Session]()
    bank = rig.open(on_event=lambda event: seen.append(holder[0].last_recall()) if isinstance(event, Recalled) else None)
    with bank.session("s") as session:
        holder.append(session)
        session.before_turn([user("One.")])
    assert len(seen) == 1


def test_receipts_name_what_was_written(rig: Rig, bank: Bank) -> None:
    """Ids that can be looked up: of memories on Mnemopi, of outbox rows on a server."""
    with bank.session("s") as session:
        receipt = session.after_turn([user("One."), answer("Two.")])
        assert (receipt.new, receipt.passed, receipt.echoes, receipt.reason) == (2, 0, 0, None)
        if rig.server is None:
            assert [bank.get(str(outcome.id)).text for outcome in receipt.receipt.stored] == ["One.", "Two."]
        else:
            assert {outcome.document_id for outcome in receipt.receipt.queued} == {"lorebank:s:0"}
            for outcome in receipt.receipt.queued:
                assert bank.outbox.get(str(outcome.id)).session == "s"
            with pytest.raises(MissingError):
                bank.outbox.get("0" * 17)


def test_memories_of_a_transcript_say_where_they_come_from(file: Path) -> None:
    """On Mnemopi: session, speaker, source, veracity, importance and type as the table of writers says."""
    with open_bank(f"sqlite:///{file}", bank="alice") as bank:
        with bank.session("s") as session:
            session.after_turn([user("One.", name="Ana"), answer("Two.")])
        one, two = reversed(bank.list())
        assert [(m.source, m.importance, m.veracity, m.type, m.session, m.context) for m in (one, two)] == [
            ("transcript", 0.5, "unknown", "experience", "s", "conversation")
        ] * 2
        assert (one.speaker, two.speaker) == ("Ana", "assistant")


def test_a_session_of_a_joined_bank_writes_to_the_first(rig: Rig, tmp_path: Path) -> None:
    """It recalls from both, and keeps what is said in its own."""
    first = rig.open()
    with open_bank(f"sqlite:///{tmp_path / 'other.db'}", bank="bob") as other:
        other.retain(FACT)
        with first.joined(other) as joined, joined.session("s") as session:
            assert FACT in session.before_turn([user(ASKED)]).memories
            session.after_turn([user(ASKED), answer("In the aisle, I was told.")])
        assert [memory.text for memory in other.list()] == [FACT]
        assert rig.kept(first) == [ASKED, "In the aisle, I was told."]


def test_a_bank_that_never_comes_back_costs_close_its_bound(served: Rig) -> None:
    """Closing with a dead server takes the bound at most, and what was said waits in the ledger."""
    bank = served.open(connection={"close_timeout": 0.2})
    assert served.server is not None
    served.server.stop()
    with bank.session("s") as session:
        session.after_turn([user("One.")])
    bank.close()
    with pytest.raises(Exception, match="closed"):
        session.before_turn([user("One.")])
    served.server.start()
    assert served.kept(served.open()) == ["One."]


def test_closing_the_bank_delivers_what_its_sessions_hold(served: Rig) -> None:
    """An application that closes its bank and forgets its sessions loses nothing."""
    bank = served.open(retain={"every_n_turns": 10}, connection={"close_timeout": 10})
    bank.session("s").after_turn([user("One.")])
    bank.close()
    assert served.server is not None
    assert [lines(text) for text in served.server.bank("alice").documents.values()] == [["One."]]


def test_closing_the_bank_stores_what_its_sessions_have_changed(rig: Rig) -> None:
    """Closing loses nothing: a user who has asked for privacy has it after the restart."""
    with rig.open() as bank:
        session = bank.session("s")
        session.before_turn([user("Hello there.")])
        session.mode = "ignored"
    assert rig.open().session("s").mode == "ignored"


def test_before_turn_raises_nothing_but_what_was_asked_for(served: Rig) -> None:
    """Whatever a server answers: garbage, halves, redirects, refusals, endless bodies."""
    assert served.server is not None
    faults = [
        Fault(body=b"{}"),
        Fault(body=b'{"results": 5}'),
        Fault(body=b'{"results": [{"id": 1}]}'),
        Fault(cut_after=10),
        Fault(status=302, headers={"location": "/"}),
        Fault(status=401),
        Fault(status=403),
        Fault(status=404),
        Fault(status=422, body=b'{"detail": [{"loc": ["body", "query"], "msg": "no", "type": "x"}]}'),
        Fault(status=429, retry_after=1),
        Fault(drop=True),
    ]
    bank = served.open()
    history = list[Message]()
    with bank.session("s") as session:
        for number, fault in enumerate(faults):
            served.server.fault(fault, path="/recall$")
            history.append(user(f"Question number {number}."))
            result = session.before_turn(history).result
            assert result is not None
            assert result.state in ("unavailable", "nothing")
            assert result.state == "unavailable" or fault.status == 404
            served.server.heal()
    assert served.kept(bank) == [message.text for message in history]


def test_a_failed_recall_raises_where_wanted_and_loses_no_word(served: Rig) -> None:
    """`on_failure="raise"`: the words are there although the call raised."""
    bank = served.open(on_failure="raise")
    assert served.server is not None
    served.server.fault(Fault(status=500), path="/recall$")
    session = bank.session("s")
    with pytest.raises(UnavailableError):
        session.before_turn([user("One.")])
    served.server.heal()
    session.close()
    assert served.kept(bank) == ["One."]
