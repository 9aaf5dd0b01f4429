"""Reading single memories and pages of them, as one scope may see them."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from lorebank._domain.memory import FACTS, Memory
from lorebank._domain.requests import Kept, ListRequest, Selection
from lorebank._domain.scope import Scope
from lorebank._hindsight.answers import Unit, Units
from lorebank._hindsight.server import PAGE, Server, is_uuid
from lorebank.errors import MissingError

STATES: Mapping[Kept, tuple[str, ...]] = {
    "valid": ("valid",),
    "invalidated": ("invalidated",),
    "all": ("valid", "invalidated"),
}
_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Found:
    """A memory and the bank that holds it."""

    bank: str
    unit: Unit

    def memory(self) -> Memory:
        return self.unit.memory(self.bank)


def find(server: Server, scope: Scope, memory_id: str, banks: tuple[str, ...]) -> Found:
    """The memory that the scope may read, from the first of the banks that has it; `MissingError` otherwise.

    A memory of another bank, one that the scope forbids and one that does not exist are the same to the caller.
    """
    for bank in banks if is_uuid(memory_id) else ():
        try:
            unit = server.read(Unit, bank, "memories", memory_id)
        except MissingError:
            continue
        if scope.admits(unit.tags):
            return Found(bank, unit)
    raise MissingError(f"no memory {memory_id!r} in {' or '.join(map(repr, banks))}")


def page(server: Server, scope: Scope, request: ListRequest) -> tuple[Memory, ...]:
    """One page of the memories that the scope may read, newest first."""
    ids = request.selection.ids
    if ids:
        return _named(server, scope, request)
    wanted = request.offset + request.limit
    lists = [each for bank in scope.searched for each in streams(server, bank, request, min(PAGE, wanted))]
    merged = lists[0] if len(lists) == 1 else heapq.merge(*lists, key=newest, reverse=True)
    admitted = (found for found in merged if fits(scope, request, found.unit))
    return tuple(found.memory() for found in islice(admitted, request.offset, wanted))


def _named(server: Server, scope: Scope, request: ListRequest) -> tuple[Memory, ...]:
    found: list[Found] = []
    for each in request.selection.ids:
        try:
            found.append(find(server, scope, each, scope.searched))
        except MissingError:
            continue
    fitting = [each for each in found if each.unit.state in (None, *STATES[request.kept]) and fits(scope, request, each.unit)]
    fitting.sort(key=newest, reverse=True)
    return tuple(each.memory() for each in fitting[request.offset : request.offset + request.limit])


def newest(found: Found) -> datetime:
    """What lists are sorted by, the highest first."""
    return found.unit.mentioned_at or _NEVER


def streams(server: Server, bank: str, request: ListRequest, size: int) -> list[Iterator[Found]]:
    """Lists of one bank, one for each state; the server narrows them as far as it can."""
    query: dict[str, object] = {}
    selection = request.selection
    if request.types is not None and len(request.types) == 1:
        query["type"] = request.types[0]
    if selection.document is not None:
        query["document_id"] = selection.document
    if selection.tags:
        query |= {"tags": list(selection.tags), "tags_match": "all_strict"}
    if request.before is not None:
        query |= {"time_field": "mentioned_at", "end_date": request.before.isoformat()}
    narrow = selection.rule is None and selection.session is None and selection.document is None
    return [_stream(server, bank, {**query, "state": state}, size if narrow else PAGE) for state in STATES[request.kept]]


def _stream(server: Server, bank: str, query: Mapping[str, object], size: int) -> Iterator[Found]:
    for unit in server.pages(Units, bank, "memories", "list", query=query, size=size):
        yield Found(bank, unit)


def fits(scope: Scope, request: ListRequest, unit: Unit) -> bool:
    """Whether scope and caller want this memory; the server's own narrowing is never relied upon."""
    types, before = request.types, request.before
    early = before is None or (unit.mentioned_at is not None and unit.mentioned_at < before)
    return unit.known and early and (types is None or unit.type in types) and chosen(scope, request.selection, unit)


def chosen(scope: Scope, selection: Selection, unit: Unit) -> bool:
    """Whether a selection means this memory."""
    rule = selection.rule
    return (
        scope.admits(unit.tags)
        and (rule is None or rule.admits(unit.tags))
        and set(selection.tags) <= set(unit.tags)
        and selection.session in (None, unit.session)
        and selection.document in (None, unit.document_id)
    )


def every(server: Server, bank: str, **query: object) -> list[Unit]:
    """All memories of a bank that a query names, in any state."""
    found: list[Unit] = []
    for state in STATES["all"]:
        found += server.pages(Units, bank, "memories", "list", query={**query, "state": state})
    return found


def facts_of(server: Server, bank: str, document_id: str) -> list[Unit]:
    """What was taken from a document, in any state; what was concluded from that is not among it."""
    found = every(server, bank, document_id=document_id)
    return [unit for unit in found if unit.document_id == document_id and unit.type in FACTS]
