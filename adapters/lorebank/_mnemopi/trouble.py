"""A model that fails is left alone for a while, longer each time; its outages are told once."""

from __future__ import annotations

import logging
import threading
import time
from typing import Literal

from lorebank._domain.events import Listener, OutageEnded, OutageStarted

logger = logging.getLogger("lorebank")
FIRST_PAUSE = 1.0
"""Seconds after the first failure; twice as many after each further one."""
LONGEST_PAUSE = 300.0
Part = Literal["vectors", "query", "completer"]
_EMBEDDER = ("embedder", "recall goes on by words")
_COMPLETER = ("completer", "what it has not done waits in the database")
_MODELS = {"vectors": _EMBEDDER, "query": _EMBEDDER, "completer": _COMPLETER}


class Trouble:
    """Whether a model works at one of its tasks, as far as is known."""

    def __init__(self, part: Part) -> None:
        self.part: Part = part
        self.tell: Listener = _nobody
        self._lock = threading.Lock()
        self._failures, self._since, self._until = 0, 0.0, 0.0

    def after_fork(self) -> None:
        """The child begins with a lock of its own."""
        self._lock = threading.Lock()

    @property
    def pause(self) -> float:
        """For how many seconds it is not to be asked; 0 while it works."""
        return max(0.0, self._until - time.monotonic()) if self._failures else 0.0

    @property
    def failing(self) -> bool:
        return self._failures > 0

    def failed(self, bank: str, reason: str) -> None:
        """Notes a failure; the first one is told."""
        with self._lock:
            now = time.monotonic()
            self._failures += 1
            self._since = self._since if self._failures > 1 else now
            self._until = now + min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (self._failures - 1))
            first = self._failures == 1
        if first:
            model, meanwhile = _MODELS[self.part]
            logger.warning("the %s fails (%s): %s; %s", model, self.part, reason, meanwhile)
            self.tell(OutageStarted(bank, reason, self.part))

    def worked(self, bank: str) -> None:
        """Notes a success; one that ends an outage is told."""
        if not self._failures:
            return
        with self._lock:
            failures, self._failures = self._failures, 0
            seconds = time.monotonic() - self._since
        if failures:
            logger.warning("the %s works again (%s) after %d failures", _MODELS[self.part][0], self.part, failures)
            self.tell(OutageEnded(bank, seconds, failures, self.part))


def _nobody(_: object) -> None:
    """Hears what is told before anybody listens."""
