"""One database: its transactions, and what its errors mean, wherever it is.

What SQLite and PostgreSQL do their own way stands in `sqlite.py` and `postgres.py`, behind `Place` (where a database is)
and `Live` (what a process holds of it). It is opened on first use and again after a fork; pickling keeps the settings.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from sqlalchemy import Connection
from sqlalchemy.engine.interfaces import DBAPIConnection

from lorebank._database.driver import Dialect
from lorebank._database.settings import DatabaseSettings
from lorebank._database.sqlite import SqliteFile
from lorebank._forks import Forkable, watch_forks
from lorebank.errors import LorebankError

__all__ = ["Database", "DatabaseSettings", "Live", "Place"]


class Live(Protocol):
    """An open database, of one process. Until it is `ready`, only the thread that prepares the schema may use it."""

    ready: bool

    def usable(self) -> bool: ...
    def read(self) -> AbstractContextManager[Connection]: ...
    def write(self, bank: str | None) -> AbstractContextManager[Connection]: ...
    def direct(self, *, write: bool, bank: str | None) -> AbstractContextManager[DBAPIConnection]: ...
    def alone(self, wait: float) -> AbstractContextManager[DBAPIConnection]: ...
    def dispose(self) -> None: ...


class Place(Protocol):
    """Where a database is. `name` is for messages, `url` opens it from anywhere, `errors` are what `explain` understands."""

    @property
    def dialect(self) -> Dialect: ...
    @property
    def name(self) -> str: ...
    @property
    def url(self) -> str: ...
    @property
    def errors(self) -> tuple[type[Exception], ...]: ...

    def open(self, renewed: Callable[[], None]) -> Live:
        """Opens it; calls `renewed` whenever its connections had to be made anew."""
        ...

    def explain(self, error: Exception) -> LorebankError: ...


def place_of(settings: DatabaseSettings) -> Place:
    """Where a URL says that the database is; `UsageError` for one that says nothing of use."""
    if not settings.url.startswith("postgresql"):
        return SqliteFile(settings)
    from lorebank._database.postgres import PostgresServer  # needs the extra `postgres`

    return PostgresServer(settings)


class _Uses:
    """Counts the transactions that are running, so that a fork can wait for them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0
        self._paused = False
        self._depth = threading.local()

    def enter(self) -> None:
        depth = getattr(self._depth, "value", 0)
        self._depth.value = depth + 1
        with self._changed:
            while self._paused and not depth:  # a transaction inside another is let through: the other must end
                self._changed.wait()
            self._running += 1

    def leave(self) -> None:
        self._depth.value -= 1
        with self._changed:
            self._running -= 1
            self._changed.notify_all()

    def pause(self, wait: float) -> None:
        """Keeps new transactions waiting and waits, `wait` seconds at most, until none is running (but one's own)."""
        own = getattr(self._depth, "value", 0)
        with self._changed:
            self._paused = True
            self._changed.wait_for(lambda: self._running <= own, wait)

    def resume(self) -> None:
        with self._changed:
            self._paused = False
            self._changed.notify_all()


class Database(Forkable):
    """A database that is opened on first use; `prepare` brings its schema up to date."""

    def __init__(self, settings: DatabaseSettings, prepare: Callable[[Database], None]) -> None:
        self.settings = settings
        self.place = place_of(settings)
        self._prepare = prepare
        self._live: Live | None = None
        self.openings = 0  # of this process: what is remembered of the database holds for one of them
        self._opening = threading.Lock()
        self._uses = _Uses()
        watch_forks(self)

    @property
    def name(self) -> str:
        """What messages call it: the path, or the server without the password."""
        return self.place.name

    @contextmanager
    def read(self) -> Generator[Connection]:
        """A connection that sees one snapshot and writes nothing."""
        with self._used() as live, live.read() as connection:
            yield connection

    @contextmanager
    def write(self, bank: str | None = None) -> Generator[Connection]:
        """A connection that holds the write lock; all of it is committed at the end, or nothing.

        `bank` says that only this bank's rows are written: on a server, other banks' writers go on meanwhile.
        """
        with self._used() as live, live.write(bank) as connection:
            yield connection

    @contextmanager
    def direct(self, *, write: bool = False, bank: str | None = None) -> Generator[DBAPIConnection]:
        """The driver's own connection in a transaction like those of `read` and `write`, at a tenth of their cost."""
        with self._used() as live, live.direct(write=write, bank=bank) as driver:
            yield driver

    @contextmanager
    def alone(self, wait: float) -> Generator[DBAPIConnection]:
        """A raw connection outside any transaction, for what is not done inside one, that waits `wait` seconds at most for
        others.
        """
        with self._used() as live, live.alone(wait) as driver:
            yield driver

    @property
    def opened(self) -> bool:
        """Whether the database is open in this process."""
        return self._live is not None

    def close(self) -> None:
        """Closes the connections. The next use opens the database anew."""
        with self.touched():
            self._dispose()

    @contextmanager
    def touched(self) -> Generator[None]:
        """Something else than a transaction uses the database's driver: a fork waits for it, too, since a child forked in the
        midst of a driver's call inherits a lock that nobody will release.
        """
        self._uses.enter()
        try:
            yield
        finally:
            self._uses.leave()

    def _dispose(self) -> None:
        with self._opening:
            live, self._live = self._live, None
        if live is not None:
            live.dispose()

    def before_fork(self) -> None:
        """Lets running transactions end, keeps new ones waiting, and closes the database."""
        self._uses.pause(self.settings.busy_timeout)
        self._dispose()

    def after_fork_in_parent(self) -> None:
        self._uses.resume()

    def after_fork(self) -> None:
        """The child begins with locks of its own."""
        self._live, self._opening, self._uses = None, threading.Lock(), _Uses()

    @contextmanager
    def _used(self) -> Generator[Live]:
        """The open database; a fork waits until it is no longer used. Errors of the driver become ours."""
        with self.touched():
            try:
                yield self._opened()
            except self.place.errors as error:
                raise self.place.explain(error) from error

    def _opened(self) -> Live:
        live = self._live
        if live is not None and live.usable():
            return live
        with self._opening:
            live = self._live
            if live is not None and live.usable():
                return live
            if live is not None:
                live.dispose()
            return self._open()

    def _open(self) -> Live:
        live = self._live = self.place.open(self._renewed)
        try:
            self._prepare(self)
        except BaseException:
            self._live = None
            live.dispose()
            raise
        live.ready = True
        self._renewed()
        return live

    def _renewed(self) -> None:
        self.openings += 1

    def __getstate__(self) -> dict[str, Any]:
        return {"settings": self.settings, "prepare": self._prepare}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["settings"], state["prepare"])  # type: ignore[misc]
