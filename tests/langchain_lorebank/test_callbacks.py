"""`MemoryCallbackHandler`: roots, users, cancelled and failed runs, outages, and what it makes of inputs and outputs."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from typing import Any
from uuid import uuid4

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from rigs import Rig

from langchain_lorebank import MemoryCallbackHandler, memory_prefix, with_memory
from langchain_lorebank.middleware import MemoryMiddleware
from langchain_lorebank.testing import StrictChatModel, call
from lorebank import Bank, UsageError, open_bank, per_user
from lorebank.seams import OutageStarted, Skipped
from lorebank.testing import Fault

from .chain_rig import ANSWER, ASKED, KNOWN, MODES, model, no_marks, prompt, run, told

QUESTION = {"question": ASKED}


def by_hand(fake: StrictChatModel) -> Runnable[Any, Any]:
    """A chain with the prefix, whose handler is passed at call time."""
    return prompt() | memory_prefix() | fake | StrOutputParser()


def wrapped(bank: Any, fake: StrictChatModel, **options: Any) -> Any:
    return with_memory(prompt() | fake | StrOutputParser(), bank, **{"session_id": "trip", **options})


def test_raising_is_refused(url: str) -> None:
    """LangChain swallows what a handler raises: neither the handler nor its bank may want it."""
    with open_bank(url, bank="alice") as bank, pytest.raises(UsageError, match="can't raise"):
        MemoryCallbackHandler(bank, on_failure="raise")  # type: ignore[arg-type]
    with open_bank(url, bank="alice", on_failure="raise") as bank:
        for given in (bank, per_user(bank)):
            with pytest.raises(UsageError, match="can't raise"):
                MemoryCallbackHandler(given)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("other", [False, True], ids=["the same handler twice", "two handlers"])
async def test_two_observers_of_a_run_keep_it_once(rig: Rig, mode: str, other: bool) -> None:
    """One recall, one retain, and the memories stand before the model once."""
    bank, fake = rig.open("alice", KNOWN), model()
    first = MemoryCallbackHandler(bank, session_id="trip")
    second = MemoryCallbackHandler(bank, session_id="trip") if other else first
    chain = by_hand(fake).with_config(callbacks=[first])
    assert await run(chain, QUESTION, mode, {"callbacks": [second]}) == ANSWER
    assert first.flush(10)
    assert second.flush(10)
    assert rig.kept(bank) == [ASKED, ANSWER]
    assert rig.recalls == 1
    assert told(fake.seen[0]).count("</memories>") == 1


@pytest.mark.parametrize("mode", ["invoke", "ainvoke", "stream", "astream"])
async def test_handler_and_middleware_keep_an_agent_s_turn_once(rig: Rig, mode: str) -> None:
    """Both know the run; one recall, and each message once, tool loop included."""

    @tool
    def weather(city: str) -> str:
        """The weather."""
        return "sunny"

    bank = rig.open("alice", KNOWN)
    fake = StrictChatModel(script=[call("weather", city="Porto"), ANSWER, "Without any doubt."])
    handler = MemoryCallbackHandler(bank)
    agent: Any = create_agent(fake, [weather], middleware=[MemoryMiddleware(bank)], checkpointer=InMemorySaver())
    config = {"callbacks": [handler], "configurable": {"thread_id": "trip"}}
    for words in (ASKED, "Sure?"):
        await run(agent, {"messages": [HumanMessage(words)]}, mode, config)
        assert handler.flush(10)
    assert rig.kept(bank) == [ASKED, 'weather("city": "Porto")', ANSWER, "Sure?", "Without any doubt."]
    assert rig.recalls == 2
    assert all(KNOWN in told(seen) for seen in fake.seen[:2])


@pytest.mark.parametrize("mode", ["invoke", "ainvoke", "stream", "astream"])
async def test_an_interrupted_graph_is_kept_as_far_as_it_came(rig: Rig, mode: str) -> None:
    """The start of a resumed run has no words; its end adds what is new."""

    def ask(state: MessagesState) -> Any:
        return {"messages": [AIMessage(interrupt("Which one?"))]}

    bank, handler = rig.open("alice"), None
    handler = MemoryCallbackHandler(bank)
    graph = StateGraph(MessagesState)
    graph.add_node("call", lambda state: {"messages": [call("choose", seat="12C")]})
    graph.add_node("tool", lambda state: {"messages": [ToolMessage("ok", tool_call_id="call-choose")]})
    graph.add_node("ask", ask)
    for one, other in ((START, "call"), ("call", "tool"), ("tool", "ask"), ("ask", END)):
        graph.add_edge(one, other)
    compiled: Any = graph.compile(checkpointer=InMemorySaver())
    config = {"callbacks": [handler], "configurable": {"thread_id": "trip"}}
    await run(compiled, {"messages": [("user", ASKED)]}, mode, config)
    assert handler.flush(10)
    assert rig.kept(bank) == [ASKED, 'choose("seat": "12C")']
    await run(compiled, Command(resume=ANSWER), mode, config)
    assert handler.flush(10)
    assert rig.kept(bank) == [ASKED, 'choose("seat": "12C")', ANSWER]


def test_only_a_chain_without_a_known_parent_is_a_root(bank: Bank) -> None:
    """Not what runs in a chain, a tool or a retriever, and not a model of a foreign parent."""
    handler, foreign = MemoryCallbackHandler(bank, session_id="s"), uuid4()
    root, child, lone, step, tool_run = (uuid4() for _ in range(5))
    handler.on_chain_start(None, QUESTION, run_id=root, parent_run_id=foreign)
    handler.on_chain_start(None, {}, run_id=child, parent_run_id=root)
    handler.on_chat_model_start({}, [[]], run_id=lone, parent_run_id=foreign)
    handler.on_tool_start({}, "", run_id=tool_run, parent_run_id=foreign)
    handler.on_chain_start(None, QUESTION, run_id=step, parent_run_id=tool_run)
    assert [handler.root_of(each) for each in (root, child, lone, step, None)] == [root, root, None, None, None]


async def test_a_batch_of_two_users_is_kept_apart(rig: Rig) -> None:
    """Each run gets the memories of the user whom its metadata name, and is kept in that user's bank."""
    bank, fake = rig.open("base", recall={"limit": 50, "max_tokens": 8_000, "deadline": 20}), model()
    users = {name: bank.named(name) for name in ("ana", "ben")}
    rig.tell(users["ana"], "Ana prefers aisle seats.")
    rig.tell(users["ben"], "Ben prefers window seats.")
    chain = wrapped(per_user(bank), fake, session_id=None)
    names = ["ana", "ben"] * 10
    inputs = [{"question": f"Which seats does {name} prefer? ({place})"} for place, name in enumerate(names)]
    configs = [{"metadata": {"user_id": name, "session_id": f"s-{place}"}} for place, name in enumerate(names)]
    assert await chain.abatch(inputs, configs) == [ANSWER] * 20
    assert chain.handler.flush(20)
    assert Counter("window" in told(seen) for seen in fake.seen) == {True: 10, False: 10}
    for seen in fake.seen:
        assert ("window" in told(seen), "aisle" in told(seen)) == ("ben" in told(seen), "ana" in told(seen))
    for name, own in users.items():
        assert set(rig.kept(own)) == {each["question"] for each in inputs if name in each["question"]} | {ANSWER}


