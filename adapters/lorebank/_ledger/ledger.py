"""`Ledger`: what a process does with a ledger, each call one transaction. A ledger that can't be used is moved aside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, delete, func, select, update
from sqlalchemy.engine.interfaces import DBAPIConnection

from lorebank._database.engine import Database, DatabaseSettings
from lorebank._database.migrations import migrate
from lorebank._database.sqlite import sqlite_path
from lorebank._domain.outbox import LOST, WAITING, sources, target
from lorebank._ledger import rescue, session_schema
from lorebank._ledger.schema import STEPS, batches, outbox, outcomes, routes
from lorebank._ledger.values import Bounds, Draft, Queued, Route, row_id
from lorebank._ledger.writing import enqueue
from lorebank.errors import GarbledError, UnsupportedError

T = TypeVar("T")
KEEP_COMPLETED = 86_400.0
"""Seconds for which it is still known that a row was delivered."""
BUSY = 10.0

Moved = Callable[[Path, str, int], None]
"""Hears of a ledger that was moved aside: where to, why, and how many rows were carried over."""


def prepare(database: Database) -> None:
    """Brings a ledger's tables up to date."""
    migrate(database, "ledger", STEPS)
    migrate(database, "sessions", session_schema.STEPS)


class Ledger:
    """The writes of all servers' banks that are on their way, in one database that threads and processes share."""

    def __init__(self, url: str, *, moved: Moved, synchronous: str = "full") -> None:
        self.path = sqlite_path(url)
        self.database = Database(DatabaseSettings(url, synchronous, BUSY), prepare)
        self._moved = moved

    @property
    def exists(self) -> bool:
        """Whether there is a file."""
        return self.path.exists()

    def enqueue(self, route: Route, drafts: Sequence[Draft], bounds: Bounds, now: float, *, held: bool = False) -> list[Queued]:
        """Writes all drafts or none; `OutboxFullError` where they don't fit. Durable when it returns."""
        return self.direct(lambda c: enqueue(c, route, drafts, bounds=bounds, now=now, held=held), write=True)

    def direct(self, body: Callable[[DBAPIConnection], T], *, write: bool) -> T:
        """Runs a body of the driver's own statements in a transaction."""

        def whole() -> T:
            with self.database.direct(write=write) as connection:
                return body(connection)

        return self._safely(whole)

    def write(self, body: Callable[[Connection], T]) -> T:
        """Runs a body in a transaction that writes."""

        def whole() -> T:
            with self.database.write() as connection:
                return body(connection)

        return self._safely(whole)

    def read(self, body: Callable[[Connection], T]) -> T:
        """Runs a body in a transaction that reads."""

        def whole() -> T:
            with self.database.read() as connection:
                return body(connection)

        return self._safely(whole)

    def close(self) -> None:
        self.database.close()

    def _safely(self, body: Callable[[], T]) -> T:
        try:
            return body()
        except GarbledError as error:
            self._replace("damaged", error)
        except UnsupportedError as error:
            self._replace("newer", error)
        return body()

    def _replace(self, word: str, error: Exception) -> None:
        """Moves the file aside and begins a new one; what was readable of a damaged one is carried over."""
        path = self.path
        self.database.close()
        with self.database.touched(), rescue.guarded(path):
            if word == "damaged" and rescue.sound(path):
                return  # somebody else has repaired it
            if word == "newer" and self._usable():
                return
            aside = rescue.move_aside(path, word)
            saved = 0
            if word == "damaged":
                with self.database.write() as connection:
                    saved = rescue.salvage(connection, aside)
        self._moved(aside, str(error), saved)

    def _usable(self) -> bool:
        try:
            with self.database.read():
                return True
        except (GarbledError, UnsupportedError):
            self.database.close()
            return False


def release(connection: Connection, route: Route) -> int:
    """Lets held rows go; gives the place of the newest row."""
    held = (outbox.c.route == route.url) & outbox.c.state.in_(sources("release"))
    connection.execute(update(outbox).where(held).values(state=target("release")))
    return connection.scalar(select(func.max(outbox.c.seq))) or 0


def release_old(connection: Connection, route: Route, before: float) -> None:
    """Lets held rows go that were written before: by a process that is gone, or in a session that is idle."""
    held = (outbox.c.route == route.url) & outbox.c.state.in_(sources("release")) & (outbox.c.since < before)
    connection.execute(update(outbox).where(held).values(state=target("release")))


