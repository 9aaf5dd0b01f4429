"""`lorebank doctor`: what it says of a backend that works, and of each way in which one does not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pytest

from lorebank import (
    Bank,
    ForbiddenError,
    GarbledError,
    Item,
    OutboxEntry,
    OutboxStatus,
    Receipt,
    Removal,
    UnavailableError,
    open_bank,
)
from lorebank._mnemopi.backend import MnemopiBackend
from lorebank.cli.doctor import examine
from lorebank.cli.examination import Check, examine_bank
from lorebank.seams import FlushReport, Health, RowState, Scope, Writer

ALL = ("extras", "address", "reachable", "integrity", "bank", "round trip", "outbox")
SINCE = datetime(2026, 3, 1, 8, tzinfo=UTC)


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "lorebank.cli", "doctor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)


class Served(MnemopiBackend):
    """Looks like a server; one part of it may be out of order."""

    name: Literal["hindsight"] = "hindsight"  # type: ignore[assignment]

    def __init__(self, url: str, *, version: str = "1.1", left: int = 0, lost: str | None = None, **broken: Exception) -> None:
        super().__init__(url)
        self.version, self.left, self.lost, self.broken = version, left, lost, broken
        self.outbox = self  # type: ignore[assignment]
        self.purged: list[str] = []

    def _try(self, verb: str) -> None:
        if verb in self.broken:
            raise self.broken[verb]

    def health(self) -> Health:
        return Health("health" not in self.broken, self.name, f"http://127.0.0.1, Hindsight {self.version}")

    def retain(self, scope: Scope, items: Sequence[Item], writer: Writer) -> Receipt:
        self._try("retain")
        return super().retain(scope, items, writer)

    def recall(self, scope: Scope, request: Any) -> Any:
        self._try("recall")
        return super().recall(scope, request)

    def flush(self, *, timeout: float, until: Literal["accepted", "completed"]) -> FlushReport:
        return FlushReport(self.left, "the model does not answer" if self.left else None)

    def clear(self, scope: Scope) -> Removal:
        self._try("clear")
        return super().clear(scope)

    def status(self, bank: str | None) -> OutboxStatus:
        self._try("status")
        assert bank is None
        return OutboxStatus({"pending": 2, "dead": 1 if self.lost else 0}, oldest=SINCE)

    def list(self, scope: Any, request: Any = None, *, state: RowState | None = None, limit: int = 0, offset: int = 0) -> Any:
        if request is not None:
            self._try("list")
            return super().list(scope, request)
        row = OutboxEntry("r1", scope or "alice", "d", "dead", SINCE, 10, reason=self.lost)
        return (row,) if self.lost or state is None else ()

    def purge(self, bank: Any = None, ids: Sequence[str] = ()) -> Any:
        self.purged += ids
        return super().purge() if bank is None else len(ids)


def checked(backend: MnemopiBackend) -> dict[str, Check]:
    with open_bank(backend=backend, bank="alice") as bank:
        return {check.name: check for check in examine_bank(bank)}


def verdicts(checks: dict[str, Check]) -> dict[str, bool]:
    return {name: check.ok for name, check in checks.items()}


def test_a_file_that_works_is_well(url: str, file: Path) -> None:
    """One line a step, exit code 0; the bank it used is empty afterwards."""
    with open_bank(url) as bank:
        bank.retain("Ana sings.")
    done = run("--url", url)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split()[:2] for line in done.stdout.splitlines()]
    assert lines == [["ok", name.split()[0]] for name in ALL]
    with open_bank(url) as bank:
        assert [memory.text for memory in bank.list()] == ["Ana sings."]


def test_json_is_for_scripts(url: str) -> None:
    """One object with every step."""
    told = json.loads(run("--url", url, "--bank", "bob", "--json").stdout)
    assert told["ok"] is True
    assert [check["name"] for check in told["checks"]] == list(ALL)
    assert "'bob'" in told["checks"][4]["found"]


def test_the_environment_says_what_is_checked(url: str) -> None:
    """Without --url, the same places as for every bank."""
    assert "from LOREBANK_URL" in run(LOREBANK_URL=url).stdout


@pytest.mark.parametrize(
    ("arguments", "environment", "told"),
    [
        (["--url", "ftp://ana:secret@example.com"], {}, "sqlite:///, postgresql://"),
        (["--bank", "a/b"], {}, "'/'"),
        (["--api-key-env", "NO_SUCH_KEY"], {}, "NO_SUCH_KEY"),
        ([], {"HINDSIGHT_API_URL": "sqlite:///x.db"}, "HINDSIGHT_API_URL"),
    ],
)
def test_an_address_that_can_not_be_used_is_said_in_one_line(
    arguments: list[str], environment: dict[str, str], told: str
) -> None:
    """Exit code 1, no secret, no traceback."""
    done = run(*arguments, **environment)
    assert (done.returncode, len(done.stdout.splitlines()), done.stderr) == (1, 2, "")
    assert done.stdout.splitlines()[1].startswith("failed address")
    assert told in done.stdout
    assert "secret" not in done.stdout


def test_memory_that_is_off_is_said() -> None:
    """The kill switch is found, with what to do."""
    done = run(LOREBANK_URL="off")
    assert done.returncode == 1
    assert "unset LOREBANK_URL" in done.stdout


def test_a_server_that_works_is_well(url: str) -> None:
    """All steps, also version and key; the outbox counts all banks."""
    checks = checked(Served(url))
    assert list(checks) == ["reachable", "version", "key", "bank", "round trip", "outbox"]
    assert all(verdicts(checks).values())
    assert checks["outbox"].found == "2 waiting, the oldest since 2026-03-01 08:00 UTC, 0 dead."


def test_a_server_that_does_not_answer_still_shows_the_outbox(url: str) -> None:
    """What can't work is not tried."""
    assert verdicts(checked(Served(url, health=UnavailableError("down")))) == {"reachable": False, "outbox": True}


