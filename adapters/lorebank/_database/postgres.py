"""PostgreSQL's own: a server that several machines share, its locks and snapshots, and what its errors mean.

Readers get one snapshot (`REPEATABLE READ`). Writers take their locks before anything else, always in the same order: all
of them one that the whole database has, shared by those who write to a single bank and alone for those who may touch
several, then that bank's. So writers of a bank come one after the other, as in a file, other banks go on meanwhile, and none
ever waits for somebody who waits for it. Each statement of a writer then sees all that was committed before
(`READ COMMITTED`): nothing has to be tried again.

A connection that the server gave up while it was idle is found when a transaction begins, and replaced unseen.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, cast

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DBAPIError, InvalidatePoolError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from lorebank._database.settings import POOL, DatabaseSettings
from lorebank.errors import ForbiddenError, GarbledError, LorebankError, UnavailableError, UnsupportedError, UsageError

try:
    import psycopg
except ImportError as error:
    raise UsageError("PostgreSQL needs the extra `postgres`: pip install 'lorebank[postgres]'") from error

MORE = 24
"""Connections that may be open beside the `POOL` that stay open."""
CONNECT_WAIT = 10
"""Seconds that a server may take to answer a new connection, and that sent bytes may wait for it; the URL's
`connect_timeout` and `tcp_user_timeout` win.
"""
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WRITE_ALL = "BEGIN; SELECT pg_advisory_xact_lock(hashtextextended(current_schema(), 0))"
_WRITE_BANK = """BEGIN; SELECT pg_advisory_xact_lock_shared(hashtextextended(current_schema(), 0));
                 SELECT pg_advisory_xact_lock(hashint8extended({}, hashtext(current_schema())))"""
_DRIVERS = ("postgresql", "postgresql+psycopg")


class PostgresServer:
    """A database of a PostgreSQL server."""

    dialect: Literal["postgresql"] = "postgresql"
    errors: tuple[type[Exception], ...] = (DBAPIError, psycopg.Error, PoolTimeoutError)

    def __init__(self, settings: DatabaseSettings) -> None:
        self.settings = settings
        self.url = settings.url
        self._address = parsed(settings.url)
        user = f"{self._address.username}@" if self._address.username else ""
        port = f":{self._address.port}" if self._address.port else ""
        self.name = f"postgresql://{user}{self._address.host or 'localhost'}{port}/{self._address.database or ''}"

    def open(self, renewed: Callable[[], None]) -> LiveServer:
        return LiveServer(self._engine(), renewed)

    def explain(self, error: Exception) -> LorebankError:
        found = getattr(error, "orig", None) or error
        return explain(found, self.name, self._words(found))

    def _words(self, error: BaseException) -> str:
        """The first line of what the server says; never the password."""
        words = (str(error).strip().splitlines() or [type(error).__name__])[0]
        secret = self._address.password
        return words.replace(str(secret), "***") if secret else words

    def _engine(self) -> Engine:
        arguments: dict[str, Any] = {"autocommit": True, "fallback_application_name": "lorebank"}
        limits = {"connect_timeout": CONNECT_WAIT, "keepalives_idle": 30, "tcp_user_timeout": CONNECT_WAIT * 3000}
        arguments |= {name: value for name, value in limits.items() if name not in self._address.query}
        engine = create_engine(
            self._address.set(drivername="postgresql+psycopg"),
            connect_args=arguments,
            pool_size=POOL,
            max_overflow=MORE,
            pool_timeout=self.settings.busy_timeout,
            pool_use_lifo=True,
            use_native_hstore=False,
        )
        event.listen(engine, "connect", self._connected)
        return engine

    def _connected(self, connection: Any, _record: object) -> None:
        """Waits are bounded; plans are made for the values at hand, since banks differ in size."""
        patience = max(1, int(self.settings.busy_timeout * 1000))
        connection.execute(f"SET lock_timeout = {patience}; SET jit = off; SET plan_cache_mode = force_custom_plan")


class LiveServer:
    """What belongs to one process: its connections. What begins a transaction is sent as its connection leaves the pool."""

    def __init__(self, engine: Engine, renewed: Callable[[], None]) -> None:
        self.engine = engine
        self._renewed = renewed
        self._beginning = threading.local()
        self.preparer = threading.get_ident()
        self.ready = False
        event.listen(engine, "checkout", self._begin)
        event.listen(engine, "invalidate", self._invalidated)

    def usable(self) -> bool:
        return self.ready or self.preparer == threading.get_ident()

    @contextmanager
    def read(self) -> Generator[Connection]:
        with self._connected(_READ) as connection:
            yield connection

    @contextmanager
    def write(self, bank: str | None) -> Generator[Connection]:
        with self._connected(_locking(bank)) as connection:
            yield connection

    @contextmanager
    def direct(self, *, write: bool, bank: str | None) -> Generator[DBAPIConnection]:
        with self._raw(_locking(bank) if write else _READ) as raw:
            yield raw
            raw.commit()

    @contextmanager
    def alone(self, wait: float) -> Generator[DBAPIConnection]:
        self._beginning.words = f"SET lock_timeout = {max(1, int(wait * 1000))}"
        pooled = self.engine.raw_connection()
        try:
            yield cast("DBAPIConnection", pooled.driver_connection)
        finally:
            pooled.invalidate()  # its patience is not that of the others

    def dispose(self) -> None:
        """Closes the connections that are not in use."""
        self.engine.dispose()

    @contextmanager
    def _connected(self, beginning: str) -> Generator[Connection]:
        self._beginning.words = beginning
        with self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def _raw(self, beginning: str) -> Generator[DBAPIConnection]:
        self._beginning.words = beginning
        pooled = self.engine.raw_connection()
        try:
            yield cast("DBAPIConnection", pooled.driver_connection)
        except BaseException as error:
            if not isinstance(error, Exception) or cast("psycopg.Connection[Any]", pooled.driver_connection).closed:
                pooled.invalidate()
            raise
        finally:
            pooled.close()  # what was not committed is rolled back

    def _begin(self, connection: Any, _record: object, _pooled: object) -> None:
        """Begins the transaction; where the server has given the pool's connections up, all of them are made anew."""
        try:
            connection.execute(self._beginning.words, prepare=False)
        except psycopg.OperationalError as error:
            if not connection.closed:
                raise
            raise InvalidatePoolError from error

    def _invalidated(self, connection: Any, _record: object, _error: object) -> None:
        """A server that gave up a connection may be another one when it comes back: one that was restored, say."""
        if connection.closed:
            self._renewed()


