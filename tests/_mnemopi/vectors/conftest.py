"""Banks with an embedder whose vectors a test can foresee."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from lorebank import Bank, open_bank
from lorebank.seams import Event

Opened = Callable[..., Bank]


class Told:
    """What a bank's listener heard; a test can wait for an event."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._changed = threading.Condition()

    def __call__(self, event: Event) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def wait_for(self, kind: type[Event]) -> Any:
        """The first event of a kind."""
        with self._changed:
            assert self._changed.wait_for(lambda: any(isinstance(each, kind) for each in self.events), 10)
            return next(each for each in self.events if isinstance(each, kind))


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def opened(url: str, told: Told) -> Iterator[Opened]:
    """Opens the bank `alice` with an embedder."""
    with ExitStack() as stack:

        def build(embedder: Any, bank: str = "alice", **options: Any) -> Bank:
            return stack.enter_context(open_bank(url, bank=bank, embedder=embedder, on_event=told, **options))

        yield build
