"""What these tests share: a backend on the real server, and how a test writes there without the outbox."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

import pytest
from hindsight_server import Hindsight

from lorebank._domain.item import Item
from lorebank._domain.scope import Scope
from lorebank._domain.settings import ConnectionSettings, RetainSettings
from lorebank._hindsight.backend import HindsightBackend
from lorebank._hindsight.wire import envelope, item_body
from lorebank.testing import FaultServer

Write = Callable[[Scope, Sequence[Item]], None]


@pytest.fixture
def backend(hindsight: Hindsight) -> Iterator[HindsightBackend]:
    """A backend on the real server."""
    opened = HindsightBackend(hindsight.url, ConnectionSettings(), RetainSettings())
    yield opened
    opened.close()


@pytest.fixture
def write(backend: HindsightBackend) -> Write:
    """Retains items and waits until the server has stored them and concluded from them."""

    def written(scope: Scope, items: Sequence[Item]) -> None:
        now = datetime.now(UTC)
        bodies = [item_body(item, scope, RetainSettings(), now=now) for item in items]
        backend.prepare(scope.bank)
        operation = backend.submit(scope.bank, envelope(bodies, str(uuid.uuid4())))
        settle(backend, scope)
        assert backend.progress(scope.bank, operation).state == "completed"

    return written


def settle(backend: HindsightBackend, scope: Scope) -> None:
    """Waits until the server has nothing to do for the bank."""
    until = time.monotonic() + 60
    while any(each.running for each in backend.operations.list(scope, state=None, limit=100, offset=0)):
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.fixture
def faulty() -> Iterator[FaultServer]:
    """A small server that fails on request."""
    with FaultServer() as server:
        yield server
