"""One database: its engine, its transactions, and what its errors mean.

Readers get a snapshot (`BEGIN`), writers the write lock at once (`BEGIN IMMEDIATE`): a transaction that reads first and
locks later fails in WAL mode as soon as another process commits in between. Threads of one process queue on a lock
before they ask for the file's, so that only processes compete for it. The engine is built on first use and again after
a fork; pickling keeps the settings.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DatabaseError, DBAPIError, OperationalError

from lorebank._database.driver import run
from lorebank._forks import Forkable, watch_forks
from lorebank.errors import GarbledError, LorebankError, UnavailableError, UsageError

T = TypeVar("T")
POOL = 8
"""Connections that stay open; more are opened while more threads are at work."""
CACHE_KIB = 8192
"""What each connection keeps of the file in memory, at most."""
_BUSY = ("database is locked", "database table is locked", "database schema is locked")


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """How a database is opened. `busy_timeout` is in seconds."""

    url: str
    synchronous: str = "normal"
    busy_timeout: float = 30.0


class _Live:
    """What belongs to one process: its engine and the lock its writers queue on.

    Until it is `ready`, only the thread that prepares the schema may use it.
    """

    def __init__(self, engine: Engine, path: Path) -> None:
        self.engine = engine
        self._path, self._file = path, _identity(path)
        self.writer = engine.execution_options(lorebank_write=True)
        self.writers = threading.Lock()
        self.preparer = threading.get_ident()
        self.ready = False
        self._spare: list[DBAPIConnection] = []

    def usable(self) -> bool:
        """Whether this thread may use it: a file that was moved away or replaced is opened anew under its name."""
        return _identity(self._path) == self._file if self.ready else self.preparer == threading.get_ident()

    @contextmanager
    def driver(self) -> Generator[DBAPIConnection]:
        """A connection of the driver's own, kept for the next who asks: the engine's pool costs as much as a small commit."""
        try:
            connection = self._spare.pop()
        except IndexError:
            connection = self._connect()
        try:
            yield connection
        except BaseException:
            connection.close()  # what it did not commit is rolled back
            raise
        if len(self._spare) < POOL:
            self._spare.append(connection)
        else:
            connection.close()

    def _connect(self) -> DBAPIConnection:
        pooled = self.engine.raw_connection()
        connection = cast("DBAPIConnection", pooled.driver_connection)
        pooled.detach()
        return connection

    def dispose(self) -> None:
        """Closes the connections that are not in use."""
        while self._spare:
            self._spare.pop().close()
        self.engine.dispose()


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
    """A database that is opened on first use; `prepare` brings a new engine's schema up to date."""

    def __init__(self, settings: DatabaseSettings, prepare: Callable[[Database], None]) -> None:
        self.settings = settings
        self.path = sqlite_path(settings.url)
        self._prepare = prepare
        self._live: _Live | None = None
        self.openings = 0  # of this process: what is remembered of the file holds for one of them
        self._opening = threading.Lock()
        self._uses = _Uses()
        watch_forks(self)

    @contextmanager
    def read(self) -> Generator[Connection]:
        """A connection that sees one snapshot and writes nothing."""
        with self._explained(), self._used() as live, live.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self) -> Generator[Connection]:
        """A connection that holds the write lock; all of it is committed at the end, or nothing."""
        with (
            self._explained(),
            self._used() as live,
            self._turn(live),
            live.writer.connect() as connection,
            connection.begin(),
        ):
            yield connection

    @contextmanager
    def direct(self, *, write: bool = False) -> Generator[DBAPIConnection]:
        """The driver's own connection in a transaction like those of `read` and `write`, at a tenth of their cost."""
        with self._explained(), self._used() as live, self._turn(live) if write else nullcontext(), live.driver() as driver:
            run(driver, "BEGIN IMMEDIATE" if write else "BEGIN")
            yield driver
            driver.commit()

    @contextmanager
    def alone(self, wait: float) -> Generator[sqlite3.Connection]:
        """A raw connection outside any transaction, for what SQLite does not do inside one, that waits `wait` seconds at
        most for others. Other writers of the process wait meanwhile.
        """
        with self._explained(), self._used() as live, self._turn(live, wait):
            pooled = live.engine.raw_connection()
            try:
                raw = cast("sqlite3.Connection", pooled.driver_connection)
                raw.execute(f"PRAGMA busy_timeout = {int(wait * 1000)}")
                try:
                    yield raw
                finally:  # the connection goes back to those who wait longer
                    raw.execute(f"PRAGMA busy_timeout = {int(self.settings.busy_timeout * 1000)}")
            finally:
                pooled.close()

    @property
    def opened(self) -> bool:
        """Whether the file is open in this process."""
        return self._live is not None

    def files(self) -> tuple[Path, Path]:
        """The file and its write-ahead log."""
        return self.path, self.path.with_name(f"{self.path.name}-wal")

    def close(self) -> None:
        """Closes the connections. The next use opens the database anew."""
        with self._opening:
            live, self._live = self._live, None
        if live is not None:
            live.dispose()

    def before_fork(self) -> None:
        """Lets running transactions end, keeps new ones waiting, and closes the file."""
        self._uses.pause(self.settings.busy_timeout)
        self.close()

    def after_fork_in_parent(self) -> None:
        self._uses.resume()

    def after_fork(self) -> None:
        """The child begins with locks of its own."""
        self._live, self._opening, self._uses = None, threading.Lock(), _Uses()

    @contextmanager
    def _used(self) -> Generator[_Live]:
        """The open database; a fork waits until it is no longer used."""
        self._uses.enter()
        try:
            yield self._opened()
        finally:
            self._uses.leave()

    @contextmanager
    def _turn(self, live: _Live, wait: float | None = None) -> Generator[None]:
        bound = self.settings.busy_timeout if wait is None else wait
        if not live.writers.acquire(timeout=bound):
            raise UnavailableError(f"`{self.path}` is busy: no turn to write within {bound:g} s")
        try:
            yield
        finally:
            live.writers.release()

    @contextmanager
    def _explained(self) -> Generator[None]:
        try:
            yield
        except (DBAPIError, sqlite3.Error) as error:
            raise explain(error, self.path) from error

    def _opened(self) -> _Live:
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

    def _open(self) -> _Live:
        live = self._live = _Live(self._engine(), self.path)
        try:
            self._prepare(self)
        except BaseException:
            self._live = None
            live.dispose()
            raise
        live.ready = True
        self.openings += 1
        return live

    def _engine(self) -> Engine:
        make_private(self.path)
        url = URL.create("sqlite", database=str(self.path))
        arguments = {"check_same_thread": False, "timeout": self.settings.busy_timeout}
        engine = create_engine(url, connect_args=arguments, pool_size=POOL, max_overflow=-1)
        event.listen(engine, "connect", self._connected)
        event.listen(engine, "begin", _begin)
        return engine

    def _connected(self, connection: Any, _record: object) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves
        cursor = connection.cursor()
        try:
            self._retried(lambda: cursor.execute("PRAGMA journal_mode=WAL"))
            for pragma in (
                f"synchronous={self.settings.synchronous.upper()}",
                "foreign_keys=ON",
                "secure_delete=ON",
                f"cache_size=-{CACHE_KIB}",
            ):
                cursor.execute(f"PRAGMA {pragma}")
        finally:
            cursor.close()

    def _retried(self, step: Callable[[], T]) -> T:
        """Switching to WAL does not wait for the busy timeout by itself: two processes may open a new file at once."""
        until = time.monotonic() + self.settings.busy_timeout
        while True:
            try:
                return step()
            except sqlite3.OperationalError as error:
                if not is_busy(error) or time.monotonic() > until:
                    raise
                time.sleep(0.01)

    def __getstate__(self) -> dict[str, Any]:
        return {"settings": self.settings, "prepare": self._prepare}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["settings"], state["prepare"])  # type: ignore[misc]


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells a file from another of the same name."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _begin(connection: Connection) -> None:
    immediate = connection.get_execution_options().get("lorebank_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def sqlite_path(url: str) -> Path:
    """The file of a `sqlite:///` URL; `UsageError` for any other URL and for one without a file."""
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise UsageError(f"{url!r} is no database URL; write sqlite:///memory.db for a file") from error
    if parsed.get_backend_name() != "sqlite":
        raise UsageError(f"a database URL must begin with sqlite:///; found {parsed.get_backend_name()!r}")
    if parsed.query:
        raise UsageError(f"a database URL takes no options here; found {dict(parsed.query)!r}")
    if "\0" in url:
        raise UsageError(f"a file's name can't hold a NUL character; found {url!r}")
    if not parsed.database or parsed.database == ":memory:" or parsed.database.startswith("file:"):
        raise UsageError(
            "memory needs a file to outlive the process: sqlite:///memory.db. Tests: lorebank.testing.temporary_bank()"
        )
    return Path(parsed.database).expanduser().absolute()


def make_private(path: Path) -> None:
    """Creates the file (0600) and its missing folders (0700), so that nobody else can read what is remembered."""
    try:
        missing = [folder for folder in path.parents if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, stat.S_IRUSR | stat.S_IWUSR)
        os.close(descriptor)
    except OSError as error:
        raise UsageError(
            f"`{path}` can't be opened for writing ({error.strerror}): choose another place, "
            "for example open_bank('sqlite:////tmp/memory.db')"
        ) from error


def is_busy(error: BaseException) -> bool:
    return any(words in str(error) for words in _BUSY)


def explain(error: DBAPIError | sqlite3.Error, path: Path) -> LorebankError:
    """What a database error means for the caller."""
    words = str(error.orig if isinstance(error, DBAPIError) else error)
    if is_busy(error):
        return UnavailableError(f"`{path}` is busy: another process holds it. Nothing was written; try again")
    if "disk is full" in words or "disk I/O error" in words:
        return UnavailableError(
            f"`{path}` can't be written ({words}). Nothing was written; make room and try again", detail=words
        )
    if "readonly" in words or "unable to open" in words:
        return UsageError(f"`{path}` can't be written ({words}): check its rights, or choose another place", detail=words)
    if isinstance(error, (DatabaseError, OperationalError, sqlite3.DatabaseError)) and (
        "malformed" in words or "not a database" in words or "corrupt" in words
    ):
        return GarbledError(
            f"`{path}` is damaged or no SQLite database ({words}). Restore a backup, or move it aside", detail=words
        )
    return LorebankError(f"`{path}`: {words}", detail=words)
