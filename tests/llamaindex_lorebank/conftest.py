"""The engines that the tests of LlamaIndex's memory run on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from llama_index.core import Settings
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.memory import BaseMemory, ChatMemoryBuffer, Memory
from rigs import ENGINES, Rig, place, rig_on

__all__ = ["place"]


class HostRig(Rig):
    """A rig that has memories of the host's."""

    def primary(self, kind: str, **options: Any) -> BaseMemory:
        """A primary memory; the store of a `Memory` is closed after the test."""
        if kind == "buffer":
            return ChatMemoryBuffer.from_defaults(**options)
        memory = Memory.from_defaults(**options)
        self.stack.callback(lambda: asyncio.run(disposed(memory)))
        return memory


async def disposed(memory: Memory) -> None:
    store: Any = memory.sql_store
    if store._async_engine is not None:
        await store._async_engine.dispose()


@pytest.fixture
def rig(request: pytest.FixtureRequest) -> Iterator[HostRig]:
    """The embedded engine."""
    with rig_on("mnemopi", request, HostRig) as made:
        yield made


@pytest.fixture(params=ENGINES)
def both(request: pytest.FixtureRequest) -> Iterator[HostRig]:
    """Every engine."""
    with rig_on(request.param, request, HostRig) as made:
        yield made


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    """No test leaves a handler behind."""
    root = get_dispatcher()
    before = [*root.event_handlers], [*root.span_handlers]
    yield
    assert ([*root.event_handlers], [*root.span_handlers]) == before
    assert Settings.callback_manager.handlers == []
