"""One contract for all backends: each test body runs on every backend, and in both forms of a verb.

A backend is one more entry of `BACKENDS`. What a backend does its own way by contract stands in a test that is marked
`backends("...")`, beside a test of what the other does instead. `told` and `settled` hide whether a write is stored at once
or queued. Bad input uses `near` and `refused`: it must fail before any I/O, so no real server is needed to see it.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from lorebank import Bank, Item, Receipt, UsageError, open_bank
from lorebank.testing import FaultServer

Opener = Callable[..., Bank]
Caller = Callable[..., Any]
Told = Callable[..., list[str]]

FACTS = ("world", "experience")
RUN = uuid.uuid4().hex[:10]
COUNT = itertools.count()
QUICK = {"batch_seconds": 0.02}


@dataclass(frozen=True)
class Store:
    """A place of banks: `open_bank`'s URL and options, and what each bank's name starts with."""

    url: str
    options: dict[str, Any]
    prefix: str = ""

    def open(self, bank: str, **options: Any) -> Bank:
        return open_bank(self.url, bank=f"{self.prefix}{bank}", **self.options, **options)


def mnemopi(folder: Path, _request: pytest.FixtureRequest) -> Store:
    return Store(f"sqlite:///{folder / 'memory.db'}", {})


def mnemopi_with_vectors(folder: Path, request: pytest.FixtureRequest) -> Store:
    """Mnemopi with an embedder: whatever holds without one holds with it."""
    return Store(f"sqlite:///{folder / 'memory.db'}", {"embedder": request.getfixturevalue("toy")()})


def mnemopi_on_postgres(_folder: Path, request: pytest.FixtureRequest) -> Store:
    """Mnemopi on a PostgreSQL server, in a schema of the test's own."""
    return Store(request.getfixturevalue("postgres_url"), {})


def mnemopi_on_postgres_with_vectors(_folder: Path, request: pytest.FixtureRequest) -> Store:
    return Store(request.getfixturevalue("postgres_url"), {"embedder": request.getfixturevalue("toy")()})


def hindsight(folder: Path, request: pytest.FixtureRequest) -> Store:
    """The shared server; the names of a test's banks are its own."""
    url = request.getfixturevalue("hindsight").url
    request.getfixturevalue("swept")
    return Store(url, _beside(folder), f"conf-{RUN}-{next(COUNT)}-")


def _beside(folder: Path) -> dict[str, Any]:
    return {"ledger": f"sqlite:///{folder / 'outbox.db'}", "outbox": QUICK}


BACKENDS: dict[str, Callable[[Path, pytest.FixtureRequest], Store]] = {
    "mnemopi": mnemopi,
    "mnemopi+vectors": mnemopi_with_vectors,
    "mnemopi+postgres": mnemopi_on_postgres,
    "mnemopi+postgres+vectors": mnemopi_on_postgres_with_vectors,
    "hindsight": hindsight,
}
VARIANTS = ("mnemopi+vectors", "mnemopi+postgres", "mnemopi+postgres+vectors")
"""Whatever holds of Mnemopi holds of them, too."""
MARKS = {"hindsight": pytest.mark.server} | dict.fromkeys(VARIANTS[1:], pytest.mark.postgres)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "backends(*names): what only these backends do, by contract")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The backends of a test: all, or those of its mark."""
    mark = metafunc.definition.get_closest_marker("backends")
    chosen = mark.args if mark else ("mnemopi", "hindsight")
    for fixture, marks in (("store", MARKS), ("near_store", {})):
        if fixture in metafunc.fixturenames:
            names = [*chosen, *VARIANTS] if fixture == "store" and "mnemopi" in chosen else chosen
            params = [pytest.param(name, marks=marks.get(name, ())) for name in names]
            metafunc.parametrize(fixture, params, indirect=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On PostgreSQL a test runs blocking without vectors and awaited with them; with `LOREBANK_MATRIX=whole`, in all ways."""
    if os.environ.get("LOREBANK_MATRIX") == "whole":
        return
    halves = ({"blocking", "mnemopi+postgres+vectors"}, {"awaited", "mnemopi+postgres"})
    left = [item for item in items if any(half <= _params(item) for half in halves)]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]


