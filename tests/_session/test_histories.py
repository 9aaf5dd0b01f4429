"""Named histories: what other cursors lose or double (pi-hindsight §16 rows 11 to 15, omp-hindsight §19.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.laws.session_machine import Place, World
from tests.laws.session_model import QUIET, SHORT, Kind, Talk
from tests.laws.session_places import HindsightPlace, MnemopiPlace

from lorebank import Bank, Message, open_bank
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
