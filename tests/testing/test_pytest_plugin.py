"""`lorebank.pytest_plugin` in a user's own test suite."""

import os
import subprocess
import sys
from pathlib import Path

CONFTEST = 'pytest_plugins = ["lorebank.pytest_plugin"]\n'
TESTS = """
import os

import pytest

from lorebank import open_bank
from lorebank.seams import Retained
from lorebank.testing import assert_not_recalled, assert_recalls


@pytest.mark.parametrize("round", [1, 2])
def test_each_test_has_an_empty_bank(memory_bank, round):
    assert_not_recalled(memory_bank, "Which seats does Ana prefer?")
    memory_bank.retain("Ana prefers aisle seats.")
    assert_recalls(memory_bank, "Which seats does Ana prefer?", "aisle")


def test_no_setting_of_the_machine_comes_through(memory_bank):
    assert memory_bank.backend == "mnemopi"
    assert "HINDSIGHT_API_KEY" not in os.environ
    assert "HINDSIGHT_API_URL" not in os.environ


def test_code_that_opens_its_own_bank_has_the_test_s_file(memory_bank):
    with open_bank(bank="test") as own:
        own.retain("Ana prefers aisle seats.")
    assert_recalls(memory_bank, "Which seats does Ana prefer?", "aisle")


def test_events_are_heard(memory_bank, memory_events):
    with memory_bank.session("monday") as session:
        session.after_turn([{"role": "user", "content": "I take aisle seats."}, {"role": "assistant", "content": "Noted."}])
    assert sum(event.stored for event in memory_events if isinstance(event, Retained)) == 2


class TestAProject:
    @pytest.fixture
    def memory_options(self):
        return {"project": "atlas"}

    def test_options_can_be_overridden(self, memory_bank, server_bank):
        assert memory_bank.scope.bank == "test::atlas"
        assert server_bank.scope.stamp == ("project:atlas",)


def test_an_outage_loses_nothing(server_bank, fault_server):
    fault_server.stop()
    assert server_bank.retain("Ana prefers aisle seats.").queued
    assert server_bank.flush(timeout=0.5).left == 1
    fault_server.start()
    assert_recalls(server_bank, "Which seats does Ana prefer?", "aisle")
    assert fault_server.bank("test").documents
"""


def run(folder: Path, *options: str) -> str:
    """The output of a test run there, on a machine with settings of its own."""
    env = {**os.environ, "LOREBANK_URL": "off", "HINDSIGHT_API_KEY": "secret", "HINDSIGHT_API_URL": "https://memory.example"}
    env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", *options]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False).stdout


def test_a_suite_that_names_the_plugin_has_its_fixtures(tmp_path: Path) -> None:
    """Banks of the test's own, options, events, a server that fails; nothing of the machine comes through."""
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (tmp_path / "test_agent.py").write_text(TESTS, encoding="utf-8")
    assert "7 passed" in run(tmp_path)


def test_without_being_named_the_plugin_is_not_there(tmp_path: Path) -> None:
    """Installing lorebank changes nobody's test suite."""
    (tmp_path / "test_agent.py").write_text("def test_one(memory_bank):\n    pass\n", encoding="utf-8")
    assert "fixture 'memory_bank' not found" in run(tmp_path)


def test_its_fixtures_say_what_they_are(tmp_path: Path) -> None:
    """`pytest --fixtures` lists them with a sentence each."""
    listed = run(tmp_path, "-p", "lorebank.pytest_plugin", "--fixtures")
    for name in ("memory_bank", "server_bank", "fault_server", "memory_events", "memory_options", "memory_environment"):
        assert f"\n{name} -- " in listed
    assert "no docstring available" not in listed
