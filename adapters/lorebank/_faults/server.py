"""The fault server: a listening socket, a thread for each connection, a plan of faults, something behind it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Generator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from lorebank._faults.connection import Connection, MalformedError
from lorebank._faults.delivery import deliver
from lorebank._faults.fault import Fault, Plan
from lorebank._faults.hindsight import Hindsight
from lorebank._faults.listener import HOST, Listener
from lorebank._faults.replay import Replay
from lorebank._faults.view import BankView
from lorebank._faults.wire import Answer, Answerer, Request, as_json
from lorebank.errors import UsageError

if TYPE_CHECKING:
    from lorebank._faults.upstream import Upstream

__all__ = ["FaultServer"]

KEPT_REQUESTS = 10_000
DENIED = as_json({"detail": "Authentication failed: Invalid API key"}, 401)
MALFORMED = as_json({"detail": "Bad Request"}, 400)


class FaultServer:
    """An HTTP server on loopback that answers like a small Hindsight and misbehaves on request.

    `port` 0 is a free one, kept for later starts. `upstream` makes it a proxy in front of a real server, `exchanges` (a
    folder of recorded JSON files) a replay. With `api_key`, paths under `/v1` want `Authorization: Bearer <key>` and are
    401 without. Needs no network, no model and nothing beyond the standard library; every thread is a daemon.
    `UsageError`: both `upstream` and `exchanges`, a folder without exchanges.

    >>> from urllib.request import urlopen
    >>> with FaultServer() as server:
    ...     urlopen(f"{server.url}/health/live").status
    200
    """

    def __init__(
        self,
        *,
        port: int = 0,
        api_key: str | None = None,
        upstream: str | None = None,
        exchanges: str | Path | None = None,
    ) -> None:
        if upstream is not None and exchanges is not None:
            raise UsageError("A `FaultServer` has one thing behind it: give `upstream` or `exchanges`, not both.")
        self._port = port
        self._keys = None if api_key is None else {f"Bearer {api_key}", api_key}
        self._hindsight = Hindsight() if upstream is None and exchanges is None else None
        self._upstream = None if upstream is None else _upstream(upstream)
        self._answer = self._behind(exchanges)
        self._plan = Plan()
        self._requests: deque[Request] = deque(maxlen=KEPT_REQUESTS)
        self._healed = threading.Event()
        self._lock = threading.RLock()
        self._open: dict[Connection, threading.Thread] = {}
        self._held: set[Connection] = set()
        self._listener: Listener | None = None

    @property
    def url(self) -> str:
        """The base URL, as `http://127.0.0.1:43121`; `UsageError` before the first start of a server on a free port."""
        if not self._port:
            raise UsageError("A `FaultServer` has its port once it is started: use `with FaultServer() as server:`.")
        return f"http://{HOST}:{self._port}"

    @property
    def requests(self) -> tuple[Request, ...]:
        """What was asked so far, oldest first (the newest 10,000)."""
        with self._lock:
            return tuple(self._requests)

    def bank(self, name: str) -> BankView:
        """What the small Hindsight holds in this bank, to assert on; `UsageError` on a proxy or a replay."""
        return BankView(self._small(), name)

    def fault(self, fault: Fault, *, path: str | None = None, method: str | None = None, times: int | None = None) -> None:
        """Let matching requests go wrong: the next `times`, or all until `heal`.

        `path` is a regular expression searched in the path as sent. The oldest fault that fits wins.
        """
        self._plan.add(fault, path=path, method=method, times=times)

    def heal(self) -> None:
        """No more faults: late answers go now, requests that hang or stall lose their connection."""
        self._plan.clear()
        with self._lock:
            self._healed.set()
            self._healed = threading.Event()
            held = tuple(self._held)
        for connection in held:
            connection.cut()

    def hold_operations(self) -> None:
        """Operations of the small Hindsight stay `pending` from now on."""
        self._small().hold()

    def release_operations(self) -> None:
        """What was held back runs now, in order; later operations complete at once again."""
        self._small().release()

    def start(self) -> None:
        """Listen; nothing happens when it does already. `OSError` when the port is taken."""
        with self._lock:
            if self._listener is None:
                self._listener = Listener(self._port, self._serve)
                self._port = self._listener.port

    def stop(self) -> None:
        """Refuse connections and cut the open ones; what is stored, and the port, stay for the next `start`."""
        with self._lock:
            listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
        with self._lock:
            self._healed.set()
            self._healed = threading.Event()
            threads = dict(self._open)
        if self._upstream is not None:
            self._upstream.cut()
        for connection in threads:
            connection.cut()
        for thread in threads.values():
            if thread is not threading.current_thread():
                thread.join(5)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _behind(self, exchanges: str | Path | None) -> Answerer:
        if self._hindsight is not None:
            return self._hindsight.answer
        if self._upstream is not None:
            return self._upstream.answer
        return Replay(Path(exchanges or ".")).answer

    def _small(self) -> Hindsight:
        if self._hindsight is None:
            raise UsageError(
                "A proxy or a replay has no bank of its own: make a `FaultServer` without `upstream` and `exchanges`."
            )
        return self._hindsight

    def _serve(self, sock: socket.socket) -> None:
        connection = Connection(sock)
        thread = threading.Thread(target=self._converse, args=(connection,), name="lorebank-fault-connection", daemon=True)
        with self._lock:
            self._open[connection] = thread
        thread.start()

    def _converse(self, connection: Connection) -> None:
        try:
            with contextlib.suppress(OSError):
                while self._exchange(connection):
                    pass
        finally:
            connection.close()
            with self._lock:
                del self._open[connection]

    def _exchange(self, connection: Connection) -> bool:
        try:
            request = connection.read()
        except MalformedError:
            request = Request("GET", "", {}, {"connection": "close"}, b"", 0.0)
            return deliver(connection, request, MALFORMED, healed=self._healed)
        if request is None:
            return False
        with self._lock:
            healed = self._healed
            fault = self._plan.take(request)
            self._requests.append(request)
        if fault is None:
            return deliver(connection, request, self._honest(request), healed=healed)
        return self._faulty(connection, request, fault, healed)

    def _faulty(self, connection: Connection, request: Request, fault: Fault, healed: threading.Event) -> bool:
        if fault.drop:
            return False
        if not (fault.hang or fault.endless or fault.stall_after is not None):
            answer = fault.made_up() if fault.replaces() else self._honest(request)
            return deliver(connection, request, answer, fault, healed=healed)
        with self._held_back(connection, healed):
            if fault.hang:
                connection.wait_for_the_end(healed)
                return False
            answer = fault.made_up() if fault.replaces() else self._honest(request)
            return deliver(connection, request, answer, fault, healed=healed)

    @contextlib.contextmanager
    def _held_back(self, connection: Connection, healed: threading.Event) -> Generator[None]:
        with self._lock:
            self._held.add(connection)
            if healed.is_set():
                connection.cut()
        try:
            yield
        finally:
            with self._lock:
                self._held.discard(connection)

    def _honest(self, request: Request) -> Answer:
        denied = (
            self._keys is not None and request.path.startswith("/v1") and request.headers.get("authorization") not in self._keys
        )
        return DENIED if denied else self._answer(request)


def _upstream(url: str) -> Upstream:
    from lorebank._faults.upstream import Upstream

    return Upstream(url)
