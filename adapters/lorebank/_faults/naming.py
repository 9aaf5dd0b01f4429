"""Entities: listed, shown, and which of them stand together."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

from lorebank._faults.call import Call
from lorebank._faults.checks import Checks, a_uuid
from lorebank._faults.shapes import iso
from lorebank._faults.state import Banks
from lorebank._faults.values import Bank, Fact
from lorebank._faults.wire import RefusalError

__all__ = ["get_entity", "graph", "list_entities"]


def list_entities(banks: Banks, call: Call) -> dict[str, Any]:
    """Entities, the most mentioned first."""
    checks = Checks()
    page = call.page(checks)
    checks.done()
    bank = banks.known(call.bank)
    listed = sorted(_entities(bank).values(), key=lambda each: -each["mention_count"])
    return page.around(page.of(listed), len(listed))


def get_entity(banks: Banks, call: Call) -> dict[str, Any]:
    """One entity."""
    entity_id = a_uuid(call.id, "entity_id")
    entity = _entities(banks.known(call.bank)).get(entity_id)
    if entity is None:
        raise RefusalError(404, f"Entity {entity_id} not found")
    return {**entity, "observations": []}


def graph(banks: Banks, call: Call) -> dict[str, Any]:
    """Which entities stand in the same memories, the most frequent pairs first; entities without a pair are left out."""
    checks = Checks()
    limit = checks.whole(call.first("limit"), ("query", "limit"), 1000, least=0)
    least = checks.whole(call.first("min_count"), ("query", "min_count"), 1)
    checks.done()
    bank = banks.known(call.bank)
    known = _entities(bank)
    pairs = Counter(
        pair
        for fact in bank.facts.values()
        for pair in combinations(sorted({bank.entities[name] for name in fact.entities if name in bank.entities}), 2)
        if fact.state == "valid" and fact.type != "observation"
    )
    found = [(pair, count) for pair, count in pairs.most_common() if count >= least][:limit]
    ids = list(dict.fromkeys(each for pair, _ in found for each in pair))
    nodes = [{"id": each, "label": known[each]["canonical_name"], "mentionCount": known[each]["mention_count"]} for each in ids]
    edges = [{"id": f"{one}-{other}", "source": one, "target": other, "weight": count} for (one, other), count in found]
    return {
        "nodes": [{"data": {**node, "color": "#42a5f5"}} for node in nodes],
        "edges": [{"data": {**edge, "linkType": "cooccurrence", "lineStyle": "solid"}} for edge in edges],
        "total_entities": len(nodes),
        "total_edges": len(edges),
        "limit": limit,
    }


def _entities(bank: Bank) -> dict[str, dict[str, Any]]:
    """Entities by their id; those that no valid memory mentions are left out."""
    facts: dict[str, list[Fact]] = {}
    for fact in bank.facts.values():
        for name in fact.entities if fact.state == "valid" and fact.type != "observation" else ():
            facts.setdefault(name, []).append(fact)
    return {
        bank.entities[name]: _entity(bank.entities[name], name, found) for name, found in facts.items() if name in bank.entities
    }


def _entity(entity_id: str, name: str, facts: list[Fact]) -> dict[str, Any]:
    times = [moment for fact in facts if (moment := fact.start or fact.mentioned_at)]
    return {
        "id": entity_id,
        "canonical_name": name,
        "mention_count": len(facts),
        "first_seen": iso(min(times, default=None)),
        "last_seen": iso(max(times, default=None)),
        "metadata": {},
    }
