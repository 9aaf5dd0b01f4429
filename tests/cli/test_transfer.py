"""`lorebank export` and `lorebank import`: what they print, and their exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lorebank import open_bank
from lorebank.testing import FaultServer


def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "lorebank.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)


@pytest.fixture
def exported(url: str, tmp_path: Path) -> Path:
    """The export of a bank with two memories, one of them no longer true, and a secret."""
    with open_bank(url, bank="alice", retain={"redactor": None}) as bank:
        [old, _] = bank.retain(["Ana lives in Rome.", "The password=hunter2hunter2 is Ana's."]).stored
        assert old.id is not None
        bank.invalidate(old.id)
        bank.mental_models.create("home", name="Home", source_query="Where does Ana live?")
    path = tmp_path / "memories.jsonl"
    done = run("export", path, "--url", url, "--bank", "alice")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"2 memories, 1 mental model in {path} ({path.stat().st_size:,} bytes).\n"
    return path


def test_what_is_exported_is_imported(exported: Path, url: str) -> None:
    """A dry run first, then the import, then nothing is left to do; content is never printed."""
    arguments = ("import", exported, "--url", url, "--bank", "bob")
    assert run(*arguments, "--dry-run").stdout == "Would be lorebank: 2 added, 2 secrets taken out, 1 mental model.\n"
    with open_bank(url, bank="bob") as bank:
        assert bank.list(state="all") == ()
    done = run(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "From lorebank: 2 added, 2 secrets taken out, 1 mental model.\n"
    assert "already known" in run(*arguments).stdout
    with open_bank(url, bank="bob") as bank:
        assert bank.stats().memories == 2


def test_json_is_for_scripts(exported: Path, url: str, tmp_path: Path) -> None:
    """One object, and nothing else."""
    path = tmp_path / "again.jsonl"
    told = json.loads(run("export", path, "--url", url, "--bank", "alice", "--json").stdout)
    assert (told["memories"], told["mental_models"], told["path"]) == (2, 1, str(path))
    told = json.loads(run("import", path, "--url", url, "--bank", "bob", "--json", "--dry-run").stdout)
    assert (told["added"], told["dry_run"], told["format"], told["left"]) == (2, True, "lorebank", 0)


def test_the_environment_says_which_backend(exported: Path, url: str) -> None:
    """As for every bank; the bank is `default`."""
    assert run("import", exported, LOREBANK_URL=url).returncode == 0
    with open_bank(url) as bank:
        assert bank.stats().memories == 2


def test_a_foreign_file_is_imported(url: str, tmp_path: Path) -> None:
    """With its format found out or named, and one user's part of it."""
    path = tmp_path / "mem0.json"
    path.write_text(json.dumps([{"id": name, "memory": f"{name} sings", "user_id": name} for name in ("ana", "ben")]))
    refused = run("import", path, "--url", url)
    assert (refused.returncode, "2 users" in refused.stderr) == (2, True)
    assert run("import", path, "--url", url, "--only", "ana").stdout == "From mem0: 1 added.\n"
    assert run("import", path, "--url", url, "--only", "ana", "--format", "mem0").stdout == "From mem0: 1 already known.\n"


WRONG = {
    "an export over a file": (("export", "{path}"), "overwrite=True"),
    "no such file": (("import", "{path}.none"), "can't be read"),
    "no such format": (("import", "{path}", "--format", "csv"), "csv"),
    "a damaged file": (("import", "{damaged}"), "checksum"),
    "no such folder": (("export", "{path}/none/x.jsonl"), "can't be used"),
    "a bank that can't be": (("export", "{path}.new", "--bank", "a/b"), "'/'"),
    "a backend that is none": (("export", "{path}.new", "--url", "ftp://ana:secret@example.com"), "sqlite:///"),
}


@pytest.mark.parametrize(("arguments", "told"), WRONG.values(), ids=WRONG)
def test_what_can_not_be_done_ends_with_one_error(exported: Path, url: str, arguments: tuple[str, ...], told: str) -> None:
    """Exit code 2 (a damaged file: 1), no traceback, no secret."""
    damaged = exported.with_name("damaged.jsonl")
    damaged.write_bytes(exported.read_bytes().replace(b"Rome", b"Bern"))
    done = run(*(each.format(path=exported, damaged=damaged) for each in arguments), LOREBANK_URL=url)
    words = " ".join(done.stderr.split())
    assert (done.returncode, done.stdout, words.startswith("error: ")) == (1 if "{damaged}" in arguments else 2, "", True)
    assert told in words
    assert "Traceback" not in words
    assert "secret" not in words


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


def test_an_import_to_a_server_waits_until_it_has_taken_all(exported: Path, server: FaultServer) -> None:
    """And says what the server was not told."""
    done = run("import", exported, "--url", server.url, "--bank", "alice")
    assert (done.returncode, done.stderr) == (0, "")
    first, second = done.stdout.splitlines()
    assert first == "From lorebank: 1 queued, 1 rejected, 2 secrets taken out, 1 mental model."
    assert "not imported" in second
    assert "line 2: no longer true" in second
    assert list(server.bank("alice").documents.values()) == ["The password=[redacted] is Ana's."]


def test_help_names_what_there_is() -> None:
    """The commands and the formats."""
    assert {"export", "import"} <= set(run("--help").stdout.split())
    assert "mem0" in run("import", "--help").stdout
