"""Search: what a recall finds, and what each signal added to the scores."""

from __future__ import annotations

from lorebank._domain.memory import TYPES, Memory
from lorebank.inspector.desk import Asked, Desk
from lorebank.inspector.faults import Fault, attempt
from lorebank.inspector.rendering import Page

LIMITS = (10, 25, 50)
TOKENS = 20_000
"""So many that the limit alone bounds what is shown."""


async def search(desk: Desk, asked: Asked) -> Page:
    """The form, and what it finds."""
    query, kind = asked.text("q"), asked.one_of("type", "", *TYPES)
    limit = int(asked.one_of("limit", *map(str, LIMITS)))
    values: dict[str, object] = {"query": query, "kind": kind, "limit": limit, "limits": LIMITS, "types": TYPES}
    if not query:
        return Page("search.html", "Search", "search", {**values, "found": None, "fault": None})
    types = [kind] if kind else None
    found = await attempt(desk.bank.arecall(query, limit=limit, max_tokens=TOKENS, types=types, explain=True))
    if isinstance(found, Fault):
        return Page("search.html", "Search", "search", {**values, "found": None, "fault": found}, found.status)
    names, most = signals_of(found.memories)
    told = {"found": found, "signals": names, "most": most, "fault": None}
    return Page("search.html", f"{query[:60]} - Search", "search", {**values, **told})


def signals_of(memories: tuple[Memory, ...]) -> tuple[list[str], dict[str, float]]:
    """The names of the signals in their order, and the greatest of each."""
    most: dict[str, float] = {}
    for memory in memories:
        for name, value in (memory.signals or {}).items():
            most[name] = max(most.get(name, 0.0), value)
    return [name for name, value in most.items() if value], most
