"""What the tests of documents share."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lorebank import Bank, Message, Session, open_bank
from lorebank._session.registry import registry_of
from lorebank._session.shared import Clocks
from lorebank.testing import FaultServer

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


def user(text: str, **fields: Any) -> Message:
    return Message("user", text, **fields)


def answer(text: str, **fields: Any) -> Message:
    return Message("assistant", text, **fields)


@dataclass
class Rig:
    """Banks on a small server with a calendar of the test's own; what the server was sent, and what it holds."""

    server: FaultServer
    folder: Path
    stack: ExitStack
    now: list[datetime] = field(default_factory=lambda: [NOON])

    def open(self, bank: str = "alice", **options: Any) -> Bank:
        retain = {"every_n_turns": 1, **options.pop("retain", {})}
        given = {
            "mental_models": {"enabled": False},
            "recall": {"auto_recall": False},
            "connection": {"close_timeout": 10},
            **options,
        }
        opened = open_bank(
            self.server.url,
            bank=bank,
            ledger=f"sqlite:///{self.folder / 'outbox.db'}",
            outbox={"batch_seconds": 0.01},
            retain=retain,
            **given,
        )
        registry_of(opened.connections, Clocks(now=lambda: self.now[0]))
        return self.stack.enter_context(opened)

    def session(self, name: str = "s", **options: Any) -> Session:
        return self.open(**options).session(name)

    def settle(self, session: Session) -> None:
        """Everything that was let go, or is held, has arrived."""
        session.retain_now()
        backend = session._home.backend
        report = backend.flush(timeout=60, until="completed")
        assert (report.left, report.dead) == (0, 0), report.reason

    def documents(self, bank: str = "alice") -> dict[str, list[dict[str, Any]]]:
        """The lines of each JSON document, in their order."""
        return {name: lines(text) for name, text in self.server.bank(bank).documents.items()}

    def texts(self, bank: str = "alice") -> dict[str, list[str]]:
        return {name: [line["content"] for line in found] for name, found in self.documents(bank).items()}

    def sent(self) -> list[dict[str, Any]]:
        """The items of all retains that the server was sent, in their order."""
        requests = [
            request for request in self.server.requests if request.method == "POST" and request.path.endswith("/memories")
        ]
        return [item for request in requests for item in request.json()["items"]]

    def states(self) -> Counter[str]:
        with closing(sqlite3.connect(self.folder / "outbox.db")) as connection:
            return Counter(dict(connection.execute("SELECT state, count(*) FROM outbox GROUP BY state").fetchall()))

    def sql(self, statement: str, *values: Any) -> None:
        with closing(sqlite3.connect(self.folder / "outbox.db")) as connection, connection:
            connection.execute(statement, values)


def lines(text: str) -> list[dict[str, Any]]:
    """The lines of JSON arrays that stand one behind the other."""
    decoder, place, found = json.JSONDecoder(), 0, list[dict[str, Any]]()
    while place < len(text):
        array, place = decoder.raw_decode(text, place)
        found += array
        place += len(text[place:]) - len(text[place:].lstrip())
    return found


def talk(session: Session, turns: int, *, start: int = 0, size: int = 0, ids: bool = False) -> list[Message]:
    """So many turns with a full history; each text is its own."""
    history = list[Message]()
    for number in range(start, start + turns):
        for make, who in ((user, "Question"), (answer, "Answer")):
            text = f"{who} number {number}." + " more" * (size // 5)
            history.append(make(text, id=f"{who}{number}" if ids else None))
            if make is user:
                session.before_turn(history)
        session.after_turn(history)
    return history


def said(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


def until(rig: Rig, bank: Bank, state: str = "held") -> None:
    """Waits until the sender has let go what is held; it is not asked to."""
    sender = bank.connections.backend.sender  # type: ignore[attr-defined]
    for _ in range(2_000):
        if rig.states()[state] == 0:
            return
        sender.wait(0.05)
    raise AssertionError(rig.states())
