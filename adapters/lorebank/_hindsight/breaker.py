"""Spares a dead server: after some failures in a row calls fail at once, and one at a time tries whether it is back."""

from __future__ import annotations

import threading
from collections.abc import Callable

FAILURES = 3
FIRST_REST, LONGEST_REST = 1.0, 30.0
"""Seconds."""


class Breaker:
    """Closed while the server answers. `clock` gives seconds that only go forward."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._until = 0.0

    def wait(self) -> float:
        """Seconds for which calls fail at once; 0 lets this call through, and for a while no other."""
        with self._lock:
            if self._failures < FAILURES:
                return 0.0
            now = self._clock()
            if now < self._until:
                return self._until - now
            self._until = now + self._rest()
            return 0.0

    def answered(self) -> None:
        """The server answered, whatever it said."""
        if self._failures:
            with self._lock:
                self._failures = 0

    def failed(self) -> None:
        """The server could not be reached, or did not answer in time."""
        with self._lock:
            self._failures += 1
            if self._failures >= FAILURES:
                self._until = self._clock() + self._rest()

    def _rest(self) -> float:
        return min(FIRST_REST * (1 << min(self._failures - FAILURES, 10)), LONGEST_REST)
