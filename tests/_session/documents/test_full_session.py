"""Documents: full-session; last-turn; cadence; cancelled runs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from lorebank import Message
from lorebank.seams import ToolCall

from .rig import Rig, answer, lines, said, talk, until, user


def test_a_whole_session_is_one_document(rig: Rig) -> None:
    """`lorebank:<session>`, replaced each time by all of it."""
    session = rig.session(retain={"retain_mode": "full-session"})
    history = talk(session, 3)
    rig.settle(session)
    assert rig.texts() == {"lorebank:s": said(history)}
    assert {item["update_mode"] for item in rig.sent()} == {"replace"}
    assert lines(rig.sent()[-1]["content"])[0]["content"] == history[0].text


@pytest.mark.parametrize("ids", [True, False], ids=["host ids", "no ids"])
def test_a_compacted_whole_session_loses_nothing(rig: Rig, ids: bool) -> None:
    """The document that was there stays, and what is said afterwards is kept beside it."""
    session = rig.session(retain={"retain_mode": "full-session"})
    history = talk(session, 4, ids=ids)
    rig.settle(session)
    later = [user("A summary.", id="sum" if ids else None), *history[6:], user("And now?", id="q" if ids else None)]
    session.after_turn(later)
    rig.settle(session)
    found = [text for each in rig.texts().values() for text in each]
    assert [text for text in said(history) if text not in found] == []
    assert "And now?" in found


def test_a_sliding_window_keeps_each_message_once(rig: Rig) -> None:
    """A host that hands over its newest messages only, with ids: nothing lost, nothing said twice to the server."""
    session = rig.session(retain={"retain_mode": "full-session"})
    history = list[Message]()
    for number in range(8):
        history += [user(f"Question number {number}.", id=f"q{number}"), answer(f"Answer number {number}.", id=f"a{number}")]
        session.after_turn(history[-4:])
        rig.settle(session)
    counts = Counter(text for found in rig.texts().values() for text in found)
    assert [text for text in said(history) if not counts[text]] == []
    assert {text: count for text, count in counts.items() if count > 1} == {}


def test_documents_may_follow_edits(rig: Rig) -> None:
    """`on_rewrite="replace"`: an edited history is the document."""
    session = rig.session(retain={"retain_mode": "full-session", "on_rewrite": "replace"})
    session.after_turn([user("One."), answer("Two."), user("Three.")])
    rig.settle(session)
    session.after_turn([user("One."), answer("Two, edited.")])
    rig.settle(session)
    assert rig.texts() == {"lorebank:s": ["One.", "Two, edited."]}


def test_edits_are_appended_by_default(rig: Rig) -> None:
    """An edited message is new; what was retained stays."""
    session = rig.session()
    session.after_turn([user("One.", id="1"), answer("Two.", id="2")])
    session.after_turn([user("One.", id="1"), answer("Two, edited.", id="2")])
    rig.settle(session)
    assert rig.texts() == {"lorebank:s:0": ["One.", "Two.", "Two, edited."]}


def test_the_last_turns_are_documents_with_overlap(rig: Rig) -> None:
    """Each release is a document of the unretained turns, after `overlap_turns` turns that stand before them."""
    session = rig.session(retain={"retain_mode": "last-turn", "overlap_turns": 1})
    history = talk(session, 3)
    rig.settle(session)
    assert list(rig.texts().values()) == [said(history[:2]), said(history[:4]), said(history[2:6])]
    assert all(name.startswith("lorebank:s:") and len(name) == len("lorebank:s:") + 16 for name in rig.texts())


def test_last_turns_overlap_by_two_by_default(rig: Rig) -> None:
    """And a document holds all that its cadence has gathered."""
    session = rig.session(retain={"retain_mode": "last-turn", "every_n_turns": 2})
    history = talk(session, 6)
    rig.settle(session)
    assert list(rig.texts().values()) == [said(history[:4]), said(history[:8]), said(history[4:12])]


def test_no_overlap_sends_each_message_once(rig: Rig) -> None:
    """`overlap_turns=0`."""
    session = rig.session(retain={"retain_mode": "last-turn", "overlap_turns": 0, "every_n_turns": 2})
    history = talk(session, 5)
    rig.settle(session)
    assert [text for found in rig.texts().values() for text in found] == said(history)


def test_runs_that_begin_with_the_same_words_have_documents_of_their_own(rig: Rig) -> None:
    """A host of deltas without ids: the second "Yes." replaces nothing of the first one's document."""
    session = rig.session(retain={"retain_mode": "last-turn"})
    for run, text in (("r1", "I will book the flight."), ("r2", "I will cancel the hotel.")):
        session.before_turn([user("Yes.")], history="delta", run_id=run)
        session.after_turn([user("Yes."), answer(text)], history="delta", run_id=run)
        rig.settle(session)
    found = [text for each in rig.texts().values() for text in each]
    assert "I will book the flight." in found
    assert "I will cancel the hotel." in found


