"""The live sessions of a process, and what sessions of one bank share."""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import suppress
from typing import cast

from lorebank._connections import Connections
from lorebank._domain.scope import Scope
from lorebank._forks import Forkable, watch_forks
from lorebank._session.guard import Guard
from lorebank._session.home import Home
from lorebank._session.prefix import ModelCache
from lorebank._session.session import Session
from lorebank._session.shared import Clocks, Shared
from lorebank.errors import LorebankError

CACHED = 10_000
"""Banks whose mental models are kept."""


class Registry(Forkable):
    """What belongs to one `open_bank`: its live sessions by scope and id, the guard of its recalls, its mental models."""

    def __init__(self, connections: Connections, clocks: Clocks) -> None:
        self._clocks = clocks
        self._tell = connections.tell
        self._guard = Guard(self._tell, clocks.ticks)
        self.after_fork()
        watch_forks(self)

    def session(self, home: Home, session_id: str) -> Session:
        """The live session of this id, used by one more."""
        key = home.scope, session_id
        with self._lock:
            live = self._live.get(key)
            if live is None:
                shared = Shared(self._guard, self._models_of(home), self._clocks)
                live = Session(home, session_id, shared, self._left)
                self._live[key] = live
            live.users += 1
            return live

    def save(self) -> None:
        """Stores what was changed of live sessions: their bank is about to be closed."""
        with self._lock:
            sessions = list(self._live.values())
        for live in sessions:
            with suppress(LorebankError):
                live.save()

    def forget(self, scope: Scope) -> None:
        """Something of a bank was deleted: nothing that was read of it before is shown again."""
        with self._lock:
            sessions = [live for (home, _), live in self._live.items() if home.bank == scope.bank]
            models = [cache for home, cache in self._models.items() if home.bank == scope.bank]
        for cache in models:
            cache.drop()
        for live in sessions:
            live.forgotten()

    def after_fork(self) -> None:
        """The child's sessions are its own."""
        self._lock = threading.Lock()
        self._live: dict[tuple[Scope, str], Session] = {}
        self._models: OrderedDict[Scope, ModelCache] = OrderedDict()

    def _left(self, session: Session) -> bool:
        """One use less; gives whether it was the last."""
        with self._lock:
            session.users -= 1
            if session.users > 0:
                return False
            if self._live.get(session.key) is session:
                del self._live[session.key]
            return True

    def _models_of(self, home: Home) -> ModelCache:
        found = self._models.get(home.scope)
        if found is None:
            found = self._models[home.scope] = ModelCache(home, self._clocks.ticks)
        self._models.move_to_end(home.scope)
        while len(self._models) > CACHED:
            self._models.popitem(last=False)
        return found


_making = threading.Lock()


def registry_of(connections: Connections, clocks: Clocks | None = None) -> Registry:
    """The registry of one `open_bank`."""
    with _making:
        if connections.sessions is None:
            connections.sessions = Registry(connections, clocks or Clocks())
        return cast("Registry", connections.sessions)
