"""Fixtures of the tests of prefix."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lorebank.testing import FaultServer

from .rig import Rig


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Rig]:
    with FaultServer() as server, ExitStack() as stack:
        yield Rig(tmp_path, server, stack)
        server.start()
        server.heal()


@pytest.fixture(params=["mnemopi", "hindsight"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    with ExitStack() as stack:
        server = stack.enter_context(FaultServer()) if request.param == "hindsight" else None
        yield Rig(tmp_path, server, stack)


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)
