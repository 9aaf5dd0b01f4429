"""A call as the recorder sees it: which of its messages may be new, and what becomes of those that are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from lorebank._domain.cursor import Mark, Past, Sifted
from lorebank._domain.injection import is_echo
from lorebank._domain.memory import Outcome, parse_name
from lorebank._domain.message import Message, parse_messages
from lorebank._domain.ports import SessionLedger
from lorebank._domain.session import NEXT, Choices, Progress
from lorebank._domain.settings import RetainSettings
from lorebank._domain.toolbook import Offer
from lorebank._domain.transcripts import Spoken
from lorebank.errors import UsageError


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the host: its messages, and what it says of them. `ending` is after the agent has ended; `recalled` are the
    words of what was recalled for the user message whose digest is `asked`; `keys` tell a full history's messages apart.
    """

    messages: tuple[Message, ...]
    full: bool = True
    run_id: str | None = None
    ending: bool = False
    cancelled: bool = False
    recalled: Collection[str] = ()
    asked: bytes = b""
    offer: Offer | None = None
    keys: tuple[int, ...] = ()


def call_of(
    messages: object,
    history: object,
    run_id: object,
    *,
    ending: bool = False,
    cancelled: bool = False,
    offer: Offer | None = None,
) -> Call:
    """A call, checked before anything is recorded."""
    parsed = parse_messages(messages)
    if history not in ("full", "delta"):
        raise UsageError(f"`history` must be full or delta; found {history!r}")
    if run_id is not None:
        run_id = parse_name(run_id, "run_id")
    elif history == "delta":
        raise UsageError('`history="delta"` needs a `run_id`: it tells the messages of one run from those of another')
    keys = tuple(map(key_of, parsed)) if history == "full" else ()
    return Call(parsed, history == "full", run_id, ending, cancelled, offer=offer, keys=keys)


def key_of(message: Message) -> int:
    """Tells a message from another in this process: its id, role and content."""
    calls = repr(message.tool_calls) if message.tool_calls else ""
    return hash((message.id, message.role, message.text, message.name, message.images, calls))


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

    def past(self, ledger: SessionLedger, former: Progress, run: bytes | None, opened: bytes | None = None) -> Past:
        """What the cursor is told of it."""
        counted = self.counted if self.run == run else Counter[bytes]()
        return Past(ledger.history, former.history, former.head, len(self.keys), counted, opened)


@dataclass(frozen=True, slots=True)
class Admission:
    """What may be written of one message, what of it was refused, and how many secrets were taken out."""

    spoken: tuple[Spoken, ...] = ()
    rejected: tuple[Outcome, ...] = ()
    redactions: int = 0


@dataclass(frozen=True, slots=True)
class View:
    """A call's messages: those after the handled ones, with their marks, and the hashes of all. `admitted` are those that may
    be new, by place, with what may be written of them.
    """

    call: Call
    handled: Handled
    keys: list[int]
    messages: tuple[Message, ...]
    marks: list[Mark]
    run: bytes | None
    admitted: Mapping[int, Admission]

    def spoken(self, place: int) -> tuple[Spoken, ...]:
        """The items that may be written of a message."""
        return self.admitted[place].spoken if place in self.admitted else ()

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


def judge(view: View, sifted: Sifted, choices: Choices, settings: RetainSettings, turn: tuple[int, bytes]) -> Judged:
    """What becomes of the new messages of a turn: its number, and the digest of its user message."""
    tags = tuple(dict.fromkeys((*choices.tags, *settings.base_tags)))
    skipped, skip = _skipped(view, sifted, choices.skip, turn)
    if (reason := _withheld(choices, settings)) is not None:
        everything = frozenset(sifted.fresh)
        return Judged(everything, everything, 0, reason, tags, skip)
    cancelled = _cancelled(view, settings)
    halves = frozenset(place for place in sifted.fresh if place >= cancelled)
    heard = [place for place in sifted.fresh if place not in skipped | halves and turn[1] == view.call.asked]
    echoes = frozenset(place for place in heard if _echo(view, place))
    silent = frozenset(place for place in sifted.fresh if not view.spoken(place))
    reason = "this run is skipped" if skipped else None
    return Judged(skipped | halves | echoes | silent, skipped | halves | echoes, len(echoes), reason, tags, skip)


def _withheld(choices: Choices, settings: RetainSettings) -> str | None:
    """Why the session retains nothing on its own, if so."""
    if not settings.auto_retain:
        return "auto_retain is off"
    if not choices.retains:
        return f"the session is {choices.mode}" if choices.mode != "normal" else "retain is off in this session"
    return None


def _skipped(view: View, sifted: Sifted, skip: str | None, turn: tuple[int, bytes]) -> tuple[frozenset[int], str | None]:
    """The new messages of a run that is skipped, and what is noted of it until another one begins: its turn, its id, and the
    digest of its user message.

    What answers that message, before the next new user message, still belongs to it.
    """
    if skip is None:
        return frozenset(), None
    run = "" if view.run is None else view.run.hex()
    noted = f"{turn[0]}:{run}:{turn[1].hex()}"
    if skip == NEXT:
        new = _behind_all_known(view, sifted)
        return new, noted if new else NEXT
    turns, skipped_run, asked = f"{skip}::".split(":")[:3]
    if skipped_run and run == skipped_run:
        return frozenset(sifted.fresh), noted
    goes_on = turns == str(turn[0])
    unasked = goes_on and not (run and skipped_run)
    first = next((place for place in sifted.fresh if view.messages[place].role == "user"), len(view.messages))
    answers = [place for place in sifted.fresh if place < first and _answers(view, sifted, place, asked, unasked=unasked)]
    return frozenset(answers), skip if goes_on else None


def _behind_all_known(view: View, sifted: Sifted) -> frozenset[int]:
    """The new messages of the run that begins: in a full history what stands ahead of known ones are edits of earlier runs, and
    what the last history held was said in one.
    """
    behind = sifted.anchor if view.call.full else -1
    return frozenset(place for place in sifted.fresh if place > behind and place not in sifted.moved)


def _answers(view: View, sifted: Sifted, place: int, asked: str, *, unasked: bool) -> bool:
    """Whether a message follows the user message of this digest that was passed over; `unasked` is for one that follows none."""
    user = next((before for before in reversed(range(place)) if view.messages[before].role == "user"), None)
    return unasked if user is None else user in sifted.passed and view.marks[user].digest.hex() == asked


def _cancelled(view: View, settings: RetainSettings) -> int:
    """From which place on a cancelled run's messages are half an answer."""
    if not view.call.cancelled or settings.on_cancel == "partial":
        return len(view.messages)
    users = [place for place, message in enumerate(view.messages) if message.role == "user"]
    return users[-1] + 1 if users else 0


def _echo(view: View, place: int) -> bool:
    """Whether an answer only repeats what was recalled for this turn."""
    text = " ".join(each.item.content for each in view.spoken(place))
    return view.messages[place].role == "assistant" and is_echo(text, view.call.recalled)
