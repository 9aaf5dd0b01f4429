"""What these tests share: a bank, the inspector before it, and a client that has opened the URL with the token."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from lorebank import Bank, open_bank
from lorebank.inspector.app import inspector
from lorebank.inspector.guard import Keys
from lorebank.testing import FaultServer

PORT = 8480
HOME = f"http://127.0.0.1:{PORT}"
QUICK: dict[str, Any] = {"batch_seconds": 0.02, "max_backoff": 0.2}
SETTINGS: dict[str, Any] = {"recall": {"keep_traces": 3, "deadline": 30}, "mental_models": {"enabled": False}}


@dataclass
class Visitor:
    """A browser without a screen: it follows links and fills in forms, as far as these tests do."""

    bank: Bank
    keys: Keys
    client: TestClient
    server: FaultServer | None = None

    def get(self, path: str, **values: str) -> httpx.Response:
        return self.client.get(path, params=values or None)  # type: ignore[return-value]

    def read(self, path: str, **values: str) -> str:
        """A page's text."""
        return words(self.get(path, **values).text)

    def post(self, path: str, **fields: str) -> httpx.Response:
        """Sends a form of ours."""
        return self.client.post(path, data={"form": self.keys.form, **fields}, headers={"origin": HOME})  # type: ignore[return-value]

    def told(self, *texts: str, **fields: Any) -> list[str]:
        """Tells the bank something; gives the ids."""
        for text in texts:
            self.bank.retain(text, **fields)
        assert self.bank.flush(timeout=30, until="completed").left == 0
        known = {memory.text: memory.id for memory in self.bank.list(types=("world", "experience"), state="all", limit=1000)}
        return [known[text] for text in texts]

    def form(self, path: str, action: str, **values: str) -> Mapping[str, str]:
        """The hidden fields of a page's form."""
        page = self.get(path, **values).text
        found = re.search(rf'<form method="post" action="{action}">(.*?)</form>', page, re.DOTALL)
        assert found, f"{path} has no form to {action}"
        return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', found[1]))


def words(html: str) -> str:
    """The text of a page, with single blanks."""
    bare = re.sub(r"<(script|style).*?</\1>|<[^>]+>", " ", html, flags=re.DOTALL)
    return " ".join(unescape(bare).split())


def visit(bank: Bank, server: FaultServer | None = None) -> Visitor:
    """The inspector of a bank, opened with its token."""
    keys = Keys()
    client = TestClient(inspector(bank, keys, PORT), base_url=HOME)
    assert client.get("/", params={"token": keys.token}).status_code == 200
    return Visitor(bank, keys, client, server)


Opener = Callable[..., Visitor]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes what a test has opened."""
    with ExitStack() as stack:
        yield stack


def opener(stack: ExitStack, folder: Path, server: FaultServer | None) -> Opener:
    """Opens inspectors of banks in one file, or on one server."""
    file = f"sqlite:///{folder / 'memory.db'}"

    def opening(**options: Any) -> Visitor:
        given = {"bank": "alice", **SETTINGS, **options}
        bank = open_bank(file, **given) if server is None else open_bank(server.url, ledger=file, outbox=QUICK, **given)
        return visit(stack.enter_context(bank), server)

    return opening


@pytest.fixture(params=["mnemopi", "hindsight"])
def opened(request: pytest.FixtureRequest, stack: ExitStack, tmp_path: Path) -> Opener:
    """Opens the inspector of a bank on either backend; a server is the small one in this process."""
    server = stack.enter_context(FaultServer()) if request.param == "hindsight" else None
    return opener(stack, tmp_path, server)


@pytest.fixture
def served(stack: ExitStack, tmp_path: Path) -> Visitor:
    """The inspector of the bank `alice` on a small server, for what only a server does."""
    return opener(stack, tmp_path, stack.enter_context(FaultServer()))()


@pytest.fixture
def server(served: Visitor) -> FaultServer:
    """The server of `served`."""
    assert served.server is not None
    return served.server


@pytest.fixture
def visitor(opened: Opener) -> Visitor:
    """The inspector of the bank `alice` on either backend."""
    return opened()


@pytest.fixture
def local(bank: Bank) -> Visitor:
    """The inspector of an empty bank on Mnemopi, for what does not depend on the backend."""
    return visit(bank)
