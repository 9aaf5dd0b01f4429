"""Named histories: what other cursors lose or double (pi-hindsight §16 rows 11 to 15, omp-hindsight §19.1), and what was found by
the laws.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.laws.session_machine import Place, World
from tests.laws.session_model import QUIET, SHORT, Kind, Talk
from tests.laws.session_places import HindsightPlace, MnemopiPlace

from lorebank import Bank, Message, Session, open_bank
from lorebank.testing import FaultServer

UNIQUE = len(SHORT)
"""The choice of a text that nobody said before."""


@pytest.fixture(params=["mnemopi", "hindsight"])
def place(request: pytest.FixtureRequest, file: Path, tmp_path: Path) -> Iterator[Place]:
    if request.param == "mnemopi":
        yield MnemopiPlace(file)
    else:
        with FaultServer() as server:
            yield HindsightPlace(server, tmp_path / "ledger.db")


@pytest.fixture
def worlds(place: Place) -> Iterator[Callable[..., World]]:
    made: list[World] = []

    def one(kind: Kind, **options: Any) -> World:
        made.append(World(place, [Talk("alice", "chat", kind, **options)]))
        return made[-1]

    yield one
    for world in made:
        world.end()


def grow(world: World, messages: int) -> int:
    """So many more messages are said, and handed over; gives how many of them were new to the session."""
    [talk] = world.talks
    for number in range(messages):
        if number % 2 == 0:
            world.say(0, UNIQUE)
        else:
            world.answer(0, UNIQUE)
    return int(world.hand(talk, talk.handing(ending=True)).new)


def compacted(world: World, keep: int) -> None:
    """All but the newest messages make way for a summary."""
    world.shorten(0, keep - 1, 2)


FULL = pytest.mark.parametrize("kind", ["full", "full-ids"])
RESTARTED = pytest.mark.parametrize("restarted", [False, True])


@FULL
@RESTARTED
def test_row_11_of_a_long_history_compacted_exactly_the_new_ones_are_retained(
    worlds: Callable[..., World], kind: Kind, restarted: bool
) -> None:
    """500 retained, then 15 of them behind a summary and 4 new ones: 5 are new, the summary among them."""
    world = worlds(kind)
    assert sum(grow(world, 100) for _ in range(5)) == 500
    if restarted:
        world.restart(0)
    compacted(world, 15)
    assert len(world.talks[0].history) == 16
    assert grow(world, 4) == 5
    world.check()


@FULL
@RESTARTED
def test_row_11_a_compacted_history_that_grows_again_is_retained_whole(
    worlds: Callable[..., World], kind: Kind, restarted: bool
) -> None:
    """500 retained, compacted to 20, grown to 300, and then by 10: the 10, and before them the 280."""
    world = worlds(kind)
    grow(world, 500)
    compacted(world, 19)
    if restarted:
        world.restart(0)
    assert grow(world, 280) == 281
    if restarted:
        world.restart(0)
    assert len(world.talks[0].history) == 300
    assert grow(world, 10) == 10
    world.check()


@FULL
@RESTARTED
def test_row_12_of_a_short_history_compacted_what_is_known_is_not_sent_again(
    worlds: Callable[..., World], kind: Kind, restarted: bool
) -> None:
    """50 retained, trimmed to 15, and 3 new: 3 of the 18."""
    world = worlds(kind)
    grow(world, 50)
    if restarted:
        world.restart(0, 2)
    world.shorten(0, 14, 0)
    assert grow(world, 3) == 3
    assert len(world.talks[0].history) == 18
    world.check()


def test_row_13_a_short_run_after_a_long_one_is_retained_whole(worlds: Callable[..., World]) -> None:
    """Runs handed over by themselves, without ids: 300 messages, then 6, which read the same as some of the 300."""
    world = worlds("delta", unique=False)
    [talk] = world.talks
    for messages in (300, 6):
        world.say(0, 0)
        for number in range(messages - 1):
            world.answer(0, number % 2)
        assert world.hand(talk, talk.handing(ending=True)).new == messages
    world.check()


@RESTARTED
def test_row_14_of_a_message_put_in_front_only_that_one_is_new(worlds: Callable[..., World], restarted: bool) -> None:
    """Without ids, the long run of known messages behind it tells what is known."""
    world = worlds("full")
    [talk] = world.talks
    grow(world, 220)
    if restarted:
        world.restart(0)
    talk.history.insert(0, talk.new("user", UNIQUE))
    assert world.hand(talk, talk.handing(ending=True)).new == 1
    world.check()


@FULL
@RESTARTED
def test_row_14_an_edit_of_long_ago_is_seen(worlds: Callable[..., World], kind: Kind, restarted: bool) -> None:
    """300 messages behind the newest one; the others are not sent again."""
    world = worlds(kind)
    [talk] = world.talks
    grow(world, 310)
    if restarted:
        world.restart(0)
    world.edit(0, 299)
    assert world.hand(talk, talk.handing(ending=True)).new == 1
    world.check()


class Read(str):
    """A text that counts how often it is looked into: searched, stripped or made bytes of, as hashing does."""

    __slots__ = ()
    times = 0

    def encode(self, *arguments: Any, **options: Any) -> bytes:
        Read.times += 1
        return str(self).encode(*arguments, **options)

    def strip(self, *arguments: Any) -> str:
        Read.times += 1
        return str(self).strip(*arguments)

    def __contains__(self, part: object) -> bool:
        Read.times += 1
        return str(part) in str(self)


@FULL
def test_row_15_a_turn_reads_what_is_new_only(bank: Bank, kind: Kind) -> None:
    """Of a history of 2,000 messages the cursor hashes those that the turn adds."""
    history = [
        Message("assistant" if n % 2 else "user", Read(f"line {n} of a long talk"), id=f"m{n}" if kind == "full-ids" else None)
        for n in range(2000)
    ]
    with bank.session("chat") as session:
        session.after_turn(history)
        Read.times = 0
        history += [Message("user", Read("One more thing."), id="m2000" if kind == "full-ids" else None)]
        assert session.after_turn(history).new == 1
    assert 0 < Read.times < 40


# omp-hindsight §19.1


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


def test_row_1_and_8_what_could_not_be_sent_is_said_and_sent_later(remote: Callable[..., World], server: FaultServer) -> None:
    """Nothing is claimed before the server has it: the report tells what is left, and the outbox delivers it."""
    world = remote()
    server.stop()
    for _ in range(4):
        world.turn(0, UNIQUE)
    report = world.processes[0].session(world.talks[0]).retain_now()
    assert report.left
    assert report.reason
    assert not report.done
    world.check()


def test_row_3_what_a_sub_agent_retains_is_in_its_parents_outbox(server: FaultServer, tmp_path: Path) -> None:
    """One outbox: the parent's close delivers it, and the sub-agent's messages are nobody's."""
    options = {**QUIET, "ledger": f"sqlite:///{tmp_path / 'ledger.db'}"}
    with open_bank(server.url, bank="alice", **options) as bank, bank.session("chat") as session:
        helper = session.alias()
        helper.before_turn([Message("user", "Find out which seat Ana prefers.")])
        bank.retain("Ana prefers aisle seats.", document_id="found")
        helper.after_turn([Message("user", "Find out which seat Ana prefers."), Message("assistant", "The aisle.")])
        session.after_turn([Message("user", "Where does Ana sit?")])
        assert bank.flush(until="completed").done
    documents = server.bank("alice").documents
    assert set(documents) == {"found", "lorebank:chat:0"}
    assert "Find out" not in documents["lorebank:chat:0"]


