"""What an answer, or none, does to a batch and its rows. Each function is one step of the state machine in one transaction.

A batch that somebody else has settled meanwhile is left as it is: every step starts from the states it may start from.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, update

from lorebank._domain.outbox import Step, rest, sources, target
from lorebank._ledger.schema import batches, outbox, outcomes, routes, totals
from lorebank._ledger.values import Claim, Moment, Outage, Route, Trouble, row_id

T = TypeVar("T")
FIRST_POLL, LONGEST_POLL = 0.1, 5.0
"""Seconds until an operation is asked after, doubling up to the second figure."""
SERVER_RETRIES = 3
"""How often a failed operation is tried again on the server."""
RETRY_AFTER = 2.0
"""Seconds before the first of these, four times as long before each next."""
LONGEST_WAIT = RETRY_AFTER * 4**SERVER_RETRIES
"""Seconds for which a batch is put off at most, apart from its route's rests."""
STRIKES = 5
"""How often a batch may fail with a 5xx while others pass."""
IN_PLACE = 500
"""How many values one statement names: SQLite bounds them."""


def accepted(connection: Connection, claim: Claim, route: Route, now: float) -> Outage:
    """The server took the batch."""
    if _step(connection, claim, "accept"):
        _batch(connection, claim, state="accepted", due=now + FIRST_POLL, owner=None, lease=0, polls=0, strikes=0, reason=None)
    change = _calmed(connection, route, now)
    connection.execute(update(routes).where(_of(route)).values(successes=routes.c.successes + 1))
    return change


def running(connection: Connection, claim: Claim, now: float, longest: float) -> None:
    """The operation is not over; `longest` bounds how long until the next look, in seconds."""
    delay = min(FIRST_POLL * 2 ** min(claim.polls + 1, 16), longest)
    _batch(connection, claim, due=now + delay, owner=None, lease=0, polls=claim.polls + 1)


def completed(connection: Connection, claim: Claim, route: Route, now: float, counts: tuple[int | None, int | None]) -> None:
    """The operation is over and well: the rows have done their work; of their text nothing stays."""
    mine = _of_batch(claim) & outbox.c.state.in_(sources("complete"))
    documents = connection.execute(select(outbox.c.document).where(mine).distinct()).scalars().all()
    account(connection, mine)
    if _step(connection, claim, "complete", body=None, size=0, since=now, reason=None):
        _outcomes(
            connection, claim, route, documents, {"operation": claim.id, "items": counts[0], "tokens": counts[1], "at": now}
        )
        connection.execute(delete(batches).where(batches.c.id == claim.id))


def lost(connection: Connection, claim: Claim, now: float) -> None:
    """The server does not know the operation (any more): the same batch is sent again, a little later each time."""
    if _step(connection, claim, "lose"):
        wait = RETRY_AFTER * (4**claim.losses - 1)
        _batch(connection, claim, state="sealed", due=now + wait, owner=None, lease=0, losses=claim.losses + 1)


def failed(connection: Connection, claim: Claim, reason: str, now: float) -> list[str]:
    """The operation failed. It is tried again on the server, then in single rows; gives the rows that are dead now."""
    if not _step(connection, claim, "fail", reason=reason):
        return []
    if claim.retries < SERVER_RETRIES:
        wait = RETRY_AFTER * 4**claim.retries
        _batch(connection, claim, state="failed", due=now + wait, owner=None, lease=0, reason=reason)
        return []
    if len(claim.rows) > 1:
        _split(connection, claim, [(place,) for place in claim.rows])
        return []
    return _dead(connection, claim, claim.rows, reason, now)


def retried(connection: Connection, claim: Claim, now: float) -> None:
    """The server tries the operation again."""
    if _step(connection, claim, "retry"):
        again = {"state": "accepted", "retries": claim.retries + 1, "polls": 0}
        _batch(connection, claim, due=now + FIRST_POLL, owner=None, lease=0, **again)


