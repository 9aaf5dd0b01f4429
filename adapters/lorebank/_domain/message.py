"""One message of a conversation in our neutral shape, and what of a conversation may be retained.

Hosts convert their messages at the seam. A *user turn* is a user message and everything up to the next one. A
*transcript* is what is left of messages after projection: our own blocks, injected messages, reasoning, images and
successful tool results are out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from itertools import islice, pairwise
from typing import Any, Literal, cast, get_args

from lorebank._domain import blocks
from lorebank.errors import UsageError

Role = Literal["user", "assistant", "system", "tool"]
ROLES: tuple[Role, ...] = get_args(Role)
IMAGE = "[image omitted]"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool the assistant asked for."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])


_KINDS: tuple[tuple[str, Any], ...] = (
    ("text", str),
    ("id", str | None),
    ("time", datetime | None),
    ("name", str | None),
    ("tool_calls", tuple),
    ("images", int),
    ("sources", tuple),
)


@dataclass(frozen=True, slots=True)
class Message:
    """One message.

    `text` is its plain text, `id` the host's stable id, `time` when it was said, `name` the speaker's or the tool's
    name, `images` how many pictures it holds, `failed` marks a tool's error, `injected` what lorebank put in itself, `sources`
    the ids of what an answer was made from.
    """

    role: Role
    text: str
    id: str | None = None
    time: datetime | None = None
    name: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    images: int = 0
    failed: bool = False
    injected: bool = False
    sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise UsageError(f"`role` must be one of {', '.join(ROLES)}; found {self.role!r}")
        for name, kind in _KINDS:
            if not isinstance(getattr(self, name), kind):
                raise UsageError(f"a message's `{name}` can't be {getattr(self, name)!r:.80}")
        if self.tool_calls and not all(isinstance(call, ToolCall) for call in self.tool_calls):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError("a message's `tool_calls` must be `ToolCall`s")


def parse_messages(values: object) -> tuple[Message, ...]:
    """Messages as they are, or mappings with a message's keys (`content` is taken for `text`)."""
    if isinstance(values, (str, Message, Mapping)) or not isinstance(values, Iterable):
        raise UsageError(f"`messages` must be a list of messages; found {values!r:.80}")
    return tuple([each if isinstance(each, Message) else _parse_message(each) for each in cast("Iterable[object]", values)])


def _parse_message(value: object) -> Message:
    if not isinstance(value, Mapping):
        raise UsageError(f"a message must be a `Message` or a mapping; found {type(value).__name__}")
    given = {str(key): each for key, each in cast("Mapping[object, Any]", value).items()}
    if "content" in given:
        given.setdefault("text", given.pop("content"))
    known = [field.name for field in fields(Message)]
    if unknown := [key for key in given if key not in known]:
        raise UsageError(f"a message has no key {unknown[0]!r}; it may have {', '.join(known)}")
    if not isinstance(given.get("text"), str) or not isinstance(given.get("role"), str):
        raise UsageError("a message needs `role` and `text` (or `content`), both text")
    return Message(**given)


@dataclass(frozen=True, slots=True)
class Keep:
    """Which parts of a conversation are retained, by role; `tools` and `strip` narrow further.

    `tool_results` is `errors`, `all` or `none`. `include` / `exclude` name tools (an empty `include` means all);
    `strip` names argument fields that are left out of kept tool calls.
    """

    user: bool = True
    assistant: bool = True
    tool_calls: bool = True
    tool_results: Literal["errors", "all", "none"] = "errors"
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    strip: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("user", "assistant", "tool_calls"):
            if not isinstance(getattr(self, name), bool):
                raise UsageError(f"`keep.{name}` must be true or false; found {getattr(self, name)!r}")
        if self.tool_results not in ("errors", "all", "none"):
            raise UsageError(f"`keep.tool_results` must be errors, all or none; found {self.tool_results!r}")
        for name in ("include", "exclude", "strip"):
            value: object = getattr(self, name)
            if not isinstance(value, (tuple, list)) or not all(isinstance(each, str) for each in cast("Sequence[object]", value)):
                raise UsageError(f"`keep.{name}` must be a list of names; found {value!r}")

    def tool(self, name: str | None) -> bool:
        """Whether this tool's calls and results are kept."""
        return name not in self.exclude and (not self.include or name in self.include)


OWN_TOOLS = frozenset({"retain", "recall", "reflect", "memory_edit", "retain_global"})
"""Output of our own tools is never retained: memory would feed on itself."""


