"""`lorebank retain`, `recall`, `forget` and the others: what they do, print, and end with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from lorebank import open_bank
from lorebank.cli.app import app
from lorebank.testing import Fault, FaultServer

QUIET: dict[str, Any] = {"mental_models": {"enabled": False}, "recall": {"keep_traces": 1, "deadline": 30}}


def run(*arguments: str, typed: str = "") -> Result:
    return CliRunner().invoke(app, [*arguments], input=typed)


def told(*arguments: str) -> Any:
    """What a command prints for scripts."""
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture
def server() -> Iterator[FaultServer]:
    """A small server."""
    with FaultServer() as started:
        yield started


def kept(url: str) -> list[str]:
    with open_bank(url) as bank:
        return [memory.text for memory in reversed(bank.list())]


def test_what_is_retained_is_recalled(url: str) -> None:
    """In another process; markup in a memory is text."""
    assert run("retain", "My cat is [red]Miso[/red].", "--url", url).stdout == "1 stored.\n"
    assert run("retain", "My cat is [red]Miso[/red].", "--url", url).stdout == "1 already known.\n"
    done = run("recall", "Which pets do I have?", "--url", url)
    assert (done.exit_code, "[red]Miso[/red]" in done.stdout) == (0, True)
    found = told("recall", "cat", "--url", url, "--explain")
    assert (found["state"], found["memories"][0]["text"]) == ("found", "My cat is [red]Miso[/red].")
    assert found["memories"][0]["signals"]["lexical"] > 0


def test_lines_are_read_from_the_standard_input(url: str) -> None:
    """One memory a line; empty ones are none."""
    assert run("retain", "-", "--url", url, "--tag", "home", typed="I play the cello.\n\nI live in Rome.\n").exit_code == 0
    assert kept(url) == ["I play the cello.", "I live in Rome."]
    assert [each["tags"] for each in told("recall", "cello", "--url", url)["memories"]] == [["home"]]


def test_exit_codes_tell_what_to_do(url: str) -> None:
    """Nothing known, no such thing, wrong, and down are four things."""
    assert run("recall", "quantum", "--url", url).exit_code == 4
    assert run("forget", "nosuch", "--url", url).exit_code == 4
    assert run("models", "show", "nosuch", "--url", url).exit_code == 4
    assert run("session", "mode", "chat", "sleepy", "--url", url).exit_code == 2
    assert run("retain", "", "--url", url).exit_code in (1, 2)
    assert run("recall", "cat", "--url", "http://127.0.0.1:9").exit_code == 3
    assert run("recall").exit_code == 2


def test_projects_are_apart(url: str) -> None:
    """As `open_bank(project=...)` has them."""
    run("retain", "The port is 8443.", "--url", url, "--project", "harbour")
    assert run("recall", "port", "--url", url, "--project", "harbour").exit_code == 0
    assert run("recall", "port", "--url", url, "--project", "quarry").exit_code == 4


def test_forgetting_shows_what_goes_and_asks(url: str) -> None:
    """A dry run and a no change nothing; a yes does."""
    run("retain", "-", "--url", url, "--tag", "home", typed="I play the cello.\nI live in Rome.\n")
    assert "I play the cello." in run("forget", "--tag", "home", "--url", url, "--dry-run").stdout
    assert run("forget", "--tag", "home", "--url", url, typed="n\n").exit_code == 1
    assert run("forget", "--tag", "home", "--url", url, "--json").exit_code == 2
    assert len(kept(url)) == 2
    done = run("forget", "--tag", "home", "--url", url, typed="y\n")
    assert (done.exit_code, "2 memories forgotten." in done.stdout, kept(url)) == (0, True, [])
    assert run("forget", "--tag", "home", "--url", url, "--yes").exit_code == 4


def test_a_memory_steers_no_terminal(url: str) -> None:
    """What somebody told may hold signs that a terminal obeys: they are not printed. For scripts the text is whole."""
    hostile = "My cat is \x1b]0;owned\x07Miso\x9b2J."
    with open_bank(url) as bank:
        known = bank.retain(hostile).stored[0].id or ""
    for shown in (("recall", "cat"), ("forget", known, "--dry-run")):
        printed = run(*shown, "--url", url).stdout
        assert "Miso" in printed
        assert not {"\x1b", "\x07", "\x9b"} & set(printed)
    assert told("recall", "cat", "--url", url)["memories"][0]["text"] == hostile


def test_what_is_queued_is_forgotten_too(server: FaultServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """A write that has not reached the server goes by its id; a dry run says so, and takes nothing."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    server.fault(Fault(status=503), path="/memories$", method="post")
    run("retain", "My cat is Miso.", "--url", server.url, "--wait", "0")
    [row] = told("outbox", "list", "--url", server.url)["rows"]
    assert "1 write in the outbox" in run("forget", row["id"], "--url", server.url, "--dry-run").stdout
    assert len(told("outbox", "list", "--url", server.url)["rows"]) == 1
    assert "1 queued write forgotten" in run("forget", row["id"], "--url", server.url, "--yes").stdout
    assert told("outbox", "list", "--url", server.url)["rows"] == []


