"""`OutboxBackend`: a Hindsight server whose writes go through the ledger. Everything else is asked of the server directly."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import Connection

from lorebank._delivery.archive import QueuedArchive
from lorebank._delivery.drafts import draft
from lorebank._delivery.removal import Removing
from lorebank._delivery.rerouting import claims, renaming
from lorebank._delivery.sender import Sender
from lorebank._delivery.sessions import QueuedSessions
from lorebank._domain.entities import Entities
from lorebank._domain.events import Event, LedgerMoved, Listener
from lorebank._domain.item import Item
from lorebank._domain.memory import Memory, Outcome, RecallResult, Receipt, Reflection, Removal, Writer
from lorebank._domain.outbox import OutboxEntry, OutboxStatus, Rerouted, RowState
from lorebank._domain.requests import (
    Change,
    Consolidation,
    FlushReport,
    Health,
    Integrity,
    ListRequest,
    RecallRequest,
    ReflectRequest,
    Selection,
    Stats,
)
from lorebank._domain.scope import Scope, Scoping
from lorebank._domain.settings import ConnectionSettings, OutboxSettings, RetainSettings
from lorebank._forks import Forkable, watch_forks
from lorebank._hindsight.backend import HindsightBackend
from lorebank._hindsight.transport import parse_base
from lorebank._ledger import inspection
from lorebank._ledger.ledger import Ledger, left, lost_rows, release, route_state
from lorebank._ledger.missions import LedgerMissions
from lorebank._ledger.rerouting import Move, reroute
from lorebank._ledger.values import Route
from lorebank.errors import UnavailableError

logger = logging.getLogger("lorebank")
AGAIN = "already queued"


class OutboxBackend(Forkable):
    """Memories on a Hindsight server. `retain` returns once the write is durable here; a background thread delivers it."""

    name: Literal["hindsight"] = "hindsight"

    def __init__(
        self, url: str, connection: ConnectionSettings, retain: RetainSettings, outbox: OutboxSettings, *, ledger: str
    ) -> None:
        self._given = url, connection, retain, outbox, ledger
        self._settings, self._writing = outbox, retain
        self._tell: Listener = _nobody
        self._scratch = None if outbox.durable else tempfile.TemporaryDirectory(prefix="lorebank-")
        place = ledger if self._scratch is None else f"sqlite:///{Path(self._scratch.name) / 'outbox.db'}"
        self.ledger = Ledger(place, moved=self._moved, synchronous="full" if outbox.durable else "off")
        self.server = HindsightBackend(url, connection, retain)
        self.route = Route(self.server.route, self.server.key_digest)
        self.server.missions_known = LedgerMissions(self.ledger, self.route)
        deadline = connection.retain_timeout + connection.timeout
        self.sender = Sender(self.ledger, self.server, self.route, outbox, deadline=deadline, tell=self._told)
        self.models, self.documents = self.server.models, self.server.documents
        self.operations, self.directives = self.server.operations, self.server.directives
        self.outbox = LedgerOutbox(self)
        self.archive = QueuedArchive(self.server.archive, self.server.models, self.server.directives, self)
        self.sessions = QueuedSessions(self.ledger, self.sender, self.route, retain, self.report)
        self._removing = Removing(self.ledger, self.server, self.sender, self.route, connection.timeout)
        self._looked = False
        watch_forks(self)

    def announce(self, tell: Listener) -> None:
        self._tell = tell
        self.server.announce(tell)

    def scope(self, base: str, scoping: Scoping, label: str | None) -> Scope:
        return self.server.scope(base, scoping, label)

    def retain(self, scope: Scope, items: Sequence[Item], writer: Writer) -> Receipt:
        """Queues the items, all or none."""
        del writer  # the server knows no writers
        now = time.time()
        drafts = [draft(item, scope, self._writing, now) for item in items]
        queued = self.ledger.enqueue(self.route, drafts, self.sender.bounds, now)
        self.sender.nudge(len(queued))
        outcomes = [
            (row, Outcome(row.id, AGAIN if row.known else None, d.document)) for row, d in zip(queued, drafts, strict=True)
        ]
        return Receipt(
            queued=tuple(outcome for row, outcome in outcomes if not row.known),
            duplicates=tuple(outcome for row, outcome in outcomes if row.known),
        )

    def recall(self, scope: Scope, request: RecallRequest) -> RecallResult:
        self._look()
        return self.server.recall(scope, request)

    def reflect(self, scope: Scope, request: ReflectRequest) -> Reflection:
        self._look()
        return self.server.reflect(scope, request)

    def get(self, scope: Scope, memory_id: str) -> Memory:
        return self.server.get(scope, memory_id)

    def list(self, scope: Scope, request: ListRequest) -> tuple[Memory, ...]:
        self._look()
        return self.server.list(scope, request)

    def update(self, scope: Scope, memory_id: str, change: Change) -> Memory:
        return self.server.update(scope, memory_id, change)

    def invalidate(self, scope: Scope, memory_id: str, replacement: str | None) -> Memory:
        return self.server.invalidate(scope, memory_id, replacement)

    def revalidate(self, scope: Scope, memory_id: str) -> Memory:
        return self.server.revalidate(scope, memory_id)

    def entities(self, scope: Scope, limit: int) -> Entities:
        return self.server.entities(scope, limit)

    def forget(self, scope: Scope, selection: Selection, *, dry_run: bool) -> Removal:
        return self._removing.forget(scope, selection, dry_run=dry_run)

    def clear(self, scope: Scope) -> Removal:
        return self._removing.clear(scope)

    def purge(self) -> str | None:
        return self.server.purge()

    def consolidate(self, scope: Scope) -> Consolidation:
        return self.server.consolidate(scope)

    def tags(self, scope: Scope) -> Mapping[str, int]:
        return self.server.tags(scope)

    def stats(self, scope: Scope) -> Stats:
        return self.server.stats(scope)

    def health(self) -> Health:
        self._look()
        return self.server.health()

    def check(self, scope: Scope) -> Integrity:
        return self.server.check(scope)

    def flush(self, *, timeout: float, until: Literal["accepted", "completed"]) -> FlushReport:
        """Waits for what is queued now; what is queued meanwhile is not waited for."""
        if not self.ledger.exists:
            return FlushReport()
        mark, accepted = self.ledger.write(lambda c: release(c, self.route)), until == "accepted"

        def count() -> int:
            return self.ledger.read(lambda c: left(c, self.route, mark, accepted=accepted))

        return self.report(self.sender.drain(count, time.monotonic() + timeout))

    def close(self, timeout: float) -> None:
        """Delivers what it can within `timeout` seconds; the rest stays in the ledger for the next start."""
        try:
            if self.sender.started or self.ledger.exists:
                self.flush(timeout=timeout, until="accepted")
        except UnavailableError as error:  # another process has the ledger: what is in it is safe
            logger.warning("closed with writes still to be delivered: %s", error)
        finally:
            self.sender.stop(0.2)
            self.server.close()
            self.ledger.close()
            if self._scratch is not None:
                self._scratch.cleanup()

    def report(self, waiting: int) -> FlushReport:
        """Tells of so many writes that are left."""
        state, dead = self.ledger.read(lambda c: (route_state(c, self.route), lost_rows(c, self.route)))
        if not waiting:
            return FlushReport(dead=dead)
        reason = state.reason if state is not None and state.failures else "the time was over"
        return FlushReport(waiting, reason, dead)

    def _look(self) -> None:
        """The first call of a process finds what earlier ones have left in the ledger."""
        if not self._looked:
            self._looked = True
            if self.ledger.exists:
                self.sender.wake()

    def _told(self, event: Event) -> None:
        self._tell(event)

    def _moved(self, aside: Path, reason: str, saved: int) -> None:
        self._tell(LedgerMoved("", str(aside), reason, saved))

    def after_fork(self) -> None:
        """The child has a sender of its own."""
        self._looked = False
        self.sender.reset()

    def __getstate__(self) -> dict[str, Any]:
        return {"given": self._given}

    def __setstate__(self, state: dict[str, Any]) -> None:
        url, connection, retain, outbox, ledger = state["given"]
        self.__init__(url, connection, retain, outbox, ledger=ledger)  # type: ignore[misc]


class LedgerOutbox:
    """`bank.outbox` on a server: what waits, what was given up."""

    def __init__(self, backend: OutboxBackend) -> None:
        self._ledger, self._route, self._sender = backend.ledger, backend.route, backend.sender

    def status(self, bank: str | None) -> OutboxStatus:
        if not self._ledger.exists:
            return OutboxStatus({})
        return self._ledger.read(lambda c: inspection.status(c, self._route, bank, self._sender.bounds))

    def list(self, bank: str | None, *, state: RowState | None, limit: int, offset: int) -> tuple[OutboxEntry, ...]:
        if not self._ledger.exists:
            return ()
        return self._ledger.read(lambda c: inspection.entries(c, self._route, bank, state=state, limit=limit, offset=offset))

    def get(self, row_id: str) -> OutboxEntry:
        return self._ledger.read(lambda c: inspection.entry(c, row_id))

    def requeue(self, bank: str | None, ids: Sequence[str] | None) -> int:
        count = self._ledger.write(lambda c: inspection.requeue(c, self._route, bank, ids, time.time()))
        self._sender.wake()
        return count

    def reroute(self, bank: str, ids: Sequence[str] | None, *, url: str | None, origin: str | None, dry_run: bool) -> Rerouted:
        """Without ids, from this server and bank as far as none is named; with ids, from wherever they are."""
        if not self._ledger.exists:
            return Rerouted(dry_run=dry_run)
        now = time.time()
        former = parse_base(url, ConnectionSettings()) if url is not None else None if ids is not None else self._route.url
        named = bank if ids is None and origin is None else origin
        busy = claims(now, self._sender.terms.lease)
        move = Move(former, named, self._route, bank, renaming(bank), busy)

        def moved(connection: Connection) -> Rerouted:
            places = None if ids is None else inspection.places_of(connection, ids)
            return reroute(connection, move, places, now, dry_run=dry_run)

        told = (self._ledger.read if dry_run else self._ledger.write)(moved)
        if told.ids and not dry_run:
            self._sender.wake()
        return told

    def purge(self, bank: str | None, ids: Sequence[str]) -> int:
        return self._ledger.write(lambda c: inspection.purge(c, self._route, bank, ids))


def _nobody(_event: Event) -> None:
    """Nobody listens yet."""
