"""What the integrations' tests of automatic memory share: a bank on any engine, and a look at what was recalled and kept."""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
from hindsight_server import Hindsight

from lorebank import Bank, open_bank
from lorebank.seams import Event, Recalled
from lorebank.testing import Fault, FaultServer

PATIENT: dict[str, Any] = {"mental_models": {"auto_seed": False}, "recall": {"deadline": 20}}
"""Settings for the real server: seeds cost it model calls, and other tests keep it busy."""
ENGINES = ("mnemopi", "hindsight", *(["real-server"] if os.environ.get("LOREBANK_MATRIX") == "whole" else []))
"""The embedded engine, the small server in this process, and with `LOREBANK_MATRIX=whole` the real server."""


@dataclass
class Rig:
    """Banks on one engine, which may be the `real` server. `facts` are known before the test begins."""

    file: Path
    server: FaultServer | None
    stack: ExitStack
    real: bool = False
    events: list[Event] = field(default_factory=list)

    def open(self, bank: str = "alice", *facts: str, **options: Any) -> Bank:
        given = {"on_event": self.events.append, **options}
        if self.server is None:
            opened = open_bank(f"sqlite:///{self.file}", bank=bank, **given)
        else:
            given = {"outbox": {"batch_seconds": 0.02}, **(PATIENT if self.real else {}), **given}
            opened = open_bank(self.server.url, bank=bank, ledger=f"sqlite:///{self.file}", **given)
        self.stack.enter_context(opened)
        self.tell(opened, *facts)
        return opened

    def tell(self, bank: Bank, *facts: str) -> None:
        for fact in facts:
            bank.retain(fact)
        assert bank.flush(timeout=30, until="completed").left == 0

    @property
    def recalls(self) -> int:
        """How often memory was asked on its own."""
        return sum(isinstance(event, Recalled) for event in self.events)

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def kept(self, bank: Bank, session: str | None = None) -> list[str]:
        """The texts that sessions, or one of them, have retained, in their order."""
        if self.server is None:
            found = [memory for memory in reversed(bank.list(limit=1000)) if memory.source == "transcript"]
            return [memory.text for memory in found if session in (None, memory.session)]
        return sent(bank, session) if self.real else self._sent(self.server, bank, session)

    @staticmethod
    def _sent(server: FaultServer, bank: Bank, session: str | None) -> list[str]:
        assert bank.flush(timeout=30, until="completed").left == 0
        documents = server.bank(bank.scope.bank).documents
        return [text for name, body in documents.items() if _of_session(name, session) for text in lines(body)]


R = TypeVar("R", bound=Rig)


def lines(body: str) -> list[str]:
    """The texts of JSON arrays that stand one behind the other."""
    decoder, place, found = json.JSONDecoder(), 0, list[str]()
    while place < len(body):
        array, place = decoder.raw_decode(body, place)
        found += [line["content"] for line in array]
        place += len(body[place:]) - len(body[place:].lstrip())
    return found


class Apart(FaultServer):
    """The real server, on which each test's banks have names of their own."""

    def _behind(self, exchanges: Any) -> Any:
        self.suffix, answer = uuid.uuid4().hex, super()._behind(exchanges)
        return lambda request: answer(replace(request, path=_BANK.sub(rf"\g<0>-{self.suffix}", request.path)))

    def sweep(self, upstream: str) -> None:
        """Deletes the banks of the test: each holds locks of the server's database."""
        for bank in {found[0] for request in self.requests if (found := _BANK.search(request.path))}:
            httpx.delete(f"{upstream}/v1/default/banks/{bank}-{self.suffix}", timeout=60)


_BANK = re.compile(r"(?<=/banks/)[^/]+")


def sent(bank: Bank, session: str | None = None) -> list[str]:
    """What a server has of the sessions, or of one of them, in its order."""
    assert bank.flush(timeout=60, until="completed").done
    texts = [bank.documents.get(each.id).text or "" for each in bank.documents.list() if _of_session(each.id, session)]
    return [line for text in texts for line in lines(text)]


def _of_session(document: str, session: str | None) -> bool:
    return ":item:" not in document and (session is None or f":{session}:" in document)


@contextmanager
def rig_on(engine: str, request: pytest.FixtureRequest, kind: type[R]) -> Iterator[R]:
    """A rig on one of the engines."""
    real = engine == "real-server"
    file = request.getfixturevalue("tmp_path") / "memory.db"
    upstream = request.getfixturevalue("hindsight").url if real else None
    with ExitStack() as stack:
        server = Apart(upstream=upstream) if real else None if engine == "mnemopi" else FaultServer()
        if server is not None:
            stack.enter_context(server)
        yield kind(file, server, stack, real)
    if isinstance(server, Apart):
        server.sweep(str(upstream))


class Place:
    """A bank of this test's own on the real server, over a line that can be cut."""

    def __init__(self, line: FaultServer, folder: Path) -> None:
        self.line, self.folder, self.name = line, folder, f"place-{uuid.uuid4().hex}"
        self.events: list[Event] = []

    def open(self, fact: str, **options: Any) -> Bank:
        given = {"outbox": {"batch_seconds": 0.02}, **PATIENT, **options}
        ledger = f"sqlite:///{self.folder / 'outbox.db'}"
        bank = open_bank(self.line.url, bank=self.name, ledger=ledger, on_event=self.events.append, **given)
        bank.retain(fact)
        assert bank.flush(timeout=60, until="completed").done
        return bank

    @property
    def recalls(self) -> int:
        return sum(isinstance(event, Recalled) for event in self.events)

    def kept(self, bank: Bank) -> list[str]:
        """What the server has of the session, in its order."""
        return sent(bank)


@pytest.fixture
def place(hindsight: Hindsight, tmp_path: Path) -> Iterator[Place]:
    with FaultServer(upstream=hindsight.url) as line:
        place = Place(line, tmp_path)
        yield place
    httpx.delete(f"{hindsight.url}/v1/default/banks/{place.name}", timeout=60)


OUTAGES = ("dead", "slow", "garbage", "html")


class Line:
    """A server that knows one `fact` and fails on request."""

    def __init__(self, fact: str, server: FaultServer, folder: Path, stack: ExitStack) -> None:
        self.fact, self.server, self.folder, self.stack = fact, server, folder, stack
        self.events: list[Event] = []

    def open(self, **options: Any) -> Bank:
        given = {"recall": {"deadline": 0.5}, "mental_models": {"enabled": False}, "outbox": {"batch_seconds": 0.02}, **options}
        ledger = f"sqlite:///{self.folder / 'outbox.db'}"
        bank = open_bank(self.server.url, bank="alice", ledger=ledger, on_event=self.events.append, **given)
        self.stack.enter_context(bank)
        bank.retain(self.fact)
        assert bank.flush(timeout=30, until="completed").left == 0
        return bank

    def fail(self, kind: str) -> None:
        if kind == "dead":
            self.server.stop()
        else:
            slow, html = Fault(hang=True), Fault(status=200, body=b"<html>hello</html>", content_type="text/html")
            self.server.fault({"slow": slow, "garbage": Fault(body=b'{"results": 7}'), "html": html}[kind])

    def heal(self, kind: str) -> None:
        if kind == "dead":
            self.server.start()
        self.server.heal()

    def delivered(self, bank: Bank) -> str:
        assert bank.flush(timeout=60, until="completed").left == 0
        return "\n".join(self.server.bank("alice").documents.values())


@contextmanager
def line_with(fact: str, folder: Path) -> Iterator[Line]:
    """A line to a server of its own."""
    with ExitStack() as stack:
        yield Line(fact, stack.enter_context(FaultServer()), folder, stack)