def test_clearing_shows_how_much_and_asks(url: str) -> None:
    """The same for a whole bank."""
    run("retain", "I play the cello.", "--url", url)
    assert told("clear", "--url", url, "--dry-run")["would_remove"]["memories"] == 1
    assert run("clear", "--url", url, typed="n\n").exit_code == 1
    assert kept(url) == ["I play the cello."]
    assert run("clear", "--url", url, "--yes").exit_code == 0
    assert kept(url) == []


def test_stats_and_reflections(url: str) -> None:
    """Counts, and an answer with its sources."""
    run("retain", "I play the cello.", "--url", url)
    assert told("stats", "--url", url)["memories"] == 1
    assert "memories" in run("stats", "--url", url).stdout
    assert "cello" in told("reflect", "What do I play?", "--url", url)["text"]
    assert run("reflect", "What about quantum chromodynamics?", "--url", url).exit_code == 4


def test_mental_models(url: str) -> None:
    """Seeded once, shown, refreshed, with a history."""
    run("retain", "I prefer tea to coffee.", "--url", url)
    assert run("models", "list", "--url", url).stdout == "No mental models.\n"
    assert "1 mental model created." in run("models", "seed", "--url", url).stdout
    assert told("models", "seed", "--url", url) == []
    [model] = told("models", "list", "--url", url)
    assert "tea" in run("models", "show", model["id"], "--url", url).stdout
    assert run("models", "history", model["id"], "--url", url).exit_code == 4
    run("retain", "I prefer trains to planes.", "--url", url)
    assert "trains" in told("models", "refresh", model["id"], "--url", url)["content"]
    assert "trains" in run("models", "history", model["id"], "--url", url).stdout


def test_a_session_is_steered(url: str) -> None:
    """Mode, tags and the skipped run hold in the process that talks."""
    run("retain", "My cat is Miso.", "--url", url)
    assert told("session", "show", "chat", "--url", url) == {"session": "chat", "mode": "normal", "retain": True, "tags": []}
    run("session", "mode", "chat", "read-only", "--url", url)
    assert told("session", "tag", "chat", "--add", "trip", "--url", url)["tags"] == ["trip"]
    assert told("session", "tag", "chat", "--remove", "trip", "--url", url)["tags"] == []
    assert run("session", "tag", "chat", "--url", url).exit_code == 2
    assert run("last-recall", "chat", "--url", url).exit_code == 4
    with open_bank(url, **QUIET) as bank, bank.session("chat") as session:
        assert session.mode == "read-only"
        session.mode = "normal"
        session.before_turn([{"role": "user", "content": "What is my cat's name?"}])
    assert "My cat is Miso." in run("last-recall", "chat", "--url", url).stdout
    assert told("last-recall", "chat", "--url", url)["query"] == "What is my cat's name?"
    run("session", "skip-next", "chat", "--url", url)
    with open_bank(url, **QUIET) as bank, bank.session("chat") as session:
        session.after_turn([{"role": "user", "content": "A secret."}], history="delta", run_id="next")
    assert "A secret." not in kept(url)


def test_the_outbox_of_a_server_that_is_down(server: FaultServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """What waits is shown, sent when the server is back, or deleted on request."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    server.stop()
    done = run("retain", "My cat is Miso.", "--url", server.url, "--wait", "0.1")
    assert (done.exit_code, "wait in the outbox" in done.stdout) == (0, True)
    assert run("outbox", "flush", "--url", server.url, "--timeout", "0.1").exit_code == 3
    assert len(told("outbox", "list", "--url", server.url)["rows"]) == 1
    assert "1 write waits" in run("outbox", "list", "--url", server.url).stdout
    [row] = told("outbox", "list", "--url", server.url)["rows"]
    assert told("outbox", "purge", row["id"], "--url", server.url, "--dry-run")["would_delete"] == [row["id"]]
    assert run("outbox", "purge", row["id"], "--url", server.url, typed="n\n").exit_code == 1
    server.start()
    assert run("outbox", "flush", "--url", server.url, "--timeout", "20").stdout == "All is delivered.\n"
    assert told("outbox", "requeue", "--url", server.url) == {"requeued": 0}
