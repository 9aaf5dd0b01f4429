"""Forgetting and clearing: documents are what a server deletes, so a memory goes with the document that holds it alone.

After a deletion the server is asked whether it is done. Mental models that were written from what is gone are made anew,
since their history and their sources can't be emptied otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from lorebank._domain.memory import FACTS, Removal
from lorebank._domain.requests import Selection
from lorebank._domain.scope import Scope
from lorebank._hindsight.answers import Answer, Curated, Curation, Paper, Papers, Unit
from lorebank._hindsight.editing import withdraw
from lorebank._hindsight.memories import Found, every, facts_of, find
from lorebank._hindsight.server import Server
from lorebank._hindsight.wire import SESSION
from lorebank.errors import MissingError, UnavailableError, UnsupportedError

BEYOND = ("the server's backups and logs", "the host's own checkpoints and histories")
SWEEPS = 3
"""How often a bank is cleared until it is empty: work underway may add to it meanwhile."""


def forget(server: Server, scope: Scope, selection: Selection, *, dry_run: bool) -> Removal:
    """Deletes one memory by id, or the documents that match all filters."""
    if selection.ids:
        return _forget_one(server, scope, selection.ids[0], dry_run=dry_run)
    taken: list[tuple[Paper, list[Unit]]] = []
    for paper in _documents(server, scope, selection):
        facts = facts_of(server, scope.bank, paper.id)
        if all(scope.admits(unit.tags) for unit in facts):
            taken.append((paper, facts))
    ids = tuple(unit.id for _, facts in taken for unit in facts)
    if dry_run:
        return Removal(ids, dry_run=True, beyond=BEYOND)
    return _deleted(server, scope.bank, [paper.id for paper, _ in taken], ids)


def _documents(server: Server, scope: Scope, selection: Selection) -> Iterator[Paper]:
    """The documents of the scope's own bank that a selection means."""
    for paper in _candidates(server, scope.bank, selection.document):
        rule = selection.rule
        admitted = scope.admits(paper.tags) and (rule is None or rule.admits(paper.tags))
        in_session = selection.session in (None, paper.document_metadata.get(SESSION))
        if admitted and in_session and set(selection.tags) <= set(paper.tags):
            yield paper


def _candidates(server: Server, bank: str, document: str | None) -> list[Paper]:
    if document is None:
        return list(server.pages(Papers, bank, "documents", query={}, size=100))
    try:
        return [server.read(Paper, bank, "documents", document)]
    except MissingError:
        return []


def _forget_one(server: Server, scope: Scope, memory_id: str, *, dry_run: bool) -> Removal:
    found = find(server, scope, memory_id, scope.reads)
    if found.unit.type not in FACTS:
        raise UnsupportedError("Hindsight can't delete an observation: it is concluded from facts; forget those")
    document = found.unit.document_id
    others = 0 if document is None else len(facts_of(server, found.bank, document)) - 1
    if dry_run:
        return Removal((memory_id,), dry_run=True, beyond=BEYOND)
    if document is None or others > 0:
        return _withdrawn(server, found, others)
    removal = _deleted(server, found.bank, [document], (memory_id,))
    return replace(removal, reason=removal.reason or f"deleted, with its document {document!r}")


def _withdrawn(server: Server, found: Found, others: int) -> Removal:
    """A memory among others of its document can only be invalidated."""
    if found.unit.kept:
        withdraw(server, found, None)
    reason = (
        f"invalidated, not deleted: its document {found.unit.document_id!r} holds {others} other "
        f"{'memory' if others == 1 else 'memories'}. To delete it, forget the document"
    )
    return Removal((found.unit.id,), reason=reason, beyond=BEYOND)


def _deleted(server: Server, bank: str, documents: Sequence[str], ids: tuple[str, ...]) -> Removal:
    """Deletes documents, then looks whether anything of them is left."""
    for document in documents:
        with suppress(MissingError):
            server.change(Answer, "DELETE", (bank, "documents", document))
    _renew_models(server, bank, ids)
    left = [document for document in documents if facts_of(server, bank, document)]
    left += _concluded(server, bank, ids)
    reason = f"the server still holds something of {', '.join(map(repr, left[:3]))}: forget it again" if left else None
    return Removal(ids, purged=not left, reason=reason, beyond=BEYOND)


def _concluded(server: Server, bank: str, ids: tuple[str, ...]) -> list[str]:
    """Observations that rest on nothing but what is gone."""
    gone = set(ids)
    return [
        unit.id
        for unit in (every(server, bank, type="observation") if ids else ())
        if unit.sources and gone.issuperset(unit.sources)
    ]


def _renew_models(server: Server, bank: str, ids: tuple[str, ...]) -> None:
    """Makes anew each mental model that was written from these memories; its answer follows in the background."""
    gone = set(ids)
    models = server.pages(Curation, bank, "mental-models", query={"detail": "full"}, size=100) if ids else ()
    for model in [each for each in models if not gone.isdisjoint(each.cited())]:
        server.change(Answer, "DELETE", (bank, "mental-models", model.id))
        server.change(Answer, "POST", (bank, "mental-models"), _same(model))


def _same(model: Curated) -> dict[str, object]:
    trigger = {name: value for name, value in model.trigger.items() if value is not None}
    return {
        "id": model.id,
        "name": model.name,
        "source_query": model.source_query or model.name,
        "tags": list(model.tags),
        "max_tokens": model.max_tokens or 2048,
        "trigger": trigger,
    }


def clear(server: Server, scope: Scope) -> Removal:
    """Empties the scope's bank of memories, documents and mental models; the bank and its missions stay."""
    bank = scope.bank
    ids = tuple(unit.id for unit in every(server, bank))
    for model in list(server.pages(Curation, bank, "mental-models", query={"detail": "metadata"}, size=100)):
        with suppress(MissingError):
            server.change(Answer, "DELETE", (bank, "mental-models", model.id))
    for _ in range(SWEEPS):
        server.change(Answer, "DELETE", (bank, "memories"))
        for paper in _candidates(server, bank, None):
            with suppress(MissingError):
                server.change(Answer, "DELETE", (bank, "documents", paper.id))
        if not every(server, bank):
            return Removal(ids, purged=True, beyond=BEYOND)
    raise UnavailableError(f"bank {bank!r} was cleared {SWEEPS} times and is not empty: something still writes. Call it again")
