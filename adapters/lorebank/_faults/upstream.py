"""A real server behind the faults: requests are passed on as they came, answers come back as they are."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from urllib.parse import urlencode, urlsplit

from lorebank._faults.wire import Answer, Request, as_json
from lorebank.errors import UsageError

__all__ = ["Upstream"]

TIMEOUT = 300.0
CONNECTIONS = "connection keep-alive proxy-connection te trailer transfer-encoding upgrade content-length expect date"
HOP_BY_HOP = frozenset(CONNECTIONS.split())


class Upstream:
    """The server at `url`. One connection for each request, so that nothing is left open."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise UsageError(f"`upstream` is a base URL such as `http://127.0.0.1:8888`; got `{url}`.")
        self._kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._host, self._port, self._prefix = parts.hostname, parts.port, parts.path.rstrip("/")
        self._lock = threading.Lock()
        self._active: set[socket.socket] = set()

    def answer(self, request: Request) -> Answer:
        """What the real server says; 502 when it cannot be reached."""
        connection = self._kind(self._host, self._port, timeout=TIMEOUT)
        try:
            connection.connect()
            return self._ask(connection, connection.sock, request)
        except (OSError, http.client.HTTPException) as error:
            return as_json({"detail": f"The upstream server gave no answer: {error}"}, 502)
        finally:
            connection.close()

    def cut(self) -> None:
        """End what is under way."""
        with self._lock:
            for sock in self._active:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def _ask(self, connection: http.client.HTTPConnection, sock: socket.socket, request: Request) -> Answer:
        with self._lock:
            self._active.add(sock)
        try:
            self._send(connection, request)
            with connection.getresponse() as response:
                headers = {name.lower(): value for name, value in response.getheaders() if name.lower() not in HOP_BY_HOP}
                kind = headers.pop("content-type", "application/octet-stream")
                return Answer(response.status, response.read(), headers, kind)
        finally:
            with self._lock:
                self._active.discard(sock)

    def _send(self, connection: http.client.HTTPConnection, request: Request) -> None:
        query = urlencode([(name, value) for name, values in request.query.items() for value in values])
        target = f"{self._prefix}{request.path}{'?' if query else ''}{query}"
        connection.putrequest(request.method, target, skip_host=True, skip_accept_encoding=True)
        connection.putheader("Host", self._host if self._port is None else f"{self._host}:{self._port}")
        for name, value in request.headers.items():
            if name not in HOP_BY_HOP and name != "host":
                connection.putheader(name, value)
        if request.body or request.method in {"POST", "PUT", "PATCH"}:
            connection.putheader("Content-Length", str(len(request.body)))
        connection.endheaders(request.body or None)
