"""Sessions of somebody's own backend: records and cursors in a file of ours, what they retain by the backend's own verb."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lorebank._database.driver import Source
from lorebank._database.engine import Database, DatabaseSettings
from lorebank._database.migrations import migrate
from lorebank._domain.item import Item
from lorebank._domain.memory import TRANSCRIPT, Receipt, Writer
from lorebank._domain.ports import SessionLedger
from lorebank._domain.requests import FlushReport
from lorebank._domain.scope import Scope
from lorebank._domain.session import DocumentWrite, SessionRecord
from lorebank._ledger.session_schema import STEPS
from lorebank._ledger.sessions import Address, SessionRows, records
from lorebank.errors import UsageError

T = TypeVar("T")
Retain = Callable[[Scope, Sequence[Item], Writer], Receipt]


class SessionFile:
    """The port `sessions` for a backend of your own: `url` is a `sqlite:///` file for records and cursors, `retain` the backend's
    verb, which messages go to. With it, all that recalls and retains on its own works.

    A message is told to the backend before the file says that it was: where a process is killed in between, it is told once
    more, with the same session, speaker and document. One that is to take the place of what its document held has the
    `update_mode` `replace`. With the setting `keep_traces` the file holds queries, too.

    >>> class Shelf(PartialBackend):
    ...     def __init__(self):
    ...         self.sessions = SessionFile("sqlite:///sessions.db", self.retain)
    """

    def __init__(self, url: str, retain: Retain) -> None:
        if not url.startswith("sqlite:///"):
            raise UsageError(f"a `SessionFile` is a file: `sqlite:///sessions.db`; found {url.partition(':')[0]!r}")
        self._database = Database(DatabaseSettings(url), lambda database: migrate(database, "sessions", STEPS))
        self._retain = retain

    def write(self, scope: Scope, session: str, body: Callable[[SessionLedger], T]) -> T:
        with self._database.direct(write=True, bank=scope.bank) as connection:
            return body(SessionRows(connection, _address(scope, session), _Told(scope, self._retain)))

    def read(self, scope: Scope, session: str, body: Callable[[SessionLedger], T]) -> T:
        with self._database.direct() as connection:
            return body(SessionRows(connection, _address(scope, session), _Told(scope, self._retain)))

    def drain(self, scope: Scope, session: str, timeout: float) -> FlushReport:
        """Nothing waits here."""
        del scope, session, timeout
        return FlushReport()

    def list(self, scope: Scope, *, limit: int, offset: int) -> tuple[SessionRecord, ...]:
        with self._database.direct() as connection:
            return records(connection, "", scope.bank, ",".join(scope.stamp), limit=limit, offset=offset)

    def close(self) -> None:
        """Closes the file; for the backend's own `close`."""
        self._database.close()


def _address(scope: Scope, session: str) -> Address:
    return Address("", scope.bank, ",".join(scope.stamp), session)


@dataclass(frozen=True, slots=True)
class _Told:
    """Tells the backend what a session retains."""

    scope: Scope
    retain_items: Retain

    def retain(self, source: Source, address: Address, writes: Sequence[DocumentWrite]) -> Receipt:
        del source, address
        items = [item for write in writes for item in _items(write)]
        return self.retain_items(self.scope, items, TRANSCRIPT) if items else Receipt()

    def release(self, source: Source, address: Address) -> int:
        del source, address
        return 0


def _items(write: DocumentWrite) -> list[Item]:
    """A write's messages in its document; a document that was rewritten comes whole, in place of what it held."""
    said, mode = (write.whole, "replace") if write.rewritten else (write.fresh, None)
    return [item.rewritten(document_id=write.document_id, update_mode=mode) for item in said]
