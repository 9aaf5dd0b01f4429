"""`lorebank audit`: what it prints, and what it ends with."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner, Result

from lorebank import open_bank
from lorebank.cli.app import app

KEY = "sk-abcdefghijklmnop1234"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["audit", *arguments])


@pytest.fixture
def littered(url: str) -> str:
    """A bank with a secret and small talk in it."""
    with open_bank(url, retain={"redactor": None}) as bank:
        bank.retain(["Ana sings in the choir.", f"The key is {KEY}.", "Thanks!", "Ok!", "Cool!"])
    return url


def test_a_clean_bank_ends_with_0(url: str) -> None:
    """And says how much was looked at."""
    with open_bank(url) as bank:
        bank.retain("Ana sings.")
    done = run("--url", url)
    assert (done.exit_code, done.stdout) == (0, "1 memory: nothing to look at.\n")


def test_what_is_found_is_a_table_and_ends_with_5(littered: str) -> None:
    """Kinds, ids and reasons; no secret in any of it."""
    done = run("--url", littered, "--limit", "2")
    assert done.exit_code == 5
    assert done.stdout.splitlines()[-1] == "5 memories: 3 junk, 1 secrets. 1 are not shown (--limit)."
    assert KEY not in done.stdout


def test_scripts_get_all_of_it(littered: str) -> None:
    """One object, whatever is not shown to people; the exit code is the same."""
    done = run("--url", littered, "--json", "--limit", "1")
    told = json.loads(done.stdout)
    assert (done.exit_code, told["memories"], told["counts"]["junk"], len(told["findings"])) == (5, 5, 3, 4)
    [secret] = [finding for finding in told["findings"] if finding["kind"] == "secrets"]
    assert secret["reason"] == "1 secret in 'The key is [redacted].'"
    with open_bank(littered) as bank:
        assert KEY in bank.get(secret["ids"][0]).text


def test_one_kind_can_be_asked_for(littered: str) -> None:
    """The exit code goes by what was asked for."""
    assert run("--url", littered, "--kind", "stale").exit_code == 0
    assert run("--url", littered, "--kind", "stale", "--kind", "junk").exit_code == 5
    assert run("--url", littered, "--kind", "stail").exit_code == 2
    assert run("--url", "http://127.0.0.1:9").exit_code == 3
