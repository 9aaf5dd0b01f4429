"""What was said in conversations, and what must be kept of it: the model that histories are checked against."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from lorebank._domain.message import Message

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
    begun: Line | None = None
    """The user message of a run that has begun and not ended."""
    chosen: Chosen = field(default_factory=Chosen)
    over: set[int] = field(default_factory=set)
    skipped: set[int] = field(default_factory=set)
    skips: bool = False
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

    @property
    def vague_when_rewritten(self) -> bool:
        """Whether a rewritten history would leave open which run is skipped: its messages read alike, and have no ids."""
        return self.blind and not self.unique and self.skips

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
        asked: Fate | None = None
        for place, (each, names) in enumerate(named):
            fate = known[place]
            if fate is None:
                fate = Fate(each.line, self._fate(each, call, asked, broken=call.cancelled and place >= half))
                fate.run, fate.observed = call.run, not call.named
                self.fates.append(fate)
            elif fate.run != call.run and (fate.observed or not call.named):
                self._strange(fate)
            fate.observed = fate.observed and not call.named
            asked = fate if each.role == "user" else asked
            for name in names:
                self.names.setdefault(name, fate)
        if call.full and fresh:  # an older list that is handed over once more is not the last history
            self.last = call.said
        if call.ending or any(said[place].role == "user" for place in fresh):
            self.begun = None if call.ending or not users else said[users[-1]].line
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

    def _fate(self, said: Said, call: Handed, asked: Fate | None, *, broken: bool) -> Literal["kept", "out", "any"]:
        chosen = self.chosen
        if chosen.mode != "normal" or not chosen.retain:
            return "out"
        if chosen.skip is not None and chosen.skip == call.run:
            return "any" if said.run != call.run or call.run in self.over else "out"
        if said.run in self.skipped or (not said.run and self.skipped):
            return "any"  # another text for a message of a run that was skipped, or a summary that may tell of it
        if broken:
            return "out"
        if self.blind and not self.plain and call.ending and said.line == self.begun:
            return "any"  # the run that has begun ends; whether it is the same message is in doubt
        doubled = any(fate.line == said.line and fate.fate != "kept" for fate in self.fates)
        answers = said.role == "assistant" and asked is not None
        unsure = answers and (asked.fate == "any" or asked.run in self.skipped)  # it reads as one of the skipped run
        return "any" if self.blind and not self.plain and (doubled or unsure) else "kept"

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
