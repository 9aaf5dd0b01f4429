"""`flush` and `close` of a bank on a server: barriers with a bound, which say what is left and why."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lorebank import Bank, UnavailableError, open_bank
from lorebank.testing import Fault, FaultServer


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as started:
        yield started


@pytest.fixture
def place(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'outbox.db'}"


def opened(server: FaultServer, place: str) -> Bank:
    return open_bank(server.url, bank="alice", ledger=place)


def test_a_flush_delivers_what_is_queued(server: FaultServer, place: str) -> None:
    """At once, without waiting for company; then nothing is left."""
    with opened(server, place) as bank:
        bank.retain(["tea", "milk"])
        report = bank.flush(timeout=10, until="completed")
        assert (report.done, report.reason, bank.outbox.status().rows) == (True, None, {"completed": 2})


def test_a_flush_is_bounded_and_says_why(server: FaultServer, place: str) -> None:
    """With the server gone it ends in time and reports what is left; once it is back, all arrives."""
    with opened(server, place) as bank:
        server.stop()
        bank.retain("tea")
        began = time.monotonic()
        report = bank.flush(timeout=0.6)
        assert time.monotonic() - began < 2
        assert (report.left, report.done, bool(report.reason)) == (1, False, True)
        server.start()
        assert bank.flush(timeout=10).done


def test_accepted_is_not_completed(server: FaultServer, place: str) -> None:
    """While the server works, `accepted` is reached and `completed` is not."""
    with opened(server, place) as bank:
        server.hold_operations()
        bank.retain("tea")
        assert bank.flush(timeout=10, until="accepted").done
        report = bank.flush(timeout=0.3, until="completed")
        assert (report.left, report.reason) == (1, "the time was over")
        server.release_operations()
        assert bank.flush(timeout=10, until="completed").done


def test_a_flush_with_nothing_to_do_is_done(server: FaultServer, place: str) -> None:
    """Neither a ledger nor a request is needed for that."""
    with opened(server, place) as bank:
        assert bank.flush(timeout=5).done
        assert not [request for request in server.requests if request.method == "POST"]


def test_a_refused_key_is_the_reason(tmp_path: Path, place: str) -> None:
    """What is left is left because of the key, and stays."""
    with FaultServer(api_key="right") as server, open_bank(server.url, bank="alice", ledger=place, api_key="wrong") as bank:
        bank.retain("tea")
        report = bank.flush(timeout=2)
        assert (report.left, "API key" in str(report.reason)) == (1, True)


def test_closing_beside_somebody_who_has_the_ledger_breaks_nothing(
    server: FaultServer, place: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What is queued is safe, and goes out with the next start."""
    server.stop()
    with opened(server, place) as bank:
        bank.retain("tea")
        monkeypatch.setattr("lorebank._database.sqlite.LiveFile._turn", busy)
    assert "still to be delivered: busy" in caplog.text
    monkeypatch.undo()
    server.start()
    with opened(server, place) as bank:
        assert bank.flush(timeout=15).done
        assert len(server.bank("alice").documents) == 1


def busy(*_: object) -> None:
    """Another process has the file for as long as anybody waits."""
    raise UnavailableError("busy")


CLOSING = """
import sys, time
from lorebank import open_bank
bank = open_bank(sys.argv[1], bank="alice", ledger=sys.argv[2], connection={"close_timeout": 0.5})
bank.retain("tea")
began = time.monotonic()
bank.close()
print(time.monotonic() - began < 3)
"""


def test_closing_is_bounded_and_the_next_start_delivers(server: FaultServer, place: str) -> None:
    """A server that hangs holds nobody up; what is left in the ledger is delivered by the next process."""
    server.fault(Fault(hang=True))
    command = [sys.executable, "-c", CLOSING, server.url, place]
    closed = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert closed.stdout.strip() == "True"
    server.heal()
    with opened(server, place) as bank:
        assert bank.flush(timeout=15, until="completed").done
        assert bank.outbox.status().rows == {"completed": 1}
