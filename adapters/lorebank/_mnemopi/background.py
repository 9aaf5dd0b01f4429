"""A thread that does a file's work in the background.

Nothing but the file says what is to be done, so a killed process loses nothing: the next one that opens the file goes on. The
thread starts when there may be work and ends when there was none for a while. What fails is tried again after a pause.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from lorebank._forks import Forkable, watch_forks
from lorebank._mnemopi.trouble import Trouble

IDLE = 2.0
"""Seconds without work after which the thread ends."""


class Turn:
    """The right of one thread to write; it is taken away when the backend closes."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.over = False


@dataclass(frozen=True, slots=True)
class Done:
    """What a pass has come to: why it is not all done (`None`: it is), and in how many seconds there may be more to do."""

    reason: str | None = None
    again: float | None = None


class Worker(Forkable):
    """Has a thread do passes: one for each request, or for several at once. A request for the `whole` looks at everything."""

    def __init__(self, name: str, trouble: Trouble, task: Callable[[Turn, bool], Done]) -> None:
        self.name, self.trouble, self._task = name, trouble, task
        self._begin()
        watch_forks(self)

    def _begin(self) -> None:
        """No thread, nothing asked for."""
        self._changed = threading.Condition()
        self._turn: Turn | None = None
        self._asked = self._served = 0
        self._urgent = self._whole = False
        self._done = Done()

    def after_fork(self) -> None:
        """The parent's thread did not come along."""
        self._begin()
        self.trouble.after_fork()

    def wake(self, *, whole: bool = False, urgent: bool = False) -> int:
        """Says that there may be work, `urgent` without a pause; gives the number of the request."""
        with self._changed:
            self._asked += 1
            self._whole |= whole
            self._urgent |= urgent
            if self._turn is None:
                self._turn = Turn()
                threading.Thread(target=self._run, args=(self._turn,), name=self.name, daemon=True).start()
            self._changed.notify_all()
            return self._asked

    def finish(self, timeout: float, *, whole: bool = True) -> tuple[bool, str | None]:
        """Has a pass done now, without a pause; whether it ended within `timeout` seconds, and what it left undone, and why."""
        asked = self.wake(whole=whole, urgent=True)
        with self._changed:
            ended = self._changed.wait_for(lambda: self._served >= asked, timeout)
            return ended, self._done.reason if ended else None

    def stop(self, timeout: float) -> None:
        """Ends the thread; what it has begun gets `timeout` seconds. Work that is left stays in the file."""
        until = time.monotonic() + timeout
        with self._changed:
            if self._turn is not None and not self.trouble.failing:
                self._changed.wait_for(lambda: self._served >= self._asked, timeout)
            turn, self._turn = self._turn, None
            self._changed.notify_all()
        if turn is not None:
            taken = turn.lock.acquire(timeout=max(0.1, until - time.monotonic()))
            turn.over = True
            if taken:
                turn.lock.release()

    def _run(self, turn: Turn) -> None:
        while self._next(turn):
            with self._changed:
                asked, whole = self._asked, self._whole
                self._whole = self._urgent = False
            done = self._task(turn, whole)
            with self._changed:
                if self._turn is turn:
                    self._served, self._done = asked, done
                    self._whole |= whole and done.reason is not None
                    self._changed.notify_all()

    def _next(self, turn: Turn) -> bool:
        """Waits for work: a request, the end of a pause, or the time that the last pass named. `False` ends the thread."""
        with self._changed:
            due = self._done.again
            if self._turn is turn and self.trouble.failing:
                self._changed.wait_for(lambda: self._urgent or self._turn is not turn, self.trouble.pause)
                due = 0.0
            else:
                wait = IDLE if due is None else due
                self._changed.wait_for(lambda: self._asked > self._served or self._turn is not turn, wait)
            if self._turn is turn and (self._asked > self._served or due is not None):
                return True
            if self._turn is turn:
                self._turn = None
            return False
