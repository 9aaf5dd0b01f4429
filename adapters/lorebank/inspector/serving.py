"""Runs the inspector on loopback until it is interrupted."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Callable

import uvicorn

from lorebank._bank import Bank
from lorebank.errors import UsageError
from lorebank.inspector.app import inspector
from lorebank.inspector.guard import TOKEN, Keys

LOOPBACK = ((socket.AF_INET, "127.0.0.1", "127.0.0.1"), (socket.AF_INET6, "::1", "[::1]"))
"""Where it listens, and nowhere else: the first of them that the machine has."""


def serve(bank: Bank, port: int, ready: Callable[[str], None]) -> None:
    """Serves a bank's pages on a port (0: a free one) until it is interrupted; `ready` hears the URL, with the token, once
    requests are taken. `UsageError` where the port is taken.
    """
    keys = Keys()
    with contextlib.closing(_listening(port)) as listener:
        own = listener.getsockname()[1]
        host = next(name for family, _, name in LOOPBACK if family == listener.family)
        config = uvicorn.Config(
            inspector(bank, keys, own),
            log_level="error",
            access_log=False,  # its lines would hold the token
            lifespan="off",
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=2,
        )
        ready(f"http://{host}:{own}/?{TOKEN}={keys.token}")
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])


def _listening(port: int) -> socket.socket:
    """A socket that takes connections already, so that a browser that is quick is not refused."""
    failure: OSError | None = None
    for family, address, _ in LOOPBACK:
        try:
            return socket.create_server((address, port), family=family, backlog=128)
        except OSError as error:
            failure = error
            if error.errno == errno.EADDRINUSE:
                break
    raise UsageError(f"port {port} of this machine can't be listened on ({failure}): choose another --port, or none") from failure
