"""Putting instructions, mental models and memories into a model's copy of the messages; nothing stored ever changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from langchain_lorebank.messages import OURS, is_user
from lorebank import Injection
from lorebank.seams import ahead_of

M = TypeVar("M", bound=BaseMessage)


def with_prefix(system: SystemMessage | None, prefix: str) -> SystemMessage | None:
    """The system message with the prefix at its start; a new one where there is none."""
    if not prefix:
        return system
    return SystemMessage(prefix) if system is None else _ahead(system, prefix)


def placed(
    system: SystemMessage | None, messages: Sequence[BaseMessage], injection: Injection
) -> tuple[SystemMessage | None, list[BaseMessage]]:
    """System message and messages as the model is to see them."""
    prefix, memories = injection.system_prefix, injection.memories
    if memories and injection.position == "system":
        prefix, memories = "\n\n".join(filter(None, (prefix, memories))), ""
    system, copied = with_prefix(system, prefix), list(messages)
    newest = next((place for place in reversed(range(len(copied))) if is_user(copied[place])), None)
    if not memories or newest is None:
        return system, copied
    if injection.position == "before-user":
        copied.insert(newest, HumanMessage(memories, additional_kwargs={OURS: True}))
    else:
        copied[newest] = _ahead(copied[newest], memories)
    return system, copied


def injected(messages: Sequence[BaseMessage], injection: Injection) -> list[BaseMessage]:
    """A whole list of messages, its first system message included, as the model is to see it."""
    first = next((place for place, message in enumerate(messages) if isinstance(message, SystemMessage)), None)
    system = messages[first] if first is not None else None
    others = [message for place, message in enumerate(messages) if place != first]
    merged, rest = placed(system if isinstance(system, SystemMessage) else None, others, injection)
    return rest if merged is None else [merged, *rest]


def _ahead(message: M, text: str) -> M:
    """A copy of a message with a text ahead of its own."""
    content: Any = message.content
    if isinstance(content, str):
        return message.model_copy(update={"content": ahead_of(text, content)})
    return message.model_copy(update={"content": [{"type": "text", "text": text}, *content]})
