"""What the tests of prefix share."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lorebank import Bank, Message, Session, UnavailableError, open_bank
from lorebank._session.registry import registry_of
from lorebank._session.shared import Clocks
from lorebank.seams import Event
from lorebank.testing import FaultServer

FACT = "Ana prefers aisle seats on long flights."


ASKED = "Which seats does Ana prefer on long flights?"


HELLO = [Message("user", "Hello there.")]


MODELS = "/mental-models"


@dataclass
class Clock:
    """Seconds that pass when the test says so."""

    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Rig:
    """Banks on a server or a file, with a clock of the test's own."""

    folder: Path
    server: FaultServer | None
    stack: ExitStack
    clock: Clock = field(default_factory=Clock)
    events: list[Event] = field(default_factory=list)

    @property
    def faults(self) -> FaultServer:
        assert self.server is not None
        return self.server

    def open(self, bank: str = "alice", **options: Any) -> Bank:
        given = {"recall": {"auto_recall": False}, "on_event": self.events.append, **options}
        if self.server is None:
            opened = open_bank(f"sqlite:///{self.folder / 'memory.db'}", bank=bank, **given)
        else:
            ledger = f"sqlite:///{self.folder / 'outbox.db'}"
            opened = open_bank(self.server.url, bank=bank, ledger=ledger, outbox={"batch_seconds": 0.02}, **given)
        registry_of(opened.connections, Clocks(ticks=self.clock))
        return self.stack.enter_context(opened)

    def tell(self, bank: Bank, *facts: str) -> None:
        bank.retain(list(facts))
        assert bank.flush(timeout=30, until="completed").left == 0

    def asked(self, method: str = "") -> int:
        """How many requests were about mental models."""
        return sum(MODELS in request.path and method in request.method for request in self.faults.requests)

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def made(bank: Bank, id: str = "seats", query: str = ASKED, name: str = "Seats") -> None:
    bank.mental_models.create(id, name=name, source_query=query)


def prefix(session: Session) -> str:
    return session.before_turn(HELLO).system_prefix


def read(session: Session) -> None:
    """Waits until what is read in the background is there."""
    running = session._prefix._models._running
    if running is not None:
        running.exception(timeout=30)


def block(text: str) -> str:
    """The mental models of a prefix."""
    start = text.find("<mental_models>\n")
    return text[start:] if start >= 0 else ""


NO_SEEDS = {"auto_seed": False}


class Spared:
    """Mental models whose reading fails at once while the server is spared, as an open breaker makes it."""

    def __init__(self, kept: Any) -> None:
        self.kept, self.down = kept, True

    def list(self, scope: Any) -> Any:
        if self.down:
            raise UnavailableError("the server is spared")
        return self.kept.list(scope)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kept, name)
