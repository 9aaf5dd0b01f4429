"""What the tests of automatic memory share: a bank on either engine, and a look at what was recalled and kept."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from hindsight_server import Hindsight
from llama_index.core.memory import BaseMemory, ChatMemoryBuffer, Memory

from lorebank import Bank, open_bank
from lorebank.seams import Event, Recalled
from lorebank.testing import FaultServer


@dataclass
class Rig:
    """Banks on one engine. `facts` are known before the test begins."""

    file: Path
    server: FaultServer | None
    stack: ExitStack
    events: list[Event] = field(default_factory=list)

    def open(self, bank: str = "alice", *facts: str, **options: Any) -> Bank:
        given = {"on_event": self.events.append, **options}
        if self.server is None:
            opened = open_bank(f"sqlite:///{self.file}", bank=bank, **given)
        else:
            given = {"outbox": {"batch_seconds": 0.02}, **given}
            opened = open_bank(self.server.url, bank=bank, ledger=f"sqlite:///{self.file}", **given)
        self.stack.enter_context(opened)
        self.tell(opened, *facts)
        return opened

    def tell(self, bank: Bank, *facts: str) -> None:
        for fact in facts:
            bank.retain(fact)
        assert bank.flush(timeout=30, until="completed").left == 0

    def primary(self, kind: str, **options: Any) -> BaseMemory:
        """A primary memory; the store of a `Memory` is closed after the test."""
        if kind == "buffer":
            return ChatMemoryBuffer.from_defaults(**options)
        memory = Memory.from_defaults(**options)
        self.stack.callback(lambda: asyncio.run(disposed(memory)))
        return memory

    @property
    def recalls(self) -> int:
        """How often memory was asked on its own."""
        return sum(isinstance(event, Recalled) for event in self.events)

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def kept(self, bank: Bank, session: str | None = None) -> list[str]:
        """The texts that sessions have retained, in their order."""
        if self.server is None:
            found = [memory for memory in reversed(bank.list(limit=1000)) if memory.source == "transcript"]
            return [memory.text for memory in found if session in (None, memory.session)]
        assert bank.flush(timeout=30, until="completed").left == 0
        documents = self.server.bank(bank.scope.bank).documents
        named = {name: body for name, body in documents.items() if not name.startswith("lorebank:item:")}
        return [text for name, body in named.items() if session is None or f":{session}:" in name for text in lines(body)]


async def disposed(memory: Memory) -> None:
    store: Any = memory.sql_store
    if store._async_engine is not None:
        await store._async_engine.dispose()


def lines(body: str) -> list[str]:
    """The texts of JSON arrays that stand one behind the other."""
    decoder, place, found = json.JSONDecoder(), 0, list[str]()
    while place < len(body):
        array, place = decoder.raw_decode(body, place)
        found += [line["content"] for line in array]
        place += len(body[place:]) - len(body[place:].lstrip())
    return found


@pytest.fixture
def rig(file: Path) -> Iterator[Rig]:
    """The embedded engine."""
    with ExitStack() as stack:
        yield Rig(file, None, stack)


@pytest.fixture(params=["mnemopi", "hindsight"])
def both(request: pytest.FixtureRequest, file: Path) -> Iterator[Rig]:
    """Both engines: the embedded one, and the small server in this process."""
    with ExitStack() as stack:
        server = stack.enter_context(FaultServer()) if request.param == "hindsight" else None
        yield Rig(file, server, stack)


class Place:
    """A bank of this test's own on the real server, over a line that can be cut."""

    def __init__(self, line: FaultServer, folder: Path) -> None:
        self.line, self.folder, self.name = line, folder, f"llamaindex-{uuid.uuid4().hex}"
        self.events: list[Event] = []

    def open(self, fact: str, **options: Any) -> Bank:
        given = {"outbox": {"batch_seconds": 0.02}, "mental_models": {"auto_seed": False}, "recall": {"deadline": 20}, **options}
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
        assert bank.flush(timeout=60, until="completed").done
        texts = [bank.documents.get(each.id).text or "" for each in bank.documents.list() if ":item:" not in each.id]
        return [line for text in texts for line in lines(text)]


@pytest.fixture
def place(hindsight: Hindsight, tmp_path: Path) -> Iterator[Place]:
    with FaultServer(upstream=hindsight.url) as line:
        place = Place(line, tmp_path)
        yield place
    httpx.delete(f"{hindsight.url}/v1/default/banks/{place.name}", timeout=60)