def refused(connection: Connection, claim: Claim, bad: Sequence[int], reason: str, now: float) -> list[str]:
    """The server will never take the batch. The rows it names are dead, the rest is sealed anew; where it names none, the
    batch is halved until one row is left.
    """
    named = [] if claim.folded else [claim.rows[index] for index in bad if index < len(claim.rows)]
    if named or len(claim.rows) == 1:
        dead = named or list(claim.rows)
        names = _dead(connection, claim, dead, reason, now)
        good = [place for place in claim.rows if place not in dead]
        _split(connection, claim, [tuple(good)] if good else [])
        return names
    middle = len(claim.rows) // 2
    _split(connection, claim, [claim.rows[:middle], claim.rows[middle:]])
    return []


def troubled(connection: Connection, claim: Claim, route: Route, trouble: Trouble, moment: Moment) -> tuple[Outage, list[str]]:
    """No answer that settles it: the route rests, and no attempt is burnt. Only a batch that fails with a 5xx again and
    again while others pass is given up.
    """
    change, pause = _rested(connection, route, trouble, moment)
    batch = connection.execute(select(batches.c.strikes, batches.c.seen).where(batches.c.id == claim.id)).one_or_none()
    if batch is None:
        return change, []
    passed = connection.scalar(select(routes.c.successes).where(_of(route))) or 0
    strikes = batch.strikes + int(trouble.broken and (batch.seen < 0 or passed > batch.seen))
    own = {"strikes": strikes, "seen": passed if trouble.suspect else batch.seen, "reason": trouble.reason}
    _batch(connection, claim, due=moment.now + min(pause, LONGEST_POLL), owner=None, lease=0, **own)
    connection.execute(update(outbox).where(_of_batch(claim)).values(attempts=outbox.c.attempts + 1))
    if strikes < STRIKES or claim.state != "sealed":
        return change, []
    return change, refused(connection, claim, (), trouble.reason, moment.now)


def answered(connection: Connection, route: Route, now: float) -> Outage:
    """The server answered, if not to a write: the route goes on, unless it is writes that fail."""
    failing = batches.c.state == "sealed", batches.c.reason.is_not(None)
    unsent = select(batches.c.id).where(batches.c.route == route.url, batches.c.key == route.key, *failing).limit(1)
    return Outage() if connection.scalar(unsent) is not None else _calmed(connection, route, now)


def _calmed(connection: Connection, route: Route, now: float) -> Outage:
    row = _route(connection, route)
    calm: dict[str, Any] = {"failures": 0, "down_since": None, "rest_until": 0, "asked": 0, "refused": 0, "reason": None}
    connection.execute(update(routes).where(_of(route)).values(last_success=now, **calm))
    if row.down_since is None:
        return Outage()
    return Outage(ended=True, seconds=max(now - row.down_since, 0.0), failures=row.failures)


def forgotten(connection: Connection, places: Sequence[int]) -> None:
    """Takes rows out of the outbox, whatever became of them."""
    for some in portions(places):
        chosen = outbox.c.seq.in_(some)
        account(connection, chosen)
        connection.execute(delete(outbox).where(chosen))