@pytest.mark.parametrize("mode", MODES)
async def test_a_run_that_names_no_user_goes_on_without_memory(rig: Rig, caplog: pytest.LogCaptureFixture, mode: str) -> None:
    """An error in the log that names the key and where it was looked for, one event, and nothing is kept for anybody."""
    bank, fake = rig.open("base", KNOWN), model()
    chain = wrapped(per_user(bank), fake)
    assert await run(chain, QUESTION, mode, {"configurable": {"user": "ana"}}) == ANSWER
    assert chain.handler.flush(10)
    assert no_marks(told(fake.seen[0]))
    assert rig.of(Skipped) == [Skipped("base", "before_turn", "UsageError")]
    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "'user_id'" in record.getMessage()
    assert "metadata" in record.getMessage()
    assert rig.kept(bank) == []


@pytest.mark.parametrize("how", ["close", "aclose", "cancel", "error", "async error"])
@pytest.mark.parametrize("hand", [False, True], ids=["with_memory", "by hand"])
async def test_of_a_run_that_broke_off_the_user_s_words_are_kept(rig: Rig, how: str, hand: bool) -> None:
    """And no half answer; the next turn is as if nothing had happened."""
    bank = rig.open("alice")
    fake = StrictChatModel(script=["A long answer that is never finished.", ANSWER])
    handler = MemoryCallbackHandler(bank, session_id="trip")
    chain = by_hand(fake).with_config(callbacks=[handler]) if hand else wrapped(bank, fake)
    handler = handler if hand else chain.handler
    await broken_off(chain, fake, how)
    for _ in range(10):  # the loop closes what is left of a stream
        await asyncio.sleep(0)
    assert handler.flush(10)
    assert rig.kept(bank) == [ASKED]
    fake.failing, fake.script = None, [ANSWER] * 3
    assert chain.invoke({"question": "And now?"}) == ANSWER
    assert handler.flush(10)
    assert rig.kept(bank) == [ASKED, "And now?", ANSWER]


