"""The timeline: all memories, newest first, by day.

A page begins before a moment, so that it stays where it is while new memories come. Several memories may have been said at
once: `skip` is how many of that moment stood on the pages before.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby

from lorebank._domain.memory import TYPES, Memory
from lorebank.inspector.desk import Asked, Desk, link
from lorebank.inspector.faults import Fault, attempt
from lorebank.inspector.rendering import Page

SIZE = 50
STATES = ("valid", "invalidated", "all")
_TICK = timedelta(microseconds=1)


async def timeline(desk: Desk, asked: Asked) -> Page:
    """One page of it."""
    state, kind, skip = asked.one_of("state", *STATES), asked.one_of("type", "", *TYPES), asked.whole("skip")
    day = asked.text("day")
    before = _end_of(day) if day else _moment(asked.text("before"))
    chosen: dict[str, object] = {"state": state, "type": kind}
    values = {"state": state, "kind": kind, "day": day, "states": STATES, "types": TYPES, "begun": before is not None or skip > 0}
    types = [kind] if kind else None
    found = await attempt(desk.bank.alist(limit=SIZE + 1, offset=skip, types=types, state=state, before=before))  # type: ignore[arg-type]
    if isinstance(found, Fault):
        return Page("timeline.html", "Timeline", "timeline", {**values, "days": [], "older": None, "fault": found}, found.status)
    shown = found[:SIZE]
    older = link("/timeline", **chosen, **_cursor(shown, before, skip)) if len(found) > SIZE else None
    days = [(each, list(memories)) for each, memories in groupby(shown, _day)]
    return Page("timeline.html", "Timeline", "timeline", {**values, "days": days, "older": older, "fault": None})


def _cursor(shown: Sequence[Memory], before: datetime | None, skip: int) -> dict[str, object]:
    """Where the next page begins."""
    last = shown[-1].mentioned_at
    if last is None:
        return {"before": None if before is None else before.isoformat(), "skip": skip + len(shown)}
    until, alike = last + _TICK, sum(memory.mentioned_at == last for memory in shown)
    return {"before": until.isoformat(), "skip": alike + (skip if until == before else 0)}


def _day(memory: Memory) -> str:
    return "No date" if memory.mentioned_at is None else f"{memory.mentioned_at:%A, %d %B %Y}"


def _end_of(day: str) -> datetime | None:
    found = _moment(day)
    return None if found is None or found.year > 9990 else found.replace(hour=0, minute=0) + timedelta(days=1)


def _moment(text: str) -> datetime | None:
    """A moment that a page or a person names; nothing where it can't be read."""
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
