"""`MemoryMiddleware` on a real Hindsight server: a covering sample of what holds on the small one."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from langchain_lorebank.middleware import MemoryMiddleware
from langchain_lorebank.testing import ScriptedChatModel, call
from lorebank.testing import Fault

FACT = "Ana prefers aisle seats on long flights."
ASKED = "Which seats does Ana prefer on long flights?"
ANSWER = "The one that is next to nobody, then."
THREAD: Any = {"configurable": {"thread_id": "t"}}
Place = Any  # of conftest.py


@tool
def book(seat: str) -> str:
    """Books a seat."""
    return f"{interrupt('sure?')}: {seat}"


def asked(text: str = ASKED) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


@pytest.mark.parametrize("how", ["sync", "async", "stream"])
async def test_turns_with_tools_and_an_interrupt(place: Place, how: str) -> None:
    """One recall for both halves of the turn; each message reaches the server once; nothing of ours is stored."""
    with place.open(FACT) as bank:
        model = ScriptedChatModel(script=[call("book", seat="3C"), ANSWER])
        saver = InMemorySaver()
        agent: Any = create_agent(model, tools=[book], middleware=[MemoryMiddleware(bank)], checkpointer=saver)
        for step in (asked(), Command(resume="yes")):
            if how == "stream":
                list(agent.stream(step, THREAD, stream_mode=["values", "messages"]))
            else:
                await agent.ainvoke(step, THREAD) if how == "async" else agent.invoke(step, THREAD)
        assert all(f"- {FACT}" in str(seen) for seen in model.seen)
        assert place.recalls == 1
        assert place.kept(bank) == [ASKED, 'book("seat": "3C")', ANSWER]
        assert "</memories>" not in repr((dict(saver.storage), dict(saver.writes), dict(saver.blobs)))


async def test_a_replayed_checkpoint_writes_nothing_twice(place: Place) -> None:
    """On the server the question stands once."""
    with place.open(FACT) as bank:
        model = ScriptedChatModel(script=["In front, as ever.", ANSWER])
        agent: Any = create_agent(model, middleware=[MemoryMiddleware(bank)], checkpointer=InMemorySaver())
        await agent.ainvoke(asked(), THREAD)
        start = next(each for each in agent.get_state_history(THREAD) if each.next == ("model",))
        await agent.ainvoke(None, start.config)
        assert place.kept(bank) == [ASKED, "In front, as ever.", ANSWER]


@pytest.mark.parametrize("kind", ["dead", "slow"])
@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_line_that_is_cut_loses_nothing(place: Place, kind: str, how: str) -> None:
    """The run goes on without memories; all of it arrives when the line is back."""
    with place.open(FACT, recall={"deadline": 0.5}) as bank:
        model = ScriptedChatModel(script=[ANSWER])
        agent: Any = create_agent(model, middleware=[MemoryMiddleware(bank)])
        place.line.stop() if kind == "dead" else place.line.fault(Fault(hang=True))
        state = await agent.ainvoke(asked(), THREAD) if how == "async" else agent.invoke(asked(), THREAD)
        assert state["messages"][-1].text == ANSWER
        assert "</memories>" not in str(model.seen)
        if kind == "dead":
            place.line.start()
        place.line.heal()
        assert place.kept(bank) == [ASKED, ANSWER]


def test_a_read_only_session_writes_nothing(place: Place) -> None:
    """Memories are shown, and none is made."""
    with place.open(FACT) as bank:
        bank.session("t").mode = "read-only"
        model = ScriptedChatModel(script=[ANSWER])
        create_agent(model, middleware=[MemoryMiddleware(bank)]).invoke(asked(), THREAD)
        assert f"- {FACT}" in str(model.seen[0][-1].text)
        assert place.kept(bank) == []
