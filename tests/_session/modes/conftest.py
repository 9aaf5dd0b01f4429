"""Fixtures of the tests of modes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lorebank import Bank
from lorebank.testing import FaultServer

from .rig import Rig


@pytest.fixture(params=["mnemopi", "hindsight"])
def rig(request: pytest.FixtureRequest, file: Path) -> Iterator[Rig]:
    with ExitStack() as stack:
        server = stack.enter_context(FaultServer()) if request.param == "hindsight" else None
        yield Rig(file, server, stack)


@pytest.fixture
def bank(rig: Rig) -> Bank:
    return rig.open()
