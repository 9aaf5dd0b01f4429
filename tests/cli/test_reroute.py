"""`lorebank outbox reroute`: a dry run, a question, and exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner, Result

from lorebank.cli.app import app
from lorebank.testing import Fault, FaultServer


def run(*arguments: str, typed: str = "") -> Result:
    return CliRunner().invoke(app, list(arguments), input=typed)


@pytest.fixture
def servers() -> Iterator[tuple[FaultServer, FaultServer]]:
    """An old one that takes nothing, and holds two writes up; a new one."""
    with FaultServer() as old, FaultServer() as new:
        old.fault(Fault(status=503), path="/memories$", method="post")
        for text in ("Ana sings.", "Ben plays."):
            assert "wait in the outbox" in run("retain", text, "--url", old.url, "--wait", "0").stdout
        yield old, new


def test_a_dry_run_and_a_no_change_nothing(servers: tuple[FaultServer, FaultServer]) -> None:
    """Both show which writes are meant; a script says yes."""
    old, new = servers
    arguments = ("outbox", "reroute", "--url", new.url, "--bank", "ana", "--from-url", old.url, "--from-bank", "default")
    told = json.loads(run(*arguments, "--dry-run", "--json").stdout)
    assert (len(told["ids"]), told["underway"], told["dry_run"]) == (2, [], True)
    assert f"To ana: 2 writes ({', '.join(told['ids'])})." in run(*arguments, typed="n\n").stdout
    assert run(*arguments, typed="n\n").exit_code == 1
    assert run(*arguments, "--json").exit_code == 2
    assert len(json.loads(run("outbox", "list", "--url", old.url, "--json").stdout)["rows"]) == 2


def test_what_is_rerouted_arrives(servers: tuple[FaultServer, FaultServer]) -> None:
    """At the new address, in the new bank; a second time there is nothing to move."""
    old, new = servers
    arguments = ("outbox", "reroute", "--url", new.url, "--bank", "ana", "--from-url", old.url, "--from-bank", "default", "--yes")
    done = run(*arguments)
    assert (done.exit_code, "2 writes rerouted." in done.stdout) == (0, True)
    assert run("outbox", "flush", "--url", new.url, "--bank", "ana").exit_code == 0
    assert sorted(new.bank("ana").documents.values()) == ["Ana sings.", "Ben plays."]
    assert run(*arguments).exit_code == 4
    assert run("outbox", "list", "--url", old.url).stdout.startswith("0 writes wait, 0 dead letters")


def test_one_write_by_its_id(servers: tuple[FaultServer, FaultServer]) -> None:
    """Wherever it was to go; where from must be said otherwise, and an id must be one."""
    old, new = servers
    [first, _] = json.loads(run("outbox", "list", "--url", old.url, "--json").stdout)["rows"]
    assert run("outbox", "reroute", first["id"], "--url", new.url, "--yes").exit_code == 0
    assert len(json.loads(run("outbox", "list", "--url", new.url, "--json").stdout)["rows"]) <= 1
    assert run("outbox", "reroute", "--url", new.url, "--yes").exit_code == 2
    assert run("outbox", "reroute", "nosuch", "--url", new.url, "--yes").exit_code == 4
    assert len(json.loads(run("outbox", "list", "--url", old.url, "--json").stdout)["rows"]) == 1


def test_mnemopi_has_nothing_to_reroute(url: str) -> None:
    """Its memories wait for nobody."""
    assert run("outbox", "reroute", "--url", url, "--from-bank", "ben").exit_code == 4
