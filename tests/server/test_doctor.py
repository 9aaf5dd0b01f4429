"""`lorebank doctor` and the real server."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hindsight_server import Hindsight
from typer.testing import CliRunner

from lorebank.cli.app import app


def checked(url: str) -> dict[str, Any]:
    """Whether each check is well."""
    told = json.loads(CliRunner().invoke(app, ["doctor", "--url", url, "--json"]).stdout)
    return {check["name"]: check["ok"] for check in told["checks"]}


def test_a_wrong_key_is_told_and_the_right_one_is_well(hindsight_auth: Hindsight, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the key the doctor says so; with the right one every check is well, the clock's too."""
    monkeypatch.setenv("HINDSIGHT_API_KEY", "wrong")
    assert checked(hindsight_auth.url) == {"extras": True, "address": True, "reachable": True, "key": False, "outbox": True}
    monkeypatch.setenv("HINDSIGHT_API_KEY", hindsight_auth.api_key or "")
    names = ("extras", "address", "reachable", "version", "clock", "key", "bank", "round trip", "outbox")
    assert checked(hindsight_auth.url) == dict.fromkeys(names, True)
