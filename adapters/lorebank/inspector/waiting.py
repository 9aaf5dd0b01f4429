"""The outbox: writes that wait for the server, dead letters with their reasons, and what can be done about them."""

from __future__ import annotations

import asyncio
from typing import cast

from lorebank._domain.outbox import LOST, UNDERWAY, OutboxEntry
from lorebank.inspector.desk import Asked, Desk, link
from lorebank.inspector.faults import Fault, attempt
from lorebank.inspector.rendering import Moved, Page, counted

SIZE = 100
PATIENCE = 20.0
"""Seconds that a flush from the page takes at most."""


async def outbox(desk: Desk, asked: Asked) -> Page:
    """What is on its way."""
    skip = asked.whole("skip")
    status, rows = await asyncio.gather(
        attempt(desk.bank.outbox.astatus()), attempt(desk.bank.outbox.alist(limit=SIZE + 1, offset=skip))
    )
    fault = next((each for each in (status, rows) if isinstance(each, Fault)), None)
    if fault is not None:
        return Page("outbox.html", "Outbox", "outbox", {"fault": fault, "status": None, "rows": (), "older": None}, fault.status)
    listed = cast("tuple[OutboxEntry, ...]", rows)
    older = link("/outbox", skip=skip + SIZE) if len(listed) > SIZE else None
    values = {"fault": None, "status": status, "rows": listed[:SIZE], "older": older, "lost": LOST, "underway": UNDERWAY}
    return Page("outbox.html", "Outbox", "outbox", values)


async def requeue(desk: Desk, asked: Asked) -> Moved:
    """Has a dead letter sent again, or all of them."""
    count = await desk.bank.outbox.arequeue([asked.text("id")] if asked.text("id") else None)
    return Moved("/outbox", f"{counted(count, 'dead letter')} will be sent again.")


async def flush(desk: Desk, asked: Asked) -> Moved:
    """Sends what waits, now."""
    del asked
    report = await desk.bank.aflush(timeout=PATIENCE)
    left = f"{counted(report.left, 'write')} left: {report.reason}."
    return Moved("/outbox", "All is delivered." if report.done else left)


async def doomed(desk: Desk, asked: Asked) -> Page:
    """Shows what a purge deletes, and asks."""
    entry = await desk.bank.outbox.aget(asked.text("id"))
    return Page("purge.html", "Delete a write", "outbox", {"entry": entry})


async def purge(desk: Desk, asked: Asked) -> Moved:
    """Deletes a write that has not reached the server."""
    count = await desk.bank.outbox.apurge([asked.text("id")])
    return Moved("/outbox", "The write is deleted." if count else "Nothing was deleted: the write is on its way, or gone.")
