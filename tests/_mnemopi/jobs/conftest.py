"""Banks with follow-up work, in a file and on PostgreSQL, under a clock that a test sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from lorebank import Bank, FollowUp, MnemopiSettings, open_bank
from lorebank._mnemopi.backend import MnemopiBackend
from lorebank.seams import Event
from lorebank.testing import ScriptedCompleter

Worked = Callable[..., Bank]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def place(request: pytest.FixtureRequest) -> str:
    """A database of either kind."""
    found: str = request.getfixturevalue("url" if request.param == "sqlite" else "postgres_url")
    return found


@pytest.fixture
def worked(clock: Any) -> Iterator[Worked]:
    """`worked(url, script, **follow_up)`: the bank `alice`; a script makes a completer of it."""
    with ExitStack() as stack:

        def build(url: str, script: Any = None, events: list[Event] | None = None, **follow_up: Any) -> Bank:
            settings = MnemopiSettings(follow_up=FollowUp(**follow_up))
            completer = None if script is None else script if hasattr(script, "complete") else ScriptedCompleter(script)
            backend = MnemopiBackend(url, settings, clock=clock, completer=completer)
            heard = events.append if events is not None else None
            return stack.enter_context(open_bank(backend=backend, bank="alice", on_event=heard))

        yield build
