"""A bank whose time a test sets, banks with a scripted completer, and a look into their file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lorebank import Bank, open_bank
from lorebank._mnemopi.backend import MnemopiBackend
from lorebank.testing import ScriptedCompleter

Look = Callable[[str], list[Any]]
Scripted = Callable[..., tuple[Bank, ScriptedCompleter]]


@dataclass
class Clock:
    """A clock that stands until it is set."""

    now: datetime = datetime(2026, 3, 4, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def timed(url: str, clock: Clock) -> Iterator[Bank]:
    """The bank `alice` under the test's clock."""
    with open_bank(backend=MnemopiBackend(url, clock=clock), bank="alice") as bank:
        yield bank


@pytest.fixture
def scripted(url: str) -> Iterator[Scripted]:
    """Opens the bank `alice` with a completer of this script, and gives both."""
    with ExitStack() as stack:

        def build(script: Any, **options: Any) -> tuple[Bank, ScriptedCompleter]:
            completer = ScriptedCompleter(script)
            return stack.enter_context(open_bank(url, bank="alice", completer=completer, **options)), completer

        yield build


@pytest.fixture
def look(file: Path) -> Look:
    """The rows of a statement on the test's file; a row of one column is its value."""

    def rows(statement: str) -> list[Any]:
        connection = sqlite3.connect(file)
        try:
            with connection:
                found = connection.execute(statement).fetchall()
        finally:
            connection.close()
        return [row[0] if len(row) == 1 else row for row in found]

    return rows


@pytest.fixture
def bytes_of(file: Path) -> Callable[[], bytes]:
    """All bytes of the file and of its write-ahead log."""
    return lambda: b"".join(path.read_bytes() for path in (file, file.with_name("memory.db-wal")) if path.exists())
