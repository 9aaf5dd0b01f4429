"""The engines that the tests of LangChain's memory run on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from rigs import ENGINES, Rig, place, rig_on

__all__ = ["place"]


@pytest.fixture(params=ENGINES)
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    """Every engine."""
    with rig_on(request.param, request, Rig) as made:
        yield made
