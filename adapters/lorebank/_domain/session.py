"""What a session knows of itself, what its modes allow, and what its calls give.

Modes say what happens on its own and what the tools may do; one table, and what can't be read is `ignored`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any, Literal, cast, get_args

from lorebank._domain.item import Item
from lorebank._domain.memory import RecallResult, Receipt, State, parse_name
from lorebank._domain.scope import parse_tags
from lorebank._domain.toolbook import ToolName
from lorebank.errors import UsageError

Mode = Literal["normal", "read-only", "ignored", "tools-only"]
MODES: tuple[Mode, ...] = get_args(Mode)
History = Literal["full", "delta"]
NEXT = "next"
"""A pending `skip_next`: the next run is not retained. Once that run has begun, its turn, its id and its user message's digest
stand in its place."""
TAG_CHARS = 80


@dataclass(frozen=True, slots=True)
class Permits:
    """What a mode lets happen: recall and retain on their own, and the tools that read and write."""

    recall: bool
    retain: bool
    reading_tools: bool
    writing_tools: bool


MATRIX: Mapping[Mode, Permits] = {
    "normal": Permits(recall=True, retain=True, reading_tools=True, writing_tools=True),
    "read-only": Permits(recall=True, retain=False, reading_tools=True, writing_tools=False),
    "ignored": Permits(recall=False, retain=False, reading_tools=False, writing_tools=False),
    "tools-only": Permits(recall=False, retain=False, reading_tools=True, writing_tools=True),
}
WRITING: frozenset[ToolName] = frozenset({"retain", "retain_global", "memory_edit"})


def refusal(mode: Mode, tool: ToolName) -> str | None:
    """Why a tool may not be used in a session of this mode, in words for the model; `None` where it may."""
    permits = MATRIX[mode]
    if tool in WRITING and not permits.writing_tools:
        return f"{tool} was not done: the user has set memory to {mode} in this conversation, so nothing is written to it."
    if tool not in WRITING and not permits.reading_tools:
        return f"{tool} was not done: the user has switched memory off here. This does not mean that nothing is known."
    return None


def parse_mode(value: object) -> Mode:
    """One of the four modes."""
    if value not in MODES:
        raise UsageError(f"`mode` must be one of {', '.join(MODES)}; found {value!r}")
    return value


def parse_session_tag(value: object) -> str:
    """A session's tag: trimmed text without control characters, 80 characters at most."""
    tag = parse_name(value, "tag")
    if len(tag) > TAG_CHARS:
        raise UsageError(f"a session's tag has at most {TAG_CHARS} characters; found {len(tag)}")
    return parse_tags([tag])[0]


@dataclass(frozen=True, slots=True)
class Choices:
    """What the user has chosen for a session; kept in the ledger."""

    mode: Mode = "normal"
    retain_enabled: bool = True
    tags: tuple[str, ...] = ()
    skip: str | None = None

    @property
    def retains(self) -> bool:
        """Whether messages are retained on their own."""
        return MATRIX[self.mode].retain and self.retain_enabled

    def as_json(self) -> str:
        return json.dumps({"mode": self.mode, "retain": self.retain_enabled, "tags": self.tags, "skip": self.skip})


def read_choices(text: str) -> Choices | None:
    """Choices from the ledger; `None` for what can't be understood."""
    try:
        found = json.loads(text)
        kept = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
        if set(kept) != {"mode", "retain", "tags", "skip"} or not isinstance(kept["retain"], bool):
            return None
        if not isinstance(kept["skip"], (str, type(None))) or not isinstance(kept["tags"], list):
            return None
        tags = tuple(parse_session_tag(tag) for tag in cast("list[object]", kept["tags"]))
        return Choices(parse_mode(kept["mode"]), kept["retain"], tags, kept["skip"])
    except (ValueError, TypeError, UsageError):
        return None


UNREADABLE = Choices(mode="ignored")
"""What holds where the choices can't be read: nothing is recalled, nothing is retained."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a session is.

    `turns` are user messages, `unreleased` those since rows were last let go, `messages` all that the cursor knows, `history`
    how many the last full history without ids had, `head` its chain. `segment` is the document that is written to, with its
    turns and bytes; `apart` is 1 once a whole transcript could not be sent any more; `window` is the first message that
    `last-turn` has not let go; `opened` the user message of a turn that is not over.
    """

    turns: int = 0
    unreleased: int = 0
    messages: int = 0
    history: int = 0
    head: bytes | None = None
    segment: int = 0
    segment_turns: int = 0
    segment_bytes: int = 0
    apart: int = 0
    window: bytes | None = None
    opened: bytes | None = None

    @classmethod
    def read(cls, values: Sequence[object]) -> Progress:
        """Progress from the ledger; what can't be read begins anew, which repeats no message: the cursor knows them."""
        fresh = cls()
        names = [each.name for each in fields(cls)]
        pairs = zip(names, values, strict=True)
        good: dict[str, Any] = {name: value for name, value in pairs if _fits(value, getattr(fresh, name))}
        return replace(fresh, **good)


