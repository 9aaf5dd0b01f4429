"""Where a server is, and whether a proxy of the environment stands before it."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from lorebank.errors import UsageError

LOOPBACK = ("localhost", "127.0.0.1", "::1")
PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy; `login` is the header that it wants, or empty."""

    host: str
    port: int
    login: str


@dataclass(frozen=True, slots=True)
class Route:
    """The way to a server. `netloc` is its name in headers, `path` stands before every path of its API."""

    host: str
    port: int
    netloc: str
    path: str
    encrypted: bool
    proxy: Proxy | None

    @property
    def forwarded(self) -> bool:
        """Whether the proxy reads the requests, rather than passing on what it can't read."""
        return self.proxy is not None and not self.encrypted

    @property
    def prefix(self) -> str:
        """What stands before an API's path in a request: a proxy that reads it wants the whole address."""
        return f"http://{self.netloc}{self.path}" if self.forwarded else self.path

    @property
    def headers(self) -> str:
        """The lines that depend on the way."""
        return f"host: {self.netloc}\r\n{self.proxy.login if self.proxy and self.forwarded else ''}"

    @property
    def tunnel(self) -> str:
        """The request by which a proxy is asked to pass everything on."""
        there = f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
        return f"CONNECT {there} HTTP/1.1\r\nhost: {there}\r\n{self.proxy.login if self.proxy else ''}\r\n"


def route_to(base: str) -> Route:
    """The way to the server at an address; `UsageError` where the environment names a proxy of a kind that can't be used."""
    address = httpx.URL(base)
    return Route(
        address.raw_host.decode(),
        address.port or PORTS[address.scheme],
        address.netloc.decode(),
        address.raw_path.decode().rstrip("/"),
        address.scheme == "https",
        _proxy(address.scheme, urlsplit(base).hostname or ""),
    )


def _proxy(scheme: str, host: str) -> Proxy | None:
    """The environment's proxy for a server. This machine is never asked for through one."""
    proxies = getproxies()
    name = scheme if proxies.get(scheme) else "all"
    named = proxies.get(name)
    if not named or host in LOOPBACK or proxy_bypass(host):
        return None
    parts = urlsplit(named if "://" in named else f"http://{named}")
    try:
        there, port = parts.hostname, parts.port or PORTS["http"]
    except ValueError as error:
        raise UsageError(f"`{name}_proxy` is no address of a proxy: {error}") from error
    if parts.scheme != "http" or not there:
        raise UsageError(
            f"`{name}_proxy` names a proxy of the kind {parts.scheme!r}, and only http:// proxies are spoken to: "
            f"name one, or leave {host!r} out with `no_proxy`"
        )
    return Proxy(there, port, _login(parts.username, parts.password))


def _login(user: str | None, password: str | None) -> str:
    if user is None:
        return ""
    words = f"{unquote(user)}:{unquote(password or '')}"
    return f"proxy-authorization: Basic {b64encode(words.encode()).decode()}\r\n"