async def broken_off(chain: Any, fake: StrictChatModel, how: str) -> None:
    """Runs the chain until it breaks off, in one of the ways it can."""
    if how == "close":
        stream = chain.stream(QUESTION)
        assert [next(stream) for _ in range(3)] == ["A", " long", " answer"]
        stream.close()
    elif how == "aclose":
        chunks = chain.astream(QUESTION)
        assert [await anext(chunks) for _ in range(3)] == ["A", " long", " answer"]
        await chunks.aclose()
    elif how == "cancel":
        begun = asyncio.Event()

        async def read() -> None:
            async for _ in chain.astream(QUESTION):
                begun.set()
                await asyncio.Event().wait()

        reading = asyncio.create_task(read())
        await begun.wait()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    else:
        fake.failing = RuntimeError("no model")
        with pytest.raises(RuntimeError, match="no model"):
            await run(chain, QUESTION, "invoke" if how == "error" else "ainvoke")


async def test_the_words_are_kept_before_the_model_has_answered(rig: Rig) -> None:
    """Also where the chain is streamed: whatever happens next, they are there."""
    bank, asked, gate = rig.open("alice"), threading.Event(), threading.Event()

    def answer(_: Any) -> str:
        asked.set()
        return ANSWER

    chain = wrapped(bank, StrictChatModel(script=[answer], hanging=gate))
    answering = asyncio.create_task(run(chain, QUESTION, "astream"))
    assert await asyncio.to_thread(asked.wait, 10)
    assert await chain.handler.aflush(10)
    assert rig.kept(bank) == [ASKED]
    gate.set()
    assert await answering == ANSWER


