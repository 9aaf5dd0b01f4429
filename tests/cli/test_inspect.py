"""`lorebank inspect`: a process that serves pages until it is interrupted."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from typer.testing import CliRunner

from lorebank import open_bank
from lorebank.cli import inspect
from lorebank.cli.app import app
from lorebank.inspector.serving import _listening


@contextmanager
def running(url: str, *options: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command in a process of its own, and the first line that it prints."""
    command = [sys.executable, "-m", "lorebank.cli", "inspect", "--url", url, *options]
    given = os.environ | environment
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=given) as process:
        try:
            assert process.stdout
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def test_it_prints_an_address_and_serves_it(url: str) -> None:
    """On loopback, with the token; Ctrl-C ends it with 0 and not a word on the standard error."""
    with open_bank(url) as bank:
        bank.retain("Ana prefers aisle seats.")
    with running(url) as (process, address), httpx.Client(follow_redirects=True) as client:
        assert address.startswith("http://127.0.0.1:")
        assert "aisle" in client.get(address.replace("/?", "/?q=Which+seats&")).text
        assert httpx.get(address.split("?")[0]).status_code == 401
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=20)
        assert (process.returncode, told) == (0, "")


def test_it_listens_on_loopback_only() -> None:
    """On no other address of the machine."""
    with _listening(0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


def test_a_port_that_is_taken_is_told(url: str) -> None:
    """With what to do, and the code of a wrong command."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = CliRunner().invoke(app, ["inspect", "--url", url, "--port", str(taken.getsockname()[1])])
    assert done.exit_code == 2
    assert "choose another --port" in done.stderr


def test_without_the_extra_it_says_what_to_install(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect, "NEEDED", ("starlette", "nosuch_package"))
    done = CliRunner().invoke(app, ["inspect", "--url", url])
    assert done.exit_code == 1
    assert "pip install 'lorebank[inspect]'" in done.stderr


def test_scripts_get_the_address_as_json(url: str) -> None:
    """On the port that was asked for. Where memory is off the pages stand, and each says so."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    given = ("--port", str(port), "--json")
    with running(url, *given, LOREBANK_URL="off") as (_, line), httpx.Client(follow_redirects=True) as client:
        address = json.loads(line)["url"]
        assert address.startswith(f"http://127.0.0.1:{port}/?token=")
        assert client.get(address).status_code == 200
        answer = client.get(address.replace("/?", "/timeline?"))
        assert (answer.status_code, "unset LOREBANK_URL" in answer.text) == (503, True)
