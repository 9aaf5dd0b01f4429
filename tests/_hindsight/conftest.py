"""What these tests share: a backend on the real server, and how a test writes there without the outbox."""

from __future__ import annotations

import select
import socket
import socketserver
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hindsight_server import Hindsight

from lorebank._domain.item import Item
from lorebank._domain.scope import Scope
from lorebank._domain.settings import ConnectionSettings, RetainSettings
from lorebank._hindsight.backend import HindsightBackend
from lorebank._hindsight.transport import Transport
from lorebank._hindsight.wire import envelope, item_body
from lorebank.testing import FaultServer

Write = Callable[[Scope, Sequence[Item]], None]


@pytest.fixture
def backend(hindsight: Hindsight) -> Iterator[HindsightBackend]:
    """A backend on the real server."""
    opened = HindsightBackend(hindsight.url, ConnectionSettings(), RetainSettings())
    yield opened
    opened.close()


@pytest.fixture
def write(backend: HindsightBackend) -> Write:
    """Retains items and waits until the server has stored them and concluded from them."""

    def written(scope: Scope, items: Sequence[Item]) -> None:
        now = datetime.now(UTC)
        bodies = [item_body(item, scope, RetainSettings(), now=now) for item in items]
        backend.prepare(scope.bank)
        operation = backend.submit(scope.bank, envelope(bodies, str(uuid.uuid4())))
        settle(backend, scope)
        assert backend.progress(scope.bank, operation).state == "completed"

    return written


def settle(backend: HindsightBackend, scope: Scope) -> None:
    """Waits until the server has nothing to do for the bank."""
    until = time.monotonic() + 60
    while any(each.running for each in backend.operations.list(scope, state=None, limit=100, offset=0)):
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.fixture
def faulty() -> Iterator[FaultServer]:
    """A small server that fails on request."""
    with FaultServer() as server:
        yield server


@pytest.fixture
def transport(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Transport]]:
    """Opens transports, and closes them with the test. The developer's proxies are not theirs."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    opened: list[Transport] = []

    def open_one(url: str, **settings: Any) -> Transport:
        opened.append(Transport(url, ConnectionSettings(**settings), version="1"))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


class Scripted(socketserver.ThreadingTCPServer):
    """Answers each request with the bytes that `answer` gives for its head, and tells the heads and the connections.

    With `once`, a connection is closed after an answer. What follows a `CONNECT` is passed on to that port of this machine.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self, answer: Callable[[str], bytes], *, once: bool = False, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, 0), Conversation)
        self.answer, self.once, self.tls = answer, once, tls
        self.heads: list[str] = []
        self.begun = self.ended = 0
        self.counting = threading.Condition()

    @property
    def place(self) -> str:
        """Host and port."""
        host, port = self.server_address[:2]
        return f"[{host!s}]:{port}" if self.address_family == socket.AF_INET6 else f"{host!s}:{port}"

    def saw_end(self, connections: int) -> bool:
        """Whether so many connections end, now or soon."""
        with self.counting:
            return self.counting.wait_for(lambda: self.ended == connections, 10)

    def handle_error(self, *_: object) -> None:
        """A client that hangs up is no news."""


class Conversation(socketserver.StreamRequestHandler):
    """One connection."""

    server: Scripted

    def setup(self) -> None:
        with self.server.counting:
            self.server.begun += 1
        if self.server.tls is not None:
            self.request = self.server.tls.wrap_socket(self.request, server_side=True)
        super().setup()

    def handle(self) -> None:
        while head := self._head():
            self.server.heads.append(head)
            self.wfile.write(self.server.answer(head))
            if head.startswith("CONNECT"):
                self._pass_on(int(head.split()[1].rpartition(":")[2]))
            if self.server.once:
                break

    def finish(self) -> None:
        super().finish()
        self.request.close()
        with self.server.counting:
            self.server.ended += 1
            self.server.counting.notify_all()

    def _head(self) -> str:
        lines = list(iter(lambda: self.rfile.readline().decode().removesuffix("\r\n"), ""))
        sizes = [int(line.split()[1]) for line in lines if line.startswith("content-length: ")]
        self.rfile.read(sum(sizes))
        return "\n".join(lines)

    def _pass_on(self, port: int) -> None:
        with socket.create_connection(("127.0.0.1", port)) as other:
            while True:
                for source in select.select([self.request, other], [], [])[0]:
                    if not (content := source.recv(65_536)):
                        return
                    (other if source is self.request else self.request).sendall(content)


@pytest.fixture
def scripted() -> Iterator[Callable[..., Scripted]]:
    """Starts servers that say plain bytes, and stops them with the test."""
    started: list[Scripted] = []

    def start(answer: Callable[[str], bytes], **options: Any) -> Scripted:
        started.append(Scripted(answer, **options))
        threading.Thread(target=started[-1].serve_forever, args=(0.01,), daemon=True).start()
        return started[-1]

    yield start
    for each in started:
        each.shutdown()
        each.server_close()
