"""Fifty random histories of conversations on the real server: the laws of `tests/laws/test_session_laws.py`."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hindsight_server import Hindsight
from tests.laws.session_machine import World, drive, random_steps
from tests.laws.session_model import KINDS, Line, Talk
from tests.laws.session_places import HindsightPlace

from lorebank.testing import FaultServer

PORTIONS = 5
EACH = max(int(os.environ.get("LOREBANK_SESSION_EXAMPLES", "40")) // 2 // PORTIONS, 1)


class RealPlace(HindsightPlace):
    """A real server behind a proxy that can be down."""

    def __init__(self, proxy: FaultServer, real: str, ledger: Path) -> None:
        super().__init__(proxy, ledger)
        self._real = real

    def documents(self, bank: str) -> Mapping[str, str]:
        listed = self._get(bank, "documents", limit=1000)
        names = [] if listed is None else [each["id"] for each in listed["items"]]
        assert len(names) < 1000
        return {name: str(self._get(bank, "documents", quote(name, safe=""))["original_text"]) for name in names}

    def _get(self, bank: str, *path: str, **query: int) -> Any:
        answer = httpx.get(f"{self._real}/v1/default/banks/{'/'.join((bank, *path))}", params=query or None, timeout=60)
        return None if answer.status_code == 404 else answer.raise_for_status().json()


@pytest.mark.parametrize("portion", range(PORTIONS))
def test_histories_are_kept_on_the_real_server(hindsight: Hindsight, bank_id: str, tmp_path: Path, portion: int) -> None:
    """Nothing said is lost or doubled, nothing opted out is kept, in order, while the server comes and goes."""
    with FaultServer(upstream=hindsight.url) as proxy:
        place = RealPlace(proxy, hindsight.url, tmp_path / "ledger.db")
        worlds: list[World] = []
        try:
            for number in range(EACH):
                chance = random.Random(portion * EACH + number)
                talks = [
                    Talk(bank_id, f"{number}-{n}", chance.choice(KINDS), chance.random() < 0.5, chance.random() < 0.5)
                    for n in range(2)
                ]
                worlds.append(World(place, talks))
                drive(worlds[-1], random_steps(chance, 24))
                worlds[-1].outage(down=False)
            found = place.read([bank_id])
            _check(worlds, found)
        finally:
            for world in worlds:
                world.leave()


def _check(worlds: Sequence[World], found: Mapping[tuple[str, str], list[Line]]) -> None:
    talks = [talk for world in worlds for talk in world.talks]
    assert set(found) <= {(talk.bank, talk.session) for talk in talks}
    for talk in talks:
        assert talk.problem(found.get((talk.bank, talk.session), [])) is None, (talk.kind, talk.session)
