"""Connections to one server, kept for the next call, on which nothing outlasts the call that it belongs to.

`http.client` reads the answers. A socket's timeout bounds each single read and write, which a body that drips never reaches:
here what is left of the whole call is counted anew before each. Whatever goes wrong is an `OSError` or an `HTTPException`.
"""

from __future__ import annotations

import io
import select
import socket
import ssl
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse, IncompleteRead, RemoteDisconnected
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakSet

import httpx

from lorebank._domain.settings import ConnectionSettings
from lorebank._hindsight.routes import Route

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

KEPT_ALIVE = 32
IDLE = 30.0
"""Seconds after which an unused connection is given up."""
PIECE = 65_536
"""Bytes of a body that are read at once."""


Address = tuple[socket.AddressFamily, socket.SocketKind, int, str, Any]
"""What `getaddrinfo` says of one address."""


class NoConnectionError(OSError):
    """No connection came about: nobody has seen the call."""


class LateConnectionError(TimeoutError):
    """No connection came about in its time."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back; names of headers are in lower case. Of a body that is too long there is a part, itself too long."""

    status: int
    headers: dict[str, str]
    body: bytes


class Pool:
    """The connections to one server: those that are idle, and as many more as are needed at once. Safe for threads."""

    def __init__(self, route: Route, settings: ConnectionSettings) -> None:
        self._idle: deque[Connection] = deque()
        self._route = route
        self._settings = settings
        self._tls = _encryption() if route.encrypted else None
        self._open: WeakSet[Connection] = WeakSet()
        self._lock = threading.Lock()
        self._closed = False

    def exchange(self, request: bytes, until: float) -> Reply:
        """The answer to a request, whole before the moment `until`."""
        connection = self._taken() or self._opened(until)
        try:
            return connection.exchange(request, until, self._settings.max_body_bytes)
        finally:
            self._put_back(connection)

    def close(self) -> None:
        """Ends idle connections now, and each of the others when its call is over."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, deque[Connection]()
        for connection in idle:
            connection.close()

    def __del__(self) -> None:
        """A bank that nobody closed leaves no socket open."""
        for connection in self._idle:
            connection.close()

    def forget(self) -> None:
        """Gives back a forked child's copies of the connections; the parent's are not touched."""
        for connection in self._open:
            connection.close()

    def _taken(self) -> Connection | None:
        """The connection that was used last; `None` where none is left that still stands."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if not connection.expired() and connection.quiet():
                return connection
            connection.close()

    def _opened(self, until: float) -> Connection:
        connect = min(time.monotonic() + self._settings.connect_timeout, until)
        connection = Connection(open_socket(self._route, self._tls, connect))
        self._open.add(connection)
        return connection

    def _put_back(self, connection: Connection) -> None:
        with self._lock:
            if self._closed or not connection.reusable:
                spare = [connection]
            else:
                self._idle.append(connection)
                spare = list(self._surplus())
        for each in spare:
            each.close()

    def _surplus(self) -> Iterator[Connection]:
        while len(self._idle) > KEPT_ALIVE or self._idle[0].expired():
            yield self._idle.popleft()


class Connection:
    """An open socket, and the moment at which all reading and writing on it is over."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._until = self._used = 0.0
        self._in_head = False
        self.reusable = False

    def exchange(self, request: bytes, until: float, most: int) -> Reply:
        """Sends a request and reads the answer, of its body at most a piece more than `most` bytes."""
        self.reusable = False
        with self.ask(request, until) as answer:
            body = _body(answer, most)
            headers = {name.lower(): value for name, value in answer.headers.items()}
        self._used = time.monotonic()
        self.reusable = not answer.will_close and len(body) <= most
        return Reply(answer.status, headers, body)

    def ask(self, request: bytes, until: float) -> HTTPResponse:
        """Sends a request and reads the head of the answer."""
        self._until = until
        with suppress(ConnectionError):  # a server may answer, and close, before it has read everything
            self._send(request)
        answer = HTTPResponse(cast("socket.socket", self))
        self._in_head = True
        answer.begin()
        while answer.status < 200:  # an interim answer: `begin` reads another head if it finds none
            answer.headers = None  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]
            answer.begin()
        self._in_head = False
        return answer

    def makefile(self, _mode: str) -> io.BufferedReader:
        """What `HTTPResponse` reads an answer from."""
        return io.BufferedReader(_Incoming(self))

    def receive(self, buffer: WriteableBuffer) -> int:
        """Reads what has come; 0 at the end, which `HTTPResponse` would take for the end of a head."""
        self._sock.settimeout(rest(self._until))
        count = self._sock.recv_into(buffer)
        if not count and self._in_head:
            raise RemoteDisconnected("closed before the answer")
        return count

    def expired(self) -> bool:
        """Whether it was idle for too long."""
        return time.monotonic() - self._used > IDLE

    def quiet(self) -> bool:
        """Whether it still stands: the server has neither closed it nor said anything unasked."""
        if sys.platform == "win32":
            return not select.select([self._sock], [], [], 0)[0]
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        """Closes the socket of this process."""
        self._sock.close()

    def _send(self, content: bytes) -> None:
        unsent = memoryview(content)
        while unsent:
            self._sock.settimeout(rest(self._until))
            unsent = unsent[self._sock.send(unsent) :]


class _Incoming(io.RawIOBase):
    """The bytes of one answer. Whoever closes it leaves the connection open."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        return self._connection.receive(buffer)


def _body(answer: HTTPResponse, most: int) -> bytes:
    body = bytearray()
    while len(body) <= most and (piece := answer.read1(PIECE)):
        body += piece
    if answer.length and len(body) <= most:
        raise IncompleteRead(bytes(body), answer.length)
    return bytes(body)


def _encryption() -> ssl.SSLContext:
    tls = httpx.create_ssl_context()
    tls.set_alpn_protocols(["http/1.1"])
    return tls


def open_socket(route: Route, tls: ssl.SSLContext | None, until: float) -> socket.socket:
    """A socket through which the server, or a proxy that reads the calls, is reached."""
    first = route.proxy or route
    try:
        sock = _dialled(first.host, first.port, until)
        return sock if tls is None else _encrypted(sock, route, tls, until)
    except TimeoutError as error:
        raise LateConnectionError(str(error)) from error
    except (OSError, HTTPException, UnicodeError) as error:
        raise NoConnectionError(str(error)) from error


def _dialled(host: str, port: int, until: float) -> socket.socket:
    """A connection to the first address of a host that accepts one. They share the time, so that each is tried."""
    *others, last = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for tried, address in enumerate(others):
        with suppress(OSError):
            return _connected(address, rest(until) / (len(others) + 1 - tried))
    return _connected(last, rest(until))


def _connected(address: Address, timeout: float) -> socket.socket:
    family, kind, protocol, _, place = address
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(timeout)
        sock.connect(place)
    except BaseException:
        sock.close()
        raise
    return sock


def _encrypted(sock: socket.socket, route: Route, tls: ssl.SSLContext, until: float) -> socket.socket:
    try:
        if route.proxy is not None:
            _tunnel(sock, route, until)
        sock.settimeout(rest(until))
        return tls.wrap_socket(sock, server_hostname=route.host)
    except BaseException:
        sock.close()
        raise


def _tunnel(sock: socket.socket, route: Route, until: float) -> None:
    """Lets the proxy pass everything on from now on."""
    with Connection(sock).ask(route.tunnel.encode(), until) as answer:
        if not 200 <= answer.status < 300:
            raise HTTPException(f"the proxy answered {answer.status}")


def rest(until: float) -> float:
    """Seconds until a moment; raises when it is over."""
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("the time is over")
    return left
