"""The inspector's routes."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from lorebank._bank import Bank
from lorebank.inspector import memory, models, naming, searching, timeline, turns, waiting
from lorebank.inspector.desk import Act, Desk, Show, acted, alone, shown
from lorebank.inspector.faults import Fault
from lorebank.inspector.guard import Guard, Keys
from lorebank.inspector.rendering import failed

SHOWN: tuple[tuple[str, Show, str, str], ...] = (
    ("/", searching.search, "Search", "search"),
    ("/timeline", timeline.timeline, "Timeline", "timeline"),
    ("/entities", naming.entities, "Entities", "entities"),
    ("/models", models.models, "Mental models", "models"),
    ("/model", models.model, "Mental model", "models"),
    ("/turns", turns.sessions, "Turns", "turns"),
    ("/session", turns.session, "Turns", "turns"),
    ("/outbox", waiting.outbox, "Outbox", "outbox"),
    ("/outbox/purge", waiting.doomed, "Delete a write", "outbox"),
    ("/memory", memory.memory, "Memory", ""),
    ("/memory/forget", memory.doomed, "Forget", ""),
)
"""Path, page, title, place in the menu."""
ACTED: tuple[tuple[str, Act, str, str], ...] = (
    ("/model/refresh", models.refresh, "Mental model", "models"),
    ("/outbox/requeue", waiting.requeue, "Outbox", "outbox"),
    ("/outbox/flush", waiting.flush, "Outbox", "outbox"),
    ("/outbox/purge", waiting.purge, "Outbox", "outbox"),
    ("/memory/correct", alone(memory.correct), "Memory", ""),
    ("/memory/invalidate", alone(memory.invalidate), "Memory", ""),
    ("/memory/revalidate", alone(memory.revalidate), "Memory", ""),
    ("/memory/undo", alone(memory.undo), "Memory", ""),
    ("/memory/forget", alone(memory.forget), "Forget", ""),
)
"""The forms: each changes something."""


def inspector(bank: Bank, keys: Keys, port: int) -> Guard:
    """The ASGI application for a bank, as it is reached on a port of this machine by who has the token."""
    desk = Desk(bank, keys)
    routes: list[BaseRoute] = [Route(path, shown(desk, page, title, menu)) for path, page, title, menu in SHOWN]
    routes += [Route(path, acted(desk, act, title, menu), methods=["POST"]) for path, act, title, menu in ACTED]
    routes.append(Mount("/static", StaticFiles(directory=Path(str(files("lorebank.inspector") / "static")))))

    async def lost(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        found = "There is no such page." if status == 404 else "This page can't be asked that way."
        return desk.page(failed(Fault(found, "The menu leads to all pages.", status), "No such page", ""), request)

    return Guard(Starlette(routes=routes, exception_handlers={404: lost, 405: lost}), keys, port)
