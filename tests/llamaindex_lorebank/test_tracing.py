"""What memory does in a run reaches LlamaIndex's instrumentation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from llama_index.core.bridge.pydantic import Field
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events.base import BaseEvent

from llamaindex_lorebank import BankMemory
from llamaindex_lorebank.testing import StrictLLM
from llamaindex_lorebank.tracing import MemoryEvent

from .memory_rig import ANSWER, ASKED, FACT

Rig = Any  # of conftest.py


class Trace(BaseEventHandler):
    """Keeps memory's events, as a tracer would."""

    told: list[Any] = Field(default_factory=list)

    @classmethod
    def class_name(cls) -> str:
        return "Trace"

    def handle(self, event: BaseEvent, **kwargs: Any) -> None:
        if isinstance(event, MemoryEvent):
            self.told.append(event)


@pytest.fixture
def trace() -> Iterator[Trace]:
    """Attached to the root while the test runs."""
    heard, root = Trace(), get_dispatcher()
    root.add_event_handler(heard)
    yield heard
    root.event_handlers.remove(heard)


@pytest.mark.parametrize("how", ["chat", "achat"])
async def test_a_chat_tells_what_memory_did(rig: Rig, trace: Trace, how: str) -> None:
    """The user's words, the recall, the answer: counts, the bank and the span, no content."""
    bank = rig.open("alice", FACT)
    engine = SimpleChatEngine.from_defaults(llm=StrictLLM(script=[ANSWER]), memory=BankMemory(bank, "c"))
    await engine.achat(ASKED) if how == "achat" else engine.chat(ASKED)
    assert [each.event for each in trace.told] == ["Retained", "Recalled", "Retained"]
    assert all(each.told["bank"] == bank.scope.bank and f".{how}-" in each.span_id for each in trace.told)
    assert trace.told[1].told["count"] == 1
    assert "seat" not in repr(trace.told)


def test_without_a_listener_nothing_is_made(rig: Rig, trace: Trace) -> None:
    """A handler that was taken away hears nothing more."""
    get_dispatcher().event_handlers.remove(trace)
    try:
        bank = rig.open("alice", FACT)
        SimpleChatEngine.from_defaults(llm=StrictLLM(script=[ANSWER]), memory=BankMemory(bank, "c")).chat(ASKED)
        assert trace.told == []
    finally:
        get_dispatcher().add_event_handler(trace)
