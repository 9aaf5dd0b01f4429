"""What the tests of sessions share."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lorebank import Bank, Item, Message, Session, UnavailableError, open_bank
from lorebank._mnemopi.backend import MnemopiBackend
from lorebank.seams import ToolCall
from lorebank.testing import FaultServer

Caller = Callable[..., Any]


Opener = Callable[..., Bank]


Settled = Callable[[Bank], None]


Refused = Callable[..., Any]


Kept = Callable[[Bank], list[tuple[str, str]]]


AISLE = "I always want an aisle seat."


WHICH = "Which seat do I always want?"


FACT = "Ana prefers aisle seats on long flights."


ASKED = "Which seats does Ana prefer on long flights?"


def user(text: str, **fields: Any) -> Message:
    return Message("user", text, **fields)


def answer(text: str, **fields: Any) -> Message:
    return Message("assistant", text, **fields)


def looped(number: int) -> list[Message]:
    """A tool loop's messages, as the model sees them before its call number `number`."""
    steps = [
        [answer("", tool_calls=(ToolCall("search", {"page": n}),)), Message("tool", f"page {n} is empty", name="search")]
        for n in range(number)
    ]
    return [message for step in steps for message in step]


def said(text: str) -> list[dict[str, Any]]:
    """The lines of a document that is made of JSON arrays, one behind the other."""
    decoder, place, lines = json.JSONDecoder(), 0, list[dict[str, Any]]()
    while place < len(text):
        found, place = decoder.raw_decode(text, place)
        lines += found
        place += len(text[place:]) - len(text[place:].lstrip())
    return lines


def failing(near_store: tuple[Any, FaultServer | None], **options: Any) -> Bank:
    """A bank that cannot be asked; what is said is written down all the same."""
    store, server = near_store
    if server is not None:
        server.stop()
        return store.open("alice", connection={"close_timeout": 0}, **options)  # type: ignore[no-any-return]

    class Failing(MnemopiBackend):
        def recall(self, scope: Any, request: Any) -> Any:
            raise UnavailableError("busy")

    return open_bank(backend=Failing(store.url), bank="alice", **options)


TALK = [
    user("I fly to Porto on Monday."),
    answer("Shall I book?"),
    user("Yes, in the morning."),
    answer("With which airline?"),
    user("The cheapest."),
    answer("And the seat?"),
    user("Which do I prefer?"),
]


def asked(session: Session) -> str:
    trace = session.last_recall()
    assert trace is not None
    return trace.query


SECRET = "hunter2-and-more"  # noqa: S105 - made up


def gate(item: Item) -> Item | None:
    if "refuse" in item.content:
        return None
    if "raise" in item.content:
        raise RuntimeError("no")
    return replace(item, content=item.content.replace("amend", "AMENDED"), tags=["seen"])


BAD: dict[str, tuple[Any, dict[str, Any]]] = {
    "text": ("hello", {}),
    "nothing": (None, {}),
    "one message": (Message("user", "hello"), {}),
    "one mapping": ({"role": "user", "content": "hello"}, {}),
    "texts": (["hello"], {}),
    "pairs": ([("user", "hello")], {}),
    "no role": ([{"content": "hello"}], {}),
    "no text": ([{"role": "user"}], {}),
    "unknown role": ([{"role": "human", "content": "hello"}], {}),
    "unknown key": ([{"role": "user", "content": "hello", "mood": "good"}], {}),
    "content parts": ([{"role": "user", "content": [{"type": "text", "text": "hello"}]}], {}),
    "a number as id": ([{"role": "user", "content": "hello", "id": 5}], {}),
    "a text as time": ([{"role": "user", "content": "hello", "time": "2026-03-04T12:00:00Z"}], {}),
    "a number as name": ([{"role": "user", "content": "hello", "name": 5}], {}),
    "a text as images": ([{"role": "user", "content": "hello", "images": "two"}], {}),
    "mappings as tool calls": ([{"role": "assistant", "content": "hello", "tool_calls": [{"name": "search"}]}], {}),
    "unknown history": ([{"role": "user", "content": "hello"}], {"history": "some"}),
    "delta without a run": ([{"role": "user", "content": "hello"}], {"history": "delta"}),
    "a blank run": ([{"role": "user", "content": "hello"}], {"run_id": " "}),
    "a number as run": ([{"role": "user", "content": "hello"}], {"run_id": 5}),
}
