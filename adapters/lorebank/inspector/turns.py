"""Turns: what was put in front of the model in the last turns of a conversation, and why."""

from __future__ import annotations

import asyncio

from lorebank._domain.memory import Memory
from lorebank._domain.session import Trace
from lorebank.errors import UsageError
from lorebank.inspector.desk import Asked, Desk
from lorebank.inspector.faults import Fault, attempt
from lorebank.inspector.rendering import Page

SIZE = 50
LOOKED_UP = 60
"""Memories whose texts are looked up for one page."""


async def sessions(desk: Desk, asked: Asked) -> Page:
    """The conversations of the bank."""
    skip = asked.whole("skip")
    found = await attempt(desk.bank.sessions.alist(limit=SIZE + 1, offset=skip))
    if isinstance(found, Fault):
        return Page("turns.html", "Turns", "turns", {"fault": found, "sessions": (), "older": None}, found.status)
    older = skip + SIZE if len(found) > SIZE else None
    return Page("turns.html", "Turns", "turns", {"fault": None, "sessions": found[:SIZE], "older": older})


async def session(desk: Desk, asked: Asked) -> Page:
    """One conversation: its traces, newest first."""
    if not (name := asked.text("id")):
        raise UsageError("the address names no session")
    traces = await desk.bank.sessions.atraces(name)
    texts, fault = await _texts(desk, traces)
    values = {"session": name, "traces": traces, "texts": texts, "fault": fault}
    return Page("session.html", f"{name[:60]} - Turns", "turns", values)


async def _texts(desk: Desk, traces: tuple[Trace, ...]) -> tuple[dict[str, Memory], Fault | None]:
    """What the memories say today, as far as they are still there; why they could not be asked for."""
    named = [name for trace in traces for name in (*(each.id for each in trace.shown), *trace.dropped)]
    ids = list(dict.fromkeys(named))[:LOOKED_UP]
    found = await asyncio.gather(*(attempt(desk.bank.aget(each)) for each in ids))
    down = next((each for each in found if isinstance(each, Fault) and each.status != 404), None)
    return {name: memory for name, memory in zip(ids, found, strict=True) if not isinstance(memory, Fault)}, down
