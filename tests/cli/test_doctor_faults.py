"""Each fault that `lorebank doctor` knows: provoked for real, named, and gone once its advice was followed."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from lorebank import OutboxFullError, open_bank
from lorebank.cli.app import app
from lorebank.cli.doctor import _option
from lorebank.cli.examination import examine_bank
from lorebank.testing import Fault, FaultServer

PAGE = 4096


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def faults(*arguments: str) -> dict[str, tuple[str, str]]:
    """What the doctor finds amiss: by its name, what was found and what to do. The exit code goes with it."""
    done = run("doctor", *arguments, "--json")
    told = json.loads(done.stdout)
    assert done.exit_code == (0 if told["ok"] else 1)
    return {check["name"]: (check["found"], check["todo"]) for check in told["checks"] if not check["ok"]}


def advised(todo: str, verb: str) -> list[str]:
    """The words of a command of ours that an advice names."""
    found = re.search(rf"lorebank ({verb}[^;]*?)(?:;|\.?$|\. )", todo)
    assert found is not None, todo
    return shlex.split(found[1])


def moved_aside(todo: str) -> None:
    """Does what the advice says a shell is to do."""
    found = re.search(r"mkdir \S+ && mv \S+ [^\s;]+", todo)
    assert found is not None, todo
    subprocess.run(["/bin/sh", "-c", found[0]], check=True)


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as started:
        yield started


def test_no_server(server: FaultServer) -> None:
    """Nobody listens: the address is told, and how to try it; once the server is up, all is well."""
    server.stop()
    [(name, (found, todo))] = faults("--url", server.url).items()
    assert (name, "is it running?" in found) == ("reachable", True)
    assert f"curl -i {server.url}/health" in todo
    server.start()
    assert faults("--url", server.url) == {}


def test_a_wrong_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that refuses the key is there; with the right one all is well."""
    monkeypatch.setenv("HINDSIGHT_API_KEY", "wrong-1")
    with FaultServer(api_key="right-1") as server:
        [(name, (found, todo))] = faults("--url", server.url).items()
        assert (name, "Invalid API key" in found, "wrong-1" in found) == ("key", True, False)
        assert "export HINDSIGHT_API_KEY=" in todo
        monkeypatch.setenv("HINDSIGHT_API_KEY", "right-1")
        assert faults("--url", server.url) == {}


@pytest.mark.parametrize("version", ["0.8.4", "2.0.0"])
def test_a_wrong_version(server: FaultServer, version: str) -> None:
    """Too old or too new is told before anything is written; a server that is known is well."""
    server.fault(Fault(body=json.dumps({"api_version": version, "features": {}}).encode()), path="/version$")
    assert faults("--url", server.url) == {
        "version": (
            f"{version}.",
            "Install a server from 0.9.1 to 1.1: pip install 'hindsight-api-slim>=0.9.1,<1.2', and start it again.",
        )
    }
    assert not [each for each in server.requests if each.method in ("POST", "PUT", "PATCH")]
    server.heal()
    assert faults("--url", server.url) == {}