@pytest.mark.parametrize("mode", ["full-session", "last-turn"])
def test_a_host_of_deltas_loses_nothing_in_any_mode(rig: Rig, mode: str) -> None:
    """Each run hands over its own messages only; all of them are on the server."""
    session = rig.session(retain={"retain_mode": mode})
    texts = list[str]()
    for number in range(4):
        run = [user(f"Question number {number}."), answer(f"Answer number {number}.")]
        session.before_turn(run[:1], history="delta", run_id=f"r{number}")
        session.after_turn(run, history="delta", run_id=f"r{number}")
        texts += said(run)
        if number % 2:
            rig.settle(session)
    rig.settle(session)
    found = [text for each in rig.texts().values() for text in each]
    assert [text for text in texts if text not in found] == []


@pytest.mark.parametrize("mode", ["append", "full-session", "last-turn"])
def test_no_mode_sends_what_was_skipped(rig: Rig, mode: str) -> None:
    """Neither as new nor as overlap nor as part of the whole."""
    session = rig.session(retain={"retain_mode": mode})
    history = talk(session, 1)
    session.skip_next()
    history += [user("A secret question."), answer("A secret answer.")]
    session.before_turn(history[:3])
    session.after_turn(history)
    history += [user("Good bye."), answer("Bye.")]
    session.after_turn(history)
    rig.settle(session)
    assert not [text for found in rig.texts().values() for text in found if "secret" in text]
    assert [text for found in rig.texts().values() for text in found if text == "Good bye."]


def test_turns_are_held_until_their_cadence(rig: Rig) -> None:
    """Three user turns by default: two wait in the ledger, the third lets all go."""
    session = rig.session(retain={"every_n_turns": None})
    history = talk(session, 2)
    assert set(rig.states()) == {"held"}
    history += [user("Question number 2."), answer("Answer number 2.")]
    session.before_turn(history[:-1])
    assert set(rig.states()) == {"held"}
    session.after_turn(history)
    assert rig.states()["held"] == 0
    rig.settle(session)
    assert rig.texts() == {"lorebank:s:0": said(history)}


@pytest.mark.parametrize("every", [1, 2, 5])
def test_the_cadence_can_be_chosen(rig: Rig, every: int) -> None:
    """`every_n_turns` user turns, counted over restarts."""
    released = list[int]()
    history = list[Message]()
    for number in range(5):
        session = rig.session(retain={"every_n_turns": every})
        history += [user(f"Question number {number}."), answer(f"Answer number {number}.")]
        session.after_turn(history)
        if rig.states()["held"] == 0:
            released.append(number + 1)
    assert [turn for turn in released if turn % every == 0] == list(range(every, 6, every))


def test_a_turn_of_many_model_calls_is_one_turn(rig: Rig) -> None:
    """Tool calls and results don't count for the cadence."""
    session = rig.session(retain={"every_n_turns": 2})
    history = [user("Go.")]
    for number in range(6):
        history += [answer("", tool_calls=(ToolCall("step", {"n": number}),)), Message("tool", "no", name="step", failed=True)]
        session.before_turn(history)
    session.after_turn(history)
    assert set(rig.states()) == {"held"}


def test_close_lets_go_and_drains(rig: Rig) -> None:
    """The tail below the cadence is on the server when `close` returns."""
    bank = rig.open(retain={"every_n_turns": 10})
    with bank.session("s") as session:
        history = talk(session, 1)
    assert rig.texts() == {"lorebank:s:0": said(history)}


def test_close_of_one_session_lets_the_others_rows_be(rig: Rig) -> None:
    """Another conversation's cadence is its own."""
    bank = rig.open(retain={"every_n_turns": 10})
    other = bank.session("other")
    other.after_turn([user("I am held.")])
    with bank.session("s") as session:
        session.after_turn([user("I go.")])
    assert [text for found in rig.texts().values() for text in found] == ["I go."]
    assert rig.states()["held"] == 1


def test_retain_now_lets_go_at_once(rig: Rig) -> None:
    """And begins the count anew."""
    session = rig.session(retain={"every_n_turns": 3})
    history = talk(session, 2)
    assert session.retain_now().left == 0
    assert rig.texts() == {"lorebank:s:0": said(history)}
    for number in range(2, 5):
        assert rig.states()["held"] == number - 2
        history += [user(f"Question number {number}."), answer(f"Answer number {number}.")]
        session.after_turn(history)
    rig.settle(session)
    assert rig.texts() == {"lorebank:s:0": said(history)}