def portions(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Values in portions that one statement can name."""
    for start in range(0, len(values), IN_PLACE):
        yield values[start : start + IN_PLACE]


def dissolved(connection: Connection, claim: Claim) -> None:
    """A batch that had no effect, or failed, becomes waiting rows again."""
    if claim.state == "accepted":
        _step(connection, claim, "fail")
    _step(connection, claim, "split", batch=None, part=None)
    connection.execute(delete(batches).where(batches.c.id == claim.id))


def account(connection: Connection, chosen: ColumnElement[bool]) -> None:
    """Takes rows off the count of what the ledger holds; those that are delivered are off already."""
    held = select(func.count(), func.coalesce(func.sum(outbox.c.size), 0)).where(chosen, outbox.c.state != "completed")
    rows, size = connection.execute(held).one()
    connection.execute(update(totals).values(rows=totals.c.rows - rows, bytes=totals.c.bytes - size))


def _rested(connection: Connection, route: Route, trouble: Trouble, moment: Moment) -> tuple[Outage, float]:
    row = _route(connection, route)
    failures = row.failures + 1
    pause = moment.longest if trouble.refused else rest(failures, moment.chance, moment.longest)
    if trouble.asked is not None:
        pause = max(min(trouble.asked, moment.longest), 0.05)
    began = row.down_since is None
    until = moment.now + pause
    values = {"failures": failures, "rest_until": until, "asked": int(trouble.asked is not None), "reason": trouble.reason}
    down = moment.now if began else row.down_since
    connection.execute(update(routes).where(_of(route)).values(**values, refused=int(trouble.refused), down_since=down))
    return Outage(began=began), pause


def _route(connection: Connection, route: Route) -> Any:
    row = connection.execute(select(routes).where(_of(route))).one_or_none()
    if row is None:
        fresh = {"failures": 0, "successes": 0, "rest_until": 0, "asked": 0, "refused": 0}
        connection.execute(insert(routes).values(route=route.url, key=route.key, **fresh))
        row = connection.execute(select(routes).where(_of(route))).one()
    return row


def _of(route: Route) -> Any:
    return (routes.c.route == route.url) & (routes.c.key == route.key)


def _step(connection: Connection, claim: Claim, step: Step, **values: Any) -> int:
    """Moves the batch's rows; gives how many moved."""
    chosen = _of_batch(claim) & outbox.c.state.in_(sources(step))
    return connection.execute(update(outbox).where(chosen).values(state=target(step), **values)).rowcount


def _batch(connection: Connection, claim: Claim, **values: Any) -> None:
    connection.execute(update(batches).where(batches.c.id == claim.id).values(**values))


def _dead(connection: Connection, claim: Claim, places: Sequence[int], reason: str, now: float) -> list[str]:
    """These rows are given up; they leave the batch, which ends with the last of its rows."""
    chosen = outbox.c.seq.in_(places) & (outbox.c.batch == claim.id) & outbox.c.state.in_(sources("refuse"))
    rows = connection.execute(select(outbox.c.nonce, outbox.c.seq).where(chosen)).all()
    connection.execute(update(outbox).where(chosen).values(state=target("refuse"), reason=reason, since=now, batch=None))
    if len(places) == len(claim.rows):
        connection.execute(delete(batches).where(batches.c.id == claim.id))
    return [row_id(nonce, seq) for nonce, seq in rows]


def _split(connection: Connection, claim: Claim, groups: Sequence[Sequence[int]]) -> None:
    """The batch's rows wait again, to be sealed anew, each group by itself."""
    for group in groups:
        part = secrets.token_hex(4) if len(groups) > 1 else None
        chosen = outbox.c.seq.in_(group) & (outbox.c.batch == claim.id) & outbox.c.state.in_(sources("split"))
        connection.execute(update(outbox).where(chosen).values(state=target("split"), batch=None, part=part))
    connection.execute(delete(batches).where(batches.c.id == claim.id))


def _of_batch(claim: Claim) -> ColumnElement[bool]:
    """The batch's rows, found by their places, as far as they still belong to it."""
    return outbox.c.seq.in_(claim.rows) & (outbox.c.batch == claim.id)


def _outcomes(connection: Connection, claim: Claim, route: Route, documents: Sequence[str], values: dict[str, Any]) -> None:
    """What became of documents, in numbers: the newest operation only."""
    place = {"route": route.url, "bank": claim.bank}
    same = (outcomes.c.route == route.url) & (outcomes.c.bank == claim.bank) & outcomes.c.document.in_(documents)
    connection.execute(delete(outcomes).where(same))
    connection.execute(insert(outcomes), [{**place, "document": document, **values} for document in documents])
