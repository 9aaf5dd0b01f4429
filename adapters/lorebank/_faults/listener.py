"""A listening socket on loopback and the thread that accepts from it."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import threading
from collections.abc import Callable

__all__ = ["HOST", "Listener"]

HOST = "127.0.0.1"
BACKLOG = 256


class Listener:
    """Hands every accepted socket to `serve` until it is closed; `OSError` when the port is taken."""

    def __init__(self, port: int, serve: Callable[[socket.socket], None]) -> None:
        self._serve = serve
        self._sock = _listening(port)
        self.port: int = self._sock.getsockname()[1]
        self._waker, self._sleeper = socket.socketpair()
        self._thread = threading.Thread(target=self._accept, name="lorebank-fault-server", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Connections are refused when this returns."""
        self._waker.close()
        self._thread.join()

    def _accept(self) -> None:
        with self._sock, self._sleeper, selectors.DefaultSelector() as selector:
            selector.register(self._sock, selectors.EVENT_READ)
            selector.register(self._sleeper, selectors.EVENT_READ)
            while not any(key.fileobj is self._sleeper for key, _ in selector.select()):
                with contextlib.suppress(OSError):
                    accepted = self._sock.accept()[0]
                    accepted.setblocking(True)
                    self._serve(accepted)


def _listening(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if os.name == "posix":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((HOST, port))
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock
