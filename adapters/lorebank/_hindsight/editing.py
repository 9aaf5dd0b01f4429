"""Changing and invalidating single memories, as far as a server can."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

from lorebank._domain.memory import FACTS, Memory
from lorebank._domain.requests import Change
from lorebank._domain.scope import Scope
from lorebank._hindsight.answers import SUPERSEDED, Answer, Unit, Units
from lorebank._hindsight.memories import Found, facts_of, find
from lorebank._hindsight.server import Server
from lorebank._hindsight.wire import explicit
from lorebank.errors import RefusedError, UnsupportedError, UsageError


def update(server: Server, scope: Scope, memory_id: str, change: Change) -> Memory:
    """Changes the text, the tags, or both. Everything that can be refused is refused before anything is sent."""
    for name in ("importance", "metadata"):
        if getattr(change, name) is not None:
            raise UnsupportedError(f"Hindsight can't change a memory's `{name}`: retain it anew, or use Mnemopi")
    found = find(server, scope, memory_id, scope.reads)
    _check_editable(found)
    document = None if change.tags is None else _own_document(server, found)
    if change.content is not None:
        server.change(Unit, "PATCH", (found.bank, "memories", memory_id), {"text": change.content})
    if document is not None:
        tags = list(dict.fromkeys((*(change.tags or ()), *scope.stamp)))
        server.change(Answer, "PATCH", (found.bank, "documents", document), {"tags": tags})
    return Found(found.bank, server.read(Unit, found.bank, "memories", memory_id)).memory()


def _check_editable(found: Found) -> None:
    if found.unit.type not in FACTS:
        raise UnsupportedError("Hindsight can't change an observation: it is concluded from facts; change those")
    if not found.unit.kept:
        raise UsageError(f"memory {found.unit.id!r} is invalidated and can't be changed: retain what is true now")


def _own_document(server: Server, found: Found) -> str:
    """The document that holds this memory alone: tags are a document's."""
    document = found.unit.document_id
    if document is None:
        raise UnsupportedError("Hindsight can't change the `tags` of a memory that belongs to no document")
    if (count := len(facts_of(server, found.bank, document))) != 1:
        raise UnsupportedError(
            f"Hindsight can't change the `tags` of this memory alone: its document {document!r} holds {count}. "
            "Retain the document anew with other tags"
        )
    return document


def invalidate(server: Server, scope: Scope, memory_id: str, replacement: str | None) -> Memory:
    """Takes a memory out of recall, but keeps it. A second time changes nothing, unless it names another replacement."""
    found = find(server, scope, memory_id, scope.reads)
    if replacement is not None:
        find(server, scope, replacement, scope.searched)
    memory = found.memory()
    if not found.unit.kept and replacement in (None, memory.superseded_by):
        return memory
    if found.unit.type not in FACTS:
        raise UnsupportedError("Hindsight can't invalidate an observation: it is concluded from facts; invalidate those")
    return Found(found.bank, withdraw(server, found, replacement)).memory()


def withdraw(server: Server, found: Found, replacement: str | None) -> Unit:
    """Sets a memory invalid on the server, with the reason that tells what replaces it."""
    reason = "invalidated by lorebank" if replacement is None else f"{SUPERSEDED}{replacement}"
    place = (found.bank, "memories", found.unit.id)
    return server.change(Unit, "PATCH", place, {"state": "invalidated", "reason": reason})


def revalidate(server: Server, scope: Scope, memory_id: str) -> Memory:
    """Makes an invalidated memory valid again; one that is valid stays as it is."""
    found = find(server, scope, memory_id, scope.reads)
    if found.unit.kept:
        return found.memory()
    server.change(Unit, "PATCH", (found.bank, "memories", memory_id), {"state": "valid"})
    return Found(found.bank, server.read(Unit, found.bank, "memories", memory_id)).memory()


def revive(server: Server, bank: str, documents: Sequence[str], before: datetime) -> None:
    """Statements that were invalidated and then, after `before`, told again are valid again. The server itself leaves the
    facts of a text that it knows as they are. Documents that callers name are theirs to keep.
    """
    told = [document for document in documents if explicit(document)]
    if not told or not _any_invalidated(server, bank):
        return
    for document in told:
        for unit in list(server.pages(Units, bank, "memories", "list", query={"document_id": document, "state": "invalidated"})):
            if unit.invalidated_at is None or unit.invalidated_at <= before:
                with suppress(RefusedError):  # forgotten meanwhile
                    server.change(Unit, "PATCH", (bank, "memories", unit.id), {"state": "valid"})


def _any_invalidated(server: Server, bank: str) -> bool:
    """One question spares most banks one for each document."""
    return next(server.pages(Units, bank, "memories", "list", query={"state": "invalidated"}, size=1), None) is not None
