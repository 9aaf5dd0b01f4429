"""One client's connection: requests in, bytes out, and a cut that wakes whoever waits on it."""

from __future__ import annotations

import contextlib
import socket
import time
from threading import Event

from lorebank._faults.wire import Request, query_of

__all__ = ["Connection", "MalformedError"]

HEAD_LIMIT = 1 << 18
READ = 1 << 16


class MalformedError(Exception):
    """What came is no HTTP request."""


class Connection:
    """An accepted socket. Reading and writing raise `OSError` once it is cut."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self._unread = bytearray()

    def read(self) -> Request | None:
        """The next request; `None` when the client is done."""
        head = self._head()
        if head is None:
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        words = first.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            raise MalformedError(first)
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if words[2] == "HTTP/1.0":
            headers.setdefault("connection", "close")
        body = self._body(headers)
        path, _, query = words[1].partition("?")
        return Request(words[0], path, query_of(query), headers, body, time.monotonic())

    def send(self, content: bytes) -> None:
        """Write all of it."""
        self._sock.sendall(content)

    def wait_for_the_end(self, released: Event) -> None:
        """Come back when the client hangs up, the connection is cut or `released` is set after a pipelined request."""
        with contextlib.suppress(OSError):
            if self._sock.recv(1, socket.MSG_PEEK):
                released.wait()

    def cut(self) -> None:
        """End both directions at once; safe from any thread."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Give the socket back; only the thread that serves the connection does so."""
        self.cut()
        self._sock.close()

    def _head(self) -> bytes | None:
        while (end := self._unread.find(b"\r\n\r\n")) < 0:
            if len(self._unread) > HEAD_LIMIT:
                raise MalformedError("the headers are too long")
            got = self._sock.recv(READ)
            if not got:
                return None
            self._unread += got
        head = bytes(self._unread[:end])
        del self._unread[: end + 4]
        return head

    def _body(self, headers: dict[str, str]) -> bytes:
        chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        length = headers.get("content-length", "0")
        if not chunked and not length.isdecimal():
            raise MalformedError(f"content-length: {length}")
        if headers.get("expect", "").lower() == "100-continue":
            self.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        return self._chunks() if chunked else self._exactly(int(length))

    def _chunks(self) -> bytes:
        parts: list[bytes] = []
        while size := self._size_of_chunk():
            parts.append(self._exactly(size))
            self._line()
        while self._line():
            pass
        return b"".join(parts)

    def _size_of_chunk(self) -> int:
        line = self._line().partition(b";")[0]
        try:
            return int(line, 16)
        except ValueError as error:
            raise MalformedError(f"chunk size {line!r}") from error

    def _line(self) -> bytes:
        while (end := self._unread.find(b"\r\n")) < 0:
            self._more()
        line = bytes(self._unread[:end])
        del self._unread[: end + 2]
        return line

    def _exactly(self, size: int) -> bytes:
        while len(self._unread) < size:
            self._more()
        content = bytes(self._unread[:size])
        del self._unread[:size]
        return content

    def _more(self) -> None:
        got = self._sock.recv(READ)
        if not got:
            raise ConnectionError("the client left in the middle of a request")
        self._unread += got
