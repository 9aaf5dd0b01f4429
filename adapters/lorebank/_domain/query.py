"""Composing the query of an automatic recall, and cutting it to its limit.

The newest user text comes first and whole, since a search engine may cut the end of a long query without a word; turns
before it follow, newest first, as far as they fit.
"""

from __future__ import annotations

from collections.abc import Sequence

from lorebank._domain import blocks
from lorebank._domain.message import Message, last_turns, substantive

CONTEXT_ROLES = ("user", "assistant")


def compose_query(messages: Sequence[Message], *, context_turns: int, max_chars: int) -> str:
    """The query for the newest user message; empty when it says nothing.

    `context_turns` counts user turns, the newest included (1: no context). `max_chars` bounds the result, in
    characters; the newest text alone is cut only when it is longer by itself.
    """
    if max_chars < 1:
        raise ValueError(f"`max_chars` must be at least 1; found {max_chars}")
    turns = last_turns(messages, context_turns)
    users = [message for message in turns or last_turns(messages, 1) if message.role == "user" and not message.injected]
    if not users:
        return ""
    newest = blocks.strip(users[-1].text).strip()
    if not substantive(newest):
        return ""
    parts, left = [newest[:max_chars]], max_chars - len(newest)
    for text in _context(turns, newest):
        left -= len(text) + 1
        if left < 0:
            break
        parts.append(text)
    return "\n".join(parts)


def _context(turns: Sequence[Message], newest: str) -> list[str]:
    """What was said before the newest user message, newest first, our own blocks stripped, repeats left out."""
    before = [m for m in turns if m.role in CONTEXT_ROLES and not m.injected]
    cut = max((i for i, m in enumerate(before) if m.role == "user"), default=0)
    texts = [blocks.strip(message.text).strip() for message in before[:cut]]
    return [text for text in dict.fromkeys(reversed(texts)) if substantive(text) and text != newest]
