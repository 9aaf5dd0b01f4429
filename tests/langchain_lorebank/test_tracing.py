"""What memory does in a run stands in the run's own trace."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.messages import HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from rigs import Rig

from langchain_lorebank import LorebankState, MemoryMiddleware, recall_node, retain_node
from langchain_lorebank.testing import ScriptedChatModel

FACT = "Ana prefers aisle seats."
ASKED: dict[str, Any] = {"messages": [HumanMessage("Which seats does Ana prefer?")]}
TOLD = ("lorebank.Retained", "lorebank.Recalled", "lorebank.Retained")
KEYS = {"lorebank.Retained": {"stored", "queued"}, "lorebank.Recalled": {"count"}}


class Trace(BaseCallbackHandler):
    """Keeps the custom events, as a tracer would."""

    def __init__(self) -> None:
        self.told: list[tuple[str, dict[str, Any]]] = []

    def on_custom_event(self, name: str, data: Any, *, run_id: UUID, **kwargs: Any) -> None:
        self.told.append((name, data))


class AwaitedTrace(AsyncCallbackHandler):
    """The same, awaited."""

    def __init__(self) -> None:
        self.told: list[tuple[str, dict[str, Any]]] = []

    async def on_custom_event(self, name: str, data: Any, *, run_id: UUID, **kwargs: Any) -> None:
        self.told.append((name, data))


@pytest.mark.parametrize("trace", [Trace, AwaitedTrace])
@pytest.mark.parametrize("how", ["sync", "async"])
async def test_an_agents_trace_tells_what_memory_did(rig: Rig, how: str, trace: type[Any]) -> None:
    """The user's words, the recall, the answer: counts and the bank, no content."""
    bank, heard = rig.open("alice", FACT), trace()
    agent: Any = create_agent(ScriptedChatModel(script=["Row twelve is booked."]), middleware=[MemoryMiddleware(bank)])
    config = {"callbacks": [heard], "configurable": {"thread_id": "t"}}
    await agent.ainvoke(ASKED, config) if how == "async" else agent.invoke(ASKED, config)
    assert tuple(name for name, _ in heard.told) == TOLD
    for name, data in heard.told:
        assert data["bank"] == bank.scope.bank
        assert data.keys() >= KEYS[name]
    assert "seats" not in repr(heard.told).lower()


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_graphs_trace_tells_what_the_nodes_did(rig: Rig, how: str) -> None:
    """The same of the nodes."""
    bank, heard = rig.open("alice", FACT), Trace()

    class State(MessagesState, LorebankState): ...

    builder: Any = StateGraph(State)
    builder.add_node("recall", recall_node(bank)).add_node("retain", retain_node(bank))
    graph = builder.add_edge(START, "recall").add_edge("recall", "retain").compile()
    config = {"callbacks": [heard], "configurable": {"thread_id": "t"}}
    await graph.ainvoke(ASKED, config) if how == "async" else graph.invoke(ASKED, config)
    assert [name for name, _ in heard.told] == ["lorebank.Retained", "lorebank.Recalled"]


async def test_streamed_events_have_them(rig: Rig) -> None:
    """`astream_events` gives them as `on_custom_event`; a run without callbacks pays for nothing."""
    bank = rig.open("alice", FACT)
    agent: Any = create_agent(ScriptedChatModel(script=["Row twelve is booked."]), middleware=[MemoryMiddleware(bank)])
    events = [each async for each in agent.astream_events(ASKED, {"configurable": {"thread_id": "t"}}, version="v2")]
    assert tuple(each["name"] for each in events if each["event"] == "on_custom_event") == TOLD
