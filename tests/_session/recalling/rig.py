"""What the tests of recalling share."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lorebank import Bank, Message, Session, open_bank
from lorebank._session.registry import registry_of
from lorebank._session.shared import Clocks
from lorebank.seams import Event, OutageEnded, OutageStarted
from lorebank.testing import FaultServer

RECALL = "/memories/recall$"


FACT = "Ana prefers aisle seats on long flights."


ASKED = "Which seats does Ana prefer on long flights?"


HARP = "Ben plays the harp in the evening."


def user(text: str, **fields: Any) -> Message:
    return Message("user", text, **fields)


def answer(text: str, **fields: Any) -> Message:
    return Message("assistant", text, **fields)


@dataclass
class Clock:
    """Seconds that pass when the test says so."""

    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Rig:
    """A server that fails on request, and banks on it with a clock of the test's own."""

    server: FaultServer
    folder: Path
    stack: ExitStack
    clock: Clock = field(default_factory=Clock)
    events: list[Event] = field(default_factory=list)

    def open(self, bank: str = "alice", **options: Any) -> Bank:
        given = {"mental_models": {"enabled": False}, "connection": {"close_timeout": 5}, **options}
        opened = open_bank(
            self.server.url,
            bank=bank,
            ledger=f"sqlite:///{self.folder / 'outbox.db'}",
            outbox={"batch_seconds": 0.02},
            on_event=self.events.append,
            **given,
        )
        registry_of(opened.connections, Clocks(ticks=self.clock))
        return self.stack.enter_context(opened)

    def tell(self, bank: Bank, *facts: str) -> None:
        bank.retain(list(facts))
        assert bank.flush(timeout=30, until="completed").left == 0

    def outages(self) -> list[str]:
        """The outages of recall, as they were told."""
        kinds = (OutageStarted, OutageEnded)
        return [type(event).__name__ for event in self.events if isinstance(event, kinds) and event.part == "recall"]

    def kept(self, bank: str = "alice") -> list[str]:
        documents = self.server.bank(bank).documents
        return [line for name, text in documents.items() if not name.startswith("lorebank:item:") for line in lines(text)]

    def recalls(self) -> int:
        return sum(request.path.endswith("/memories/recall") for request in self.server.requests)


def lines(text: str) -> list[str]:
    """The contents of JSON arrays that stand one behind the other."""
    decoder, place, found = json.JSONDecoder(), 0, list[str]()
    while place < len(text):
        array, place = decoder.raw_decode(text, place)
        found += [line["content"] for line in array]
        place += len(text[place:]) - len(text[place:].lstrip())
    return found


def seconds(body: Callable[[], Any]) -> float:
    started = time.perf_counter()
    body()
    return time.perf_counter() - started


def awaited(session: Session) -> None:
    """Waits until the recall of the turn has its answer."""
    running = session._turn.running
    assert running is not None
    running.exception(timeout=30)


def chat(rig: Rig, session: Session, turns: int, *, each: float = 30.0) -> tuple[list[str], list[float]]:
    """So many turns, one every half minute; what was said, and the seconds that each cost."""
    history, costs = list[Message](), list[float]()
    for number in range(turns):
        history.append(user(f"Question number {number} of the hour?"))
        costs.append(seconds(lambda: session.before_turn(history)))
        history.append(answer(f"Answer number {number} of the hour."))
        costs[-1] += seconds(lambda: session.after_turn(history))
        rig.clock.now += each
    return [message.text for message in history], costs


def traces(rig: Rig) -> list[str]:
    with closing(sqlite3.connect(rig.folder / "outbox.db")) as connection:
        return [body for (body,) in connection.execute("SELECT body FROM traces ORDER BY session, number")]


def turn(session: Session, history: list[Message], text: str) -> None:
    history.append(user(text))
    session.before_turn(history)
    history.append(answer("I see."))
    session.after_turn(history)


def query(session: Session) -> str | None:
    trace = session.last_recall()
    return None if trace is None else trace.query
