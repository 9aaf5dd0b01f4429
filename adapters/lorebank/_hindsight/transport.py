"""The one place that knows HTTP: one pool for each server, total deadlines, retries of reads, a cap on answers.

The pool is httpcore's, which httpx is built on; its client above it costs a third of a call and is left out. httpx gives the
address and the certificates. Both bound each single read and write, which a body that drips never reaches. Here the
streams themselves know the moment at which the whole call is over: it travels as the timeout of every read and write.
"""

from __future__ import annotations

import codecs
import json
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NoReturn
from urllib.parse import unquote, urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpcore
import httpx

from lorebank._domain.settings import ConnectionSettings
from lorebank._forks import Forkable, watch_forks
from lorebank._hindsight import faults
from lorebank._hindsight.breaker import Breaker
from lorebank.errors import DeadlineError, GarbledError, LorebankError, RateLimitedError, UnavailableError, UsageError

codecs.lookup("idna")  # names of hosts need it: looked up late, a fork in the midst of it leaves the child without for good

TRIES = 3
FIRST_PAUSE = 0.1
"""Seconds before a read is tried again, doubling, with jitter."""
LONGEST_PAUSE = 2.0
"""Seconds for which a server may ask before a read; a longer pause is the caller's to make."""
KEPT_ALIVE = 32
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_RETRIED = (502, 503, 504)
_BROKEN = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.UnsupportedProtocol, httpcore.ProxyError)
_LATE = (httpcore.TimeoutException,)


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `path` is encoded; `timeout` is in seconds for the whole call; a `read` may be tried again; an `urgent`
    call is made even while the server is spared; `bank` is whom it is about.
    """

    method: str
    path: str
    timeout: float
    query: Mapping[str, object] | None = None
    body: bytes | None = None
    read: bool = True
    urgent: bool = False
    bank: str = ""

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Transport(Forkable):
    """Calls one server. Safe for threads; the pool is built by the first call, and anew in a forked child."""

    _pool: httpcore.ConnectionPool | None
    _building: threading.Lock
    _breaker: Breaker

    def __init__(self, url: str, settings: ConnectionSettings, *, version: str) -> None:
        self.base = parse_base(url, settings)
        self._settings = settings
        address = httpx.URL(self.base)
        self._scheme, self._host, self._port = address.raw_scheme, address.raw_host, address.port
        self._prefix = address.raw_path.rstrip(b"/")
        self._headers = [
            (b"host", address.netloc),
            (b"user-agent", f"lorebank/{version}".encode()),
            (b"accept", b"application/json"),
            (b"accept-encoding", b"identity"),
        ]
        if settings.api_key is not None:
            self._headers.append((b"authorization", f"Bearer {settings.api_key.get_secret_value()}".encode()))
        self.ignored: Callable[[str, Sequence[str]], None] = _nobody
        self.after_fork()
        watch_forks(self)

    def call(self, call: Call) -> Any:
        """The JSON that the server answers with; an error of ours for everything else."""
        deadline = time.monotonic() + call.timeout
        if not call.urgent and (wait := self._breaker.wait()):
            raise UnavailableError(
                f"the server at {self.base} does not answer; it is asked again in {wait:.1f} s", retry_after=wait
            )
        for attempt in range(1, TRIES + 1):
            try:
                return self._once(call, deadline)
            except (UnavailableError, RateLimitedError) as error:
                pause = _pause(attempt, error)
                if attempt == TRIES or not _repeatable(call, error) or time.monotonic() + pause >= deadline:
                    raise
                time.sleep(pause)
        raise AssertionError  # pragma: no cover - the last attempt returns or raises

    def close(self) -> None:
        """Ends the connections; a later call opens new ones."""
        with self._building:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def after_fork(self) -> None:
        """The parent's connections did not come along."""
        self._pool = None
        self._building = threading.Lock()
        self._breaker = Breaker(time.monotonic)

    def _once(self, call: Call, deadline: float) -> Any:
        try:
            status, headers, body = self._exchange(call, deadline)
        except _LATE as error:
            self._breaker.failed()
            if isinstance(error, httpcore.ConnectTimeout) and time.monotonic() < deadline:
                bound = self._settings.connect_timeout
                raise UnavailableError(f"no connection to {self.base} within {bound:g} s: is it running?") from error
            raise DeadlineError(f"`{call}` was not answered within {call.timeout:g} s by {self.base}") from error
        except _BROKEN as error:
            self._breaker.failed()
            raise UnavailableError(f"the server at {self.base} can't be reached ({_cause(error)}): is it running?") from error
        self._breaker.answered()
        if names := headers.get("x-ignored-params"):
            self.ignored(call.bank, tuple(name.strip() for name in names.split(",")))
        if not 200 <= status < 300:
            raise faults.refusal(str(call), status, headers, body, now=datetime.now(UTC))
        return _parsed(call, headers, body)

    def _exchange(self, call: Call, deadline: float) -> tuple[int, dict[str, str], bytes]:
        now = time.monotonic()
        connect = min(now + self._settings.connect_timeout, deadline)
        bounds = {"connect": connect, "read": deadline, "write": deadline, "pool": max(deadline - now, 0.001)}
        target = self._prefix + call.path.encode() + (f"?{urlencode(call.query, doseq=True)}".encode() if call.query else b"")
        url = httpcore.URL(scheme=self._scheme, host=self._host, port=self._port, target=target)
        body = call.body or b""
        sized = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        headers = self._headers if call.method in ("GET", "DELETE") and not body else [*self._headers, *sized]
        request = httpcore.Request(call.method, url, headers=headers, content=body, extensions={"timeout": bounds})
        response = self._opened().handle_request(request)
        try:
            named = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
            if named.get("content-encoding", "identity") != "identity":
                raise faults.garbled(str(call), "a compressed body that was not asked for")
            return response.status, named, self._body(call, response)
        finally:
            response.close()

    def _body(self, call: Call, response: httpcore.Response) -> bytes:
        body = bytearray()
        for chunk in response.iter_stream():
            body += chunk
            if len(body) > self._settings.max_body_bytes:
                raise GarbledError(f"`{call}` was answered with more than {self._settings.max_body_bytes:,} bytes")
        return bytes(body)

    def _opened(self) -> httpcore.ConnectionPool:
        pool = self._pool
        if pool is not None:
            return pool
        with self._building:
            self._pool = pool = self._pool or _pool(self.base)
            return pool