def _fits(value: object, kind: object) -> bool:
    return isinstance(value, int) if isinstance(kind, int) else isinstance(value, (bytes, type(None)))


@dataclass(frozen=True, slots=True)
class Stored:
    """A session as the ledger has it. `choices` is `None` where they can't be read."""

    choices: Choices | None = field(default_factory=Choices)
    progress: Progress = field(default_factory=Progress)


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """What is kept of a session, without its content: its mode, how many user turns and messages it has, how many traces of
    recalls, when its newest message was seen.
    """

    id: str
    mode: Mode
    turns: int = 0
    messages: int = 0
    traces: int = 0
    seen_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class DocumentWrite:
    """What becomes of one document: the new messages, and all that a server is sent with them (`whole`). With `rewritten`
    what the document held before is out of date. `superseding` takes the place of a write that is still held.
    """

    document_id: str
    fresh: tuple[Item, ...]
    whole: tuple[Item, ...]
    update_mode: Literal["append", "replace"] = "append"
    rewritten: bool = False


@dataclass(frozen=True, slots=True)
class Injection:
    """What goes in front of the model for one user turn.

    `system_prefix` belongs at the start of the system message: instructions and mental models, bytes that stay the same.
    `memories` is the block for this call only, placed by `position`; empty where there is nothing to tell. `result` is the
    turn's recall; its `state` tells "nothing known" from "could not be asked". `None` where nothing was asked at all.
    `mental_models` is the prefix's last part alone, for hosts that have no system message.
    """

    system_prefix: str = ""
    memories: str = ""
    result: RecallResult | None = None
    position: Literal["in-user", "before-user", "system"] = "in-user"
    mental_models: str = ""

    def __bool__(self) -> bool:
        return bool(self.system_prefix or self.memories)


@dataclass(frozen=True, slots=True)
class TurnReceipt:
    """What became of a turn's messages: how many were `new`, and of those how many were `passed` over on purpose (`echoes`:
    answers that only repeat what was recalled). `reason` says why nothing was retained. Never content.
    """

    receipt: Receipt = field(default_factory=Receipt)
    new: int = 0
    passed: int = 0
    echoes: int = 0
    reason: str | None = None

    @property
    def kept(self) -> int:
        """How many memories were stored, or writes queued."""
        return len(self.receipt.stored) + len(self.receipt.queued)


@dataclass(frozen=True, slots=True)
class Traced:
    """One memory of a trace: its id, its score, and what each signal added to it."""

    id: str
    score: float | None
    signals: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class Trace:
    """How a turn's recall went: the query, what was shown, what the budget or the thinning left out, seconds."""

    query: str
    state: State
    shown: tuple[Traced, ...]
    dropped: tuple[str, ...]
    elapsed: float
    at: datetime

    def as_json(self) -> str:
        shown = [{"id": each.id, "score": each.score, "signals": dict(each.signals)} for each in self.shown]
        plain = {"query": self.query, "state": self.state, "shown": shown, "dropped": self.dropped, "elapsed": self.elapsed}
        return json.dumps({**plain, "at": self.at.isoformat()}, ensure_ascii=False)

    @classmethod
    def read(cls, text: str | None) -> Trace | None:
        """A trace from the ledger; `None` where there is none that can be read."""
        try:
            plain = cast("dict[str, Any]", json.loads(text or ""))
            shown = tuple(Traced(each["id"], each["score"], each["signals"]) for each in plain["shown"])
            at = datetime.fromisoformat(plain["at"])
            return cls(plain["query"], plain["state"], shown, tuple(plain["dropped"]), plain["elapsed"], at)
        except (ValueError, TypeError, KeyError):
            return None


def merged(stored: Choices, changed: Mapping[str, Any]) -> Choices:
    """The ledger's choices with what this process has changed since it read them; tags are added and taken one by one."""
    plain = {name: value for name, value in changed.items() if name not in ("added", "removed")}
    removed = set(changed.get("removed", ()))
    tags = [tag for tag in dict.fromkeys((*stored.tags, *changed.get("added", ()))) if tag not in removed]
    return replace(stored, tags=tuple(tags), **plain)
