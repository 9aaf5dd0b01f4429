"""Real Hindsight servers for the tests: who starts one, who shares it, who stops it.

A server has a name within a home folder. Every process that uses one holds a shared file lock on its name, so that several
workers and several test runs can share it. The last one to leave stops it, unless it was started by hand.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

SCRIPTS = Path(__file__).with_name("hindsight")
START_SECONDS = 600  # the packages are installed within it, too
FREE_PORTS = ("--port", "0")

Teller = Callable[[str], None]


class ServerMissingError(Exception):
    """No Hindsight server could be had; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Hindsight:
    """A running server."""

    url: str
    stub: str  # the stub model server behind it
    api_key: str | None
    log: Path


def home_of(environment: Mapping[str, str]) -> Path:
    """Where the servers' packages, data and logs are."""
    cache = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(environment.get("HINDSIGHT_HOME") or Path(cache) / "hindsight-server").absolute()


@dataclass(frozen=True, slots=True)
class Place:
    """The folder of all servers of this user; `tell` hears the scripts' progress lines."""

    home: Path
    tell: Teller

    def _script(self, script: str, name: str) -> list[str]:
        return ["bash", str(SCRIPTS / script), "--home", str(self.home), "--name", name]

    def start(self, name: str, *options: str) -> bool:
        """Starts the server where it is down; says whether it was."""
        lines: list[str] = []
        bounded = ["timeout", "--kill-after=10", str(START_SECONDS)]
        command = [*self._script("start", name), "--python", sys.executable, *options]
        with subprocess.Popen([*bounded, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            try:
                for line in process.stderr or ():
                    lines.append(line.rstrip())
                    if "already running" not in line:
                        self.tell(line.rstrip())
            except BaseException:
                process.terminate()
                process.communicate()  # the script ends what it has started so far
                raise
        if process.returncode != 0:
            raise ServerMissingError(
                f"The Hindsight server `{name}` did not start. Its script said:\n  " + "\n  ".join(lines[-30:]) + "\n"
                "`pytest --without-server` runs the rest of the suite, and says what it left out."
            )
        return not any("already running" in line for line in lines)

    def stop(self, name: str) -> None:
        """Stops the server and keeps its data."""
        subprocess.run(self._script("stop", name), check=True, capture_output=True, timeout=120)

    def kill(self, name: str, *parts: str) -> None:
        """Kills some of a server's processes (`api`, `stub`, `postgres`), as a crash would."""
        for part in parts:
            pid, _ = self.run_of(name).joinpath(f"{part}.pid").read_text(encoding="ascii").split()
            os.kill(int(pid), signal.SIGKILL)

    def run_of(self, name: str) -> Path:
        """Logs and pid files of one server."""
        return self.home / "run" / name

    def read(self, name: str) -> Hindsight:
        """The server's addresses, as its start wrote them down."""
        lines = (self.run_of(name) / "env").read_text(encoding="utf-8").splitlines()
        values = dict(line.split("=", 1) for line in lines)
        key = values["HINDSIGHT_API_KEY"]
        return Hindsight(values["HINDSIGHT_BASE_URL"], values["HINDSIGHT_STUB_URL"], key or None, Path(values["HINDSIGHT_LOG"]))


class Lease:
    """The use of one server by this process, from its start to `close`."""

    def __init__(self, place: Place, name: str, *options: str) -> None:
        self.place, self.name = place, name
        self._lock = lock_file(place.home, name)
        fcntl.flock(self._lock, fcntl.LOCK_SH)  # waits where the last user is just stopping it
        try:
            if place.start(name, *FREE_PORTS, *options):
                self._mark.write_text(self._process, encoding="ascii")
            self.server = place.read(name)
        except BaseException:
            self._lock.close()
            raise

    @property
    def _mark(self) -> Path:
        """Holds the process that a test run started, and so may stop."""
        return self.place.run_of(self.name) / "started-by-tests"

    @property
    def _process(self) -> str:
        file = self.place.run_of(self.name) / "api.pid"
        return file.read_text(encoding="ascii") if file.exists() else "none"

    def close(self) -> None:
        """Ends the use; stops the server where nobody else uses it and a test run started it."""
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        else:
            if self._mark.exists() and self._mark.read_text(encoding="ascii") == self._process:
                self.place.stop(self.name)
        fcntl.flock(self._lock, fcntl.LOCK_UN)  # a forked child may still hold the file open
        self._lock.close()


class OwnHindsight:
    """A server that no other test sees: it may be stopped, killed and started again, always at the same `url`."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._name, self._lock = unused_name(place.home)
        self._running = False
        self._port = "0"
        try:
            self.start()
        except BaseException:
            self._lock.close()
            raise

    def start(self) -> None:
        """Starts it where it is down, with its data; returns when it is healthy."""
        if self._running:
            return
        self._place.start(self._name, "--port", self._port)
        self.server = self._place.read(self._name)
        self._port = self.url.rsplit(":", 1)[1]
        self._running = True

    def stop(self) -> None:
        """Stops it in order."""
        self._place.stop(self._name)
        self._running = False

    def kill(self) -> None:
        """Kills it with SIGKILL; calls in flight break off, what the database acknowledged stays."""
        self._place.kill(self._name, "api")
        self._running = False

    def cut_power(self) -> None:
        """Kills all of it, its database too; what that held is gone with the next start."""
        self._place.kill(self._name, "api", "stub", "postgres")
        self._running = False

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def stub(self) -> str:
        return self.server.stub

    def close(self) -> None:
        """Stops it and gives its name to the next who needs one."""
        self.stop()
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        self._lock.close()


def lock_file(home: Path, name: str) -> IO[bytes]:
    """The file whose lock says who uses a server."""
    folder = home / "leases"
    folder.mkdir(parents=True, exist_ok=True)
    return (folder / f"{name}.lock").open("ab")


def unused_name(home: Path) -> tuple[str, IO[bytes]]:
    """The first `own-N` that no process uses, locked: its database is there from earlier runs."""
    for number in range(1000):
        lock = lock_file(home, f"own-{number}")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
        else:
            return f"own-{number}", lock
    raise ServerMissingError(f"A thousand servers of tests are in use in `{home}`; stop some with {SCRIPTS / 'stop'}")
