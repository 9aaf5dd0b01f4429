"""The names in a bank's memories, and which stand together."""

from __future__ import annotations

from itertools import islice

from lorebank._domain.entities import NEWEST, PAIRS_EACH, Entities, Entity, Together, counted, strongest
from lorebank._domain.memory import FACTS
from lorebank._domain.requests import ListRequest
from lorebank._domain.scope import Scope
from lorebank._hindsight.answers import Answer
from lorebank._hindsight.memories import page
from lorebank._hindsight.server import Server
from lorebank.errors import MissingError


class Named(Answer):
    """An entity."""

    id: str
    canonical_name: str
    mention_count: int


class Names(Answer):
    """A page of entities, the most mentioned first."""

    items: tuple[Named, ...]
    total: int | None = None


class Pair(Answer):
    """Two entities, by their ids, that stand together."""

    source: str
    target: str
    weight: int = 0


class Edge(Answer):
    """A pair in the graph's envelope."""

    data: Pair


class Graph(Answer):
    """Which entities stand together, the most frequent pairs first."""

    edges: tuple[Edge, ...]


def entities(server: Server, scope: Scope, limit: int) -> Entities:
    """The server's own counts, over all valid memories. Where a scope may read only a part of its bank, or several banks, they
    are counted here, over the newest memories that it may read.
    """
    if scope.required is not None or len(scope.searched) > 1:
        return counted((each.entities for each in page(server, scope, ListRequest(NEWEST, types=FACTS))), limit)
    bank = scope.bank
    found = list(islice(server.pages(Names, bank, "entities", query={}, size=limit), limit))
    names = {each.id: each.canonical_name for each in found}
    edges = [edge.data for edge in _graph(server, bank, limit).edges]
    known = [
        (names[each.source], names[each.target], each.weight) for each in edges if {each.source, each.target} <= names.keys()
    ]
    pairs = [Together(min(one, other), max(one, other), weight) for one, other, weight in known]
    found.sort(key=lambda each: (-each.mention_count, each.canonical_name))
    return Entities(tuple(Entity(each.canonical_name, each.mention_count) for each in found), strongest(pairs, limit))


def _graph(server: Server, bank: str, limit: int) -> Graph:
    try:
        return server.read(Graph, bank, "entities", "graph", query={"limit": 4 * limit * PAIRS_EACH})
    except MissingError:
        return Graph(edges=())
