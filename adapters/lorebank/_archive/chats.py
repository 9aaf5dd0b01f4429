"""Chats in files: LangChain's `messages_to_dict` (also what `FileChatMessageHistory` keeps), LlamaIndex's chat stores and lists
of chat messages. Pure.

Messages of a file have no times unless the host put one into them. Blocks other than text are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from pydantic import Field

from lorebank._archive.reading import Identities, Read, Tolerant, Wanted, clean, label, moment, shaped
from lorebank._domain.archive import IMPORTED_CHAT, Entry, item_of
from lorebank._domain.memory import storable
from lorebank._domain.message import substantive
from lorebank._domain.transcripts import ROLE, split_text
from lorebank.errors import UsageError

_TIMES = ("timestamp", "created_at", "time")
"""Under which keys hosts keep a message's time."""
_SPEAKING = {
    "human": "user", "humanmessagechunk": "user", "user": "user",
    "ai": "assistant", "aimessagechunk": "assistant", "assistant": "assistant", "chatbot": "assistant", "model": "assistant",
    "system": "system", "systemmessagechunk": "system", "developer": "system",
    "tool": "tool", "toolmessagechunk": "tool", "function": "tool", "functionmessagechunk": "tool",
}  # fmt: skip
_NAMED = ("chat", "chatmessagechunk")
"""LangChain's messages whose role is a text of the host's."""


@dataclass(frozen=True, slots=True)
class _Said:
    """One message of any of these files."""

    role: str
    speaker: str
    text: str
    id: str | None
    time: datetime | None


class _Inner(Tolerant):
    """What LangChain keeps of a message."""

    content: str | list[str | dict[str, Any]] = ""
    id: str | None = None
    name: str | None = None
    role: str | None = None
    additional_kwargs: dict[str, Any] = Field(default_factory=dict)
    response_metadata: dict[str, Any] = Field(default_factory=dict)


class _LangChain(Tolerant):
    type: str
    data: _Inner

    def said(self, place: str) -> _Said | None:
        kind = self.type.lower()
        if kind == "remove":
            return None
        data = self.data
        role = _SPEAKING.get((data.role or "").lower(), "user") if kind in _NAMED else _known(kind, place)
        named = data.name or (data.role if kind in _NAMED and (data.role or "").lower() not in _SPEAKING else None)
        time = _time(data.additional_kwargs) or _time(data.response_metadata)
        return _Said(role, label(named, role) or role, _text(data.content), data.id, time)


class _LlamaIndex(Tolerant):
    role: str = "user"
    content: str | list[str | dict[str, Any]] | None = None
    blocks: list[dict[str, Any]] = Field(default_factory=list)
    additional_kwargs: dict[str, Any] = Field(default_factory=dict)

    def said(self, place: str) -> _Said | None:
        role = _known(self.role.lower(), place)
        texts = [_text(self.blocks), _text(self.content or "")]
        extra = self.additional_kwargs
        name, own = extra.get("name"), extra.get("id")
        named = label(name if isinstance(name, str) and role != "tool" else None, role) or role
        text = next(filter(None, texts), "")
        return _Said(role, named, text, own if isinstance(own, str) else None, _time(extra))


def read_store(store: Mapping[str, Any], wanted: Wanted) -> Read:
    """The chats of a store, or one of them; each is a session."""
    if wanted.only is not None and wanted.only not in store:
        raise UsageError(f"the file holds no chat {wanted.only!r}; it holds {', '.join(map(repr, sorted(store)[:10])) or 'none'}")
    read = Read()
    for name, messages in store.items():
        if wanted.only in (None, name):
            if not isinstance(messages, list):
                raise UsageError(f"`store.{label(name)}` is no list of messages: nothing was imported")
            _fill(read, cast("list[object]", messages), name, wanted)
    return read


def read_chat(messages: list[object], session: str, wanted: Wanted) -> Read:
    """One chat, as a session of this name."""
    read = Read()
    _fill(read, messages, session, wanted)
    return read


def _fill(read: Read, messages: list[object], session: str, wanted: Wanted) -> None:
    """Adds the entries of one chat."""
    named = label(session, "chat") or "chat"
    identities = Identities()
    for number, message in enumerate(messages):
        place = f"{named}[{number}]"
        said = shaped(_shape(message), message, place).said(place)
        if said is None or said.role not in wanted.roles or not substantive(said.text):
            read.skipped += 1
        else:
            read.entries += _entries(said, named, identities)


def _shape(message: object) -> type[_LangChain | _LlamaIndex]:
    """Which library a message is of."""
    return _LangChain if isinstance(message, dict) and "data" in cast("dict[str, object]", message) else _LlamaIndex


def _entries(said: _Said, session: str, identities: Identities) -> Iterator[Entry]:
    """A message as a memory; a very long one as several."""
    for text in split_text(storable(said.text)):
        digest = identities.digest("chat", session, said.role, said.speaker, said.id or "", text)
        item = item_of(
            content=text,
            session=session,
            speaker=said.speaker,
            timestamp=said.time,
            metadata={ROLE: said.role} | ({"message_id": clean(said.id)} if said.id else {}),
            type=IMPORTED_CHAT.type,
        )
        yield Entry(digest.hex()[:16], item, said=said.time, digest=digest)


def _known(role: str, place: str) -> str:
    if role not in _SPEAKING:
        raise UsageError(f"`{place}` has the role {role[:40]!r}; known are {', '.join(sorted(_SPEAKING))}: nothing was imported")
    return _SPEAKING[role]


def _text(content: str | list[str | dict[str, Any]] | list[dict[str, Any]]) -> str:
    """The text of a message: whole, or its blocks of text."""
    if isinstance(content, str):
        return content.strip()
    texts = [each if isinstance(each, str) else _block(each) for each in content]
    return "\n".join(text for text in texts if text.strip()).strip()


def _block(block: Mapping[str, Any]) -> str:
    kind, text = block.get("block_type", block.get("type", "text")), block.get("text")
    return text if kind == "text" and isinstance(text, str) else ""


def _time(extra: Mapping[str, Any]) -> datetime | None:
    return next((found for key in _TIMES if (found := moment(extra.get(key))) is not None), None)
