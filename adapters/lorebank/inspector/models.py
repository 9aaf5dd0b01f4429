"""Mental models: what they say, what they said before, and what changed in between."""

from __future__ import annotations

from lorebank.inspector.desk import Asked, Desk, link
from lorebank.inspector.faults import Fault, attempt
from lorebank.inspector.rendering import Moved, Page


async def models(desk: Desk, asked: Asked) -> Page:
    """All of them."""
    del asked
    found = await attempt(desk.bank.mental_models.alist())
    if isinstance(found, Fault):
        return Page("models.html", "Mental models", "models", {"fault": found, "models": ()}, found.status)
    return Page("models.html", "Mental models", "models", {"fault": None, "models": found})


async def model(desk: Desk, asked: Asked) -> Page:
    """One, with its history."""
    found = await desk.bank.mental_models.aget(asked.text("id"))
    history = await attempt(desk.bank.mental_models.ahistory(found.id))
    fault, revisions = (history, ()) if isinstance(history, Fault) else (None, history)
    changed = [(each, each.diff.splitlines()) for each in revisions]
    return Page("model.html", f"{found.name} - Mental models", "models", {"model": found, "history": changed, "fault": fault})


async def refresh(desk: Desk, asked: Asked) -> Moved:
    """Has the question answered anew."""
    before = await desk.bank.mental_models.aget(asked.text("id"))
    after = await desk.bank.mental_models.arefresh(before.id)
    same = after.content == before.content
    done = f"{after.name} was answered anew: {'it says the same.' if same else 'it says something else now.'}"
    return Moved(link("/model", id=after.id), done)
