"""Sessions of a server's banks: record, cursor and queued transcript in one transaction of the ledger."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from sqlalchemy.engine.interfaces import DBAPIConnection

from lorebank._database.driver import Source
from lorebank._delivery.drafts import draft
from lorebank._delivery.sender import Sender
from lorebank._domain.memory import Outcome, Receipt
from lorebank._domain.ports import SessionLedger
from lorebank._domain.requests import FlushReport
from lorebank._domain.scope import Scope
from lorebank._domain.session import DocumentWrite, SessionRecord
from lorebank._domain.settings import RetainSettings
from lorebank._domain.transcripts import packed
from lorebank._ledger.ledger import Ledger, left_of, route_state
from lorebank._ledger.sessions import Address, SessionRows, records
from lorebank._ledger.values import Route
from lorebank._ledger.writing import enqueue, release_session, supersede

T = TypeVar("T")


class QueuedSessions:
    """The sessions of one server. What they retain is held in the outbox until their cadence lets it go."""

    def __init__(
        self, ledger: Ledger, sender: Sender, route: Route, settings: RetainSettings, report: Callable[[int], FlushReport]
    ) -> None:
        self._ledger, self._sender, self._route, self._settings, self._report = ledger, sender, route, settings, report

    def write(self, scope: Scope, session: str, body: Callable[[SessionLedger], T]) -> T:
        queue = _Queue(scope, self._sender, self._route, self._settings)
        done = self._ledger.direct(lambda c: body(SessionRows(c, self._address(scope, session), queue)), write=True)
        if queue.released:
            self._sender.nudge(queue.released)
        elif queue.held:
            self._sender.attend()
        return done

    def read(self, scope: Scope, session: str, body: Callable[[SessionLedger], T]) -> T:
        queue = _Queue(scope, self._sender, self._route, self._settings)
        return self._ledger.direct(lambda c: body(SessionRows(c, self._address(scope, session), queue)), write=False)

    def drain(self, scope: Scope, session: str, timeout: float) -> FlushReport:
        """Waits until the server has taken what the session has let go; one that is known to be down is not waited for."""

        def count() -> int:
            return self._ledger.read(lambda c: left_of(c, self._route, scope.bank, session))

        state = self._ledger.read(lambda c: route_state(c, self._route))
        down = state is not None and state.failures and state.rest_until > time.time()
        return self._report(self._sender.drain(count, time.monotonic() + (0.0 if down else timeout)))

    def list(self, scope: Scope, *, limit: int, offset: int) -> tuple[SessionRecord, ...]:
        if not self._ledger.exists:
            return ()
        place = self._route.url, scope.bank, ",".join(scope.stamp)
        return self._ledger.direct(lambda c: records(c, *place, limit=limit, offset=offset), write=False)

    def _address(self, scope: Scope, session: str) -> Address:
        return Address(self._route.url, scope.bank, ",".join(scope.stamp), session)


@dataclass(slots=True)
class _Queue:
    """Writes transcripts into the outbox; counts what there is to tell the sender."""

    scope: Scope
    sender: Sender
    route: Route
    settings: RetainSettings
    held: int = 0
    released: int = 0

    def retain(self, source: Source, address: Address, writes: Sequence[DocumentWrite]) -> Receipt:
        connection, now = cast("DBAPIConnection", source), time.time()
        outcomes: list[Outcome] = []
        for write in writes:
            if write.update_mode == "replace":
                supersede(connection, self.route, address.bank, write.document_id)
            items, settings = packed(write, self.settings), _tagged(self.settings, write)
            drafts = [draft(item, self.scope, settings, now, dated=True) for item in items]
            rows = enqueue(connection, self.route, drafts, bounds=self.sender.bounds, now=now, held=True)
            outcomes += [Outcome(row.id, None, write.document_id) for row in rows]
        self.held += len(outcomes)
        return Receipt(queued=tuple(outcomes))

    def release(self, source: Source, address: Address) -> int:
        count = release_session(cast("DBAPIConnection", source), self.route, address.bank, address.id)
        self.released += count
        return count


def _tagged(settings: RetainSettings, write: DocumentWrite) -> RetainSettings:
    """The settings for a session's tags: like the base tags they are on what is written, and in no observation's scope."""
    tags = tuple(dict.fromkeys((*settings.base_tags, *(tag for item in write.whole for tag in item.tags))))
    return settings if tags == settings.base_tags else settings.model_copy(update={"base_tags": tags})