def test_what_is_idle_is_let_go(rig: Rig) -> None:
    """A session that nobody closes: after five minutes its rows go by themselves."""
    bank = rig.open(retain={"every_n_turns": 10})
    session = bank.session("s")
    session.after_turn([user("One.")])
    sender = bank.connections.backend.sender  # type: ignore[attr-defined]
    assert sender.started
    sender._chores_at = 0.0
    sender.wake()
    sender.wait(5.0)
    assert rig.states() == {"held": 1}
    rig.sql("UPDATE outbox SET created = created - 301, since = since - 301")
    sender._born -= 400
    sender._chores_at = 0.0
    sender.wake()
    until(rig, bank)
    assert bank.flush(timeout=30, until="completed").left == 0
    assert rig.texts() == {"lorebank:s:0": ["One."]}


def test_what_a_dead_process_held_is_let_go_by_the_next_start(rig: Rig) -> None:
    """Its sessions are not opened again: whoever opens any bank of the server delivers it."""
    first = rig.open(retain={"every_n_turns": 10})
    first.session("s").after_turn([user("One.")])
    first.connections.backend.sender.stop(5.0)  # type: ignore[attr-defined]  # as good as dead
    second = rig.open("bob")
    second.recall("anything at all")
    until(rig, second)
    assert second.flush(timeout=30, until="completed").left == 0
    assert rig.texts() == {"lorebank:s:0": ["One."]}


def test_a_start_that_only_talks_lets_go_too(rig: Rig) -> None:
    """The first turn of another session is a start as well."""
    first = rig.open(retain={"every_n_turns": 10})
    first.session("s").after_turn([user("One.")])
    first.connections.backend.sender.stop(5.0)  # type: ignore[attr-defined]
    second = rig.open(retain={"every_n_turns": 10})
    second.session("t").after_turn([user("Two.")])
    for _ in range(2_000):
        if "lorebank:s:0" in rig.texts():
            break
        second.connections.backend.sender.wait(0.05)  # type: ignore[attr-defined]
    assert rig.texts()["lorebank:s:0"] == ["One."]


@pytest.mark.parametrize(("setting", "kept"), [("user", ["Go."]), ("partial", ["Go.", "I am about"])])
@pytest.mark.parametrize("before", [True, False], ids=["before_turn", "without before_turn"])
def test_a_cancelled_run_keeps_the_users_words(rig: Rig, setting: str, kept: list[str], before: bool) -> None:
    """And nothing of the half answer, unless `on_cancel="partial"`."""
    session = rig.session(retain={"on_cancel": setting})
    if before:
        session.before_turn([user("Go.")])
    receipt = session.after_turn([user("Go."), answer("I am about")], cancelled=True)
    assert receipt.passed == (1 if setting == "user" else 0)
    rig.settle(session)
    assert rig.texts() == {"lorebank:s:0": kept}


@pytest.mark.parametrize("history", ["full", "delta"])
def test_half_an_answer_never_resurfaces(rig: Rig, history: Any) -> None:
    """The host leaves it in its history: it stays out; the whole answer of the next try is kept."""
    session = rig.session()
    first = [user("Go."), answer("I am about")]
    session.before_turn(first[:1], history=history, run_id="r1")
    session.after_turn(first, history=history, run_id="r1", cancelled=True)
    second = [user("Go on."), answer("I am about to leave.")]
    given = second if history == "delta" else [*first, *second]
    session.before_turn(given[:-1], history=history, run_id="r2")
    session.after_turn(given, history=history, run_id="r2")
    rig.settle(session)
    assert rig.texts() == {"lorebank:s:0": ["Go.", "Go on.", "I am about to leave."]}


def test_a_run_that_broke_off_before_any_answer_keeps_the_question(rig: Rig) -> None:
    """`cancelled` with the user's message alone."""
    session = rig.session()
    assert session.after_turn([user("Go.")], cancelled=True).passed == 0
    rig.settle(session)
    assert rig.texts() == {"lorebank:s:0": ["Go."]}


def test_a_cancelled_run_keeps_what_stood_before_it(rig: Rig) -> None:
    """Only what follows the newest user message is half an answer."""
    session = rig.session()
    session.after_turn([user("One."), answer("Two."), user("Three."), answer("Fo")], cancelled=True)
    rig.settle(session)
    assert rig.texts() == {"lorebank:s:0": ["One.", "Two.", "Three."]}
