"""Writes that are queued for another bank, or at another address, become this one's: one transaction, whole or not at all.

What waits moves as it is. A batch that is sealed may have reached the former server: to the same bank it moves with its body and
its operation id, so that a server that only has a new address takes it once; for another bank its rows are sealed anew. What
the former server has taken, and what a sender is at work on, stays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, delete, select, true, update

from lorebank._database.driver import rows_of, run
from lorebank._domain.outbox import Rerouted, sources, target
from lorebank._ledger.schema import batches, outbox
from lorebank._ledger.settling import portions
from lorebank._ledger.values import Route, row_id
from lorebank.errors import RefusedError

WAITING = ("held", "pending", "sealed")
STAYING = ("accepted", "failed")

Renamed = Callable[[str, str, str, str], tuple[str, str, str] | None]
"""Given a row's bank, document, body and digest: the last three as they are in the new bank; `None` where they stay."""
Busy = Callable[[str | None, float], bool]
"""Whether a claim (owner, end of the lease) is somebody's work."""


@dataclass(frozen=True, slots=True)
class Move:
    """From where to where: the former server's address and bank (`None`: any), this one's route and bank."""

    url: str | None
    origin: str | None
    route: Route
    bank: str
    renamed: Renamed
    busy: Busy

    @property
    def chosen(self) -> ColumnElement[bool]:
        """The rows that the former place holds; those that are here already are none of them."""
        mine = (outbox.c.route == self.route.url) & (outbox.c.bank == self.bank)
        from_url = true() if self.url is None else outbox.c.route == self.url
        return from_url & (true() if self.origin is None else outbox.c.bank == self.origin) & ~mine


def reroute(connection: Connection, move: Move, places: Sequence[int] | None, now: float, *, dry_run: bool) -> Rerouted:
    """Moves what waits, or the rows at these places, the dead ones among them too; tells what stays. `RefusedError` where a row
    that is named can't move.
    """
    held = _held(connection, move)
    rows = list(_rows(connection, move, places, held))
    batch_of = {row["batch"] for row in rows if row["state"] == "sealed"} - held
    moving = [row for row in rows if row["state"] in ("held", "pending", "dead") or row["batch"] in batch_of]
    staying = [row for row in rows if row["state"] in STAYING or row["batch"] in held]
    if places is not None and (stuck := [row for row in rows if row not in moving]):
        raise RefusedError(
            f"the write {_id(stuck[0])!r} is {stuck[0]['state']}: what is under way, delivered or unreadable can't be rerouted; "
            "nothing was changed"
        )
    told = Rerouted(tuple(map(_id, moving)), tuple(map(_id, staying)), dry_run=dry_run)
    if not dry_run:
        _move_batches(connection, move, sorted(batch_of), now)
        _move_rows(connection, move, moving, now)
        _move_sessions(connection, move, moving)
    return told


def _held(connection: Connection, move: Move) -> set[str]:
    """The batches that somebody works on, or that are being forgotten."""
    query = select(batches.c.id, batches.c.owner, batches.c.lease, batches.c.doomed)
    return {batch.id for batch in connection.execute(query) if batch.doomed or move.busy(batch.owner, batch.lease)}


def _rows(connection: Connection, move: Move, places: Sequence[int] | None, held: Collection[str]) -> Iterator[RowMapping]:
    """The rows that are meant, in their order. A sealed batch goes whole, whichever of its rows are named."""
    if places is None:
        yield from _found(connection, move.chosen & outbox.c.state.in_((*WAITING, *STAYING)))
        return
    named = [row for some in portions(places) for row in _found(connection, move.chosen & outbox.c.seq.in_(some))]
    sealed = sorted({row["batch"] for row in named if row["state"] == "sealed"} - set(held))
    known = {row["seq"] for row in named}
    company = [
        row for some in portions(sealed) for row in _found(connection, outbox.c.batch.in_(some)) if row["seq"] not in known
    ]
    yield from sorted([*named, *company], key=lambda row: row["seq"])


def _found(connection: Connection, chosen: ColumnElement[bool]) -> Sequence[RowMapping]:
    lean = (outbox.c.seq, outbox.c.nonce, outbox.c.route, outbox.c.bank, outbox.c.state, outbox.c.batch, outbox.c.session)
    return connection.execute(select(*lean).where(chosen).order_by(outbox.c.seq)).mappings().all()


def _id(row: RowMapping) -> str:
    return row_id(row["nonce"], row["seq"])


def _move_batches(connection: Connection, move: Move, ids: Sequence[str], now: float) -> None:
    """Sealed batches follow their rows; those of another bank are dissolved into rows that wait."""
    fresh = {"due": now, "owner": None, "lease": 0, "losses": 0, "strikes": 0, "seen": -1, "reason": None}
    waiting = {"state": target("split"), "batch": None, "part": None}
    for some in portions(ids):
        mine, same = batches.c.id.in_(some), batches.c.bank == move.bank
        connection.execute(update(batches).where(mine, same).values(route=move.route.url, key=move.route.key, **fresh))
        others = select(batches.c.id).where(mine, ~same)
        connection.execute(update(outbox).where(outbox.c.batch.in_(others), outbox.c.state.in_(sources("split"))).values(waiting))
        connection.execute(delete(batches).where(mine, ~same))


def _move_rows(connection: Connection, move: Move, rows: Sequence[RowMapping], now: float) -> None:
    """Rows get the new route and bank, and what is named after its bank a new name; dead ones wait again."""
    place = {"route": move.route.url, "key": move.route.key, "bank": move.bank}
    again = {"state": target("requeue"), "since": now, "attempts": 0, "part": None, "reason": None}
    other = [row["seq"] for row in rows if row["bank"] != move.bank]
    for some in portions(other):
        whole = select(outbox.c.seq, outbox.c.bank, outbox.c.document, outbox.c.body, outbox.c.digest)
        for row in connection.execute(whole.where(outbox.c.seq.in_(some))).all():
            if row.body is not None and (new := move.renamed(row.bank, row.document, row.body, row.digest)):
                changed = dict(zip(("document", "body", "digest"), new, strict=True))
                connection.execute(update(outbox).where(outbox.c.seq == row.seq).values(changed))
    for some in portions([row["seq"] for row in rows]):
        mine = outbox.c.seq.in_(some)
        connection.execute(update(outbox).where(mine, outbox.c.state.in_(sources("requeue"))).values(again))
        connection.execute(update(outbox).where(mine).values(place))


_LABELS = "SELECT number, label FROM sessions WHERE place = ? AND bank = ? AND id = ?"
_TARGET = "SELECT number FROM sessions WHERE place = ? AND bank = ? AND label = ? AND id = ?"
_TAKE = "UPDATE sessions SET place = ?, bank = ? WHERE number = ?"
_COPY = """INSERT OR IGNORE INTO cursors (session, identity, run, holder, kept, seen)
           SELECT ?, identity, run, holder, kept, seen FROM cursors WHERE session = ?"""


def _move_sessions(connection: Connection, move: Move, rows: Sequence[RowMapping]) -> None:
    """The sessions whose messages move bring what they know of them: nothing is told twice. A session that is here already
    learns which messages those were.
    """
    named = {(row["route"], row["bank"], row["session"]) for row in rows if row["session"] is not None}
    for place in sorted(named):
        for number, label in rows_of(connection, _LABELS, place):
            there: list[Any] = list(rows_of(connection, _TARGET, (move.route.url, move.bank, label, place[2])))
            if there:
                run(connection, _COPY, (there[0][0], number))
            else:
                run(connection, _TAKE, (move.route.url, move.bank, number))