@pytest.mark.parametrize("how", [0, 1, 2], ids=["closed", "bank closed", "killed"])
def test_row_4_and_5_a_tail_below_the_cadence_outlives_its_process(
    remote: Callable[..., World], server: FaultServer, how: int
) -> None:
    """One turn of three, the server down, the process gone in whatever way: the next start has it."""
    world = remote()
    server.stop()
    world.turn(0, UNIQUE)
    world.restart(0, how)
    world.check()


def test_row_5_a_short_session_is_retained_at_its_close(remote: Callable[..., World], server: FaultServer) -> None:
    """One turn is enough, though the cadence is three."""
    world = remote(connection={"close_timeout": 30})
    world.turn(0, UNIQUE)
    world.close(0)
    world.processes[0].bank.flush(until="completed")
    assert list(server.bank("alice").documents) == ["lorebank:chat:0"]


@pytest.mark.parametrize("mode", ["last-turn", "full-session", "append"])
def test_row_6_an_outage_of_more_turns_than_overlap_loses_none(
    remote: Callable[..., World], server: FaultServer, mode: str
) -> None:
    """Six turns while nothing can be sent, with two turns of overlap."""
    world = remote(retain={"retain_mode": mode, "every_n_turns": 1, "overlap_turns": 2})
    world.turn(0, UNIQUE)
    server.stop()
    for _ in range(6):
        world.turn(0, UNIQUE)
    server.start()
    world.turn(0, UNIQUE)
    world.place.flush("alice")  # type: ignore[attr-defined]
    everything = " ".join(server.bank("alice").documents.values())
    assert [fate.line[1] for fate in world.talks[0].fates if fate.line[1] not in everything] == []


def test_row_9_what_waits_keeps_the_session_it_was_said_in(remote: Callable[..., World], server: FaultServer) -> None:
    """Two sessions whose writes are sent together: each item names its own."""
    world = remote(Talk("alice", "one", "full"), Talk("alice", "two", "full"))
    server.stop()
    for number in (0, 1, 0, 1):
        world.turn(number, UNIQUE)
    world.check()
    sent = [item for each in server.requests if each.path.endswith("/memories") for item in each.json().get("items", [])]
    assert {(item["document_id"].split(":")[1], item["metadata"]["session_id"]) for item in sent} == {
        ("one", "one"),
        ("two", "two"),
    }


# Found by the laws


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
