"""Hosts that talk, and what must be kept of what they said: the model that the session's laws are checked against.

A `Talk` is one conversation of one host: it says things, edits, rewinds, branches, is compacted. A `World` hands talks over to
sessions in one or two processes and keeps the account: each message that was said has a fate when it is first handed over
(`kept`, `out`: opted out, `any`: the contract leaves it open). Where memories are is the business of a `Place`.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from json import JSONDecoder
from pathlib import Path
from typing import Any, Literal, Protocol

from lorebank import Bank, open_bank
from lorebank._domain.message import Message
from lorebank._domain.session import MODES
from lorebank.testing import FaultServer

Kind = Literal["full-ids", "full", "delta-ids", "delta"]
KINDS: tuple[Kind, ...] = ("full-ids", "full", "delta-ids", "delta")
SHORT = ("yes", "ok", "no", "go")
NEXT = -1
QUIET: dict[str, Any] = {"mental_models": {"enabled": False}, "recall": {"auto_recall": False}}
"""Sessions that recall nothing: what is recalled decides which answers are echoes."""
Line = tuple[str, str]
"""A role and a text."""


@dataclass(eq=False, slots=True)
class Fate:
    """What becomes of a message, from its first handing over on."""

    line: Line
    fate: Literal["kept", "out", "any"]
    run: int = 0
    """The run that it was first handed over in."""
    observed: bool = False
    """Whether only a second observer of that run has seen it yet."""


@dataclass(eq=False, slots=True)
class Said:
    """One message as its host has it; an edit makes another one."""

    role: Literal["user", "assistant", "system"]
    text: str
    id: str | None
    run: int

    @property
    def line(self) -> Line:
        return self.role, self.text

    def message(self, *, named: bool = True) -> Message:
        return Message(self.role, self.text, id=self.id if named else None)


@dataclass(frozen=True, slots=True)
class Handed:
    """One call: the messages, which run it is of, and whether the run's id is said."""

    said: tuple[Said, ...]
    run: int
    full: bool
    told: bool
    ending: bool = False
    cancelled: bool = False
    named: bool = True

    @property
    def messages(self) -> list[Message]:
        return [each.message(named=self.named) for each in self.said]

    @property
    def options(self) -> dict[str, Any]:
        told = {"run_id": f"run-{self.run}"} if self.told else {}
        return {"history": "full" if self.full else "delta", **told}


@dataclass(slots=True)
class Chosen:
    """What the user has chosen for a session, as the ledger has it."""

    mode: str = "normal"
    retain: bool = True
    skip: int | None = None


