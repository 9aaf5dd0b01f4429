"""Putting instructions, mental models and memories into a model's copy of the messages; nothing stored ever changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock

from llamaindex_lorebank.messages import SYSTEM, newest_user
from lorebank import Injection
from lorebank.seams import ahead_of

Place = Literal["user", "system", "apart"]
"""Where the prefix goes: ahead of the memories in the user's message, into a system message, or where who asks puts it."""


class Injected(ChatMessage):
    """A message that nobody said: it holds a prefix or memories."""


class InjectedText(TextBlock):
    """A text that nobody said, in a message that somebody did."""


def injected(text: str, role: MessageRole = MessageRole.USER) -> Injected:
    """A message of ours."""
    return Injected(role=role, blocks=[InjectedText(text=text)])


def is_ours(message: ChatMessage) -> bool:
    """Whether nobody said it."""
    return isinstance(message, Injected)


def parted(injection: Injection, place: Place) -> tuple[str, str]:
    """What goes into the system message, and what goes ahead of the user's words."""
    prefix, memories = injection.system_prefix, injection.memories
    if place == "user":
        return "", ahead_of(prefix, memories)
    if injection.position == "system":
        return ahead_of(prefix, memories), ""
    return prefix, memories


def with_system(messages: Sequence[ChatMessage], prefix: str) -> list[ChatMessage]:
    """The messages with one system message, first, that begins with the prefix and holds what all of them say."""
    said = [message for message in messages if message.role in SYSTEM]
    others = [message for message in messages if message.role not in SYSTEM]
    if not said:
        return [injected(prefix, MessageRole.SYSTEM), *others] if prefix else others
    blocks = [block for message in said for block in message.blocks]
    ahead = [InjectedText(text=f"{prefix}\n")] if prefix else []
    return [said[0].model_copy(update={"blocks": [*ahead, *blocks]}), *others]


def remembering(messages: Sequence[ChatMessage], memories: str, *, own: bool = False) -> list[ChatMessage]:
    """The messages with memories ahead of the text of the newest user message; `own`: in a message of their own before it. The
    message that is changed and the last one, which hosts edit, are copies.
    """
    copied, newest = list(messages), newest_user(messages)
    for place, message in enumerate(copied):
        if place in (newest, len(copied) - 1):
            copied[place] = _copy(message)
    if not memories or newest is None:
        return copied
    if own:
        return [*copied[:newest], injected(memories), *copied[newest:]]
    # a text of its own, since hosts edit the last one; with the blank line that `content` does not put between texts
    copied[newest].blocks = [InjectedText(text=f"{memories}\n"), *copied[newest].blocks]
    return copied


def said_only(messages: Iterable[ChatMessage]) -> list[ChatMessage]:
    """The messages without anything of ours: what a host hands back may be the copies that a model saw."""
    return [_said(message) for message in messages if not is_ours(message)]


def _copy(message: ChatMessage) -> ChatMessage:
    return message.model_copy(update={"blocks": [block.model_copy() for block in message.blocks]})


def _said(message: ChatMessage) -> ChatMessage:
    said = [block for block in message.blocks if not isinstance(block, InjectedText)]
    return message if len(said) == len(message.blocks) else message.model_copy(update={"blocks": said})
