"""Looking into the outbox, and what a person does about its dead letters. Ids, states and counts; never content."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, Connection, RowMapping, exists, func, select, update

from lorebank._domain.outbox import LOST, STATES, UNDERWAY, WAITING, OutboxEntry, OutboxStatus, RowState, sources, target
from lorebank._ledger.ledger import route_state
from lorebank._ledger.schema import batches, outbox, outcomes, totals
from lorebank._ledger.settling import forgotten, portions
from lorebank._ledger.values import Bounds, Route, place, row_id
from lorebank.errors import MissingError


def status(connection: Connection, route: Route, bank: str | None, bounds: Bounds | None = None) -> OutboxStatus:
    """The outbox of one bank, or of all of the server's."""
    mine = _mine(route, bank) & outbox.c.state.in_(STATES)
    counted = select(outbox.c.state, func.count(), func.sum(outbox.c.size)).where(mine).group_by(outbox.c.state)
    rows = {state: (count, size) for state, count, size in connection.execute(counted)}
    oldest = connection.scalar(select(func.min(outbox.c.created)).where(mine, outbox.c.state.in_(WAITING)))
    way = route_state(connection, route)
    return OutboxStatus(
        rows={state: count for state, (count, _) in rows.items()},
        bytes=sum(size for state, (_, size) in rows.items() if state != "completed"),
        oldest=moment(oldest),
        last_success=moment(way.last_success if way else None),
        resting_until=moment(way.rest_until if way and way.failures else None),
        reason=way.reason if way else None,
        used=0.0 if bounds is None else _used(connection, bounds),
    )


def _used(connection: Connection, bounds: Bounds) -> float:
    """Which share of the ledger's room is taken."""
    rows, size = connection.execute(select(totals.c.rows, totals.c.bytes)).one()
    return float(max(rows / bounds.rows, size / bounds.bytes))


def entries(
    connection: Connection, route: Route, bank: str | None, *, state: RowState | None, limit: int, offset: int
) -> tuple[OutboxEntry, ...]:
    """One page of rows, oldest first; without a state, those that are not delivered."""
    mine = _mine(route, bank)
    wanted = mine & outbox.c.state.in_((*WAITING, *LOST) if state is None else (state,))
    page = select(outbox).where(wanted).order_by(outbox.c.seq).limit(limit).offset(offset)
    return tuple(_entry(row) for row in connection.execute(page).mappings())


def entry(connection: Connection, identifier: str) -> OutboxEntry:
    """One row; `MissingError` where there is none (any more)."""
    return _entry(_row(connection, identifier))


def requeue(connection: Connection, route: Route, bank: str | None, ids: Sequence[str] | None, now: float) -> int:
    """Dead rows wait again; gives how many. One whose document has been written anew since stays dead: the newer write
    stands.
    """
    dead = _mine(route, bank) & outbox.c.state.in_(sources("requeue"))
    if ids is None:
        return _requeued(connection, dead, now)
    return sum(_requeued(connection, dead & outbox.c.seq.in_(some), now) for some in portions(places_of(connection, ids)))


def _requeued(connection: Connection, chosen: ColumnElement[bool], now: float) -> int:
    later = outbox.alias()
    newer = exists().where(
        later.c.route == outbox.c.route,
        later.c.bank == outbox.c.bank,
        later.c.document == outbox.c.document,
        later.c.seq > outbox.c.seq,
        later.c.state != "dead",
    )
    since_then = outcomes.c.at > outbox.c.since  # the row of a delivered write is kept for a day only
    stands = exists().where(
        outcomes.c.route == outbox.c.route, outcomes.c.bank == outbox.c.bank, outcomes.c.document == outbox.c.document, since_then
    )
    replaced = (newer | stands) & outbox.c.fold.is_(None)
    again = {"state": target("requeue"), "since": now, "attempts": 0, "part": None, "reason": None}
    connection.execute(update(outbox).where(chosen, replaced).values(reason="a later write of its document stands"))
    return connection.execute(update(outbox).where(chosen, ~replaced).values(again)).rowcount


def purge(connection: Connection, route: Route, bank: str | None, ids: Sequence[str]) -> int:
    """Deletes rows that wait for a person or for their first sending; gives how many. What is underway is not touched."""
    states = (*LOST, "held", "pending")
    idle = _mine(route, bank) & outbox.c.state.in_(states)
    named = portions(places_of(connection, ids))
    places = [seq for some in named for seq in connection.scalars(select(outbox.c.seq).where(idle, outbox.c.seq.in_(some)))]
    forgotten(connection, places)
    return len(places)


def moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def places_of(connection: Connection, ids: Sequence[str]) -> list[int]:
    """The places of rows; `MissingError` names one that does not exist."""
    return [_row(connection, identifier)["seq"] for identifier in ids]


def _row(connection: Connection, identifier: str) -> RowMapping:
    found = place(identifier)
    if found is not None:
        chosen = (outbox.c.seq == found[1]) & (outbox.c.nonce == found[0])
        for row in connection.execute(select(outbox).where(chosen)).mappings():
            return row
    raise MissingError(f"the outbox has no row {identifier!r}: it was purged, or delivered more than a day ago")


def _mine(route: Route, bank: str | None) -> ColumnElement[bool]:
    mine = outbox.c.route == route.url
    return mine if bank is None else mine & (outbox.c.bank == bank)


def _entry(row: RowMapping) -> OutboxEntry:
    return OutboxEntry(
        id=row_id(row["nonce"], row["seq"]),
        bank=row["bank"],
        document_id=row["document"],
        state=row["state"],
        created_at=datetime.fromtimestamp(row["created"], UTC),
        bytes=row["size"],
        session=row["session"],
        operation_id=row["batch"],
        attempts=row["attempts"],
        reason=row["reason"],
    )


def names(connection: Connection, places: Sequence[int]) -> list[str]:
    """The ids of rows, by their places."""
    return [identifier for some in portions(places) for identifier, _ in _named(connection, outbox.c.seq.in_(some))]


def _named(connection: Connection, chosen: ColumnElement[bool]) -> list[tuple[str, int]]:
    """The ids and places of rows, in their order."""
    found = connection.execute(select(outbox.c.nonce, outbox.c.seq).where(chosen).order_by(outbox.c.seq))
    return [(row_id(row.nonce, row.seq), row.seq) for row in found]


def doomed(connection: Connection, route: Route, bank: str, places: Sequence[int]) -> tuple[list[str], list[str]]:
    """Takes the chosen rows of a bank out: those that wait at once; the batches of those underway are set apart, so that
    nobody sends them or tries them again. Gives the ids of the rows taken out, and the batches.
    """
    taken: list[str] = []
    held: list[str] = []
    for some in portions(places):
        mine = _mine(route, bank) & outbox.c.seq.in_(some)
        rows = _named(connection, mine & outbox.c.state.in_((*LOST, "held", "pending")))
        forgotten(connection, [seq for _, seq in rows])
        taken += [identifier for identifier, _ in rows]
        held += connection.scalars(select(outbox.c.batch).where(mine, outbox.c.state.in_(UNDERWAY)).distinct())
    apart = list(dict.fromkeys(held))
    _mark(connection, apart, 1)
    return taken, apart


def spared(connection: Connection, held: Sequence[str]) -> None:
    """Batches that were set apart go on as before."""
    _mark(connection, held, 0)


def _mark(connection: Connection, held: Sequence[str], value: int) -> None:
    for some in portions(held):
        connection.execute(update(batches).where(batches.c.id.in_(some)).values(doomed=value))
