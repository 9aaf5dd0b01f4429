"""How a server is called: total deadlines, retries of reads, a cap on answers, a breaker. Connections are `connections.py`'s."""

from __future__ import annotations

import codecs
import json
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http.client import HTTPException
from typing import Any, NoReturn
from urllib.parse import urlencode, urlsplit

from lorebank._domain.settings import ConnectionSettings
from lorebank._forks import Forkable, watch_forks
from lorebank._hindsight import faults
from lorebank._hindsight.breaker import Breaker
from lorebank._hindsight.connections import LateConnectionError, NoConnectionError, Pool, Reply
from lorebank._hindsight.routes import LOOPBACK, route_to
from lorebank.errors import DeadlineError, GarbledError, LorebankError, RateLimitedError, UnavailableError, UsageError

codecs.lookup("idna")  # names of hosts need it: looked up late, a fork in the midst of it leaves the child without for good

TRIES = 3
FIRST_PAUSE = 0.1
"""Seconds before a read is tried again, doubling, with jitter."""
LONGEST_PAUSE = 2.0
"""Seconds for which a server may ask before a read; a longer pause is the caller's to make."""
BODIED = ("POST", "PUT", "PATCH")
"""Methods whose calls have a body, if only an empty one."""
_RETRIED = (502, 503, 504)


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

    _pool: Pool | None = None
    _building: threading.Lock
    _breaker: Breaker

    def __init__(self, url: str, settings: ConnectionSettings, *, version: str) -> None:
        self.base = parse_base(url, settings)
        self._settings = settings
        self._route = route_to(self.base)
        self._headers = (
            f"{self._route.headers}user-agent: lorebank/{version}\r\naccept: application/json\r\naccept-encoding: identity\r\n"
        )
        if settings.api_key is not None:
            self._headers += f"authorization: Bearer {_header(settings.api_key.get_secret_value())}\r\n"
        self.ignored: Callable[[str, Sequence[str]], None] = _nobody
        self._dated: tuple[str | None, float] = None, 0.0
        self._closes = 0
        self.after_fork()
        watch_forks(self)

    def call(self, call: Call) -> Any:
        """The JSON that the server answers with; an error of ours for everything else."""
        deadline, closes = time.monotonic() + call.timeout, self._closes
        if not call.urgent and (wait := self._breaker.wait()):
            raise UnavailableError(
                f"the server at {self.base} does not answer; it is asked again in {wait:.1f} s", retry_after=wait
            )
        for attempt in range(1, TRIES + 1):
            try:
                return self._once(call, deadline)
            except (UnavailableError, RateLimitedError) as error:
                pause = _pause(attempt, error)
                over = attempt == TRIES or self._closes != closes or time.monotonic() + pause >= deadline
                if over or not _repeatable(call, error):
                    raise
                time.sleep(pause)
                if self._closes != closes:
                    raise
        raise AssertionError  # pragma: no cover - the last attempt returns or raises

    @property
    def skew(self) -> float | None:
        """By how many seconds the server's clock was ahead of this machine's when it last answered, as far as it tells."""
        header, at = self._dated
        return faults.ahead(header, datetime.fromtimestamp(at, UTC))

    def close(self) -> None:
        """Ends the connections, and the tries of the calls under way; a later call opens new ones."""
        with self._building:
            pool, self._pool = self._pool, None
            self._closes += 1
        if pool is not None:
            pool.close()

    def after_fork(self) -> None:
        """The parent's connections are the parent's."""
        if self._pool is not None:
            self._pool.forget()
        self._pool = None
        self._building = threading.Lock()
        self._breaker = Breaker(time.monotonic)

    def _once(self, call: Call, deadline: float) -> Any:
        try:
            reply = self._exchange(call, deadline)
        except TimeoutError as error:
            self._breaker.failed()
            if isinstance(error, LateConnectionError) and time.monotonic() < deadline:
                bound = self._settings.connect_timeout
                raise UnavailableError(f"no connection to {self.base} within {bound:g} s: is it running?") from error
            raise DeadlineError(f"`{call}` was not answered within {call.timeout:g} s by {self.base}") from error
        except (OSError, HTTPException) as error:
            self._breaker.failed()
            raise UnavailableError(f"the server at {self.base} can't be reached ({_cause(error)}): is it running?") from error
        self._breaker.answered()
        self._dated = reply.headers.get("date"), time.time()
        if names := reply.headers.get("x-ignored-params"):
            self.ignored(call.bank, tuple(name.strip() for name in names.split(",")))
        if not 200 <= reply.status < 300:
            raise faults.refusal(str(call), reply.status, reply.headers, reply.body, now=datetime.now(UTC))
        return _parsed(call, reply)

    def _exchange(self, call: Call, deadline: float) -> Reply:
        reply = self._opened().exchange(self._request(call), deadline)
        if reply.headers.get("content-encoding", "identity") != "identity":
            raise faults.garbled(str(call), "a compressed body that was not asked for")
        if len(reply.body) > self._settings.max_body_bytes:
            raise GarbledError(f"`{call}` was answered with more than {self._settings.max_body_bytes:,} bytes")
        return reply

    def _request(self, call: Call) -> bytes:
        """A request as it is sent, in one piece."""
        query = f"?{urlencode(call.query, doseq=True)}" if call.query else ""
        body = call.body or b""
        sized = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n" if body or call.method in BODIED else ""
        return f"{call.method} {self._route.prefix}{call.path}{query} HTTP/1.1\r\n{self._headers}{sized}\r\n".encode() + body

    def _opened(self) -> Pool:
        pool = self._pool
        if pool is not None:
            return pool
        with self._building:
            self._pool = pool = self._pool or Pool(self._route, self._settings)
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


def _header(key: str) -> str:
    """An API key that can stand in a header."""
    if not key.isprintable():
        raise UsageError("`api_key` holds a line break or another control character")
    return key


def _parsed(call: Call, reply: Reply) -> Any:
    """The body as strict JSON. A success that is something else is no answer."""
    try:
        return json.loads(reply.body, parse_constant=_no_constant)
    except ValueError as error:
        found = reply.headers.get("content-type", "no content type").split(";")[0]
        raise faults.garbled(str(call), f"{len(reply.body):,} bytes of {found!r}") from error


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _repeatable(call: Call, error: LorebankError) -> bool:
    """Whether a failed call may be made again: one that no server has seen, or a read that may succeed in a moment."""
    if isinstance(error, DeadlineError):
        return False
    if not call.read:
        return isinstance(error.__cause__, NoConnectionError)
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
