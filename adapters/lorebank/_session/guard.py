"""Spares the turns of a dead memory: who does not answer in time is waited for once, then asked in the background.

One WARNING and one event tell of an outage, and one each of its end.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from lorebank._domain.events import Event, OutageEnded, OutageStarted

logger = logging.getLogger("lorebank")
FIRST_REST, LONGEST_REST = 1.0, 60.0
"""Seconds between two attempts in the background."""


class Guard:
    """How long a turn may wait for a recall. `clock` gives seconds that only go forward."""

    def __init__(self, tell: Callable[[Event], None], clock: Callable[[], float]) -> None:
        self._tell, self._clock = tell, clock
        self._lock = threading.Lock()
        self._failures = 0
        self._slow = False
        self._since = self._until = 0.0

    def patience(self, whole: float) -> float | None:
        """Seconds to wait for a recall: `whole` while memory answers, none for an attempt in the background; `None` where it is
        not to be asked at all.
        """
        with self._lock:
            if not self._slow:
                return whole
            now = self._clock()
            if now < self._until:
                return None
            self._until = now + min(FIRST_REST * (1 << min(self._failures, 10)), LONGEST_REST)
            return 0.0

    def failed(self, bank: str, reason: str, *, slow: bool) -> None:
        """Memory could not be asked; `slow` says that a turn has waited in vain."""
        with self._lock:
            began = not self._failures
            self._failures += 1
            if began:
                self._since = self._clock()
            if slow and not self._slow:
                self._slow, self._until = True, self._clock() + FIRST_REST
        if began:
            logger.warning("memory of bank %s can't be recalled (%s): turns go on without it", bank, reason)
            self._tell(OutageStarted(bank, reason, "recall"))

    def answered(self, bank: str) -> None:
        """Memory answered, whatever it knows."""
        if not self._failures:
            return
        with self._lock:
            failures, seconds = self._failures, self._clock() - self._since
            self._failures, self._slow = 0, False
        if failures:
            logger.warning("memory of bank %s answers again after %.0f s", bank, seconds)
            self._tell(OutageEnded(bank, seconds, failures, "recall"))
