"""From what a caller types to what the verbs ask of a backend: a page, a selection, a change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lorebank._connections import Connections
from lorebank._domain.events import Redacted
from lorebank._domain.item import Item
from lorebank._domain.memory import parse_name
from lorebank._domain.requests import Change, Selection
from lorebank._domain.scope import TagRule, parse_tags
from lorebank._writing import admit_items
from lorebank.errors import UsageError


def selection(
    *, session: str | None, document: str | None, tags: Sequence[str] = (), rule: TagRule | None = None, id: str | None = None
) -> Selection:
    """Which memories are meant."""
    ids = () if id is None else (parse_name(id, "id"),)
    named = None if session is None else parse_name(session, "session")
    return Selection(ids, named, None if document is None else parse_name(document, "document"), parse_tags(tags), rule)


def forgettable(id: str | None, *, session: str | None, document: str | None, tags: Sequence[str] | None) -> Selection:
    """What `forget` is to delete: one memory, or what matches at least one filter."""
    if id is None and session is None and document is None and tags is None:
        raise UsageError("`forget` needs an id or a filter: session, document or tags. To empty a bank, use `clear`")
    if id is not None and (session is not None or document is not None or tags is not None):
        raise UsageError("`forget` takes an id or filters, not both")
    if tags is not None and not tags:
        raise UsageError("`tags` is empty: name at least one, or leave it out")
    return selection(id=id, session=session, document=document, tags=tags or ())


def check_clear(what: object, confirm: str | None, own: str) -> None:
    """Whether `clear` may go on: what it is to empty is known, and the bank's id confirms it."""
    if what not in ("bank", "local"):
        raise UsageError(f"`what` must be bank or local; found {what!r}")
    if what == "bank" and confirm != own:
        raise UsageError(f"`clear` removes every memory of {own!r}: pass confirm={own!r} if that is meant")


def admitted_change(
    connections: Connections,
    bank: str,
    *,
    content: str | None,
    importance: float | None,
    tags: Sequence[str] | None,
    metadata: Mapping[str, Any] | None,
) -> Change:
    """What `update` changes, checked and gated as a write is: secrets are out, and an event counts them."""
    if content is None and importance is None and tags is None and metadata is None:
        raise UsageError("`update` needs something to change: content, importance, tags or metadata")
    item = Item(content if content is not None else "unchanged", importance=importance, tags=tags or (), metadata=metadata)
    settings = connections.settings.retain
    gated = settings if content is not None else settings.model_copy(update={"before_enqueue": None})
    admitted = admit_items((item,), gated)
    if admitted.redactions:
        connections.tell(Redacted(bank, admitted.redactions))
    if not admitted.items:
        raise UsageError(f"`update` was refused: {admitted.rejected[0].reason}")
    [safe] = admitted.items
    return Change(
        safe.content if content is not None else None,
        safe.importance,
        tuple(safe.tags) if tags is not None else None,
        safe.metadata,
    )
