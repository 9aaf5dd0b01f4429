"""What all tests share: a clean environment and a bank in a file of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lorebank import Bank, open_bank

pytest_plugins = ["hindsight_fixtures"]  # the real server: tests/server/hindsight/README.md


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting of the developer's machine reaches a test, and no test its data."""
    for name in ("LOREBANK_URL", "HINDSIGHT_API_URL", "HINDSIGHT_API_KEY", "HINDSIGHT_API_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of the test's bank; it does not exist yet."""
    return tmp_path / "memory.db"


@pytest.fixture
def url(file: Path) -> str:
    return f"sqlite:///{file}"


@pytest.fixture
def bank(url: str) -> Iterator[Bank]:
    """The bank `alice` in an empty file."""
    with open_bank(url, bank="alice") as opened:
        yield opened
