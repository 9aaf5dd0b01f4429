"""SQLite's own: one file, its pragmas, its one writer at a time, and what its errors mean.

Readers get a snapshot (`BEGIN`), writers the write lock at once (`BEGIN IMMEDIATE`): a transaction that reads first and
locks later fails in WAL mode as soon as another process commits in between. Threads of one process queue on a lock
before they ask for the file's, so that only processes compete for it.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DatabaseError, DBAPIError, OperationalError

from lorebank._database.driver import run
from lorebank._database.settings import POOL, DatabaseSettings
from lorebank.errors import GarbledError, LorebankError, UnavailableError, UsageError

T = TypeVar("T")
CACHE_KIB = 8192
"""What each connection keeps of the file in memory, at most."""
_BUSY = ("database is locked", "database table is locked", "database schema is locked")


class SqliteFile:
    """A file that holds a database."""

    dialect: Literal["sqlite"] = "sqlite"
    errors: tuple[type[Exception], ...] = (DBAPIError, sqlite3.Error)

    def __init__(self, settings: DatabaseSettings) -> None:
        self.settings = settings
        self.path = sqlite_path(settings.url)
        self.name = str(self.path)
        self.url = f"sqlite:///{self.path}"

    def files(self) -> tuple[Path, Path]:
        """The file and its write-ahead log."""
        return self.path, self.path.with_name(f"{self.path.name}-wal")

    def open(self, renewed: Callable[[], None]) -> LiveFile:
        """Opens it; a file that is replaced is opened anew as a whole, so nothing is ever `renewed`."""
        del renewed
        return LiveFile(self._engine(), self)

    def explain(self, error: Exception) -> LorebankError:
        return explain(error, self.path)

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


class LiveFile:
    """What belongs to one process: the file's engine and the lock its writers queue on.

    Until it is `ready`, only the thread that prepares the schema may use it.
    """

    def __init__(self, engine: Engine, place: SqliteFile) -> None:
        self.engine = engine
        self._place, self._file = place, _identity(place.path)
        self.writer = engine.execution_options(lorebank_write=True)
        self.writers = threading.Lock()
        self.preparer = threading.get_ident()
        self.ready = False
        self._spare: list[DBAPIConnection] = []

    def usable(self) -> bool:
        """Whether this thread may use it: a file that was moved away or replaced is opened anew under its name."""
        return _identity(self._place.path) == self._file if self.ready else self.preparer == threading.get_ident()

    @contextmanager
    def read(self) -> Generator[Connection]:
        with self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self, bank: str | None) -> Generator[Connection]:
        """The file's lock is for all banks."""
        del bank
        with self._turn(), self.writer.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def direct(self, *, write: bool, bank: str | None) -> Generator[DBAPIConnection]:
        """A connection of the driver's own, kept for the next who asks: the engine's pool costs as much as a small commit."""
        del bank
        with self._turn() if write else nullcontext():
            try:
                connection = self._spare.pop()
            except IndexError:
                connection = self._connect()
            try:
                run(connection, "BEGIN IMMEDIATE" if write else "BEGIN")
                yield connection
                connection.commit()
            except BaseException:
                connection.close()  # what it did not commit is rolled back
                raise
            if len(self._spare) < POOL:
                self._spare.append(connection)
            else:
                connection.close()

    @contextmanager
    def alone(self, wait: float) -> Generator[DBAPIConnection]:
        """Other writers of the process wait meanwhile."""
        with self._turn(wait):
            pooled = self.engine.raw_connection()
            try:
                raw = cast("sqlite3.Connection", pooled.driver_connection)
                raw.execute(f"PRAGMA busy_timeout = {int(wait * 1000)}")
                try:
                    yield cast("DBAPIConnection", raw)
                finally:  # the connection goes back to those who wait longer
                    raw.execute(f"PRAGMA busy_timeout = {int(self._place.settings.busy_timeout * 1000)}")
            finally:
                pooled.close()

    def dispose(self) -> None:
        """Closes the connections that are not in use."""
        while self._spare:
            self._spare.pop().close()
        self.engine.dispose()

    @contextmanager
    def _turn(self, wait: float | None = None) -> Generator[None]:
        bound = self._place.settings.busy_timeout if wait is None else wait
        if not self.writers.acquire(timeout=bound):
            raise UnavailableError(f"`{self._place.path}` is busy: no turn to write within {bound:g} s")
        try:
            yield
        finally:
            self.writers.release()

    def _connect(self) -> DBAPIConnection:
        pooled = self.engine.raw_connection()
        connection = cast("DBAPIConnection", pooled.driver_connection)
        pooled.detach()
        return connection


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


def explain(error: Exception, path: Path) -> LorebankError:
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
