"""Fixtures for tests of an agent with memory. Name the plugin in your `conftest.py`:

    pytest_plugins = ["lorebank.pytest_plugin"]

`memory_bank` is a bank in a file of the test's own, `server_bank` one on a `fault_server` that can be stopped and made to fail,
`memory_events` what they report. Override `memory_options` to open them with options of `open_bank`. No fixture lets a setting of
the machine (`LOREBANK_URL`, `HINDSIGHT_API_URL`, keys) or its data reach a test.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lorebank._bank import Bank
from lorebank._domain.events import Event
from lorebank._faults.server import FaultServer
from lorebank._open import open_bank

__all__ = ["fault_server", "memory_bank", "memory_environment", "memory_events", "memory_options", "server_bank"]

KEYS = ("HINDSIGHT_API_URL", "HINDSIGHT_API_KEY", "HINDSIGHT_API_TOKEN")
QUICK = {"batch_seconds": 0.02}
"""A test waits for a batch of writes to fill up no longer than that."""


@pytest.fixture
def memory_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The machine's settings and memories are out of reach; gives the URL of the test's file, which is also what `open_bank()`
    opens where the code under test names no other place.
    """
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    for name in ("XDG_DATA_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "data"))
    url = f"sqlite:///{tmp_path / 'memory.db'}"
    monkeypatch.setenv("LOREBANK_URL", url)
    return url


@pytest.fixture
def memory_options() -> Mapping[str, Any]:
    """Options of `open_bank` for `memory_bank` and `server_bank`: override it in a `conftest.py`, a module or a class."""
    return {}


@pytest.fixture
def memory_events() -> list[Event]:
    """What the test's banks have reported so far: `Recalled`, `Retained`, `Skipped`, `OutageStarted`, ..."""
    return []


@pytest.fixture
def memory_bank(memory_environment: str, memory_options: Mapping[str, Any], memory_events: list[Event]) -> Iterator[Bank]:
    """The bank `test` in a file of the test's own; `memory_bank.named("ben")` is another user's. A turn waits for its memories
    as long as a busy machine may need.
    """
    patient = {"recall": {"deadline": 60}, "mental_models": {"first_wait": 60}}
    options: dict[str, Any] = {"bank": "test", "on_event": memory_events.append, **patient, **memory_options}
    with open_bank(memory_environment, **options) as bank:
        yield bank


@pytest.fixture
def fault_server() -> Iterator[FaultServer]:
    """A small Hindsight server on loopback: `stop()`, `start()`, `fault(...)`, `heal()`."""
    with FaultServer() as server:
        yield server


@pytest.fixture
def server_bank(
    memory_environment: str,
    memory_options: Mapping[str, Any],
    memory_events: list[Event],
    fault_server: FaultServer,
    tmp_path: Path,
) -> Iterator[Bank]:
    """The bank `test` on `fault_server`; what is told is queued, and known once it is settled."""
    del memory_environment  # its work is done
    ledger = f"sqlite:///{tmp_path / 'outbox.db'}"
    options: dict[str, Any] = {"bank": "test", "on_event": memory_events.append, "ledger": ledger, "outbox": QUICK}
    options.update(memory_options)
    with open_bank(fault_server.url, **options) as bank:
        yield bank