@pytest.mark.parametrize(
    ("version", "well"),
    [("0.9", True), ("0.9.1", True), ("0.9.0", False), ("1.0.4", True), ("1.1.7", True), ("1.2", False), ("0.8", False)],
)
def test_versions_from_0_9_1_to_1_1_are_supported(url: str, version: str, well: bool) -> None:
    """An older or newer server is named."""
    assert checked(Served(url, version=version))["version"].ok is well


def test_a_refused_key_is_told_apart_from_an_unreadable_bank(url: str, tmp_path: Path) -> None:
    """Each with what to do about it."""
    refused = checked(Served(url, list=ForbiddenError("401")))
    garbled = checked(Served(f"sqlite:///{tmp_path / 'other.db'}", list=GarbledError("HTML")))
    assert verdicts(refused) == {"reachable": True, "version": True, "key": False, "outbox": True}
    assert "HINDSIGHT_API_KEY" in refused["key"].todo
    assert verdicts(garbled) == {"reachable": True, "version": True, "bank": False, "outbox": True}
    assert "Hindsight server" in garbled["bank"].todo


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ({"retain": UnavailableError("disk full")}, "disk full."),
        ({"recall": ForbiddenError("read only")}, "read only."),
        ({"left": 1}, "the write was not worked up within 120 s: the model does not answer."),
        ({"lost": "no such bank"}, "no such bank."),
    ],
)
def test_a_round_trip_that_fails_says_where(url: str, broken: dict[str, Any], told: str) -> None:
    """The write, the work on it, the read."""
    check = checked(Served(url, **broken))["round trip"]
    assert (check.ok, check.found) == (False, told)


def test_what_is_written_and_not_found_is_told(url: str) -> None:
    """A server that loses writes is not well."""

    class Forgetful(Served):
        def retain(self, scope: Scope, items: Sequence[Item], writer: Writer) -> Receipt:
            return Receipt()

    assert checked(Forgetful(url))["round trip"].found == "what was written is not found."


def test_a_probe_that_stays_is_named(url: str) -> None:
    """Where the bank can't be deleted, its name is told, and its writes are taken out of the outbox."""
    backend = Served(url, clear=UnavailableError("down"))
    check = checked(backend)["round trip"]
    assert check.ok is False
    assert "'lorebank-doctor-" in check.found
    assert backend.purged == ["r1"]


def test_dead_letters_are_not_well(url: str) -> None:
    """They wait for a person, and the doctor says how."""
    check = checked(Served(url, lost="too old"))["outbox"]
    assert (check.ok, "lorebank outbox requeue" in check.todo) == (False, True)
    assert checked(Served(url, status=UnavailableError("the ledger is busy")))["outbox"].ok is False


def test_a_key_in_plain_text_over_the_network_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule for addresses is part of the first step."""
    monkeypatch.setenv("SOME_KEY", "k-123")
    [_, check] = examine("http://hindsight.example", "alice", "SOME_KEY")
    assert (check.name, check.ok) == ("address", False)
    assert "k-123" not in check.found


def test_closing_is_left_to_the_doctor(url: str) -> None:
    """A bank that was passed in stays open."""
    with open_bank(url) as bank:
        assert isinstance(bank, Bank)
        list(examine_bank(bank))
        assert bank.list() == ()
