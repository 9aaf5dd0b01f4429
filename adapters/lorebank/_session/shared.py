"""What the sessions of one bank share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from lorebank._session.guard import Guard
from lorebank._session.prefix import ModelCache


def _utc() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Clocks:
    """Where sessions take the time from: `ticks` are seconds that only go forward, `now` is the date."""

    ticks: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = _utc


@dataclass(frozen=True, slots=True)
class Shared:
    """What the sessions of one bank share."""

    guard: Guard
    models: ModelCache
    clocks: Clocks
