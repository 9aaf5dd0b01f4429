"""Claiming work: what may be sent now, sealed into batches that never change, and what may be asked after.

Order is kept for each document: a row is sealed only when no row of its document is underway and none before it waits.
A claim is a lease: whoever holds it works on the batch until the lease is over or its process is gone.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, and_, case, exists, func, insert, or_, select, update

from lorebank._domain.outbox import UNDERWAY, is_due, sources, target
from lorebank._ledger.schema import batches, outbox, routes
from lorebank._ledger.values import Claim, Route, row_id

OPERATIONS = uuid.UUID("6f1d3c1e-9f0a-5c52-9a0b-5b6f2f6c8a11")
"""The name space of operation ids, which are made from the rows' ids and how often they were sealed."""
BATCH_BYTES = 512 * 1024
HEADS = 256
"""How many rows are looked at for one batch."""

Compose = Callable[[Sequence[dict[str, Any]], str], bytes]
"""Makes the body of a batch from its items and its operation id."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How batches are made and claimed: `owner` claims them for `lease` seconds; `rows` at most in one; a row waits `wait`
    seconds for company; nothing is ever put off for longer than `longest`. `spoilt` hears of rows that can't be read.
    """

    owner: str
    rows: int
    wait: float
    lease: float
    longest: float
    compose: Compose
    spoilt: Callable[[Sequence[str]], None]


def claim_sending(connection: Connection, route: Route, terms: Terms, now: float, *, urgent: bool) -> Claim | None:
    """A batch to send: one that is sealed and due, else a new one. `urgent` waits for no company.

    One that failed by itself since a batch was last taken lets a new one go first: that tells whether the batch is at fault,
    or the server.
    """
    found = _due(connection, route, ("sealed",), terms, now, urgent=urgent)
    if found is None or found["seen"] == _passed(connection, route):
        found = _seal(connection, route, terms, now, urgent=urgent) or found
    return None if found is None else _leased(connection, found, terms, now)


def _passed(connection: Connection, route: Route) -> int:
    """How many batches the server has taken."""
    mine = (routes.c.route == route.url) & (routes.c.key == route.key)
    return connection.scalar(select(routes.c.successes).where(mine)) or 0


def claim_asking(connection: Connection, route: Route, terms: Terms, now: float, *, urgent: bool) -> Claim | None:
    """A batch whose operation is to be asked after, or tried again."""
    found = _due(connection, route, ("accepted", "failed"), terms, now, urgent=urgent)
    return None if found is None else _leased(connection, found, terms, now)


def _due(
    connection: Connection, route: Route, states: Sequence[str], terms: Terms, now: float, *, urgent: bool
) -> RowMapping | None:
    """The batch that has waited longest; `urgent` takes one before its time, unless it fails by itself."""
    due = (batches.c.due <= now) | (batches.c.due > now + terms.longest)
    harmless = (batches.c.strikes == 0) & (batches.c.losses == 0)
    ready = or_(due, harmless) if urgent and "sealed" in states else due
    mine = and_(batches.c.route == route.url, batches.c.key == route.key, batches.c.state.in_(states), batches.c.doomed == 0)
    found = select(batches).where(mine, ready, free(terms, now)).order_by(batches.c.due, batches.c.id).limit(1)
    return connection.execute(found).mappings().one_or_none()


def free(terms: Terms, now: float) -> ColumnElement[bool]:
    """Batches that nobody else works on. A lease that ends further ahead than any is given was made by another clock."""
    lease = batches.c.lease
    return or_(batches.c.owner.is_(None), batches.c.owner == terms.owner, lease <= now, lease > now + terms.lease)


def _leased(connection: Connection, batch: RowMapping, terms: Terms, now: float) -> Claim:
    connection.execute(update(batches).where(batches.c.id == batch["id"]).values(owner=terms.owner, lease=now + terms.lease))
    return Claim(
        batch["id"],
        batch["bank"],
        tuple(json.loads(batch["rows"])),
        batch["items"],
        batch["body"],
        batch["state"],
        batch["polls"],
        batch["retries"],
        batch["losses"],
    )


def _seal(connection: Connection, route: Route, terms: Terms, now: float, *, urgent: bool) -> RowMapping | None:
    heads = _heads(connection, route)
    if not heads:
        return None
    for head in heads:
        group = _run(connection, route, head, terms.rows) if head["solo"] else _company(heads, head, terms.rows)
        full = len(group) >= terms.rows
        if urgent or full or is_due(head["since"] + terms.wait, now, terms.wait):
            sealed = _sealed(connection, route, group, terms, now)
            if sealed is not None:
                return sealed
    return None


def _heads(connection: Connection, route: Route, limit: int = HEADS) -> Sequence[RowMapping]:
    """The first waiting row of each document that has nothing underway, in the order of arrival."""
    before = outbox.alias()
    same = (before.c.route == outbox.c.route) & (before.c.bank == outbox.c.bank) & (before.c.document == outbox.c.document)
    underway = exists().where(same, before.c.state.in_(UNDERWAY))
    earlier = exists().where(same, before.c.state.in_(("held", "pending")), before.c.seq < outbox.c.seq)
    pending = (outbox.c.route == route.url) & (outbox.c.key == route.key) & (outbox.c.state == "pending")
    first = select(*_LEAN).where(pending, ~underway, ~earlier).order_by(outbox.c.seq).limit(limit)
    return connection.execute(first).mappings().all()


