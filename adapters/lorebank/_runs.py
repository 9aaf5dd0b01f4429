"""The session of a host's run, by what the run says of itself; sessions stay open while they are used."""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lorebank._domain.memory import parse_name
from lorebank._forks import Forkable, watch_forks

if TYPE_CHECKING:
    from lorebank._bank import Bank
    from lorebank._session.session import Session

logger = logging.getLogger("lorebank")
OPEN = 1_000
"""Sessions that one integration keeps open; the one that was used longest ago is closed first."""
QUIET = 300.0
"""Seconds after which a session that was used is not in the midst of a run any more."""
NAMES = ("thread_id", "session_id")
"""Where a run says which conversation it belongs to, the first that it has."""
_token = secrets.token_hex(6)
_warned: set[str] = set()


class RunSessions(Forkable):
    """The sessions of an integration's runs. `session_id` fixes one for all runs."""

    def __init__(self, *, session_id: str | None = None, limit: int = OPEN) -> None:
        self._fixed = None if session_id is None else parse_name(session_id, "session_id")
        self._limit = limit
        self._open: OrderedDict[tuple[object, ...], Session] = OrderedDict()
        self._used: dict[tuple[object, ...], float] = {}
        self._lock = threading.Lock()
        watch_forks(self)

    def of(self, bank: Bank, run: Mapping[str, Any]) -> Session:
        """The session of a run: its `thread_id`, else its `session_id`, else one for this process and bank, with a warning."""
        return self._opened(bank, self._fixed or self.name_of(run) or _of_process(bank))

    def named(self, bank: Bank, run: Mapping[str, Any]) -> Session | None:
        """The session of a run that says which one it belongs to."""
        name = self._fixed or self.name_of(run)
        return None if name is None else self._opened(bank, name)

    @staticmethod
    def name_of(run: Mapping[str, Any]) -> str | None:
        """What a run calls its conversation."""
        return next((str(run[each]) for each in NAMES if run.get(each)), None)

    def _opened(self, bank: Bank, name: str) -> Session:
        key = id(bank.connections), bank.scope, name
        with self._lock:
            session = self._open.pop(key, None)
            if session is None or session.closed:
                session = bank.session(name)
            self._open[key], self._used[key] = session, time.monotonic()
            over = list(self._surplus())
        for each in over:
            if not each.closed:
                each.threads.submit(each.close, "flush")
        return session

    def _surplus(self) -> Iterator[Session]:
        """The sessions over the limit that no run can be in the midst of."""
        while len(self._open) > self._limit:
            oldest = next(iter(self._open))
            if time.monotonic() - self._used[oldest] < QUIET and not self._open[oldest].closed:
                return
            del self._used[oldest]
            yield self._open.pop(oldest)

    def close(self) -> None:
        """Ends the use of all of them."""
        with self._lock:
            sessions, self._open, self._used = list(self._open.values()), OrderedDict(), {}
        for session in sessions:
            session.close()

    def after_fork(self) -> None:
        """The child opens its own."""
        self._lock, self._open, self._used = threading.Lock(), OrderedDict(), {}


def _of_process(bank: Bank) -> str:
    """A session for runs that don't say which conversation they belong to."""
    if bank.name not in _warned:
        _warned.add(bank.name)
        logger.warning(
            "a run names no conversation (thread_id or session_id): all such runs of bank %s in this process share one session",
            bank.name,
        )
    return f"process-{os.getpid()}-{_token}"
