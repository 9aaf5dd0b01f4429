"""What the tests of lifecycle share."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lorebank import Bank, Message, Session, open_bank
from lorebank.seams import Event
from lorebank.testing import FaultServer

FACT = "Ana prefers aisle seats on long flights."


ASKED = "Which seats does Ana prefer on long flights?"


def user(text: str, **fields: Any) -> Message:
    return Message("user", text, **fields)


def answer(text: str, **fields: Any) -> Message:
    return Message("assistant", text, **fields)


def lines(text: str) -> list[str]:
    """The contents of JSON arrays that stand one behind the other."""
    decoder, place, found = json.JSONDecoder(), 0, list[str]()
    while place < len(text):
        array, place = decoder.raw_decode(text, place)
        found += [line["content"] for line in array]
        place += len(text[place:]) - len(text[place:].lstrip())
    return found


@dataclass
class Rig:
    """Banks on one place, and a look at what sessions have kept in it."""

    file: Path
    server: FaultServer | None
    stack: ExitStack
    events: list[Event] = field(default_factory=list)

    def open(self, **options: Any) -> Bank:
        given = {"bank": "alice", "on_event": self.events.append, "mental_models": {"enabled": False}, **options}
        if self.server is None:
            return self.stack.enter_context(open_bank(f"sqlite:///{self.file}", **given))
        outbox = {"batch_seconds": 0.02, **given.pop("outbox", {})}
        return self.stack.enter_context(open_bank(self.server.url, ledger=f"sqlite:///{self.file}", outbox=outbox, **given))

    def kept(self, bank: Bank) -> list[str]:
        """The texts that sessions have retained in a bank."""
        if self.server is None:
            return [memory.text for memory in reversed(bank.list(limit=10_000)) if memory.source == "transcript"]
        report = bank.flush(timeout=60, until="completed")
        assert (report.left, report.dead) == (0, 0), report.reason
        documents = self.server.bank(bank.scope.bank).documents
        return [line for name, text in documents.items() if not name.startswith("lorebank:item:") for line in lines(text)]


def turn(session: Session, number: int, history: list[Message]) -> None:
    history.append(user(f"Question number {number}."))
    session.before_turn(history)
    history.append(answer(f"Answer number {number}."))
    session.after_turn(history)
