"""A fault server for each test and a client that talks to it."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from lorebank.testing import FaultServer

B = "/v1/default/banks/test"


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as started:
        yield started


@pytest.fixture
def client(server: FaultServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=5) as opened:
        yield opened
