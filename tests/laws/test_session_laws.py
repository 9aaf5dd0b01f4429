"""Laws of sessions, whatever hosts, users, processes and servers do; on a file and on a server that misbehaves.

`LOREBANK_SESSION_EXAMPLES` is how many histories are tried on a file (40); a quarter of them on the server.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from lorebank.testing import FaultServer

from .session_machine import Kinds, Place, World, talks_of
from .session_model import KINDS, Line, Talk
from .session_places import HindsightPlace, MnemopiPlace, lines_of

EXAMPLES = int(os.environ.get("LOREBANK_SESSION_EXAMPLES", "40"))
FEWER = max(EXAMPLES // 4, 5)
ASKING = settings(
    deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.reuse, Phase.generate], print_blob=True
)
"""Histories are not made smaller here: each costs too much. Those of the cursor's laws are."""
HOSTS = st.lists(st.tuples(st.sampled_from(KINDS), st.booleans(), st.booleans()), min_size=1, max_size=3)
TALK, PROCESS = st.integers(0, 2), st.integers(0, 1)
CHOICE, PLACE, YES = st.integers(0, 5), st.integers(0, 11), st.booleans()


def ordinary() -> Any:
    """A rule of its own for an ordinary turn: there are several, so that it happens more often than other things."""

    @rule(t=TALK, a=CHOICE, b=CHOICE, p=PROCESS)
    def turn(self: Conversations, t: int, a: int, b: int, p: int) -> None:
        self.on.turn(t, a, p, reply=b)

    return turn


class Conversations(RuleBasedStateMachine):
    """Conversations in two banks, driven by two processes; at the end all is there that must be, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.world: World | None = None

    def place(self, folder: Path) -> Place:
        raise NotImplementedError

    @initialize(hosts=HOSTS)
    def begin(self, hosts: Kinds) -> None:
        self.world = World(self.place(Path(self.folder.name)), talks_of(hosts))

    @property
    def on(self) -> World:
        assert self.world is not None
        return self.world

    turn, a_turn, another_turn, one_more_turn, next_turn = (ordinary() for _ in range(5))

    @rule(t=TALK, a=CHOICE, p=PROCESS)
    def long_run(self, t: int, a: int, p: int) -> None:
        self.on.much(t, a, p)

    @rule(t=TALK, a=CHOICE, more=YES)
    def say(self, t: int, a: int, more: bool) -> None:
        self.on.say(t, a, more=more)

    @rule(t=TALK, p=PROCESS)
    def before_turn(self, t: int, p: int) -> None:
        self.on.before(t, p)

    @rule(t=TALK, a=CHOICE)
    def answer(self, t: int, a: int) -> None:
        self.on.answer(t, a)

    @rule(t=TALK, p=PROCESS, steps=YES)
    def after_turn(self, t: int, p: int, steps: bool) -> None:
        self.on.after(t, p, steps=steps)

    @rule(t=TALK, a=CHOICE, p=PROCESS, finished=YES)
    def cancelled(self, t: int, a: int, p: int, finished: bool) -> None:
        self.on.cancel(t, a, p, finished=finished)

    @rule(t=TALK, back=st.integers(0, 7), p=PROCESS)
    def retry(self, t: int, back: int, p: int) -> None:
        self.on.retry(t, back, p)

    @rule(t=TALK, back=st.integers(0, 3), a=CHOICE)
    def resume(self, t: int, back: int, a: int) -> None:
        self.on.resume(t, back, a)

    @rule(t=TALK, p=PROCESS, ending=YES)
    def second_observer(self, t: int, p: int, ending: bool) -> None:
        self.on.observe(t, p, ending=ending)

    @rule(t=TALK, where=PLACE)
    def edit(self, t: int, where: int) -> None:
        self.on.edit(t, where)

    @rule(t=TALK, keep=PLACE)
    def rewind(self, t: int, keep: int) -> None:
        self.on.rewind(t, keep)

    @rule(t=TALK, which=st.integers(0, 3))
    def branch(self, t: int, which: int) -> None:
        self.on.branch(t, which)

    @rule(t=TALK, keep=PLACE, summary=st.integers(0, 7))
    def compact_or_trim(self, t: int, keep: int, summary: int) -> None:
        self.on.shorten(t, keep, summary)

    @rule(t=TALK, mode=st.integers(0, 3), p=PROCESS)
    def mode(self, t: int, mode: int, p: int) -> None:
        self.on.mode(t, mode, p)

    @rule(t=TALK, p=PROCESS)
    def mode_normal(self, t: int, p: int) -> None:
        self.on.mode(t, 0, p)
        self.on.retaining(t, p, on=True)

    @rule(t=TALK, p=PROCESS)
    def retain_off(self, t: int, p: int) -> None:
        self.on.retaining(t, p, on=False)

    @rule(t=TALK, p=PROCESS)
    def skip_next(self, t: int, p: int) -> None:
        self.on.skip(t, p)

    @rule(p=PROCESS, how=st.integers(0, 2))
    def restart(self, p: int, how: int) -> None:
        self.on.restart(p, how)

    @rule(t=TALK, p=PROCESS)
    def close(self, t: int, p: int) -> None:
        self.on.close(t, p)

    @rule(t=TALK, p=PROCESS)
    def retain_now(self, t: int, p: int) -> None:
        self.on.release(t, p)

    @rule(down=YES)
    def outage(self, down: bool) -> None:
        self.on.outage(down=down)

    def teardown(self) -> None:
        try:
            if self.world is not None:
                self.world.check()
        finally:
            if self.world is not None:
                self.world.end()
            self.folder.cleanup()


class OnAFile(Conversations):
    def place(self, folder: Path) -> Place:
        return MnemopiPlace(folder / "memory.db")


class OnAServer(Conversations):
    def place(self, folder: Path) -> Place:
        server = FaultServer()
        server.start()
        return HindsightPlace(server, folder / "ledger.db")


def many(examples: int) -> settings:
    return settings(ASKING, max_examples=examples, stateful_step_count=30)


def test_conversations_are_kept_on_a_file() -> None:
    """Nothing said is lost or doubled, nothing opted out is kept, all stand in the order they were said in, nothing is mixed."""
    run_state_machine_as_test(OnAFile, settings=many(EXAMPLES))


def test_conversations_are_kept_on_a_server() -> None:
    """The same where the server goes and comes."""
    run_state_machine_as_test(OnAServer, settings=many(FEWER))


# Whole transcripts and turns


class Together(HindsightPlace):
    """All that the documents of a session hold."""

    def read(self, banks: Sequence[str]) -> Mapping[tuple[str, str], list[Line]]:
        self.flush(banks[0])
        found: dict[tuple[str, str], list[Line]] = {}
        for name in banks:
            for document, text in self.documents(name).items():
                session = document.split(":")[1].replace("%3A", ":").replace("%40", "@")
                found.setdefault((name, session), []).extend(lines_of(text))
        return found


def missing(talk: Talk, found: Sequence[Line]) -> str | None:
    """What is wrong with the lines of a session's documents taken together."""
    there = set(found)
    kept = [fate.line for fate in talk.fates if fate.fate == "kept"]
    if lost := [line for line in kept if line not in there]:
        return f"lost: {lost}"
    said = {fate.line for fate in talk.fates if fate.fate != "out"}
    if wrong := [line for line in found if line not in said]:
        return f"opted out or never said: {wrong}"
    return None


