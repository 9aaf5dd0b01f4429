"""One memory: what it says, where it comes from, what became of it; and correcting, invalidating, forgetting it.

A correction says which text it corrects, and an undo what it undoes: where the memory was changed meanwhile, it stays as it is.
"""

from __future__ import annotations

import asyncio
import hashlib

from lorebank._domain.memory import Memory
from lorebank.errors import UsageError
from lorebank.inspector.changes import UNDOING
from lorebank.inspector.desk import Asked, Desk, link
from lorebank.inspector.faults import Fault, attempt
from lorebank.inspector.rendering import Moved, Page, counted

SHOWN = 20
"""Memories that are shown one by one before they are forgotten."""
CHANGED = "The memory was changed meanwhile: this is what it says now. Your text is still in the form."


async def memory(desk: Desk, asked: Asked) -> Page:
    """The page of a memory."""
    return await _page(desk, await desk.bank.aget(asked.id()))


async def _page(desk: Desk, found: Memory, *, typed: str | None = None, conflict: str | None = None) -> Page:
    named = [each for each in (found.superseded_by, *found.derived_from[:SHOWN]) if each is not None]
    others = await asyncio.gather(*(attempt(desk.bank.aget(each)) for each in named))
    texts = {name: each.text for name, each in zip(named, others, strict=True) if not isinstance(each, Fault)}
    changes = [(change, change.stands(found) and number == 0) for number, change in enumerate(desk.changes.of(found.id))]
    values = {
        "memory": found,
        "texts": texts,
        "changes": changes,
        "typed": found.text if typed is None else typed,
        "conflict": conflict,
        "seen": fingerprint(found.text),
    }
    return Page("memory.html", f"{found.text[:60]} - Memory", "", values, 200 if conflict is None else 409)


async def correct(desk: Desk, asked: Asked) -> Page | Moved:
    """Changes the text. What was typed is kept where memory can't be asked."""
    typed, before = _typed(asked), await attempt(desk.bank.aget(asked.id()))
    if isinstance(before, Fault):
        values = {"fault": before, "typed": typed, "id": asked.id(), "seen": asked.text("seen")}
        return Page("unsaved.html", "Not corrected yet", "", values, before.status)
    if asked.text("seen") != fingerprint(before.text):
        return await _page(desk, before, typed=typed, conflict=CHANGED)
    if typed == _lines(before.text).strip():
        return await _page(desk, before, conflict="Nothing was changed: the text is the same.")
    after = await attempt(desk.bank.aupdate(before.id, content=typed))
    if isinstance(after, Fault):
        known = "Nothing was changed" if after.status < 500 else "It is not known whether it was changed"
        return await _page(desk, before, typed=typed, conflict=f"{known}: {after.found} {after.todo}")
    number = desk.changes.add("corrected", before, after, desk.now())
    return Moved(_at(after), "The memory is corrected.", number)


async def invalidate(desk: Desk, asked: Asked) -> Moved:
    """Says that it is no longer true, and what is true instead, if that is known."""
    before, replacement = await desk.bank.aget(asked.id()), asked.text("replacement") or None
    after = await desk.bank.ainvalidate(before.id, replacement=replacement)
    if after == before:
        return Moved(_at(after), "It was invalidated already.")
    number = desk.changes.add("invalidated", before, after, desk.now())
    return Moved(_at(after), "The memory is invalidated: it is kept, and not recalled.", number)


async def revalidate(desk: Desk, asked: Asked) -> Moved:
    """Takes an invalidation back, whoever made it."""
    before = await desk.bank.aget(asked.id())
    after = await desk.bank.arevalidate(before.id)
    if after == before:
        return Moved(_at(after), "It was valid already.")
    number = desk.changes.add("made valid again", before, after, desk.now())
    return Moved(_at(after), "The memory is valid again.", number)


async def undo(desk: Desk, asked: Asked) -> Moved:
    """Takes back what was done here, where nobody has changed it since."""
    change = desk.changes.get(asked.whole("change"))
    if change is None:
        raise UsageError("this change is not known any more: the inspector was started again since, or it is too long ago")
    after = await desk.changes.undo(desk.bank, change)
    desk.changes.add(UNDOING[change.kind], change.after, after, desk.now())
    return Moved(_at(after), "Undone: the memory is as it was before.")


async def doomed(desk: Desk, asked: Asked) -> Page:
    """Shows what forgetting takes, and asks."""
    found = await desk.bank.aget(asked.id())
    removal = await desk.bank.aforget(found.id, dry_run=True)
    also = [each for each in removal.ids if each != found.id]
    texts = await asyncio.gather(*(attempt(desk.bank.aget(each)) for each in also[:SHOWN]))
    listed = [(name, None if isinstance(each, Fault) else each.text) for name, each in zip(also, texts, strict=False)]
    values = {"memory": found, "removal": removal, "also": listed, "more": max(0, len(also) - SHOWN)}
    return Page("forget.html", f"Forget: {found.text[:60]}", "", values)


async def forget(desk: Desk, asked: Asked) -> Moved:
    """Deletes it for good."""
    removal = await desk.bank.aforget(asked.id())
    desk.changes.drop(*removal.ids)
    done = f"{counted(len(removal), 'memory', 'memories')} forgotten."
    return Moved("/timeline", done if removal.reason is None else f"{done[:-1]}: {removal.reason}.")


def fingerprint(text: str) -> str:
    """Tells one text from another."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _typed(asked: Asked) -> str:
    return _lines(asked.values.get("content", "")).strip()


def _lines(text: str) -> str:
    """A form sends line ends of its own."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _at(found: Memory) -> str:
    return link("/memory", id=found.id)
