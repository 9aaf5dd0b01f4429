"""LangChain messages in lorebank's neutral shape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langchain_lorebank.names import OUR_TOOLS
from lorebank.seams import Message, ToolCall

INJECTED = "lc_source"
"""Human messages that the host wrote itself (summaries, notices) carry this key."""
OURS = "lorebank"
"""Messages that hold memories carry this key."""


def is_user(message: BaseMessage) -> bool:
    """Whether a person said it."""
    return isinstance(message, HumanMessage) and not {INJECTED, OURS}.intersection(message.additional_kwargs)


def to_message(message: BaseMessage) -> Message | None:
    """The neutral message; `None` for kinds that are no part of a conversation."""
    text = str(message.text)
    if isinstance(message, HumanMessage):
        return Message("user", text, id=message.id, name=message.name, images=_images(message), injected=not is_user(message))
    if isinstance(message, AIMessage):
        calls = tuple(ToolCall(_tool(call["name"]), call["args"]) for call in message.tool_calls)
        return Message("assistant", text, id=message.id, name=message.name, tool_calls=calls)
    if isinstance(message, ToolMessage):
        return Message("tool", text, id=message.id, name=_tool(message.name), failed=message.status == "error")
    return Message("system", text, id=message.id) if message.type == "system" else None


def to_messages(messages: Iterable[BaseMessage]) -> list[Message]:
    """The neutral messages of a conversation, in order."""
    return [neutral for message in messages if (neutral := to_message(message)) is not None]


def _images(message: HumanMessage) -> int:
    parts: list[Any] = message.content if isinstance(message.content, list) else []
    return sum(isinstance(part, Mapping) and "image" in str(part.get("type", "")) for part in parts)


def _tool(name: str | None) -> Any:
    """A tool's name; a memory tool's own, whatever it is offered as."""
    return OUR_TOOLS.get(name, name) if name is not None else None