FAULTS = {
    "dead": Fault(drop=True),
    "slow": Fault(hang=True),
    "garbage": Fault(body=b"<html>not what you asked for</html>"),
    "error": Fault(status=500),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("rig", ["hindsight"], indirect=True)
async def test_a_server_that_is_out_of_order_breaks_no_chain(rig: Rig, fault: str, mode: str) -> None:
    """The answer is right, the outage is told, and what was said is delivered later."""
    assert rig.server is not None
    bank, fake = rig.open("alice", KNOWN, recall={"deadline": 0.3}), model()
    rig.server.fault(FAULTS[fault], path="/memories")
    chain = wrapped(bank, fake)
    assert await run(chain, QUESTION, mode) == ANSWER
    assert await run(chain, QUESTION, mode) == ANSWER
    assert chain.handler.flush(10)
    assert "</memories>" not in told(fake.seen[0])
    assert rig.of(OutageStarted)
    rig.server.heal()
    assert rig.kept(bank) == [ASKED, ANSWER] * 2


def test_a_bank_that_was_closed_breaks_no_chain(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is told in the log."""
    fake = model()
    with open_bank(url, bank="alice") as bank:
        chain = wrapped(bank, fake)
    assert chain.invoke(QUESTION) == ANSWER
    assert chain.handler.flush(10)
    assert no_marks(told(fake.seen[0]))
    assert "closed" in caplog.text


def test_a_handler_that_does_not_retain_writes_nothing(rig: Rig) -> None:
    """Memories are recalled all the same."""
    bank, fake = rig.open("alice", KNOWN), model()
    chain = wrapped(bank, fake, auto_retain=False)
    assert chain.invoke(QUESTION) == ANSWER
    assert chain.handler.flush(10)
    assert rig.kept(bank) == []
    assert KNOWN in told(fake.seen[0])


@pytest.mark.parametrize("mode", ["invoke", "astream"])
async def test_a_tool_loop_by_hand_says_nothing_twice(rig: Rig, mode: str) -> None:
    """A run whose messages end with a tool's result has no new words of the user's; it recalls for the old ones."""
    bank, fake = rig.open("alice", KNOWN), StrictChatModel(script=[call("weather", city="Porto"), ANSWER])
    chain: Any = with_memory(fake, bank, session_id="trip")
    messages: list[Any] = [HumanMessage(ASKED)]
    messages.append(await run(chain, messages, mode))
    messages.append(ToolMessage("sunny", tool_call_id="call-weather"))
    await run(chain, messages, mode)
    assert chain.handler.flush(10)
    assert rig.kept(bank) == [ASKED, 'weather("city": "Porto")', ANSWER]
    assert all("</memories>" in told(seen) for seen in fake.seen)
    assert rig.recalls == 1


def test_runs_of_conversations_are_told_apart(bank: Bank) -> None:
    """By `thread_id`, else `session_id`, of the run's metadata."""
    chain = wrapped(bank, model(), session_id=None)
    chain.invoke({"question": "One."}, {"metadata": {"session_id": "a"}})
    chain.invoke({"question": "Two."}, {"metadata": {"session_id": "a", "thread_id": "b"}})
    assert chain.handler.flush(10)
    assert {memory.text: memory.session for memory in bank.list() if memory.source == "transcript"}.items() >= {
        ("One.", "a"),
        ("Two.", "b"),
    }


def test_what_never_ends_is_forgotten(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closed async streams tell nothing: the oldest runs go, those that are used stay."""
    monkeypatch.setattr("langchain_lorebank.callbacks.TURNS", 10)
    monkeypatch.setattr("langchain_lorebank.callbacks.RUNS", 50)
    handler, first = MemoryCallbackHandler(bank, session_id="s", auto_recall=False), uuid4()
    handler.on_chain_start(None, QUESTION, run_id=first)
    for _ in range(100):
        handler.on_chain_start(None, QUESTION, run_id=uuid4())
        handler.on_tool_start({}, "", run_id=uuid4(), parent_run_id=first)
        handler.told(uuid4(), QUESTION)
    assert (len(handler._turns), len(handler._roots), len(handler._told)) == (10, 50, 10)
    assert handler.root_of(first) == first
    assert first in handler._turns


def test_a_failing_handler_breaks_no_chain(bank: Bank, caplog: pytest.LogCaptureFixture) -> None:
    """An input that can't even be looked at is no reason to stop."""

    class Odd(dict[str, Any]):
        def get(self, *_: Any) -> Any:
            raise RuntimeError("odd")

    handler = MemoryCallbackHandler(bank, session_id="s")
    chain = RunnableLambda(lambda _: "fine").with_config(callbacks=[handler])
    assert chain.invoke(Odd(question=ASKED)) == "fine"
    assert handler.flush(10)
    assert "without memory" in caplog.text or "failed" in caplog.text
