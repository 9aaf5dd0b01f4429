"""Who may look: one machine, one port, one token.

The pages are served on loopback, where any program and any web site that is open in a browser can send requests. So a request
must name this host (a site that points its own name at 127.0.0.1 does not), must carry the cookie that the token in the first
URL was exchanged for, and where it changes something must come from a page of ours and repeat the page's secret.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN = "token"  # noqa: S105 - the name of a parameter
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'"
)
HEADERS: Mapping[str, str] = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # with `no-referrer`, browsers send no origin with a form either
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
PUBLIC = "/static/"
"""Files of the package: the same for everybody."""


def _secret() -> str:
    return secrets.token_urlsafe(32)


@dataclass(frozen=True, slots=True)
class Keys:
    """The secrets of one run: the token of the URL, what the cookie holds, what every form repeats."""

    token: str = field(default_factory=_secret, repr=False)
    cookie: str = field(default_factory=_secret, repr=False)
    form: str = field(default_factory=_secret, repr=False)


def same(given: str, wanted: str) -> bool:
    """Whether two secrets are equal, in a time that does not tell how far they are."""
    return secrets.compare_digest(given.encode("utf-8", "surrogatepass"), wanted.encode())


class Guard:
    """An ASGI application that lets only those requests through to another that may see and steer the memory."""

    def __init__(self, app: ASGIApp, keys: Keys, port: int) -> None:
        self._app, self._keys = app, keys
        names = ("127.0.0.1", "localhost", "[::1]")
        self._hosts = {f"{name}:{port}" for name in names}.union(names if port == 80 else ())
        self.cookie = f"lorebank-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)

        async def headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await (refusal or self._app)(scope, receive, headed)

    def _refusal(self, scope: Scope) -> Response | None:
        """What is answered instead of the page, or nothing where the request may pass."""
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        if host not in self._hosts:
            return PlainTextResponse("This is not the host that was asked for.", 421)
        if scope["path"].startswith(PUBLIC):
            return None
        if scope["method"] in ("GET", "HEAD") and (given := _given(scope)) is not None:
            return self._entered(scope) if same(given, self._keys.token) else _locked()
        if not same(self._shown(headers), self._keys.cookie):
            return _locked()
        if scope["method"] not in ("GET", "HEAD") and headers.get("origin", "").lower() != f"http://{host}":
            return PlainTextResponse("This did not come from a page of the inspector.", 403)
        return None

    def _shown(self, headers: Headers) -> str:
        """What the request's cookie holds."""
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            return ""
        return "" if found is None else found.value

    def _entered(self, scope: Scope) -> Response:
        """The token becomes a cookie, and leaves the URL. The way goes on on this server, whatever the path begins with."""
        rest = [(name, value) for name, value in _query(scope) if name != TOKEN]
        path = "/" + scope["path"].lstrip("/\\")
        answer = RedirectResponse(f"{path}?{urlencode(rest)}" if rest else path, 303)
        answer.set_cookie(self.cookie, self._keys.cookie, httponly=True, samesite="strict", path="/")
        return answer


def _query(scope: Scope) -> list[tuple[str, str]]:
    return parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)


def _given(scope: Scope) -> str | None:
    return next((value for name, value in _query(scope) if name == TOKEN), None)


LOCKED = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Locked - lorebank</title>
<link rel="stylesheet" href="/static/inspector.css"></head><body><main id="main"><h1>Locked</h1>
<p>Open the address that <code>lorebank inspect</code> printed: it ends with a token. It is a new one after each start.</p>
<p>If you have just come from there, <a href="/">go on</a>.</p></main></body></html>"""


def _locked() -> Response:
    return Response(LOCKED, 401, media_type="text/html")