def parse_base(url: str, settings: ConnectionSettings) -> str:
    """The server's address without a trailing slash; refuses what can't be one, and a key that others could read."""
    parts = urlsplit(url)
    try:
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"`url` is no address of a server: {error}") from error
    if parts.scheme.lower() not in ("http", "https") or not host:
        raise UsageError("`url` must be like https://hindsight.example")
    if parts.username or parts.password:
        raise UsageError("`url` must not hold credentials: pass `api_key`, or set HINDSIGHT_API_KEY")
    if parts.query or parts.fragment:
        raise UsageError("`url` must be a server's address, without a query or fragment")
    open_line = parts.scheme.lower() == "http" and host not in LOOPBACK and host not in settings.insecure_hosts
    if settings.api_key is not None and open_line:
        raise UsageError(
            f"the API key would be sent to {host!r} unencrypted: use https, or allow it by name with "
            f"connection={{'insecure_hosts': [{host!r}]}}"
        )
    return f"{parts.scheme.lower()}://{parts.netloc.lower()}{parts.path.rstrip('/')}"


def _parsed(call: Call, headers: Mapping[str, str], body: bytes) -> Any:
    """The body as strict JSON. A success that is something else is no answer."""
    try:
        return json.loads(body, parse_constant=_no_constant)
    except ValueError as error:
        found = headers.get("content-type", "no content type").split(";")[0]
        raise faults.garbled(str(call), f"{len(body):,} bytes of {found!r}") from error


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _repeatable(call: Call, error: LorebankError) -> bool:
    """Whether a failed call may be made again: one that no server has seen, or a read that may succeed in a moment."""
    if isinstance(error, DeadlineError):
        return False
    if not call.read:
        return isinstance(error.__cause__, httpcore.ConnectError)
    if error.retry_after is not None:
        return error.retry_after <= LONGEST_PAUSE
    return error.status is None or error.status in _RETRIED


def _pause(attempt: int, error: LorebankError) -> float:
    jittered = FIRST_PAUSE * (1 << (attempt - 1)) * (0.5 + random.random())  # noqa: S311 - jitter
    return jittered if error.retry_after is None else max(error.retry_after, jittered)


def _cause(error: Exception) -> str:
    return str(error)[:120] or type(error).__name__


def _nobody(_bank: str, _names: Sequence[str]) -> None:
    """Nobody listens yet."""


def _pool(base: str) -> httpcore.ConnectionPool:
    """Connections to one server, through the environment's proxy where it names one."""
    parts = urlsplit(base)
    host = parts.hostname or ""
    options: dict[str, Any] = {
        "ssl_context": httpx.create_ssl_context() if parts.scheme == "https" else None,
        "max_connections": None,
        "max_keepalive_connections": KEPT_ALIVE,
        "keepalive_expiry": 30.0,
        "network_backend": _Network(),
    }
    proxies = getproxies()
    proxy = None if host in LOOPBACK or proxy_bypass(host) else proxies.get(parts.scheme) or proxies.get("all")
    if proxy is None:
        return httpcore.ConnectionPool(**options)
    through = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    login = None if through.username is None else (unquote(through.username), unquote(through.password or ""))
    address = f"{through.scheme}://{through.netloc.rpartition('@')[2]}"
    return httpcore.HTTPProxy(proxy_url=address, proxy_auth=login, **options)


class _Network(httpcore.NetworkBackend):
    """Connects like httpcore does; its timeouts are moments."""

    def __init__(self) -> None:
        self._inner = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        rest = _rest(timeout, httpcore.ConnectTimeout)
        return _Stream(self._inner.connect_tcp(host, port, rest, local_address, socket_options))

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(seconds)


SLICE = 65_536


class _Stream(httpcore.NetworkStream):
    """A connection whose timeouts are moments: what is left is counted anew at each read and write. Small writes are sent
    together, at the latest when an answer is read.
    """

    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self._inner = inner
        self._unsent = bytearray()

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self._send(timeout)
        return self._inner.read(max_bytes, _rest(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._unsent += buffer
        if len(self._unsent) >= SLICE:
            self._send(timeout)

    def _send(self, timeout: float | None) -> None:
        data, self._unsent = bytes(self._unsent), bytearray()
        for start in range(0, len(data), SLICE):
            self._inner.write(data[start : start + SLICE], _rest(timeout, httpcore.WriteTimeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        rest = _rest(timeout, httpcore.ConnectTimeout)
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, rest))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def _rest(moment: float | None, late: type[Exception]) -> float | None:
    """Seconds until a moment; raises when it is over."""
    if moment is None:
        return None
    rest = moment - time.monotonic()
    if rest <= 0:
        raise late("the time is over")
    return rest
