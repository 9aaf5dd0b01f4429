"""Senders for the tests, each with a ledger of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sender_rig import Rig, Rigging


@pytest.fixture
def rigging(url: str) -> Iterator[Rigging]:
    made: list[Rig] = []

    def one(**settings: Any) -> Rig:
        made.append(Rig(url, **settings))
        return made[-1]

    yield one
    for each in made:
        each.sender.stop(5.0)
        each.ledger.close()


@pytest.fixture
def rig(rigging: Rigging) -> Rig:
    return rigging()