def substantive(text: str) -> bool:
    """Whether a text holds at least one letter or digit."""
    return text[:1].isalnum() or any(map(str.isalnum, text))


def user_turns(messages: Sequence[Message]) -> list[tuple[Message, ...]]:
    """The messages, cut before each user message; what stands before the first one is left out."""
    starts = [i for i, message in enumerate(messages) if message.role == "user" and not message.injected]
    return [tuple(messages[a:b]) for a, b in pairwise([*starts, len(messages)])]


def last_turns(messages: Sequence[Message], count: int) -> tuple[Message, ...]:
    """The messages of the newest `count` user turns; none for a count below one."""
    users = (i for i in reversed(range(len(messages))) if messages[i].role == "user" and not messages[i].injected)
    first = min(islice(users, max(count, 0)), default=len(messages))
    return tuple(messages[first:])


def project(message: Message, keep: Keep, own_tools: frozenset[str] = OWN_TOOLS) -> str | None:
    """What of a message is retained, or `None` when nothing is."""
    if message.injected or message.role == "system":
        return None
    if message.role == "tool":
        return _tool_result(message, keep, own_tools)
    if not (keep.user if message.role == "user" else keep.assistant):
        return None
    parts = [blocks.strip(message.text).strip(), *[IMAGE] * bool(message.images)]
    if keep.tool_calls and message.role == "assistant":
        parts += [_tool_call(c, keep) for c in message.tool_calls if keep.tool(c.name) and c.name not in own_tools]
    text = "\n".join(part for part in parts if part)
    return text if substantive(text.replace(IMAGE, "")) else None


def _tool_result(message: Message, keep: Keep, own_tools: frozenset[str]) -> str | None:
    kept = keep.tool_results == "all" or (keep.tool_results == "errors" and message.failed)
    if not kept or message.name in own_tools or not keep.tool(message.name):
        return None
    text = blocks.strip(message.text).strip()
    return f"{message.name or 'tool'}: {text}" if substantive(text) else None


def _tool_call(call: ToolCall, keep: Keep) -> str:
    arguments = {name: _stripped(value) for name, value in call.arguments.items() if name not in keep.strip}
    return f"{call.name}({json.dumps(arguments, ensure_ascii=False, default=str, separators=(', ', ': '))[1:-1]})"


def _stripped(value: Any) -> Any:
    """A tool's argument without our blocks, at any depth."""
    if isinstance(value, str):
        return blocks.strip(value)
    if isinstance(value, Mapping):
        return {str(name): _stripped(each) for name, each in cast("Mapping[object, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_stripped(each) for each in cast("Sequence[Any]", value)]
    return value


@dataclass(frozen=True, slots=True)
class Line:
    """One projected message of a transcript."""

    role: Role
    text: str
    time: datetime | None = None
    name: str | None = None
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Transcript:
    """What is retained of some messages, in order."""

    lines: tuple[Line, ...]

    @classmethod
    def of(cls, messages: Iterable[Message], keep: Keep | None = None) -> Transcript:
        """Projects messages by the rules of `keep` (the default rules when `None`)."""
        rules = keep or Keep()
        kept = [(message, project(message, rules)) for message in messages]
        return cls(tuple(Line(m.role, text, m.time, m.name, m.sources) for m, text in kept if text is not None))

    def as_json(self) -> str:
        """A JSON array of the lines, with their times where known."""
        rows = [
            {"role": line.role, "content": line.text}
            | ({"name": line.name} if line.name else {})
            | ({"timestamp": line.time.isoformat()} if line.time else {})
            | ({"sources": line.sources} if line.sources else {})
            for line in self.lines
        ]
        return json.dumps(rows, ensure_ascii=False)

    def as_text(self) -> str:
        """Each line between `[role: x]` and `[x:end]`, parted by blank lines; frames inside a text are defused."""
        return "\n\n".join(f"[role: {line.role}]\n{_defuse(line.text)}\n[{line.role}:end]" for line in self.lines)


_FRAMES = ("[role: ", *(f"[{role}:end" for role in ROLES))


def _defuse(text: str) -> str:
    """Text whose own frame-like lines can't be taken for ours."""
    return "".join(
        f"({line.strip()[1:-1]})\n" if line.strip().startswith(_FRAMES) else line for line in text.splitlines(keepends=True)
    ).removesuffix("\n")
