"""One contract for all backends. A backend is one more entry of `BACKENDS`; each test body runs in both forms of a verb."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from lorebank import Bank, open_bank

Opener = Callable[..., Bank]
Caller = Callable[..., Any]


def mnemopi(folder: Path, **options: Any) -> Bank:
    return open_bank(f"sqlite:///{folder / 'memory.db'}", **options)


BACKENDS: dict[str, Callable[..., Bank]] = {"mnemopi": mnemopi}


@pytest.fixture(params=sorted(BACKENDS))
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Opens banks of one backend, all on the same store, and closes them with the test."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(BACKENDS[request.param](tmp_path, **options))


@pytest.fixture
def bank(opened: Opener) -> Bank:
    """The bank `alice` on an empty store."""
    return opened(bank="alice")


def _blocking(target: object, verb: str, *args: Any, **kwargs: Any) -> Any:
    return getattr(target, verb)(*args, **kwargs)


def _awaited(target: object, verb: str, *args: Any, **kwargs: Any) -> Any:
    return asyncio.run(getattr(target, f"a{verb}")(*args, **kwargs))


@pytest.fixture(params=["blocking", "awaited"])
def call(request: pytest.FixtureRequest) -> Caller:
    """`call(bank, "recall", ...)`: the blocking verb, or its twin in a loop of its own."""
    return _blocking if request.param == "blocking" else _awaited