def expire(connection: Connection, route: Route, bounds: Bounds, now: float) -> list[tuple[str, str]]:
    """Gives up what has waited for too long, and forgets what was delivered a day ago. Gives bank and id of each dead row."""
    old = (outbox.c.route == route.url) & outbox.c.state.in_(sources("expire")) & (outbox.c.since < now - bounds.age)
    rows = connection.execute(select(outbox.c.bank, outbox.c.nonce, outbox.c.seq).where(old)).all()
    reason = f"not delivered within {bounds.age / 86_400:g} days"
    connection.execute(update(outbox).where(old).values(state=target("expire"), reason=reason, since=now))
    done = (outbox.c.route == route.url) & (outbox.c.state == "completed") & (outbox.c.since < now - KEEP_COMPLETED)
    connection.execute(delete(outbox).where(done))
    connection.execute(delete(outcomes).where(outcomes.c.route == route.url, outcomes.c.at < now - bounds.age))
    return [(bank, row_id(nonce, seq)) for bank, nonce, seq in rows]


def left(connection: Connection, route: Route, mark: int, *, accepted: bool) -> int:
    """How many rows up to a place have not reached the server (`accepted`), or have not been worked up there."""
    open_states = ("held", "pending", "sealed") if accepted else WAITING
    chosen = (outbox.c.route == route.url) & outbox.c.state.in_(open_states) & (outbox.c.seq <= mark)
    return connection.scalar(select(func.count()).select_from(outbox).where(chosen)) or 0


def left_of(connection: Connection, route: Route, bank: str, session: str) -> int:
    """How many of a session's rows were let go and have not reached the server."""
    mine = (outbox.c.route == route.url) & (outbox.c.bank == bank) & (outbox.c.session == session)
    chosen = mine & outbox.c.state.in_(("pending", "sealed"))
    return connection.scalar(select(func.count()).select_from(outbox).where(chosen)) or 0


def lost_rows(connection: Connection, route: Route) -> int:
    """How many rows wait for a person."""
    chosen = (outbox.c.route == route.url) & outbox.c.state.in_(LOST)
    return connection.scalar(select(func.count()).select_from(outbox).where(chosen)) or 0


def route_state(connection: Connection, route: Route) -> Any:
    """How the route is: a row of `routes`, or `None` before the first answer or failure."""
    return connection.execute(select(routes).where(routes.c.route == route.url, routes.c.key == route.key)).one_or_none()


def foreign(connection: Connection, route: Route, older: float) -> int:
    """How many rows of another key of the same server this key may take over."""
    return connection.scalar(select(func.count()).select_from(outbox).where(_foreign(route, older))) or 0


def take_over(connection: Connection, route: Route, older: float) -> list[tuple[str, int]]:
    """Rows of another key of the same server become this key's; gives, by bank, how many."""
    chosen = _foreign(route, older)
    found = connection.execute(select(outbox.c.bank, func.count()).where(chosen).group_by(outbox.c.bank)).all()
    if found:
        held = select(outbox.c.batch).where(chosen, outbox.c.batch.is_not(None))
        connection.execute(update(batches).where(batches.c.id.in_(held)).values(key=route.key, owner=None, lease=0))
        connection.execute(update(outbox).where(chosen).values(key=route.key))
    return [(bank, count) for bank, count in found]


def _foreign(route: Route, older: float) -> ColumnElement[bool]:
    """Waiting rows of a key that the server refuses, and those that nobody has sent since `older`."""
    refused = select(routes.c.key).where(routes.c.route == route.url, routes.c.refused == 1)
    other = (outbox.c.route == route.url) & (outbox.c.key != route.key) & outbox.c.state.in_(WAITING)
    return other & (outbox.c.key.in_(refused) | (outbox.c.since < older))


def free_leases(connection: Connection, gone: Callable[[str], bool]) -> int:
    """Frees the claims of owners that are gone; gives how many."""
    owners = connection.scalars(select(batches.c.owner).where(batches.c.owner.is_not(None)).distinct()).all()
    dead = [owner for owner in owners if owner is not None and gone(owner)]
    if not dead:
        return 0
    return connection.execute(update(batches).where(batches.c.owner.in_(dead)).values(owner=None, lease=0)).rowcount
