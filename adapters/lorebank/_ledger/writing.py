"""Putting rows into the ledger: the path that every `retain` to a server waits for, in driver-level statements."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from sqlalchemy.engine.interfaces import DBAPIConnection

from lorebank._database.driver import rows_of, run
from lorebank._ledger.values import NONCE, Bounds, Draft, Queued, Route, row_id
from lorebank.errors import OutboxFullError

_INSERT = (
    "INSERT INTO outbox (nonce, route, key, bank, document, state, solo, fold, session, digest, body, size, generation,"
    " attempts, created, since) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, ?, ?) RETURNING seq"
)
_COUNTED = "UPDATE totals SET rows = rows + ?, bytes = bytes + ? RETURNING rows, bytes"
_SUPERSEDE = "DELETE FROM outbox WHERE route = ? AND bank = ? AND document = ? AND state = 'held' RETURNING size"
_RELEASE = "UPDATE outbox SET state = 'pending' WHERE route = ? AND state = 'held' AND bank = ? AND session = ?"
_LATEST = (
    "SELECT seq, nonce, digest FROM outbox WHERE route = ? AND bank = ? AND document = ?"
    " AND state IN ('held', 'pending', 'sealed', 'accepted', 'failed') ORDER BY seq DESC LIMIT 1"
)


def enqueue(
    connection: DBAPIConnection, route: Route, drafts: Sequence[Draft], *, bounds: Bounds, now: float, held: bool = False
) -> list[Queued]:
    """Writes all drafts, in their order, or none: `OutboxFullError` where they don't fit."""
    queued: list[Queued] = []
    added = grown = 0
    for draft in drafts:
        known = _already(connection, route, draft) if draft.repeatable else None
        if known is None:
            weight = len(draft.body.encode())
            added, grown = added + 1, grown + weight
            queued.append(Queued(_insert(connection, route, draft, weight, now, "held" if held else "pending")))
        else:
            queued.append(Queued(known, known=True))
    if added:
        [(rows, size)] = rows_of(connection, _COUNTED, (added, grown))
        _refuse_overflow(rows, size, bounds)
    return queued


def supersede(connection: DBAPIConnection, route: Route, bank: str, document: str) -> None:
    """Takes out the writes of a document that are still held: one that replaces them is about to be queued."""
    sizes = [size for (size,) in rows_of(connection, _SUPERSEDE, (route.url, bank, document))]
    if sizes:
        rows_of(connection, _COUNTED, (-len(sizes), -sum(sizes)))


def release_session(connection: DBAPIConnection, route: Route, bank: str, session: str) -> int:
    """Lets a session's held writes go; gives how many."""
    return run(connection, _RELEASE, (route.url, bank, session))


def _already(connection: DBAPIConnection, route: Route, draft: Draft) -> str | None:
    """The row that waits with the very same write, if it is the newest of its document."""
    for seq, nonce, digest in rows_of(connection, _LATEST, (route.url, draft.bank, draft.document)):
        if digest == draft.digest:
            return row_id(nonce, seq)
    return None


def _insert(connection: DBAPIConnection, route: Route, draft: Draft, weight: int, now: float, state: str) -> str:
    nonce = secrets.token_hex(NONCE // 2)
    place = (nonce, route.url, route.key, draft.bank, draft.document, state, int(draft.solo), draft.fold, draft.session)
    [(seq,)] = rows_of(connection, _INSERT, (*place, draft.digest, draft.body, weight, now, now))
    return row_id(nonce, seq)


def _refuse_overflow(rows: int, size: int, bounds: Bounds) -> None:
    if rows > bounds.rows or size > bounds.bytes:
        raise OutboxFullError(
            f"the outbox is full ({bounds.rows:,} rows or {bounds.bytes:,} bytes): nothing of this call was queued. "
            "Let it drain (bank.outbox.status()), purge dead letters, or raise the bounds in OutboxSettings"
        )
