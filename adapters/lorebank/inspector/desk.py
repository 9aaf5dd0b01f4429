"""What all pages share: the bank, the secrets, what was changed, how a request is read and answered."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from lorebank._bank import Bank
from lorebank.errors import LorebankError, UsageError
from lorebank.inspector.changes import Changes
from lorebank.inspector.faults import told
from lorebank.inspector.guard import Keys, same
from lorebank.inspector.rendering import Moved, Page, Templates, failed

LARGEST_FORM = 1_000_000
"""Bytes of a form: the longest memory, encoded, and what goes with it."""
NOTES = 50
SECRET = "form"  # noqa: S105 - the name of a field


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, as far as a page reads it: what is in the URL, or in the form."""

    values: Mapping[str, str]

    def text(self, name: str) -> str:
        """A value without blanks around it; empty where it is not there."""
        return self.values.get(name, "").strip()

    def whole(self, name: str, default: int = 0, *, most: int = 1_000_000) -> int:
        """A whole number from 0; the default where there is none that can be read."""
        text = self.text(name)
        return min(int(text), most) if text.isascii() and text.isdigit() and len(text) < 10 else default

    def one_of(self, name: str, *choices: str) -> str:
        """One of some words, else the first."""
        return self.text(name) if self.text(name) in choices else choices[0]

    def id(self) -> str:
        """Which memory is meant."""
        if not (found := self.text("id")):
            raise UsageError("the address names no memory")
        return found


@dataclass(frozen=True, slots=True)
class Desk:
    """One bank, and the pages of one run about it."""

    bank: Bank
    keys: Keys
    templates: Templates = field(default_factory=Templates)
    changes: Changes = field(default_factory=Changes)
    notes: OrderedDict[str, Moved] = field(default_factory=OrderedDict[str, Moved])
    now: Callable[[], datetime] = _now

    def page(self, page: Page, request: Request) -> Response:
        """A page, with what was done just before."""
        note = self.notes.pop(request.query_params.get("note", ""), None)
        frame = {
            "bank": self.bank.scope.bank,
            "backend": self.bank.backend,
            "secret": self.keys.form,
            "note": note,
        }
        return HTMLResponse(self.templates.html(page, frame), page.status)

    def moved(self, to: Moved) -> Response:
        """The way to another page, which says what was done."""
        while len(self.notes) >= NOTES:
            self.notes.popitem(last=False)
        name = secrets.token_urlsafe(9)
        self.notes[name] = to
        return RedirectResponse(f"{to.path}{'&' if '?' in to.path else '?'}note={name}", 303)


Show = Callable[[Desk, Asked], Awaitable[Page]]
Act = Callable[[Desk, Asked], Awaitable[Page | Moved]]


def shown(desk: Desk, show: Show, title: str, menu: str) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint of a page. A fault that the page does not tell itself is told in its place."""

    async def endpoint(request: Request) -> Response:
        try:
            page = await show(desk, Asked(request.query_params))
        except LorebankError as error:
            page = failed(told(error), title, menu)
        return desk.page(page, request)

    return endpoint


def acted(desk: Desk, act: Act, title: str, menu: str) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint of a form: it changes something, and leads to a page that says so."""

    async def endpoint(request: Request) -> Response:
        form = await _form(request)
        if form is None:
            return PlainTextResponse("This form is too large.", 413)
        if not same(form.get(SECRET, ""), desk.keys.form):
            return PlainTextResponse("This form is not one of the inspector's: load the page anew.", 403)
        try:
            outcome = await act(desk, Asked(form))
        except LorebankError as error:
            outcome = failed(told(error), title, menu)
        return desk.page(outcome, request) if isinstance(outcome, Page) else desk.moved(outcome)

    return endpoint


def alone(act: Act) -> Act:
    """A change of a memory: one at a time, so that what a page has seen is what it changes."""

    async def locked(desk: Desk, asked: Asked) -> Page | Moved:
        async with desk.changes.turn:
            return await act(desk, asked)

    return locked


async def _form(request: Request) -> Mapping[str, str] | None:
    """The fields of a form; nothing where it is too large."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LARGEST_FORM:
            return None
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def link(path: str, **values: object) -> str:
    """The address of a page."""
    given = {name: value for name, value in values.items() if value not in (None, "", 0)}
    return f"{path}?{urlencode(given)}" if given else path
