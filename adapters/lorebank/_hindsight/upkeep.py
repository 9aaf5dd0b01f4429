"""Numbers of a bank, its tags, and whether the server has trouble with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime

from lorebank._domain.requests import Consolidation, Integrity, Stats
from lorebank._domain.scope import Scope
from lorebank._hindsight.answers import Counts, Curation, Retained, TagCounts, Unit, Units, Version
from lorebank._hindsight.server import Server
from lorebank._hindsight.transport import Call
from lorebank.errors import MissingError


def stats(server: Server, scope: Scope) -> Stats:
    """Counts of the scope's own bank. A server tells no sources, sessions or sizes."""
    bank = scope.bank
    try:
        counts = server.read(Counts, bank, "stats", query={"refresh": "true"})
        valid = _page(server, bank, "valid", 0)
        invalid = _page(server, bank, "invalidated", 0)
    except MissingError:
        return Stats(bank, 0, 0, {}, {}, 0, 0, None, None, None)
    total = valid.total or 0
    last = _page(server, bank, "valid", total - 1) if total > 1 else valid
    models = sum(1 for _ in server.pages(Curation, bank, "mental-models", query={"detail": "metadata"}, size=1000))
    return Stats(
        bank,
        total,
        invalid.total or 0,
        {kind: count for kind, count in counts.nodes_by_fact_type.items() if count},
        {},
        0,
        models,
        _said(last.items),
        _said(valid.items),
        None,
    )


def _page(server: Server, bank: str, state: str, offset: int) -> Units:
    return server.read(Units, bank, "memories", "list", query={"state": state, "limit": 1, "offset": offset})


def _said(units: tuple[Unit, ...]) -> datetime | None:
    return units[0].mentioned_at if units else None


def tags(server: Server, scope: Scope) -> Mapping[str, int]:
    """How many valid memories carry each tag, the most frequent first. Under a tag rule only admitted memories count."""
    counted: Counter[str] = Counter()
    for bank in scope.searched:
        if scope.required is None:
            counted.update({each.tag: each.count for each in server.pages(TagCounts, bank, "tags", query={})})
            continue
        for unit in server.pages(Units, bank, "memories", "list", query={"state": "valid"}):
            counted.update(unit.tags if scope.admits(unit.tags) else ())
    return dict(sorted(counted.items(), key=lambda pair: (-pair[1], pair[0])))


def check(server: Server, scope: Scope) -> Integrity:
    """What the server itself says has failed for the scope's bank, and whether the bank can be read."""
    try:
        counts = server.read(Counts, scope.bank, "stats", query={"refresh": "true"})
        _page(server, scope.bank, "valid", 0)
    except MissingError:
        return Integrity()
    found = ((counts.failed_operations, "operations failed"), (counts.failed_consolidation, "memories were not concluded from"))
    return Integrity(tuple(f"{count} {what}: see `bank.operations`" for count, what in found if count))


def version_text(server: Server) -> str:
    """The server's version, as it says it."""
    return server.ask(Version, Call("GET", "/version", server.settings.timeout, urgent=True)).api_version


def consolidate(server: Server, scope: Scope) -> Consolidation:
    """Has the server conclude observations from what is new in the scope's own bank; a bank that is not there has nothing new."""
    try:
        started = server.change(Retained, "POST", (scope.bank, "consolidate"))
    except MissingError:
        return Consolidation()
    return Consolidation(operation_id=started.operation_id)
