"""Our blocks in stored transcripts: where they are, and what a transcript is without them.

A transcript is JSON Lines: a message a line, as LangChain's `message_to_dict` and LlamaIndex's `ChatMessage` write them, or lists
of messages, or whatever holds such texts, at any depth. Lines without our blocks stay as they are, byte for byte; one that
changes says the same as before in all else, written the way it was.

A message that held nothing but our blocks goes only where that leaves the order of roles as it was: a system's message, and a
user's that another user's follows. Any other keeps its place, with an empty text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from lorebank._domain.blocks import count_blocks, strip
from lorebank.errors import GarbledError

_ROLES = {"human": "user", "humanmessagechunk": "user", "user": "user", "system": "system", "developer": "system"}
_BLANK_BEFORE, _BLANK_AFTER = re.compile(r"\A(?:[ \t]*\r?\n)+"), re.compile(r"(?:\r?\n[ \t]*)+\Z")
_STYLES = ((", ", ": "), (",", ":"))


@dataclass(frozen=True, slots=True)
class CleanedLine:
    """A line that holds blocks of ours: its number (from 1), how many, how many messages of it held nothing else (`emptied`), and
    how many of those go (`dropped`).
    """

    line: int
    blocks: int
    emptied: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class CleanedTranscript:
    """A transcript without our blocks, and the lines that held some."""

    content: bytes
    lines: tuple[CleanedLine, ...]

    @property
    def blocks(self) -> int:
        """How many blocks there were."""
        return sum(line.blocks for line in self.lines)


@dataclass(slots=True)
class _Tally:
    """What was met on the way through a line."""

    blocks: int = 0
    emptied: int = 0
    dropped: int = 0


class _Gone:
    """In place of a message that goes."""


_GONE = _Gone()


def clean(content: bytes) -> CleanedTranscript:
    """A transcript without our blocks; `GarbledError` names the first line that is no JSON."""
    lines = content.split(b"\n")
    values = [_parsed(line, number) if line.strip() else None for number, line in enumerate(lines, 1)]
    kept: list[bytes] = []
    found: list[CleanedLine] = []
    followers = _followers(values)
    for number, (line, value) in enumerate(zip(lines, values, strict=True), 1):
        tally = _Tally()
        cleaned = _cleaned(value, tally, followers[number - 1]) if b"<" in line or b"\\u003c" in line.lower() else value
        if not tally.blocks:
            kept.append(line)
            continue
        found.append(CleanedLine(number, tally.blocks, tally.emptied, tally.dropped))
        if cleaned is not _GONE:
            kept.append(_written(cleaned, value, line))
    return CleanedTranscript(b"\n".join(kept), tuple(found))


def _parsed(line: bytes, number: int) -> Any:
    try:
        return json.loads(line.decode(), parse_constant=_no_constant, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        found = "no UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise GarbledError(f"line {number:,} is no JSON ({found}): a transcript is JSON Lines, one value a line") from error


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """An object; one that names a key twice could not be written again as it was."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("an object names a key twice")
    return made


def _followers(values: Sequence[object]) -> list[str | None]:
    """For each value the role of the next message after it, where there is one."""
    roles: list[str | None] = []
    following: str | None = None
    for value in reversed(values):
        roles.append(following)
        following = _first_role(value) or following
    return roles[::-1]


def _first_role(value: object) -> str | None:
    """The role of a message, or of the first one in a list."""
    if isinstance(value, list):
        return next(filter(None, map(_role, cast("list[object]", value))), None)
    return _role(value)


def _role(value: object) -> str | None:
    """A message's role; `None` for what is no message."""
    body = _body(value)
    if body is None:
        return None
    message = cast("dict[str, Any]", value)
    said = str(message["role"] if body is message else message["type"]).casefold()
    return _ROLES.get(said, said)


def _body(value: object) -> dict[str, Any] | None:
    """The part of a message that holds its text; `None` for what is no message."""
    if not isinstance(value, dict):
        return None
    message = cast("dict[str, Any]", value)
    inner = message.get("data")
    if isinstance(message.get("type"), str) and isinstance(inner, dict) and "content" in inner:
        return cast("dict[str, Any]", inner)
    return message if isinstance(message.get("role"), str) and ("content" in message or "blocks" in message) else None


def _cleaned(value: Any, tally: _Tally, follower: str | None = None) -> Any:
    """A value without our blocks, or `_GONE`."""
    if isinstance(value, str):
        return _text(value, tally)
    if isinstance(value, list):
        return _list(cast("list[object]", value), tally)
    if not isinstance(value, dict):
        return value
    before = tally.blocks
    made = {key: _cleaned(each, tally) for key, each in cast("dict[str, Any]", value).items()}
    if tally.blocks == before or (body := _body(made)) is None or not _empty(body):
        return made
    tally.emptied += 1
    role = _role(made)
    goes = not _bound(body) and (role == "system" or (role == follower == "user"))
    tally.dropped += goes
    return _GONE if goes else made


def _text(text: str, tally: _Tally) -> str:
    """A text without our blocks, and without the blank lines between them and it."""
    count = count_blocks(text)
    if not count:
        return text
    tally.blocks += count
    plain = strip(text)
    plain = _BLANK_BEFORE.sub("", plain) if text.lstrip().startswith("<") else plain
    return _BLANK_AFTER.sub("", plain) if text.rstrip().endswith(">") else plain


def _list(values: Sequence[object], tally: _Tally) -> list[object]:
    """Messages one after the other, parts of a message, or anything else. A part that held only a block goes with it, unless
    it is the last that is left.
    """
    followers = _followers(values)
    made = [_cleaned(each, tally, follower) for each, follower in zip(values, followers, strict=True)]
    kept = [each for each in made if each is not _GONE]
    telling = [new for new, old in zip(made, values, strict=True) if new is not _GONE and not (_blank_part(new) and new != old)]
    return telling if telling and len(telling) < len(kept) else kept


def _blank_part(value: object) -> bool:
    """Whether a part of a message is a text that says nothing."""
    if not isinstance(value, dict):
        return False
    part = cast("dict[str, Any]", value)
    return "text" in (part.get("type"), part.get("block_type")) and not str(part.get("text") or "").strip()


def _empty(body: Mapping[str, Any]) -> bool:
    """Whether a message has no words, and nothing beside them, such as a picture."""
    content: object = body.get("content", body.get("blocks"))
    if isinstance(content, list):
        parts = cast("list[object]", content)
        return all(not part.strip() if isinstance(part, str) else _blank_part(part) for part in parts)
    return not str(content or "").strip()


def _bound(body: Mapping[str, Any]) -> bool:
    """Whether a message belongs to a tool's call."""
    extra: object = body.get("additional_kwargs")
    sources = (body, cast("Mapping[str, Any]", extra)) if isinstance(extra, dict) else (body,)
    return any(source.get(name) for source in sources for name in ("tool_calls", "tool_call_id", "function_call"))


def _written(value: Any, before: Any, line: bytes) -> bytes:
    """A value as a line, written the way the line was that it comes from."""
    end = b"\r" if line.endswith(b"\r") else b""
    text, plain = line.strip().decode(), line.isascii()
    styles = [style for style in _STYLES if json.dumps(before, ensure_ascii=plain, separators=style) == text]
    style = styles[0] if styles else _STYLES[0 if '": ' in text else 1]
    try:
        return json.dumps(value, ensure_ascii=plain, separators=style).encode() + end
    except UnicodeEncodeError:  # half a surrogate pair has no other spelling
        return json.dumps(value, separators=style).encode() + end