@dataclass(slots=True)
class Talk:
    """One conversation. `unique` says that no two of its messages read the same, `runs` that its host names its runs."""

    bank: str
    session: str
    kind: Kind
    unique: bool = True
    runs: bool = False
    history: list[Said] = field(default_factory=list)
    branches: list[list[Said]] = field(default_factory=list)
    handed: list[Handed] = field(default_factory=list)
    last: tuple[Said, ...] = ()
    run: int = 0
    count: int = 0
    open: bool = False
    exact: bool = True
    plain: bool = True
    chosen: Chosen = field(default_factory=Chosen)
    over: set[int] = field(default_factory=set)
    skipped: set[int] = field(default_factory=set)
    edited: set[int] = field(default_factory=set)
    """Runs whose messages do not stand in one place all the time."""
    fates: list[Fate] = field(default_factory=list)
    names: dict[object, Fate] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.runs = self.runs or not self.full

    @property
    def full(self) -> bool:
        return self.kind.startswith("full")

    @property
    def ids(self) -> bool:
        return self.kind.endswith("ids")

    @property
    def blind(self) -> bool:
        """Whether its messages are told apart by their place in the history only."""
        return self.kind == "full"

    def new(self, role: Literal["user", "assistant", "system"], choice: int = 0, *, id: str | None = None) -> Said:
        self.count += 1
        unique = self.unique or choice >= len(SHORT)
        text = f"{role} {self.count:04} of {self.session} says a thing that nobody said before" if unique else SHORT[choice]
        return Said(role, text, id or (f"m{self.count}" if self.ids else None), self.run)

    def begin(self) -> None:
        """A new run; of a host that hands over deltas, with a history of its own."""
        self.run = max((self.run, *(each.run for each in self.handed), *(each.run for each in self.history))) + 1

    def delta(self) -> tuple[Said, ...]:
        """The running run's messages."""
        return tuple(each for each in self.history if each.run == self.run)

    def handing(self, *, ending: bool, cancelled: bool = False, steps: bool = False) -> Handed:
        """What the host hands over now. With `steps` a delta leaves out what was handed over before."""
        said = tuple(self.history) if self.full else self.delta()
        if steps and not self.full and (self.ids or self.unique):
            before = {id(each) for call in self.handed for each in call.said}
            said, whole = tuple(each for each in said if id(each) not in before) or said, said
            if said != whole:
                self.edited.add(self.run)
        return Handed(said, self.run, self.full, self.runs, ending, cancelled)

    # What a call means

    def record(self, call: Handed) -> None:
        """Gives each message that is handed over for the first time its fate."""
        said = [each for each in call.said if each.role != "system"]
        named = [(each, self._names(call, said, place)) for place, each in enumerate(said)]
        known = [next((self.names[name] for name in names if name in self.names), None) for _, names in named]
        fresh = [place for place, fate in enumerate(known) if fate is None]
        if fresh and self.chosen.skip == NEXT:
            self.chosen.skip = call.run
            self.skipped.add(call.run)
        elif call.run == self.chosen.skip and not call.told and any(said[place].role == "user" for place in fresh):
            self.over.add(call.run)  # a host without run ids can't tell that this is the same run
        users = [place for place, each in enumerate(said) if each.role == "user"]
        half = users[-1] + 1 if users else 0
        if any(said[place].run != call.run for place in fresh):
            self.edited.add(call.run)  # what nobody had handed over in its own run counts for this one
        self.exact = self.exact and not self._doubtful(call, said, [names[-1] not in self.names for _, names in named])
        for place, (each, names) in enumerate(named):
            fate = known[place]
            if fate is None:
                fate = Fate(each.line, self._fate(each, call, broken=call.cancelled and place >= half))
                fate.run, fate.observed = call.run, not call.named
                self.fates.append(fate)
            elif fate.run != call.run and (fate.observed or not call.named):
                self._strange(fate)
            fate.observed = fate.observed and not call.named
            for name in names:
                self.names.setdefault(name, fate)
        if call.full:
            self.last = call.said
        if call.ending:
            self.over.add(call.run)
        self.handed.append(call)

    def _strange(self, fate: Fate) -> None:
        """Two observers tell of a message in two runs: nothing says that it is one."""
        self.exact = False
        fate.fate = "any" if fate.fate == "out" else fate.fate

    def _doubtful(self, call: Handed, said: Sequence[Said], moved: Sequence[bool]) -> bool:
        """Whether messages stand in a new place, and the last history does not tell which they are: it must end with them."""
        old = {id(each) for other in self.handed for each in other.said}
        places = [place for place, each in enumerate(said) if moved[place] and id(each) in old]
        if not self.blind or not call.full or not places:
            return False
        last = [each for each in self.last if each.role != "system"]
        run = list(said[places[0] : places[-1] + 1])
        convincing = sum(len(each.text) for each in run) >= 40
        return not convincing or [id(each) for each in run] != [id(each) for each in last[-len(run) :]]

    def _names(self, call: Handed, said: Sequence[Said], place: int) -> list[object]:
        each = said[place]
        names: list[object] = [("said", id(each))]
        if each.id is not None and call.named:
            names.append(("id", each.id, each.line))
        elif call.full:
            names.append(("path", tuple(other.line for other in said[: place + 1])))
        else:
            names.append(("run", call.run, each.line, sum(other.line == each.line for other in said[:place])))
        return names

    def _fate(self, said: Said, call: Handed, *, broken: bool) -> Literal["kept", "out", "any"]:
        chosen = self.chosen
        if chosen.mode != "normal" or not chosen.retain:
            return "out"
        if chosen.skip is not None and chosen.skip == call.run:
            return "any" if said.run != call.run or call.run in self.over else "out"
        if said.run in self.skipped or (not said.run and self.skipped):
            return "any"  # another text for a message of a run that was skipped, or a summary that may tell of it
        if broken:
            return "out"
        doubled = any(fate.line == said.line and fate.fate != "kept" for fate in self.fates)
        return "any" if self.blind and not self.plain and doubled else "kept"

    # What must be there

    def problem(self, found: Sequence[Line]) -> str | None:
        """What is wrong with what was found of it, in order; `None` where nothing is."""
        open_ = {fate.line for fate in self.fates if fate.fate == "any"}
        kept = [fate.line for fate in self.fates if fate.fate == "kept"]
        most, there = Counter(kept) + Counter(fate.line for fate in self.fates if fate.fate == "any"), Counter(found)
        if wrong := [line for line in there if line not in most]:
            return f"opted out or never said: {wrong}"
        if lost := list((Counter(kept) - there).elements()):
            return f"lost: {lost}"
        if self.exact and (twice := list((there - most).elements())):
            return f"too often: {twice}"
        order = [line for line in found if line not in open_]
        wanted = [line for line in kept if line not in open_]
        if self.exact and order != wanted:
            return f"not in order: {order} instead of {wanted}"
        rest = iter(order)
        if not all(any(line == other for other in rest) for line in wanted):
            return f"not in order: {order} instead of {wanted}"
        return None


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
        if not talk.full or not talk.history:
            return
        talk.branches.append(list(talk.history))
        talk.history = talk.history[: keep % (len(talk.history) + 1)]
        self._rewritten(talk)

    def branch(self, t: int, which: int) -> None:
        """Back to a branch that was left."""
        talk = self.talk(t)
        if talk.branches:
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
        if talk.run in talk.over or not talk.open:
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

    def end(self) -> None:
        for process in self.processes:
            if process.bank is not None:
                process.bank.close()
        for bank in self.left:
            bank.close()
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


