"""A sender on a real ledger before a scripted server, and the means to watch it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import select, update

from lorebank._delivery.sender import Sender
from lorebank._domain.events import Event
from lorebank._domain.operations import Operation, OperationState
from lorebank._domain.settings import OutboxSettings
from lorebank._ledger import inspection
from lorebank._ledger.ledger import Ledger
from lorebank._ledger.schema import batches, routes
from lorebank._ledger.values import Bounds, Draft, Queued, Route
from lorebank.errors import LorebankError, UnavailableError

T = TypeVar("T")
ROUTE = Route("http://server", "key")
BOUNDS = Bounds(rows=10_000, bytes=10_000_000, age=1e9)
Answer = LorebankError | None


def down() -> LorebankError:
    return UnavailableError("no answer")


def broken() -> LorebankError:
    return UnavailableError("500", status=500)


class Server:
    """A server that answers as scripted: `answer` decides on each submit, `state` on each operation."""

    def __init__(self) -> None:
        self.answer: Callable[[list[str]], Answer] = lambda texts: None
        self.state: Callable[[list[str]], OperationState] = lambda texts: "completed"
        self.held: Callable[[str], bool] = lambda text: False
        self.probes, self.retries = 0, list[str]()
        self.submitted: list[tuple[float, str, list[str]]] = []
        self.asked: list[float] = []
        self.taken: dict[str, list[str]] = {}

    def prepare(self, bank: str) -> None:
        """Every bank is there."""

    def submit(self, bank: str, body: bytes) -> str:
        sent = json.loads(body)
        texts = [item["content"] for item in sent["items"]]
        self.submitted.append((time.monotonic(), sent["operation_id"], texts))
        if (error := self.answer(texts)) is not None:
            raise error
        self.taken[sent["operation_id"]] = texts
        return str(sent["operation_id"])

    def progress(self, bank: str, operation_id: str) -> Operation:
        self.asked.append(time.monotonic())
        return Operation(operation_id, self.state(self.taken[operation_id]), items=1, tokens=5)

    def retry(self, bank: str, operation_id: str) -> None:
        self.retries.append(operation_id)

    def holds(self, bank: str, document_id: str, text: str) -> bool:
        return self.held(text)

    def revive(self, bank: str, documents: Sequence[str], before: datetime) -> None:
        """Nothing was invalidated."""

    def probe(self) -> None:
        self.probes += 1

    def close(self) -> None:
        """Nothing is open."""

    @property
    def tries(self) -> list[list[str]]:
        return [texts for *_, texts in self.submitted]


class Counting:
    """A ledger that counts how often it is asked."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self.uses = ledger, 0

    def read(self, body: Callable[[Any], T]) -> T:
        self.uses += 1
        return self._ledger.read(body)

    def write(self, body: Callable[[Any], T]) -> T:
        self.uses += 1
        return self._ledger.write(body)

    def close(self) -> None:
        self._ledger.close()


class Rig:
    """A ledger, a server, and a sender between them."""

    def __init__(self, url: str, **settings: Any) -> None:
        self.ledger, self.server, self.events = Ledger(url, moved=print, synchronous="off"), Server(), list[Event]()
        self.counting = Counting(self.ledger)
        given = OutboxSettings(**{"batch_seconds": 0.05, "max_backoff": 0.1, **settings})
        self.sender = Sender(self.counting, self.server, ROUTE, given, deadline=1.0, tell=self.events.append)  # type: ignore[arg-type]

    def put(self, *texts: str, document: str | None = None, append: bool = False, route: Route = ROUTE) -> list[Queued]:
        drafts = []
        for text in texts:
            name = document or f"lorebank:item:{text}"
            body = {"content": text, "document_id": name, "update_mode": "append" if append else "replace"}
            drafts.append(
                Draft("alice", name, json.dumps(body), text, document is not None, "f" if append else None, None, not append)
            )
        queued = self.ledger.enqueue(route, drafts, BOUNDS, time.time())
        self.sender.nudge(len(queued))
        return queued

    def rows(self) -> dict[str, int]:
        return dict(self.ledger.read(lambda c: inspection.status(c, ROUTE, None)).rows)

    def route(self) -> Any:
        return self.ledger.read(lambda c: c.execute(select(routes)).one_or_none())

    def until(self, true: Callable[[], object], seconds: float = 10.0) -> None:
        """Waits until something is so; what is due later is made due now by `later`, not by waiting."""
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, (self.rows(), self.server.tries, self.events)
            self.sender.wait(0.02)

    def later(self) -> None:
        """As if the waits between two tries of an operation were over."""
        self.ledger.write(lambda c: c.execute(update(batches).where(batches.c.due > time.time()).values(due=0.0)))
        self.sender.wake()

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


Rigging = Callable[..., Rig]