def _params(item: pytest.Item) -> set[object]:
    """How a test is parametrised, as far as backend and form go."""
    params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return {params.get("store"), params.get("call")}


@pytest.fixture(scope="session")
def swept(hindsight: Any) -> Iterator[None]:
    """Deletes this process's banks once all its tests are over."""
    yield
    with httpx.Client(base_url=f"{hindsight.url}/v1/default/", timeout=60) as client:
        while banks := client.get("banks", params={"q": f"conf-{RUN}-", "limit": 100}).raise_for_status().json()["banks"]:
            for bank in banks:
                client.delete(f"banks/{bank['bank_id']}").raise_for_status()


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return BACKENDS[request.param](tmp_path, request)


@pytest.fixture
def opened(store: Store) -> Iterator[Opener]:
    """Opens banks of one backend, all on the same store, and closes them with the test."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(store.open(**options))


@pytest.fixture
def bank(opened: Opener) -> Bank:
    """The bank `alice` on an empty store."""
    return opened(bank="alice")


@pytest.fixture
def near_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Store, FaultServer | None]]:
    """As `store`; a server is the small one in this process."""
    if request.param == "mnemopi":
        yield mnemopi(tmp_path, request), None
    else:
        with FaultServer() as server:
            yield Store(server.url, _beside(tmp_path)), server


@pytest.fixture
def near(near_store: tuple[Store, FaultServer | None]) -> Iterator[Bank]:
    """The bank `alice` for input that is refused before any I/O."""
    with near_store[0].open("alice") as bank:
        yield bank


@pytest.fixture
def refused(near_store: tuple[Store, FaultServer | None]) -> Callable[..., AbstractContextManager[Any]]:
    """`with refused():` says that the body raises `UsageError`, and that no server hears of it."""
    server = near_store[1]

    @contextmanager
    def refusing(match: str | None = None) -> Iterator[Any]:
        before = len(server.requests) if server else 0
        with pytest.raises(UsageError, match=match) as caught:
            yield caught
        assert (len(server.requests) if server else 0) == before

    return refusing


def _blocking(target: object, verb: str, *args: Any, **kwargs: Any) -> Any:
    return getattr(target, verb)(*args, **kwargs)


def _awaited(target: object, verb: str, *args: Any, **kwargs: Any) -> Any:
    return asyncio.run(getattr(target, f"a{verb}")(*args, **kwargs))


@pytest.fixture(params=["blocking", "awaited"])
def call(request: pytest.FixtureRequest) -> Caller:
    """`call(bank, "recall", ...)`: the blocking verb, or its twin in a loop of its own."""
    return _blocking if request.param == "blocking" else _awaited


@pytest.fixture
def settled(call: Caller) -> Callable[[Bank], None]:
    """`settled(bank)`: all that was told has become memories."""

    def settle(bank: Bank) -> None:
        report = call(bank, "flush", timeout=60, until="completed")
        assert (report.left, report.dead, report.reason) == (0, 0, None)

    return settle


@pytest.fixture
def told(call: Caller, settled: Callable[[Bank], None]) -> Told:
    """`told(bank, content, **fields)`: retains, waits until it can be found, and gives the ids in the order of the items."""

    def tell(bank: Bank, content: Any, **fields: Any) -> list[str]:
        items = [content] if isinstance(content, str) else content
        receipt = call(bank, "retain", items, **fields)
        assert len(taken(receipt)) == len(receipt) == len(items)
        settled(bank)
        if receipt.stored:
            return [outcome.id for outcome in receipt.stored]
        listed = call(bank, "list", types=FACTS, state="all", limit=1000)
        known = {(memory.document_id, memory.text): memory.id for memory in listed}
        return [known[outcome.document_id, text_of(item)] for outcome, item in zip(receipt.queued, items, strict=True)]

    return tell


def text_of(item: Any) -> str:
    return str(item if isinstance(item, str) else item.content if isinstance(item, Item) else item["content"])


def taken(receipt: Receipt) -> Sequence[Any]:
    """What a backend took: stored at once, or queued."""
    return receipt.stored or receipt.queued


@pytest.fixture
def beside() -> Callable[[Bank, str], Bank]:
    """`beside(bank, "bob")`: another bank on the same connections, in the test's own names."""
    return lambda bank, name: bank.named(f"{bank.name.removesuffix('alice')}{name}")
