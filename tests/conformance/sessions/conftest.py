"""Fixtures of the tests of sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from lorebank import Bank
from lorebank.seams import Event, Recalled
from lorebank.testing import FaultServer

from .rig import Caller, Kept, Opener, said


@pytest.fixture
def events() -> list[Event]:
    """What the banks of `near_opened` have told."""
    return []


@pytest.fixture
def near_opened(near_store: tuple[Any, FaultServer | None], events: list[Event]) -> Iterator[Opener]:
    """Opens banks on the file, or on the small server in this process, and closes them with the test."""
    with ExitStack() as stack:

        def opening(bank: str = "alice", **options: Any) -> Bank:
            opened: Bank = near_store[0].open(bank, **{"on_event": events.append, **options})
            return stack.enter_context(opened)

        yield opening


@pytest.fixture
def kept(near_store: tuple[Any, FaultServer | None], call: Caller) -> Kept:
    """`kept(bank)`: role and text of what sessions have retained in a bank, in the order of its arrival."""
    server = near_store[1]

    def look(bank: Bank) -> list[tuple[str, str]]:
        if server is None:
            listed = [memory for memory in call(bank, "list", limit=1000) if memory.source == "transcript"]
            return [(str(memory.metadata["role"]), memory.text) for memory in reversed(listed)]
        report = call(bank, "flush", timeout=30, until="completed")
        assert (report.left, report.dead) == (0, 0), report.reason
        documents = server.bank(bank.scope.bank).documents
        texts = [text for name, text in documents.items() if not name.startswith("lorebank:item:")]
        return [(line["role"], line["content"]) for text in texts for line in said(text)]

    return look


@pytest.fixture
def recalls(near_store: tuple[Any, FaultServer | None], events: list[Event]) -> Callable[[], int]:
    """How often a bank was asked for memories: requests on a server, events elsewhere."""
    server = near_store[1]

    def count() -> int:
        if server is None:
            return sum(isinstance(event, Recalled) for event in events)
        return sum(request.path.endswith("/memories/recall") for request in server.requests)

    return count
