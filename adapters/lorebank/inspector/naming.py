"""Entities: who and what the memories name, as a picture and as a table that says the same."""

from __future__ import annotations

from collections import defaultdict

from lorebank._domain.entities import Together
from lorebank.inspector.desk import Asked, Desk
from lorebank.inspector.faults import Fault, attempt
from lorebank.inspector.graph import drawn
from lorebank.inspector.rendering import Page

DRAWN = 36
"""Names in the picture."""
LISTED = 100
"""Names in the table."""
BESIDE = 6
"""Names that are shown beside one of the table."""


async def entities(desk: Desk, asked: Asked) -> Page:
    """The names, the most frequent first."""
    del asked
    found = await attempt(desk.bank.aentities(limit=LISTED))
    if isinstance(found, Fault):
        return Page("entities.html", "Entities", "entities", {"fault": found, "rows": (), "picture": None}, found.status)
    beside = _beside(found.pairs)
    rows = [(each, beside[each.name][:BESIDE]) for each in found.names]
    values = {"fault": None, "rows": rows, "picture": drawn(found, DRAWN), "entities": found}
    return Page("entities.html", "Entities", "entities", values)


def _beside(pairs: tuple[Together, ...]) -> defaultdict[str, list[tuple[str, int]]]:
    """For each name those that it stands together with, the most frequent first."""
    found: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for pair in pairs:
        found[pair.first].append((pair.second, pair.count))
        found[pair.second].append((pair.first, pair.count))
    return found
