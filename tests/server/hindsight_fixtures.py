"""The real Hindsight server as fixtures, and the rules around it.

A test that uses one of the fixtures is marked `server`. Where such a test is selected, the server is brought up after the
collection and before the first test, so that no test's time runs while packages are installed. A server that can't be had
is an error of every test that needs it; only `--without-server` skips them, and says so.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from hindsight_server import Hindsight, Lease, OwnHindsight, Place, ServerMissingError, home_of, lock_file

FIXTURES = frozenset({"hindsight", "hindsight_auth", "own_hindsight"})
AUTH_KEY = "k1"
WITHOUT = "needs the real Hindsight server (--without-server)"


class Servers:
    """What this process uses of the servers; each is started when it is first asked for."""

    def __init__(self, config: pytest.Config) -> None:
        self.run = getattr(config, "workerinput", {}).get("testrunuid", uuid.uuid4().hex)
        self.left_out = bool(config.getoption("--without-server"))
        self.place = Place(home_of(os.environ), tell)
        self._leases: dict[str, Lease] = {}

    def get(self, name: str, *options: str) -> Hindsight:
        """The running server; starts it where nobody has yet."""
        if name not in self._leases:
            with lock_file(self.place.home, f"{name}-start") as gate:
                fcntl.flock(gate, fcntl.LOCK_EX)
                self._leases[name] = self._lease(name, *options)
        return self._leases[name].server

    def _lease(self, name: str, *options: str) -> Lease:
        failure = self._failure(name)
        if failure.exists():  # another worker of this run has tried: one wait for the same failure is enough
            raise ServerMissingError(failure.read_text(encoding="utf-8"))
        try:
            return Lease(self.place, name, *options)
        except ServerMissingError as error:
            failure.write_text(str(error), encoding="utf-8")
            raise

    def _failure(self, name: str) -> Path:
        return self.place.home / "leases" / f"{name}-failed-{self.run}"

    def close(self) -> None:
        """Gives back every server; the last user stops it."""
        while self._leases:
            self._leases.popitem()[1].close()
        for failure in self.place.home.glob(f"leases/*-failed-{self.run}"):
            failure.unlink(missing_ok=True)


SERVERS = pytest.StashKey[Servers]()


def tell(line: str) -> None:
    """Shows progress at once, from whichever worker."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--without-server", action="store_true", help="leave out the tests that need the real Hindsight server")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "server: needs the real Hindsight server (set by itself on users of its fixtures)")
    config.stash[SERVERS] = Servers(config)


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter and session.config.getoption("--without-server"):
        reporter.write_line("--without-server: the tests against the real Hindsight server do NOT run.", yellow=True, bold=True)


def fixtures_of(item: pytest.Item) -> frozenset[str]:
    """Which servers a test uses."""
    return FIXTURES.intersection(getattr(item, "fixturenames", ()))


def needs_default(item: pytest.Item) -> bool:
    """Whether a test uses the shared server; one that is only marked asks for it as it runs."""
    return item.get_closest_marker("server") is not None and (not fixtures_of(item) or "hindsight" in fixtures_of(item))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the users of the fixtures, before `-m` selects."""
    for item in items:
        if fixtures_of(item):
            item.add_marker(pytest.mark.server)
        if item.get_closest_marker("server") is None:
            continue
        if not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(func_only=True))  # starts of further servers are bounded on their own
        if config.getoption("--without-server"):
            item.add_marker(pytest.mark.skip(reason=WITHOUT))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Brings the server up where a selected test needs it; the first worker does the work, the others wait."""
    config = session.config
    idle = config.option.collectonly or config.getoption("--without-server") or session.testsfailed
    if not idle and any(needs_default(item) for item in session.items):
        with contextlib.suppress(ServerMissingError):  # the tests that need it tell, each as an error
            config.stash[SERVERS].get("default")


def pytest_sessionfinish(session: pytest.Session) -> None:
    session.config.stash[SERVERS].close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.getoption("--without-server"):
        skipped = [report for report in terminalreporter.getreports("skipped") if WITHOUT in str(report.longrepr)]
        line = f"--without-server: {len(skipped)} tests against the real Hindsight server did NOT run."
        terminalreporter.write_line(line, yellow=True, bold=True)


def servers_of(config: pytest.Config) -> Servers:
    """The servers, for a test that needs one; skips it where they are left out."""
    servers = config.stash[SERVERS]
    if servers.left_out:
        pytest.skip(WITHOUT)
    return servers


@contextlib.contextmanager
def told_plainly() -> Iterator[None]:
    """A server that can't be had is an error without a traceback through this file."""
    try:
        yield
    except ServerMissingError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


@pytest.fixture(scope="session")
def hindsight(pytestconfig: pytest.Config) -> Hindsight:
    """The real server, shared by all workers and runs: use a bank of your own, leave its stub model server alone."""
    with told_plainly():
        return servers_of(pytestconfig).get("default")


@pytest.fixture(scope="session")
def hindsight_auth(pytestconfig: pytest.Config) -> Hindsight:
    """A real server that wants its `api_key`, shared as `hindsight` is."""
    with told_plainly():
        return servers_of(pytestconfig).get("auth", "--api-key", AUTH_KEY)


@pytest.fixture
def bank_id(hindsight: Hindsight) -> Iterator[str]:
    """The id of a bank that nobody else uses; it is made by the first write and deleted with the test."""
    bank = f"test-{uuid.uuid4()}"
    yield bank
    httpx.delete(f"{hindsight.url}/v1/default/banks/{bank}", timeout=60).raise_for_status()


@pytest.fixture(scope="session")
def _own_hindsight(pytestconfig: pytest.Config) -> Iterator[OwnHindsight]:
    with told_plainly():
        server = OwnHindsight(servers_of(pytestconfig).place)
    yield server
    server.close()


@pytest.fixture
def own_hindsight(_own_hindsight: OwnHindsight) -> OwnHindsight:
    """A server of this worker alone, up and with well-behaved models; the test may stop, kill and start it again."""
    _own_hindsight.start()
    httpx.post(f"{_own_hindsight.stub}/stub/reset", json={}, timeout=10).raise_for_status()
    return _own_hindsight
