"""`MemoryMiddleware` when the server is dead, slow, or answers nonsense: the run goes on, and everything is delivered later."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from rigs import OUTAGES, Line, line_with

from langchain_lorebank.middleware import MemoryMiddleware
from langchain_lorebank.testing import ScriptedChatModel, call
from lorebank import Bank, LorebankError, open_bank
from lorebank.seams import OutageEnded, OutageStarted

FACT = "Ana prefers aisle seats on long flights."
ASKED = "Which seats does Ana prefer on long flights?"
ANSWER = "The one that is next to nobody, then."
THREAD: Any = {"configurable": {"thread_id": "t"}}


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"{city} is sunny."


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Line]:
    with line_with(FACT, tmp_path) as made:
        yield made


async def answered(bank: Bank, how: str, script: list[Any]) -> tuple[Any, ScriptedChatModel]:
    model = ScriptedChatModel(script=script)
    agent: Any = create_agent(model, tools=[weather], middleware=[MemoryMiddleware(bank)])
    question = {"messages": [HumanMessage(ASKED)]}
    state = await agent.ainvoke(question, THREAD) if how == "async" else agent.invoke(question, THREAD)
    return state["messages"][-1].text, model


async def told(true: Callable[[], bool]) -> None:
    """Waits for an event of another thread, 10 seconds at most."""
    for _ in range(500):
        if true():
            break
        await asyncio.sleep(0.02)
    assert true()


@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize("kind", OUTAGES)
async def test_the_run_goes_on_and_everything_is_delivered_later(rig: Line, kind: str, how: str) -> None:
    """A right answer, the state told as events, the deadline waited for once, and nothing lost."""
    bank = rig.open()
    rig.fail(kind)
    begun = time.monotonic()
    text, model = await answered(bank, how, [call("weather", city="Rome"), call("weather", city="Oslo"), ANSWER])
    assert text == ANSWER
    assert time.monotonic() - begun < 10
    assert "</memories>" not in str(model.seen)
    await told(lambda: any(isinstance(event, OutageStarted) and event.part == "recall" for event in rig.events))
    rig.heal(kind)
    delivered = rig.delivered(bank)
    assert all(delivered.count(each) == 1 for each in (ASKED, ANSWER, "Rome", "Oslo"))


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_memory_comes_back_within_the_conversation(rig: Line, how: str) -> None:
    """The next turn has memories again, and the end of the outage is told."""
    bank = rig.open()
    rig.fail("dead")
    await answered(bank, how, [ANSWER])
    rig.heal("dead")
    model = ScriptedChatModel(script=["Yes."] * 50)
    agent: Any = create_agent(model, middleware=[MemoryMiddleware(bank)])
    for n in range(50):
        question = {"messages": [HumanMessage(f"{ASKED} {n}")]}
        await agent.ainvoke(question, THREAD) if how == "async" else agent.invoke(question, THREAD)
        if FACT in str(model.seen[-1]):
            break
    assert FACT in str(model.seen[-1])
    assert [event.part for event in rig.events if isinstance(event, OutageEnded) and event.part == "recall"] == ["recall"]


@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize("kind", ["dead", "garbage"])
async def test_an_application_that_wants_it_is_told_by_an_error(rig: Line, kind: str, how: str) -> None:
    """With `on_failure="raise"`; the user's words are kept all the same."""
    bank = rig.open(on_failure="raise")
    rig.fail(kind)
    with pytest.raises(LorebankError):
        await answered(bank, how, [ANSWER])
    rig.heal(kind)
    assert ASKED in rig.delivered(bank)


async def test_memory_that_is_off_is_as_if_it_were_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`LOREBANK_URL=off`."""
    monkeypatch.setenv("LOREBANK_URL", "off")
    with open_bank(f"sqlite:///{tmp_path / 'none.db'}", bank="alice") as bank:
        text, model = await answered(bank, "async", [ANSWER])
    assert text == ANSWER
    assert [message.type for message in model.seen[0]] == ["human"]
    assert not (tmp_path / "none.db").exists()