def test_a_file_that_is_damaged_in_the_middle(url: str, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Saved, moved aside and read in again, as advised, it is well and holds what it held."""
    monkeypatch.chdir(tmp_path)
    with open_bank(url) as bank:
        bank.retain([f"Person {number} keeps {7 * number} sheep in village {number % 13}." for number in range(300)])
    with file.open("r+b") as opened:
        opened.seek(7 * PAGE + 8)
        opened.write(b"\xff" * 2000)
    [(name, (found, todo))] = faults("--url", url).items()
    assert (name, "is damaged" in found) == ("integrity", True)
    assert run(*advised(todo, "export")).exit_code == 0
    moved_aside(todo)
    assert not file.exists()
    assert run(*advised(todo, "import")).exit_code == 0
    assert faults("--url", url) == {}
    with open_bank(url) as bank:
        assert bank.stats().memories == 300


def test_a_file_that_is_no_database(url: str, file: Path, tmp_path: Path) -> None:
    """Moved aside, as advised, it is still there, and memory begins anew."""
    file.write_bytes(b"This is a shopping list, and no database.\n" * 200)
    [(name, (found, todo))] = faults("--url", url).items()
    assert (name, "no SQLite database" in found) == ("reachable", True)
    moved_aside(todo)
    assert faults("--url", url) == {}
    assert [each.read_bytes()[:4] for each in tmp_path.glob("damaged-*/memory.db")] == [b"This"]


def test_a_full_outbox(server: FaultServer) -> None:
    """It is told before writes are lost sight of; drained, as advised, there is room."""
    server.fault(Fault(status=503), path="/memories$", method="post")
    with open_bank(server.url, outbox={"max_rows": 3}, connection={"close_timeout": 0.1}) as bank:
        bank.retain(["One cat.", "Two cats.", "Three cats."])
        with pytest.raises(OutboxFullError):
            bank.retain("Four cats.")
        amiss = {check.name: check for check in examine_bank(bank, f" --url {server.url}") if not check.ok}
        assert "3 waiting" in amiss["outbox"].found
        assert amiss["outbox"].found.endswith("100 % full.")
        assert "the outbox is full" in amiss["round trip"].found
        server.heal()
        assert run(*advised(amiss["outbox"].todo, "outbox flush")).exit_code == 0
        assert [check.name for check in examine_bank(bank) if not check.ok] == []


def test_dead_letters(server: FaultServer) -> None:
    """They are shown and sent again by the commands that are advised, each in its own bank."""
    server.fault(Fault(status=400), path="/memories$", method="post")
    for name in ("ana", "ben"):
        run("retain", f"{name} has a cat.", "--url", server.url, "--bank", name)
    server.heal()
    [(name, (found, todo))] = faults("--url", server.url).items()
    assert (name, found) == ("outbox", "0 waiting, 2 dead.")
    for bank in ("ana", "ben"):
        [theirs] = [part for part in todo.split("See why: ") if f"--bank {bank};" in part]
        assert "1 dead letter." in run(*advised(theirs, "outbox list")).stdout
        assert run(*advised(theirs, "outbox requeue")).stdout == "1 dead letter will be sent again.\n"
    assert run("outbox", "flush", "--url", server.url).exit_code == 0
    assert faults("--url", server.url) == {}


def test_dead_letters_of_a_project(server: FaultServer) -> None:
    """Its bank is named as the commands take it."""
    server.fault(Fault(status=400), path="/memories$", method="post")
    run("retain", "The port is 8443.", "--url", server.url, "--bank", "ana", "--project", "harbour")
    server.heal()
    (_, todo) = faults("--url", server.url)["outbox"]
    assert "--bank ana --project harbour" in todo
    assert run(*advised(todo, "outbox purge"), "--yes").stdout.endswith("1 row deleted.\n")
    assert faults("--url", server.url) == {}


def test_no_password_of_an_address_is_repeated(url: str, file: Path) -> None:
    """An advice says where something is to be typed that nobody else may see."""
    assert _option(None) == ""
    assert _option(url) == f" --url {url}"
    assert _option("postgresql://ana:secret@db/lore") == " --url ..."


@pytest.mark.parametrize(("minutes", "told"), [(-5, "behind"), (90, "ahead")])
def test_a_server_clock_that_is_off(server: FaultServer, minutes: float, told: str) -> None:
    """By more than a minute, in either direction; set right, it is told as well."""

    def set_clock(by: float) -> None:
        now = datetime.now(UTC) + timedelta(minutes=by)
        server.heal()
        server.fault(Fault(headers={"date": format_datetime(now, usegmt=True)}))

    set_clock(minutes)
    [(name, (found, todo))] = faults("--url", server.url).items()
    assert (name, found.endswith(f"s {told}."), "timedatectl" in todo) == ("clock", True, True)
    assert abs(int(re.sub(r"\D", "", found)) - abs(60 * minutes)) < 30
    set_clock(0.5)
    assert faults("--url", server.url) == {}
    assert "within 60 s of the server's" in run("doctor", "--url", server.url).stdout


def test_a_missing_extra(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra that an application or an address needs is named with what installs it; with it there, all is well."""
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "llama_index.core", None)
        without.setitem(sys.modules, "psycopg", None)
        wanted: Any = {"extras": ("llamaindex lacks llama_index.core.", "Install it: pip install 'lorebank[llamaindex]'")}
        assert faults("--url", url, "--extra", "llamaindex") == wanted
        wanted = {"extras": ("postgres lacks psycopg.", "Install it: pip install 'lorebank[postgres]'")}
        assert faults("--url", "postgresql://127.0.0.1:9/none") == wanted
        assert faults("--url", url) == {}
    assert faults("--url", url, "--extra", "llamaindex", "--extra", "postgres") == {}
    assert run("doctor", "--url", url, "--extra", "llamaindx").exit_code == 2
