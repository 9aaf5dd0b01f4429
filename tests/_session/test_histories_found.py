"""Histories that the laws found something with: each the smallest that shows it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from outbox_rig import until
from tests.laws.session_machine import World
from tests.laws.session_model import QUIET, SHORT, Talk
from tests.laws.session_places import HindsightPlace

from lorebank import Message, Session, open_bank
from lorebank.testing import Fault, FaultServer

UNIQUE = len(SHORT)
"""The choice of a text that nobody said before."""


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as started:
        yield started


@pytest.fixture
def remote(server: FaultServer, tmp_path: Path) -> Iterator[Callable[..., World]]:
    made: list[World] = []

    def one(*talks: Talk, **options: Any) -> World:
        place = HindsightPlace(server, tmp_path / "ledger.db", **options)
        made.append(World(place, talks or [Talk("alice", "chat", "full")]))
        return made[-1]

    yield one
    for world in made:
        world.end()


@pytest.fixture
def session(url: str) -> Iterator[Session]:
    with open_bank(url, bank="alice", **QUIET) as bank, bank.session("chat") as opened:
        yield opened


def user(text: str, id: str | None = None) -> Message:
    return Message("user", text, id=id)


def answer(text: str, id: str | None = None) -> Message:
    return Message("assistant", text, id=id)


def kept(url: str) -> list[str]:
    with open_bank(url, bank="alice", **QUIET) as bank:
        return [memory.text for memory in reversed(bank.list()) if memory.source == "transcript"]


ONE, TWO = "the first thing that anybody said in this talk", "and the answer to the first thing, as long as that"
THREE, FOUR = "a second thing, which was not meant to be kept", "an answer to it, which is not to be kept either"
FIVE, OTHER = "a third thing, and this one may well be kept", "the first thing, said in quite another way now"


def test_a_repeated_call_is_not_the_run_that_is_skipped(session: Session, url: str) -> None:
    """`skip_next` waits for a run with something new in it."""
    session.before_turn([user(ONE)])
    session.after_turn([user(ONE), answer(TWO)])
    session.skip_next()
    session.after_turn([user(ONE), answer(TWO)])
    session.before_turn([user(ONE), answer(TWO), user(THREE)])
    session.after_turn([user(ONE), answer(TWO), user(THREE), answer(FOUR)])
    assert kept(url) == [ONE, TWO]


@pytest.mark.parametrize("ids", [True, False])
def test_an_edit_after_a_skipped_run_is_no_part_of_it(session: Session, url: str, ids: bool) -> None:
    """The edited message belongs to a run that was retained; it is sent as new."""
    one, two, three, four = user(ONE, "1" if ids else None), answer(TWO, "2"), user(THREE, "3"), answer(FOUR, "4")
    session.after_turn([one, two])
    session.skip_next()
    session.after_turn([one, two, three, four])
    session.after_turn([one, answer(OTHER, "2"), three, four, user(FIVE, "5")])
    assert kept(url) == [ONE, TWO, OTHER, FIVE]


def test_what_was_skipped_stays_so_when_the_last_history_was_an_old_one(session: Session, url: str) -> None:
    """Without ids: an old list is handed over once more, then the talk goes on, with an earlier message edited."""
    session.after_turn([user(ONE), answer(TWO)])
    session.skip_next()
    session.after_turn([user(ONE), answer(TWO), user(THREE), answer(FOUR)])
    session.before_turn([user(ONE)])
    session.before_turn([user(ONE), answer(OTHER), user(THREE), answer(FOUR), user(FIVE)])
    assert not {THREE, FOUR} & set(kept(url))


def test_what_was_skipped_stays_so_behind_a_run_that_is_known(session: Session, url: str) -> None:
    """Without ids: an old list is handed over once more, then the list is trimmed to begin with its end."""
    session.after_turn([user(ONE), answer(TWO)])
    session.skip_next()
    session.after_turn([user(ONE), answer(TWO), user(THREE), answer(FOUR)])
    session.before_turn([user(ONE), answer(TWO)])
    session.before_turn([answer(TWO), user(THREE), answer(FOUR), user(FIVE)])
    assert not {THREE, FOUR} & set(kept(url))


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("history", ["full", "delta"])
def test_the_models_copy_of_a_message_is_that_message(session: Session, url: str, ids: bool, history: Any) -> None:
    """With the memories in it or without them, it is the same words, said once."""
    options = {"history": history, **({"run_id": "run"} if history == "delta" else {})}
    name = "1" if ids else None
    session.before_turn([user(ONE, name)], **options)
    session.after_turn([user(f"<memories>\n- Ana sits at the aisle.\n</memories>\n\n{ONE}", name), answer(TWO)], **options)
    assert kept(url) == [ONE, TWO]


def test_a_skip_is_for_a_run_and_not_for_half_of_it(session: Session, url: str) -> None:
    """A run that began while the session was ignored is the one that was skipped, to its end."""
    session.skip_next()
    session.mode = "ignored"
    session.before_turn([user(ONE)])
    session.mode = "normal"
    session.after_turn([user(ONE), answer(TWO)])
    session.after_turn([user(ONE), answer(TWO), user(FIVE)])
    assert kept(url) == [FIVE]


def contents(server: FaultServer) -> list[str]:
    """All that the documents hold."""
    arrays = [line for text in server.bank("alice").documents.values() for line in text.splitlines()]
    return [row["content"] for line in arrays for row in json.loads(line)]


@pytest.mark.parametrize("rewound", [False, True], ids=["edited", "rewound"])
def test_a_turn_that_waits_is_not_lost_with_its_edit(remote: Callable[..., World], server: FaultServer, rewound: bool) -> None:
    """`last-turn` below the cadence: the held window is replaced by one without the old text, which was never sent."""
    world = remote(retain={"retain_mode": "last-turn", "every_n_turns": 3})
    [talk] = world.talks
    world.turn(0, UNIQUE)
    if rewound:
        world.rewind(0, 1)
    else:
        world.edit(0, 0)
    world.turn(0, UNIQUE)
    world.place.flush("alice")  # type: ignore[attr-defined]
    assert {fate.line[1] for fate in talk.fates} <= set(contents(server))


@pytest.mark.parametrize("mode", ["full-session", "last-turn"])
def test_an_echo_is_in_no_transcript_that_is_sent_later(server: FaultServer, tmp_path: Path, mode: str) -> None:
    """An answer that only repeats what was recalled is passed for good: also by whole transcripts, trimmed ones too."""
    fact = "Ana prefers aisle seats on long flights because of her knees."
    options = {**QUIET, "recall": {"deadline": 30}, "retain": {"retain_mode": mode, "every_n_turns": 1}}
    with open_bank(server.url, bank="alice", ledger=f"sqlite:///{tmp_path / 'ledger.db'}", **options) as bank:
        bank.retain(fact, document_id="fact")
        bank.flush(until="completed")
        asked = [user("Hello there, I have a question about the flights."), answer("Ask whatever you want to know about them.")]
        asked += [user("Which seats does Ana prefer on long flights?")]
        with bank.session("chat") as session:
            assert "knees" in session.before_turn(asked).memories
            assert session.after_turn([*asked, answer(fact)]).echoes == 1
            session.after_turn([*asked, answer(fact), user("Thank you, and now to something else.")])
            session.after_turn([*asked[1:], answer(fact), user("Thank you, and now to something else."), user("Shorter now.")])
            bank.flush(until="completed")
    assert all(fact not in text for name, text in server.bank("alice").documents.items() if name != "fact")


def test_a_second_observer_tells_nothing_new(url: str) -> None:
    """A handler that sees the run by itself, without ids, and a middleware that hands over all: each message once."""
    with open_bank(url, bank="alice", **QUIET) as bank, bank.session("chat") as session:
        history = [user("yes", "1"), answer("ok", "2")]
        session.after_turn(history, run_id="one")
        history += [user("yes", "3"), answer("ok", "4")]
        session.before_turn(history[:3], run_id="two")
        session.before_turn([user("yes")], history="delta", run_id="two")
        session.after_turn([user("yes"), answer("ok")], history="delta", run_id="two")
        session.after_turn(history, run_id="two")
    assert kept(url) == ["yes", "ok", "yes", "ok"]


def test_a_turn_that_is_over_is_not_begun_anew_by_a_repeated_call(session: Session, url: str) -> None:
    """Without ids: `before_turn` is repeated after the turn has ended; then the user goes back, and says the same in another
    place: that is a message of its own.
    """
    session.before_turn([user("hello"), answer("hi"), user("ok")])
    session.after_turn([user("hello"), answer("hi"), user("ok"), answer("done")])
    session.before_turn([user("hello"), answer("hi"), user("ok"), answer("done")])
    session.after_turn([user("ok"), answer("what is ok?")])
    assert kept(url) == ["hello", "hi", "ok", "done", "ok", "what is ok?"]


def test_what_was_skipped_on_a_branch_stays_skipped(session: Session, url: str) -> None:
    """Without ids: the user comes back to the branch from another one, and an edit has moved what was skipped there."""
    short = [user("Where do we go in summer?"), answer("To the lakes, as you wished last week.")]
    branch = [user("Where do we go in winter?"), answer("Perhaps to the mountains of the north."), user("And then?")]
    secret = [user("My surprise for Ana is a trip to Oslo."), answer("Your surprise stays between the two of us.")]
    session.after_turn([*branch, answer("Home again.")])
    session.skip_next()
    session.after_turn([*branch, answer("Home again."), *secret])
    session.after_turn(short)
    session.after_turn([*branch, answer("Home, by train."), *secret, user("Go on."), answer("Yes.")])
    assert not any("surprise" in text for text in kept(url))
    assert kept(url)[-3:] == ["Home, by train.", "Go on.", "Yes."]


def test_words_that_were_opted_out_before_do_not_hide_a_run_that_is_skipped(session: Session, url: str) -> None:
    """Without ids: an answer reads like one that was opted out; what stands ahead of it is skipped nevertheless."""
    session.mode = "read-only"
    session.after_turn([user("hello"), answer("ok")])
    session.mode = "normal"
    session.skip_next()
    session.after_turn([user("I meet Ben in secret."), answer("At which hour?"), answer("ok"), answer("Noted.")])
    assert kept(url) == []


def test_another_answer_to_a_kept_message_is_not_of_the_skipped_run(session: Session, url: str) -> None:
    """Without ids: after a skipped run the user goes back, and an earlier message is answered once more."""
    session.after_turn([user("Which seat?"), answer("The aisle.")])
    session.skip_next()
    session.after_turn([user("Which seat?"), answer("The aisle."), user("And for Ben?"), answer("The window.")])
    session.after_turn([user("Which seat?"), answer("One in front.")])
    assert kept(url) == ["Which seat?", "The aisle.", "One in front."]


def test_a_bank_that_is_closed_leaves_no_connection_open(server: FaultServer, tmp_path: Path) -> None:
    """The sender was on its way when the bank was closed: what it opens then is closed by it."""
    server.fault(Fault(delay=1.0), path="banks/alice$", times=1)
    options: dict[str, Any] = {"outbox": {"batch_seconds": 0.02}, "connection": {"close_timeout": 0.05}}
    bank = open_bank(server.url, bank="alice", ledger=f"sqlite:///{tmp_path / 'ledger.db'}", **options)
    bank.retain("Ana prefers aisle seats.")
    until(lambda: any(each.path.endswith("banks/alice") for each in server.requests), every=0.01)
    bank.close()
    for thread in threading.enumerate():
        if thread.name == "lorebank-sender":
            thread.join(20)
    until(lambda: not server._open, 5)