Kinds = Sequence[tuple[Kind, bool, bool]]


def talks_of(kinds: Kinds) -> list[Talk]:
    """A talk for each kind (with whether its texts are unique and its runs have names): in two banks, with ids that look alike."""
    places = [("alice", "chat"), ("alice", "chat:0"), ("bob", "chat"), ("alice", "chat@x")]
    return [Talk(*place, kind, unique, runs) for place, (kind, unique, runs) in zip(places, kinds, strict=False)]


class MnemopiPlace:
    """A file."""

    def __init__(self, file: Path, **options: Any) -> None:
        self._file, self._options = file, {**QUIET, **options}

    def open(self, bank: str) -> Bank:
        return open_bank(f"sqlite:///{self._file}", bank=bank, **self._options)

    def outage(self, *, down: bool) -> None:
        """A file is always there."""

    def read(self, banks: Sequence[str]) -> Mapping[tuple[str, str], list[Line]]:
        found: dict[tuple[str, str], list[tuple[int, Line]]] = {}
        with closing(sqlite3.connect(self._file)) as connection:
            try:
                positions = dict(connection.execute("SELECT id, position FROM memories"))
            except sqlite3.OperationalError:  # nothing was ever opened
                return {}
        with self.open(banks[0]) as first:
            for name in banks:
                for memory in listed(first.named(name)):
                    place = found.setdefault((name, str(memory.session)), [])
                    place.append((positions[memory.id], (str(memory.speaker), memory.text)))
        return {key: [line for _, line in sorted(lines)] for key, lines in found.items()}

    def close(self) -> None:
        """The file goes with its folder."""


def listed(bank: Bank) -> list[Any]:
    """The transcript memories of a bank, page by page."""
    found: list[Any] = []
    while page := bank.list(limit=100, offset=len(found)):
        found += page
    return [memory for memory in found if memory.source == "transcript"]


class HindsightPlace:
    """A fault server, and a ledger in a file."""

    def __init__(self, server: FaultServer, ledger: Path, **options: Any) -> None:
        self.server, self._ledger = server, ledger
        quick = {"batch_seconds": 0.02, "max_backoff": 0.2}
        self._options: dict[str, Any] = {**QUIET, "outbox": quick, "connection": {"close_timeout": 0.05}, **options}

    def open(self, bank: str) -> Bank:
        return open_bank(self.server.url, bank=bank, ledger=f"sqlite:///{self._ledger}", **self._options)

    def outage(self, *, down: bool) -> None:
        if down:
            self.server.stop()
        else:
            self.server.start()

    def documents(self, bank: str) -> Mapping[str, str]:
        return self.server.bank(bank).documents

    def flush(self, bank: str) -> None:
        with self.open(bank) as opened:
            report = opened.flush(timeout=30, until="completed")
            assert report.done, report
            assert not report.dead, report

    def read(self, banks: Sequence[str]) -> Mapping[tuple[str, str], list[Line]]:
        self.flush(banks[0])
        found: dict[tuple[str, str], list[tuple[int, Line]]] = {}
        for name in banks:
            for document, text in self.documents(name).items():
                session, segment = session_of(document)
                found.setdefault((name, session), []).extend((segment, line) for line in lines_of(text))
        return {key: [line for _, line in sorted(lines, key=lambda each: each[0])] for key, lines in found.items()}

    def close(self) -> None:
        self.server.stop()


def session_of(document: str) -> tuple[str, int]:
    """The session and the segment of a document id."""
    _, session, segment = document.split(":")
    return session.replace("%3A", ":").replace("%40", "@").replace("%25", "%"), int(segment)


def lines_of(text: str) -> list[Line]:
    """The lines of a document: JSON arrays, one after the other."""
    decoder, place, found = JSONDecoder(), 0, list[Line]()
    text = text.strip()
    while place < len(text):
        rows, place = decoder.raw_decode(text, place)
        found += [(row["role"], row["content"]) for row in rows]
        place += len(text[place:]) - len(text[place:].lstrip())
    return found