class InDocuments(OnAServer):
    """Conversations whose documents are replaced; every text is unique."""

    retain: Mapping[str, Any] = {}

    @initialize(hosts=HOSTS)
    def begin(self, hosts: Kinds) -> None:
        super().begin([(kind, True, runs) for kind, _, runs in hosts])

    def place(self, folder: Path) -> Place:
        server = FaultServer()
        server.start()
        return Together(server, folder / "ledger.db", retain=dict(self.retain))

    def teardown(self) -> None:
        try:
            if self.world is not None:
                self.world.outage(down=False)
                found = self.world.place.read(list(dict.fromkeys(talk.bank for talk in self.world.talks)))
                for talk in self.world.talks:
                    assert missing(talk, found.get((talk.bank, talk.session), [])) is None, (talk.kind, talk.session)
        finally:
            if self.world is not None:
                self.world.end()
            self.folder.cleanup()


@pytest.mark.parametrize(
    "retain", [{"retain_mode": "full-session"}, {"retain_mode": "last-turn"}], ids=lambda each: each["retain_mode"]
)
@pytest.mark.parametrize("every", [1, 3])
def test_documents_that_are_replaced_hold_all_that_was_said(retain: dict[str, Any], every: int) -> None:
    """Taken together they hold each message that was not opted out, and none that was, also in transcripts sent later."""
    machine = type("Machine", (InDocuments,), {"retain": {**retain, "every_n_turns": every}})
    run_state_machine_as_test(machine, settings=many(FEWER // 2))


EDITS = st.lists(
    st.tuples(st.sampled_from(["turn", "edit", "rewind", "branch", "skip", "release", "restart"]), PLACE), max_size=14
)


@settings(ASKING, max_examples=FEWER)
@given(st.sampled_from(["full-ids", "full"]), EDITS)
def test_a_document_that_follows_edits_is_the_history(kind: Any, edits: list[tuple[str, int]]) -> None:
    """With `on_rewrite="replace"` the one document holds what the last history holds, without what was opted out."""
    talk = Talk("alice", "chat", kind)
    with tempfile.TemporaryDirectory() as folder, FaultServer() as server:
        options = {"retain": {"retain_mode": "full-session", "on_rewrite": "replace"}}
        world = World(HindsightPlace(server, Path(folder) / "ledger.db", **options), [talk])
        for name, number in edits:
            {
                "turn": lambda n: world.turn(0),
                "edit": lambda n: world.edit(0, n),
                "rewind": lambda n: world.rewind(0, n),
                "branch": lambda n: world.branch(0, n),
                "skip": lambda n: world.skip(0),
                "release": lambda n: world.release(0),
                "restart": lambda n: world.restart(0, n),
            }[name](number)
        world.turn(0)  # a skip that is still pending takes this one
        world.turn(0)
        out = {fate.line for fate in talk.fates if fate.fate == "out"}
        open_ = {fate.line for fate in talk.fates if fate.fate == "any"}
        try:
            world.place.flush("alice")  # type: ignore[attr-defined]
            [(document, text)] = server.bank("alice").documents.items()
        finally:
            world.end()
    assert document == "lorebank:chat"
    held = [line for line in lines_of(text) if line not in open_]
    assert held == [each.line for each in talk.last if each.line not in out | open_]


@pytest.mark.parametrize("kind", ["delta", "delta-ids"])
def test_a_delta_is_no_rewrite(kind: Any, tmp_path: Path) -> None:
    """With `on_rewrite="replace"`, a host that hands over each run by itself loses nothing: it has rewritten nothing."""
    with FaultServer() as server:
        options = {"retain": {"retain_mode": "full-session", "on_rewrite": "replace"}}
        place = Together(server, tmp_path / "ledger.db", **options)
        talk = Talk("alice", "chat", kind)
        world = World(place, [talk])
        for _ in range(3):
            world.turn(0, 5)
        found = place.read(["alice"])
        world.end()
    assert missing(talk, found["alice", "chat"]) is None


# Blocks
