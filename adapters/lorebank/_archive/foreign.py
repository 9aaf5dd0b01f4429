"""What other libraries keep, read as memories: chat histories of LangChain and LlamaIndex, exports of mem0. Pure.

No library is needed: their files are JSON. A file is read whole and checked whole. What it holds is written as `imported`;
each message and memory has an id that follows from what it is, so that reading a file again, or one that has grown since,
finds what is there already.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from lorebank._archive.chats import read_chat, read_store
from lorebank._archive.mem0 import read_mem0
from lorebank._archive.reading import Read, Wanted
from lorebank._domain.archive import ArchiveFormat
from lorebank.errors import UsageError

FORMATS: tuple[ArchiveFormat, ...] = get_args(ArchiveFormat)
MESSAGE_ROLES = ("user", "assistant", "system", "tool")
Foreign = Literal["langchain", "llamaindex", "mem0"]


@dataclass(frozen=True, slots=True)
class Choice:
    """What of a file is meant: its format, whose part of it, which roles of its messages."""

    format: ArchiveFormat
    wanted: Wanted


def parse_choice(format: object, only: object, roles: object) -> Choice:
    """What a caller asks for."""
    if format not in FORMATS:
        raise UsageError(f"`format` must be one of {', '.join(FORMATS)}; found {format!r}")
    if only is not None and (not isinstance(only, str) or not only.strip()):
        raise UsageError(f"`only` must be a user's or a chat's name; found {only!r}")
    if isinstance(roles, str) or not isinstance(roles, Sequence):
        raise UsageError(f"`roles` must be a list of {', '.join(MESSAGE_ROLES)}; found {roles!r}")
    named = tuple(cast("Sequence[object]", roles))
    if not named or not set(named) <= set(MESSAGE_ROLES):
        raise UsageError(f"`roles` must be some of {', '.join(MESSAGE_ROLES)}; found {roles!r}")
    return Choice(format, Wanted(only, frozenset(map(str, named))))


def read_foreign(body: bytes, name: str, choice: Choice) -> tuple[Foreign, Read]:
    """The format of a file and what it holds; `name` is what a chat is called that has no name in its file."""
    told = _json(body)
    found = _detected(told) if choice.format == "auto" else cast("Foreign", choice.format)
    if found == "mem0":
        return found, read_mem0(_memories(told), choice.wanted)
    if isinstance(store := _mapping(told).get("store"), dict):
        return found, read_store(cast("dict[str, Any]", store), choice.wanted)
    if choice.wanted.only is not None:
        raise UsageError("`only` names a user of a mem0 export or a chat of a chat store; this file holds one chat")
    return found, read_chat(_messages(told), name, choice.wanted)


def _json(body: bytes) -> object:
    """The file's JSON, or its lines of JSON as a list; older chat stores are JSON inside a JSON text."""
    try:
        text = body.decode("utf-8-sig")
        try:
            told: object = json.loads(text)
        except ValueError:
            told = [json.loads(line) for line in text.splitlines() if line.strip()]
        return json.loads(told) if isinstance(told, str) else told
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the file is neither an archive of lorebank's nor JSON ({type(error).__name__})") from None


def _detected(told: object) -> Foreign:
    """The format that the file's form speaks of."""
    whole = _mapping(told)
    if isinstance(whole.get("store"), dict):
        return "llamaindex"
    if isinstance(whole.get("results"), list) or isinstance(whole.get("memories"), list):
        return "mem0"
    for each in _messages(told):
        for named, needed in _MARKS:
            if needed <= set(_mapping(each)):
                return named
        break
    raise UsageError(
        "the file is none that is known: an archive of lorebank's, messages of LangChain, a chat store of LlamaIndex, or an "
        f"export of mem0. If it is one of them, name its `format` ({', '.join(FORMATS[1:])})"
    )


_MARKS: tuple[tuple[Foreign, set[str]], ...] = (
    ("langchain", {"type", "data"}),
    ("llamaindex", {"role"}),
    ("mem0", {"memory"}),
)


def _mapping(told: object) -> dict[str, Any]:
    """A JSON object as it is, anything else as one that holds nothing."""
    return cast("dict[str, Any]", told) if isinstance(told, dict) else {}


def _messages(told: object) -> list[object]:
    found = _mapping(told).get("messages", told)
    if not isinstance(found, list):
        raise UsageError("the file holds no list of messages")
    return cast("list[object]", found)


def _memories(told: object) -> list[object]:
    whole = _mapping(told)
    told = whole.get("results", whole.get("memories", told))
    if not isinstance(told, list):
        raise UsageError("the file holds no list of memories: mem0 keeps them under `results`")
    return cast("list[object]", told)
