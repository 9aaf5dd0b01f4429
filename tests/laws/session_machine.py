"""Hosts that talk, and what must be kept of what they said: the model that the session's laws are checked against.

A `Talk` is one conversation of one host: it says things, edits, rewinds, branches, is compacted. A `World` hands talks over to
sessions in one or two processes and keeps the account: each message that was said has a fate when it is first handed over
(`kept`, `out`: opted out, `any`: the contract leaves it open). Where memories are is the business of a `Place`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Protocol

from lorebank._domain.session import MODES

from .session_model import NEXT, SHORT, Handed, Kind, Line, Said, Talk


class SessionLike(Protocol):
    """What a world does with a session."""

    mode: Any
    retain_enabled: bool

    def before_turn(self, messages: Any, *, history: Any = ..., run_id: str | None = None) -> Any: ...
    def after_turn(self, messages: Any, *, history: Any = ..., run_id: str | None = None, cancelled: bool = False) -> Any: ...
    def skip_next(self) -> None: ...
    def retain_now(self) -> Any: ...
    def close(self) -> None: ...


class BankLike(Protocol):
    """What a world does with a bank."""

    def session(self, session_id: str) -> Any: ...
    def named(self, name: str) -> Any: ...
    def close(self) -> None: ...


class Place(Protocol):
    """Where memories are kept."""

    def open(self, bank: str) -> Any: ...
    def outage(self, *, down: bool) -> None: ...
    def read(self, banks: Sequence[str]) -> Mapping[tuple[str, str], list[Line]]: ...
    def close(self) -> None: ...


class Process:
    """One process: a bank object and the sessions it has open."""

    def __init__(self, place: Place, first: str) -> None:
        self._place, self._first = place, first
        self.bank: Any = None
        self.sessions: dict[tuple[str, str], Any] = {}
        self.pending: dict[tuple[str, str], dict[str, Any]] = {}

    def session(self, talk: Talk) -> Any:
        key = talk.bank, talk.session
        if self.bank is None:
            self.bank = self._place.open(self._first)
        if key not in self.sessions:
            bank = self.bank if talk.bank == self._first else self.bank.named(talk.bank)
            self.sessions[key] = bank.session(talk.session)
        return self.sessions[key]

    def changed(self, talk: Talk) -> dict[str, Any]:
        return self.pending.setdefault((talk.bank, talk.session), {})


class World:
    """Talks, the processes that serve them, and the account of what was said. Operations take small numbers, so that a machine
    or a seeded series can draw them.
    """

    def __init__(self, place: Place, talks: Sequence[Talk], tell: Callable[[str], None] | None = None) -> None:
        self.place, self.talks = place, talks
        self.processes = [Process(place, talks[0].bank) for _ in range(2)]
        self.left: list[Any] = []
        self.tell = tell

    def talk(self, number: int) -> Talk:
        return self.talks[number % len(self.talks)]

    # Said and handed over

    def say(self, t: int, choice: int = 0, *, more: bool = False) -> None:
        """The user says something: a run begins, unless there is `more` to an open one."""
        talk = self.talk(t)
        if not (more and talk.run and talk.open):
            talk.begin()
        talk.history.append(talk.new("user", choice))
        talk.open = True

    def answer(self, t: int, choice: int = 0) -> None:
        """The agent answers."""
        talk = self.talk(t)
        if talk.open and talk.run:
            talk.history.append(talk.new("assistant", choice))

    def before(self, t: int, p: int = 0) -> None:
        talk = self.talk(t)
        if talk.open:
            self.hand(talk, talk.handing(ending=False), p)

    def after(self, t: int, p: int = 0, *, steps: bool = False) -> None:
        talk = self.talk(t)
        if talk.open:
            self.hand(talk, talk.handing(ending=True, steps=steps), p)

    def turn(self, t: int, choice: int = 0, p: int = 0, *, reply: int = 0) -> None:
        """A user turn as it should be."""
        self.say(t, choice)
        self.before(t, p)
        self.answer(t, reply)
        self.after(t, p)

    def much(self, t: int, choice: int = 0, p: int = 0) -> None:
        """A long run, handed over at its end only."""
        self.say(t, choice)
        for number in range(18):
            self.answer(t, (choice + number) % 6 if number % 3 else choice)
        self.after(t, p)

    def cancel(self, t: int, choice: int = 0, p: int = 0, *, finished: bool = False) -> None:
        """The answer breaks off; with `finished` it stands there whole the next time, in the place of its half."""
        talk = self.talk(t)
        if not talk.open:
            return
        talk.history.append(talk.new("assistant", choice))
        self.hand(talk, talk.handing(ending=True, cancelled=True), p)
        if finished:
            half = talk.history.pop()
            talk.plain = False
            talk.edited.add(half.run)
            talk.history.append(talk.new("assistant", len(SHORT), id=half.id))
            self.hand(talk, talk.handing(ending=True), p)

    def retry(self, t: int, back: int = 0, p: int = 0) -> None:
        """A call that was made before is made again: the last one, or an older one."""
        talk = self.talk(t)
        if talk.handed:
            self.hand(talk, talk.handed[-1 - back % min(len(talk.handed), 8)], p)

    def resume(self, t: int, back: int = 0, choice: int = 0) -> None:
        """An earlier run goes on under its id; of a full history only the last one can."""
        talk = self.talk(t)
        runs = list(dict.fromkeys(each.run for each in talk.history))
        if not runs or (talk.full and runs[-1] != talk.run):
            return
        if talk.chosen.skip == NEXT or any("skip" in process.changed(talk) for process in self.processes):
            return  # whether a run that goes on is the next one is open
        talk.run = runs[-1] if talk.full else runs[-1 - back % len(runs)]
        talk.history.append(talk.new("user", choice))
        talk.open = True

    def observe(self, t: int, p: int = 0, *, ending: bool = True) -> None:
        """A second observer of the run, who sees its own messages only and no ids."""
        talk = self.talk(t)
        said = talk.delta()
        if talk.runs and talk.open and said and talk.run not in talk.edited:
            self.hand(talk, Handed(said, talk.run, full=False, told=True, ending=ending, named=False), p)

    # What hosts do to histories

    def edit(self, t: int, where: int) -> None:
        """A message gets another text; a host with ids keeps its id."""
        talk = self.talk(t)
        if not talk.history or not (talk.ids or talk.unique):
            return
        place = len(talk.history) - 1 - where % len(talk.history)
        old = talk.history[place]
        if old.role == "system":
            return
        new = talk.new(old.role, len(SHORT), id=old.id)
        new.run = old.run
        talk.history[place] = new
        talk.edited.add(new.run)
        self._rewritten(talk)

    def rewind(self, t: int, keep: int) -> None:
        """Back to an earlier point; what came after it is a branch."""
        talk = self.talk(t)
        if not talk.full or not talk.history or talk.vague_when_rewritten:
            return
        talk.branches.append(list(talk.history))
        talk.history = talk.history[: keep % (len(talk.history) + 1)]
        self._rewritten(talk)

    def branch(self, t: int, which: int) -> None:
        """Back to a branch that was left."""
        talk = self.talk(t)
        if talk.branches and not talk.vague_when_rewritten:
            talk.branches.append(talk.history)
            talk.history = list(talk.branches.pop(which % (len(talk.branches) - 1) if len(talk.branches) > 1 else 0))
            self._rewritten(talk)

    def shorten(self, t: int, keep: int, summary: int = 0) -> None:
        """All but the newest messages go; a summary takes their place (1: as system, 2: as user, 3: as the agent's), or none."""
        talk = self.talk(t)
        if not talk.full or len(talk.history) < 2 or (talk.blind and not talk.unique):
            return
        kept = 1 + keep % (len(talk.history) - 1)
        head: list[Said] = []
        if summary % 4:
            role: Any = ("system", "user", "assistant")[summary % 4 - 1]
            head.append(talk.new(role, len(SHORT)))
            head[0].run = 0
            if summary >= 4:
                head[0].id = None
        talk.history = head + talk.history[-kept:]
        self._rewritten(talk)

    def _rewritten(self, talk: Talk) -> None:
        talk.plain = False
        talk.open = talk.open and not talk.full
        if talk.full:
            talk.begin()

    # What users choose

    def mode(self, t: int, mode: int, p: int = 0) -> None:
        talk, process = self.talk(t), self.processes[p % 2]
        process.session(talk).mode = MODES[mode % len(MODES)]
        process.changed(talk)["mode"] = MODES[mode % len(MODES)]

    def retaining(self, t: int, p: int = 0, *, on: bool) -> None:
        talk, process = self.talk(t), self.processes[p % 2]
        process.session(talk).retain_enabled = on
        process.changed(talk)["retain"] = on

    def skip(self, t: int, p: int = 0) -> None:
        """The next run is not retained. Only between two runs: within one it is open which is meant."""
        talk, process = self.talk(t), self.processes[p % 2]
        if talk.blind and not talk.unique and not talk.plain:
            return
        if talk.run in talk.over or not talk.open:
            talk.skips = True
            process.session(talk).skip_next()
            process.changed(talk)["skip"] = NEXT
            talk.open = False

    # What happens to processes and servers

    def restart(self, p: int, how: int = 0) -> None:
        """A process ends, and another begins: in order, with its sessions still open, or without a word."""
        process = self.processes[p % 2]
        if process.bank is None:
            return
        if how % 3 == 0:
            for talk in self.talks:
                self.close(self.talks.index(talk), p)
        if how % 3 == 2:
            self.left.append(process.bank)
        else:
            process.bank.close()
            for talk in self.talks:
                if (talk.bank, talk.session) in process.sessions:
                    self._settle(talk, process)
        self.processes[p % 2] = Process(self.place, self.talks[0].bank)

    def close(self, t: int, p: int = 0) -> None:
        """A session ends in one process."""
        talk, process = self.talk(t), self.processes[p % 2]
        session = process.sessions.pop((talk.bank, talk.session), None)
        if session is not None:
            session.close()
            self._settle(talk, process)

    def release(self, t: int, p: int = 0) -> None:
        talk = self.talk(t)
        self.processes[p % 2].session(talk).retain_now()

    def outage(self, *, down: bool) -> None:
        self.place.outage(down=down)

    def hand(self, talk: Talk, call: Handed, p: int = 0) -> Any:
        """Makes a call, and accounts for it."""
        process = self.processes[p % 2]
        session = process.session(talk)
        self._settle(talk, process)
        if self.tell is not None:
            shown = ", ".join(f"{each.id or ''}{each.text[:14]!r}" for each in call.said)
            self.tell(f"{talk.session}/{p % 2} {call.options} end={call.ending} cancel={call.cancelled}: {shown}")
        if call.ending:
            given = session.after_turn(call.messages, cancelled=call.cancelled, **call.options)
        else:
            given = session.before_turn(call.messages, **call.options)
        talk.record(call)
        return given

    def _settle(self, talk: Talk, process: Process) -> None:
        """What was chosen in this process is stored with its next call."""
        for name, value in process.changed(talk).items():
            setattr(talk.chosen, name, value)
        process.changed(talk).clear()

    # The end

    def check(self) -> None:
        """The laws."""
        self.outage(down=False)
        found = self.place.read(list(dict.fromkeys(talk.bank for talk in self.talks)))
        strangers = set(found) - {(talk.bank, talk.session) for talk in self.talks}
        assert not strangers, f"sessions that nobody opened: {strangers}"
        for talk in self.talks:
            problem = talk.problem(found.get((talk.bank, talk.session), []))
            assert problem is None, f"{talk.kind} {talk.bank}/{talk.session}: {problem}"

    def leave(self) -> None:
        """Closes what is still open."""
        for process in self.processes:
            if process.bank is not None:
                process.bank.close()
        for bank in self.left:
            bank.close()

    def end(self) -> None:
        self.leave()
        self.place.close()


Step = tuple[int, int, int, int, int]
"""An operation's number, the talk, the process, and two numbers more."""


OPERATIONS: tuple[Callable[[World, int, int, int, int], Any], ...] = (
    *[lambda world, t, p, a, b: world.turn(t, a % 6, p, reply=b % 6)] * 6,
    lambda world, t, p, a, b: world.much(t, a % 6, p),
    lambda world, t, p, a, b: world.say(t, a % 6, more=b % 2 > 0),
    lambda world, t, p, a, b: world.before(t, p),
    lambda world, t, p, a, b: world.answer(t, a % 6),
    lambda world, t, p, a, b: world.after(t, p, steps=b % 2 > 0),
    lambda world, t, p, a, b: world.cancel(t, a % 6, p, finished=b % 2 > 0),
    lambda world, t, p, a, b: world.retry(t, a, p),
    lambda world, t, p, a, b: world.resume(t, b, a % 6),
    lambda world, t, p, a, b: world.observe(t, p, ending=b % 2 > 0),
    lambda world, t, p, a, b: world.edit(t, a),
    lambda world, t, p, a, b: world.rewind(t, a),
    lambda world, t, p, a, b: world.branch(t, a),
    lambda world, t, p, a, b: world.shorten(t, a, b),
    lambda world, t, p, a, b: world.mode(t, a * (b % 2), p),
    lambda world, t, p, a, b: world.retaining(t, p, on=b % 2 > 0),
    lambda world, t, p, a, b: world.skip(t, p),
    lambda world, t, p, a, b: world.restart(p, a),
    lambda world, t, p, a, b: world.close(t, p),
    lambda world, t, p, a, b: world.release(t, p),
    lambda world, t, p, a, b: world.outage(down=b % 2 > 0),
)
"""What may happen; ordinary turns are the most frequent."""


def drive(world: World, steps: Sequence[Step]) -> None:
    """A series of operations."""
    for operation, t, p, a, b in steps:
        OPERATIONS[operation](world, t, p, a, b)


def random_steps(chance: Random, most: int) -> list[Step]:
    """A series of operations from a seed."""
    count = chance.randrange(1, most)
    return [
        (chance.randrange(len(OPERATIONS)), chance.randrange(2), chance.randrange(2), chance.randrange(12), chance.randrange(8))
        for _ in range(count)
    ]


Kinds = Sequence[tuple[Kind, bool, bool]]


def talks_of(kinds: Kinds) -> list[Talk]:
    """A talk for each kind, with whether its texts are unique and its runs have names: in two banks, with ids that look alike."""
    places = [("alice", "chat"), ("alice", "chat:0"), ("bob", "chat"), ("alice", "chat@x")]
    return [Talk(*place, kind, unique, runs) for place, (kind, unique, runs) in zip(places, kinds, strict=False)]