_LEAN = [column for column in outbox.columns if column.name != "body"]
"""What is looked at before it is known what is sent: bodies may be large."""


def _company(heads: Sequence[RowMapping], head: RowMapping, most: int) -> list[RowMapping]:
    """Rows of other documents that may go with this one: same bank, same part of a split."""
    group: list[RowMapping] = []
    size = 0
    for row in heads:
        if row["solo"] or row["bank"] != head["bank"] or row["part"] != head["part"] or row["seq"] < head["seq"]:
            continue
        size += row["size"]
        if group and (size > BATCH_BYTES or len(group) == most):
            break
        group.append(row)
    return group


def _run(connection: Connection, route: Route, head: RowMapping, most: int) -> list[RowMapping]:
    """The rows of one document that follow each other and may be appended as one."""
    same = (outbox.c.route == route.url) & (outbox.c.bank == head["bank"]) & (outbox.c.document == head["document"])
    waiting = outbox.c.state.in_(("held", "pending")) & (outbox.c.seq > head["seq"])
    group, size = [head], head["size"]
    if head["fold"] is None:
        return group
    for row in connection.execute(select(*_LEAN).where(same, waiting).order_by(outbox.c.seq).limit(most)).mappings():
        size += row["size"]
        fits = size <= BATCH_BYTES and len(group) < most and row["key"] == head["key"]
        if not fits or row["state"] != "pending" or row["fold"] != head["fold"] or row["part"] != head["part"]:
            break
        group.append(row)
    return group


def _sealed(connection: Connection, route: Route, group: Sequence[RowMapping], terms: Terms, now: float) -> RowMapping | None:
    """Writes a batch of these rows; those that can't be read are set aside."""
    chosen = outbox.c.seq.in_([row["seq"] for row in group])
    bodies = {row.seq: row.body for row in connection.execute(select(outbox.c.seq, outbox.c.body).where(chosen))}
    read = [(row, _item(bodies[row["seq"]])) for row in group]
    if bad := [row for row, item in read if item is None]:
        _spoil(connection, bad, now)
        terms.spoilt([row_id(row["nonce"], row["seq"]) for row in bad])
    items = [item for _, item in read if item is not None]
    rows = [row for row, item in read if item is not None]
    if not rows:
        return None
    made = "\n".join(f"{row_id(row['nonce'], row['seq'])}:{row['generation'] + 1}" for row in rows)
    operation = str(uuid.uuid5(OPERATIONS, made))
    sent = folded(items) if rows[0]["solo"] else items
    places = [row["seq"] for row in rows]
    fixed = {"id": operation, "route": route.url, "key": route.key, "bank": rows[0]["bank"], "rows": json.dumps(places)}
    body = {"items": len(sent), "body": terms.compose(sent, operation)}
    connection.execute(insert(batches).values(**fixed, **body, **_FRESH, due=now))
    changed = {"state": target("seal"), "batch": operation, "generation": outbox.c.generation + 1}
    connection.execute(update(outbox).where(outbox.c.seq.in_(places), outbox.c.state.in_(sources("seal"))).values(changed))
    return connection.execute(select(batches).where(batches.c.id == operation)).mappings().one()


_FRESH = {"state": "sealed", "lease": 0, "polls": 0, "retries": 0, "losses": 0, "strikes": 0, "seen": -1, "doomed": 0}


def folded(items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Appends to one document as one item: the server joins with a line feed, too."""
    return [{**items[0], "content": "\n".join(item["content"] for item in items)}]


def _item(body: str | None) -> dict[str, Any] | None:
    try:
        item: Any = json.loads(body or "")
        return item if isinstance(item["content"], str) else None
    except (TypeError, ValueError, KeyError):
        return None


def _spoil(connection: Connection, rows: Sequence[RowMapping], now: float) -> None:
    changed = {"state": target("spoil"), "reason": "the row can't be read", "since": now}
    chosen = outbox.c.seq.in_([row["seq"] for row in rows])
    connection.execute(update(outbox).where(chosen, outbox.c.state.in_(sources("spoil"))).values(changed))


def next_due(connection: Connection, route: Route, terms: Terms, now: float) -> float | None:
    """In how many seconds there is something to do, 0 if now; `None` when nothing waits. Rows that stand behind others of
    their document are not due. Times that a clock wrote which has been set back since have come, as for a claim.
    """
    mine = (batches.c.route == route.url) & (batches.c.key == route.key) & (batches.c.doomed == 0)
    due = case((batches.c.due > now + terms.longest, now), else_=batches.c.due)
    when = case((free(terms, now), due), else_=func.max(due, batches.c.lease))
    first = connection.scalar(select(func.min(when)).where(mine))
    times = [] if first is None else [first]
    for head in _heads(connection, route, 1):
        ready = head["since"] + terms.wait
        times.append(now if is_due(ready, now, terms.wait) else ready)
    return max(min(times) - now, 0.0) if times else None
