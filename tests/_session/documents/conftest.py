"""Fixtures of the tests of documents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lorebank.testing import FaultServer

from .rig import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with FaultServer() as server, ExitStack() as stack:
        yield Rig(server, tmp_path, stack)
        server.heal()
