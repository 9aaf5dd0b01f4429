"""A call as the recorder sees it: which of its messages may be new, and what becomes of those that are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from lorebank._domain.cursor import Mark, Sifted
from lorebank._domain.injection import is_echo
from lorebank._domain.memory import Outcome, parse_name
from lorebank._domain.message import Message, parse_messages
from lorebank._domain.session import NEXT, Choices
from lorebank._domain.settings import RetainSettings
from lorebank._domain.transcripts import Spoken
from lorebank.errors import UsageError


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the host: its messages, and what it says of them. `ending` is after the agent has ended; `recalled` are the
    words of what was recalled for the user message whose digest is `asked`.
    """

    messages: tuple[Message, ...]
    full: bool = True
    run_id: str | None = None
    ending: bool = False
    cancelled: bool = False
    recalled: Collection[str] = ()
    asked: bytes = b""


def call_of(messages: object, history: object, run_id: object, *, ending: bool = False, cancelled: bool = False) -> Call:
    """A call, checked before anything is recorded."""
    parsed = parse_messages(messages)
    if history not in ("full", "delta"):
        raise UsageError(f"`history` must be full or delta; found {history!r}")
    if run_id is not None:
        run_id = parse_name(run_id, "run_id")
    elif history == "delta":
        raise UsageError('`history="delta"` needs a `run_id`: it tells the messages of one run from those of another')
    return Call(parsed, history == "full", run_id, ending, cancelled)


@dataclass(slots=True)
class Handled:
    """The last full history, as this process knows it to be recorded: hashes of its messages, its chain, and what the run that
    it was handed over in has said so far.
    """

    keys: list[int] = field(default_factory=list[int])
    chain: bytes = b""
    run: bytes | None = None
    counted: Counter[bytes] = field(default_factory=Counter[bytes])
    unnamed: bool = False
    newest: bytes = b""


@dataclass(frozen=True, slots=True)
class View:
    """A call's messages: those after the handled ones, with their marks, and the hashes of all. `spoken` are the items that may
    be written of each, by place.
    """

    call: Call
    handled: Handled
    keys: list[int]
    messages: tuple[Message, ...]
    marks: list[Mark]
    run: bytes | None
    spoken: Mapping[int, tuple[Spoken, ...]]
    rejected: tuple[Outcome, ...]
    redactions: int

    @property
    def unnamed(self) -> bool:
        """Whether the cursor needs the history: some message has no id."""
        return self.call.full and (self.handled.unnamed or any(message.id is None for message in self.messages))

    @property
    def chain(self) -> bytes:
        """The chain of the whole history."""
        return (self.marks[-1].chain if self.marks else None) or self.handled.chain

    @property
    def newest(self) -> bytes:
        """The digest of the newest user message."""
        users = [mark.digest for mark, m in zip(self.marks, self.messages, strict=True) if m.role == "user"]
        return users[-1] if users else self.handled.newest


@dataclass(frozen=True, slots=True)
class Judged:
    """Which new messages are passed over, those of them that stay so whatever happens (`lasting`), and why; the session's tags;
    what is left of a pending `skip_next`.
    """

    passed: frozenset[int]
    lasting: frozenset[int]
    echoes: int
    reason: str | None
    tags: tuple[str, ...]
    skip: str | None


def judge(view: View, sifted: Sifted, choices: Choices, settings: RetainSettings, turns: int) -> Judged:
    """What becomes of the new messages. `turns` are the session's user turns, these included."""
    tags = tuple(dict.fromkeys((*choices.tags, *settings.base_tags)))
    reason, skip = _withheld(view, choices, settings, turns)
    if reason is not None:
        everything = frozenset(sifted.fresh)
        return Judged(everything, everything, 0, reason, tags, skip)
    cancelled = _cancelled(view, settings)
    halves = frozenset(place for place in sifted.fresh if place >= cancelled)
    echoes = frozenset(place for place in sifted.fresh if place not in halves and _echo(view, place))
    silent = frozenset(place for place in sifted.fresh if not view.spoken.get(place))
    return Judged(halves | echoes | silent, halves, len(echoes), None, tags, skip)


def _withheld(view: View, choices: Choices, settings: RetainSettings, turns: int) -> tuple[str | None, str | None]:
    """Why nothing of this call is retained, if so, and the skip that is still pending after it."""
    if not settings.auto_retain:
        return "auto_retain is off", None
    if not choices.retains:
        return f"the session is {choices.mode}" if choices.mode != "normal" else "retain is off in this session", None
    here = view.run.hex() if view.run is not None else f"turn:{turns}"
    if choices.skip in (NEXT, here):
        return "this run is skipped", None if view.call.ending else here
    return None, None


def _cancelled(view: View, settings: RetainSettings) -> int:
    """From which place on a cancelled run's messages are half an answer."""
    if not view.call.cancelled or settings.on_cancel == "partial":
        return len(view.messages)
    users = [place for place, message in enumerate(view.messages) if message.role == "user"]
    return users[-1] + 1 if users else 0


def _echo(view: View, place: int) -> bool:
    """Whether an answer only repeats what was recalled for this turn."""
    if view.messages[place].role != "assistant" or not view.call.recalled or view.newest != view.call.asked:
        return False
    return is_echo(" ".join(each.item.content for each in view.spoken.get(place, ())), view.call.recalled)