def _locking(bank: str | None) -> str:
    """What begins a transaction that writes to this bank, or to any."""
    if bank is None:
        return _WRITE_ALL
    number = int.from_bytes(hashlib.blake2b(bank.encode(), digest_size=8).digest(), signed=True)
    return _WRITE_BANK.format(number)


def parsed(url: str) -> URL:
    """The URL of a server; `UsageError`, without its text, for one that can't be meant."""
    try:
        found = make_url(url)
    except (ArgumentError, ValueError):
        raise UsageError(
            "the PostgreSQL URL can't be read: postgresql://user:password@host:5432/database, signs in the password "
            "percent-encoded (urllib.parse.quote)"
        ) from None
    if found.drivername not in _DRIVERS:
        raise UnsupportedError(f"PostgreSQL is reached by psycopg: postgresql://... (found {found.drivername!r})")
    if "@" in (found.host or ""):
        raise UsageError("the PostgreSQL URL has two @ signs: write one in the password as %40")
    return found


_LOST = "the connection to `{name}` was lost ({words}). What was being committed is there or not; saying it again is safe"
_BY_STATE: Sequence[tuple[tuple[str, ...], type[LorebankError], str]] = (
    (("55P03", "57014", "40"), UnavailableError, "`{name}` is busy ({words}). Nothing was written; try again"),
    (("08", "57"), UnavailableError, _LOST),
    (("53", "25006"), UnavailableError, "`{name}` can't take it now ({words}). Nothing was written; try again"),
    (("28", "42501"), ForbiddenError, "`{name}` does not let this user in, or do this ({words})"),
    (("3D", "3F"), UsageError, "`{name}` is not there ({words}): create it, or choose another"),
    (("XX",), GarbledError, "`{name}` is damaged ({words})"),
    (("",), LorebankError, "`{name}`: {words}"),
)
"""What errors mean, by how their SQLSTATE begins."""
_BY_WORDS: Sequence[tuple[tuple[str, ...], type[LorebankError], str]] = (
    (("authentication failed", "pg_hba.conf", "no password"), ForbiddenError, "`{name}` refuses this user or password ({words})"),
    (("does not exist",), UsageError, "`{name}` is not there ({words}): create the database, or choose another"),
    (("connection failed", "resolve", "timeout"), UnavailableError, "`{name}` can't be reached ({words})"),
    (("",), UnavailableError, _LOST),
)
"""What the driver says where the server gave no SQLSTATE: while it connects, or when the connection breaks off."""


def explain(error: BaseException, name: str, words: str) -> LorebankError:
    """What an error means for the caller."""
    if isinstance(error, PoolTimeoutError):
        return UnavailableError(f"`{name}` is busy: this process uses all its connections. Nothing was written; try again")
    state: str = getattr(error, "sqlstate", None) or ""
    if state or not isinstance(error, psycopg.OperationalError):
        kind, text = next((kind, text) for starts, kind, text in _BY_STATE if state.startswith(starts))
    else:
        kind, text = next((kind, text) for parts, kind, text in _BY_WORDS if any(part in words for part in parts))
    return kind(text.format(name=name, words=words), detail=words)
