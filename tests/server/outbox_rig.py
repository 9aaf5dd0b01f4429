"""A bank whose server misbehaves on request, and what the server really holds, asked behind the faults' back."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from lorebank import Bank, open_bank
from lorebank._domain.events import DeadLettered, Event, OutageEnded, OutageStarted
from lorebank.testing import FaultServer, Request

RETAIN = "/memories$"
QUICK = {"batch_seconds": 0.02, "max_backoff": 0.3}


class Rig:
    """Banks behind `proxy`, with one ledger; `real` is the server itself."""

    def __init__(self, proxy: FaultServer, real: str, bank: str, folder: Path, *, key: str | None = None) -> None:
        self.proxy, self.real, self.name, self.key = proxy, real, bank, key
        self.file = folder / "outbox.db"
        self.events: list[Event] = []
        self._opened: list[Bank] = []

    @property
    def ledger(self) -> str:
        return f"sqlite:///{self.file}"

    def open(self, *, outbox: dict[str, Any] | None = None, **options: Any) -> Bank:
        """The bank, behind the faults; its sender is quick."""
        given = {"ledger": self.ledger, "on_event": self.events.append, "api_key": self.key, **options}
        bank = open_bank(self.proxy.url, bank=self.name, outbox={**QUICK, **(outbox or {})}, **given)
        self._opened.append(bank)
        return bank

    def close(self) -> None:
        for bank in self._opened:
            bank.close()

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def told(self) -> tuple[int, int, int]:
        """How many outages were told to start, how many to end, how many rows to be dead."""
        dead = [row for event in self.of(DeadLettered) for row in event.rows]
        return len(self.of(OutageStarted)), len(self.of(OutageEnded)), len(dead)

    @property
    def retains(self) -> list[Request]:
        """The retains that were sent, oldest first."""
        return [each for each in self.proxy.requests if each.method == "POST" and each.path.endswith("/memories")]

    def documents(self) -> dict[str, str]:
        """The text of each document that the server holds."""
        found = self._get("documents", limit=1000)
        names = [] if found is None else [each["id"] for each in found["items"]]
        texts = {name: self._get("documents", quote(name, safe="")) for name in names}
        return {name: text["original_text"] for name, text in texts.items() if text is not None}

    def texts(self) -> list[str]:
        """The texts of all documents, in order of their words; a text that is there twice is in it twice."""
        return sorted(self.documents().values())

    def facts(self) -> list[str]:
        """The facts that the server holds, each as often as it holds it."""
        found = self._get("memories", "list", limit=1000)
        items = [] if found is None else found["items"]
        return sorted(each["text"] for each in items if each["fact_type"] != "observation")

    def children(self, operation: str) -> list[str]:
        """The operations that the server made of a batch."""
        found = self._get("operations", operation)
        return [] if found is None else [each["operation_id"] for each in found.get("child_operations") or []]

    def _get(self, *path: str, **query: object) -> Any:
        headers = {} if self.key is None else {"Authorization": f"Bearer {self.key}"}
        url = f"{self.real}/v1/default/banks/{'/'.join((self.name, *path))}"
        answer = httpx.get(url, params=query or None, headers=headers, timeout=60)  # type: ignore[arg-type]
        return None if answer.status_code == 404 else answer.raise_for_status().json()

    def later(self) -> None:
        """As if the waits between two tries of an operation were over."""
        self._changed("due = 0 WHERE due > ?", time.time() + 0.5)

    def claimed(self, owner: str | None, lease: float) -> None:
        """As if another sender had claimed every batch, or given it back."""
        self._changed("owner = ?, lease = ?", owner, lease)

    def _changed(self, what: str, *values: object) -> None:
        with closing(sqlite3.connect(self.file, timeout=10)) as connection, connection:
            connection.execute(f"UPDATE batches SET {what}", values)  # noqa: S608 - our own words


def until(true: Callable[[], object], seconds: float = 20.0, *, every: float = 0.03) -> None:
    """Waits until something is so, with a bound."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come to be so in time"
        time.sleep(every)


def settled(bank: Bank, rig: Rig, seconds: float = 40.0) -> None:
    """Waits until each row is completed or dead; operations that fail are tried again without their waits."""

    def done() -> bool:
        if bank.flush(timeout=0.3, until="completed").done:
            return True
        rig.later()
        return False

    until(done, seconds)
