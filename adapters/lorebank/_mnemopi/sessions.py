"""Sessions in Mnemopi's own file: record, cursor and the messages' memories in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from lorebank._database.driver import Source
from lorebank._database.engine import Database
from lorebank._domain.item import Item
from lorebank._domain.memory import TRANSCRIPT, Receipt
from lorebank._domain.ports import SessionLedger
from lorebank._domain.requests import FlushReport
from lorebank._domain.scope import Scope
from lorebank._domain.session import DocumentWrite, SessionRecord
from lorebank._ledger.sessions import Address, SessionRows, records
from lorebank._mnemopi import derived, store
from lorebank._mnemopi.models import ModelStore
from lorebank._mnemopi.rows import draft, to_ticks

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StoredSessions:
    """The sessions of one file. Each message is a memory at once; `written` hears of new ones."""

    database: Database
    models: ModelStore
    clock: Callable[[], datetime]
    written: Callable[[str, int], None]

    def write(self, scope: Scope, session: str, body: Callable[[SessionLedger], T]) -> T:
        memories = _Memories(self.clock())
        with self.database.direct(write=True, bank=scope.bank) as connection:
            done = body(SessionRows(connection, _address(scope, session), memories))
        if memories.replaced:
            with self.database.write() as connection:
                self.models.touched(connection, scope, memories.replaced)
        if memories.fresh:
            self.written(scope.bank, memories.fresh)
        return done

    def read(self, scope: Scope, session: str, body: Callable[[SessionLedger], T]) -> T:
        with self.database.direct() as connection:
            return body(SessionRows(connection, _address(scope, session), _Memories(self.clock())))

    def drain(self, scope: Scope, session: str, timeout: float) -> FlushReport:
        """Nothing waits here: messages are memories at once."""
        del scope, session, timeout
        return FlushReport()

    def list(self, scope: Scope, *, limit: int, offset: int) -> tuple[SessionRecord, ...]:
        with self.database.direct() as connection:
            return records(connection, "", scope.bank, "", limit=limit, offset=offset)


def _address(scope: Scope, session: str) -> Address:
    return Address("", scope.bank, "", session)


@dataclass(slots=True)
class _Memories:
    """Writes messages as memories; collects the ids of those that are out of date now."""

    now: datetime
    replaced: list[str] = field(default_factory=list[str])
    fresh: int = 0

    def retain(self, source: Source, address: Address, writes: Sequence[DocumentWrite]) -> Receipt:
        items: list[Item] = []
        for write in writes:
            if write.rewritten:
                self.replaced += derived.retire(source, address.bank, [write.document_id], to_ticks(self.now))
            said = write.whole if write.rewritten else write.fresh
            items += [item.rewritten(document_id=write.document_id) for item in said]
        drafts = [draft(item, TRANSCRIPT, now=self.now) for item in items]
        self.fresh += len(drafts)
        return store.add(source, address.bank, drafts, now=to_ticks(self.now)) if drafts else Receipt()

    def release(self, source: Source, address: Address) -> int:
        del source, address
        return 0
