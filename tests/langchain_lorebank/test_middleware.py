"""`MemoryMiddleware` in agents: turns, streams, tool loops, interrupts, time travel, and what is never stored."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.messages import AIMessageChunk, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from langchain_lorebank.middleware import MemoryMiddleware
from langchain_lorebank.testing import ScriptedChatModel, call
from lorebank import Bank, MissingError, Session

Rig = Any  # of conftest.py
FACT = "Ana prefers aisle seats on long flights."
ASKED = "Which seats does Ana prefer on long flights?"
ANSWER = "The one that is next to nobody, then."
THREAD: Any = {"configurable": {"thread_id": "t"}}
STREAMS = ["values", "updates", "messages", "custom", "debug", "tasks", "checkpoints", ["values", "messages", "updates"]]


class Streaming(ScriptedChatModel):
    """Says its texts word by word."""

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        message: Any = self._generate(messages, stop, run_manager, **kwargs).generations[0].message
        for word in re.findall(r"\s*\S+", str(message.text)) or [""]:
            chunk = ChatGenerationChunk(message=AIMessageChunk(word, tool_calls=message.tool_calls))
            if run_manager:
                run_manager.on_llm_new_token(word, chunk=chunk)
            yield chunk


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"{city} is sunny."


def asked(text: str = ASKED) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


def agent_of(bank: Any, *script: Any, tools: Sequence[Any] = (), before: Sequence[Any] = (), **options: Any) -> tuple[Any, Any]:
    """An agent with memory, and its model. `before` are other middlewares."""
    model = options.pop("model", None) or ScriptedChatModel(script=list(script))
    memory = MemoryMiddleware(bank, tools=options.pop("memory", False))
    return create_agent(model, tools=list(tools), middleware=[*before, memory], **options), model


def memories(messages: list[BaseMessage]) -> list[str]:
    """What a model saw of memory: the lines of the blocks, checked to be where they belong."""
    assert [m.type for m in messages].index("human") == int(messages[0].type == "system")
    assert not any(isinstance(message, SystemMessage) for message in messages[1:])
    blocks = [block for m in messages for block in re.findall(r"<memories>\n.*?</memories>", str(m.text), re.DOTALL)]
    assert len(blocks) <= 1
    assert all("<memories>" in str([m for m in messages if m.type == "human"][-1].text) for _ in blocks)
    return [re.sub(r" \(\d{4}-\d\d-\d\d\)$", "", line[2:]) for block in blocks for line in block.splitlines() if line[:2] == "- "]


def ours(anything: object) -> bool:
    """Whether something of memory's stands in it."""
    return any(mark in repr(anything) for mark in ("<memories>", "mental_models>", "long-term memory"))


async def run(agent: Any, how: str, question: Any, config: Any = THREAD, **options: Any) -> Any:
    """The final state of a run, blocking or awaited."""
    return await agent.ainvoke(question, config, **options) if how == "async" else agent.invoke(question, config, **options)


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_turn_recalls_before_the_model_and_retains_after_it(rig: Rig, how: str) -> None:
    """The model sees the memory in its copy of the question; the state keeps the question as it was."""
    bank = rig.open("alice", FACT)
    agent, model = agent_of(bank, ANSWER, system_prompt="Be brief.")
    state = await run(agent, how, asked())
    assert memories(model.seen[0]) == [FACT]
    assert str(model.seen[0][0].text).startswith("You have a long-term memory")
    assert str(model.seen[0][0].text).endswith("Be brief.")
    assert [message.text for message in state["messages"]] == [ASKED, ANSWER]
    assert (rig.recalls, rig.kept(bank)) == (1, [ASKED, ANSWER])


@pytest.mark.parametrize("mode", STREAMS, ids=str)
@pytest.mark.parametrize("how", ["sync", "async"])
async def test_nothing_of_memory_is_in_any_stream(rig: Rig, how: str, mode: Any) -> None:
    """One recall, one retain, and chunks as without memory."""
    bank = rig.open("alice", FACT)
    script = [call("weather", city="Rome"), ANSWER]
    agent, model = agent_of(bank, model=Streaming(script=script), tools=[weather], checkpointer=InMemorySaver())
    if how == "async":
        chunks = [chunk async for chunk in agent.astream(asked(), THREAD, stream_mode=mode)]
    else:
        chunks = list(agent.stream(asked(), THREAD, stream_mode=mode))
    assert bool(chunks) == (mode != "custom")
    assert not ours(chunks)
    assert [memories(seen) for seen in model.seen] == [[FACT], [FACT]]
    assert (rig.recalls, rig.kept(bank)) == (1, [ASKED, 'weather("city": "Rome")', ANSWER])


async def test_events_show_memory_only_as_what_the_model_was_given(rig: Rig) -> None:
    """In `astream_events` all that the agent and its nodes get and give is free of it."""
    bank = rig.open("alice", FACT)
    agent, _ = agent_of(bank, model=Streaming(script=[ANSWER]))
    events = [event async for event in agent.astream_events(asked(), THREAD, version="v2")]
    assert {event["event"] for event in events if ours(event)} <= {"on_chat_model_start", "on_chat_model_end"}
    assert (rig.recalls, rig.kept(bank)) == (1, [ASKED, ANSWER])


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_tool_loop_is_one_turn(rig: Rig, how: str) -> None:
    """Four model calls see the same bytes; calls are kept in compact form, successful results are not."""
    bank = rig.open("alice", FACT)
    script = [call("weather", city=city) for city in ("Rome", "Oslo", "Lima")]
    agent, model = agent_of(bank, *script, ANSWER, tools=[weather])
    await run(agent, how, asked())
    assert rig.recalls == 1
    assert len({str(next(m for m in seen if m.type == "human").content) for seen in model.seen}) == 1
    assert len({str(seen[0].content) for seen in model.seen}) == 1
    assert rig.kept(bank) == [ASKED, *(f'weather("city": "{city}")' for city in ("Rome", "Oslo", "Lima")), ANSWER]


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_an_interrupted_turn_goes_on_with_the_memories_it_had(rig: Rig, how: str) -> None:
    """One recall for both halves; the user's words are kept once, at once."""

    @tool
    def book(seat: str) -> str:
        """Books a seat."""
        return f"{interrupt('sure?')}: {seat}"

    bank = rig.open("alice", FACT)
    agent, model = agent_of(bank, call("book", seat="3C"), ANSWER, tools=[book], checkpointer=InMemorySaver())
    stopped = await run(agent, how, asked())
    assert stopped["__interrupt__"]
    assert rig.kept(bank)[0] == ASKED
    await run(agent, how, Command(resume="yes"))
    assert [memories(seen) for seen in model.seen] == [[FACT], [FACT]]
    assert (rig.recalls, rig.kept(bank)) == (1, [ASKED, 'book("seat": "3C")', ANSWER])


@pytest.mark.parametrize("decision", ["approve", "reject"])
@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_person_decides_over_an_edit_of_memory(rig: Rig, how: str, decision: str) -> None:
    """What is approved is done, what is rejected is not."""
    bank = rig.open("alice", FACT)
    known = bank.recall(ASKED).memories[0].id
    gate = HumanInTheLoopMiddleware(interrupt_on={"memory_edit": True})
    edit = call("memory_edit", operation="forget", id=known)
    agent, _ = agent_of(bank, edit, ANSWER, before=[gate], memory=["recall", "memory_edit"], checkpointer=InMemorySaver())
    stopped = await run(agent, how, asked())
    assert stopped["__interrupt__"]
    assert bank.get(known).text == FACT
    await run(agent, how, Command(resume={"decisions": [{"type": decision}]}))
    if decision == "reject":
        assert bank.get(known).text == FACT
    else:
        with pytest.raises(MissingError):
            bank.get(known)
    assert FACT not in rig.kept(bank)


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_replayed_checkpoint_retains_what_is_new_only(rig: Rig, how: str) -> None:
    """The question once, and each answer that was given; an edited question is a new one."""
    bank = rig.open("alice", FACT)
    agent, _ = agent_of(bank, "Aisle, as ever.", ANSWER, "By the window.", checkpointer=InMemorySaver())
    await run(agent, how, asked())
    start = next(each for each in agent.get_state_history(THREAD) if each.next == ("model",))
    await run(agent, how, None, start.config)
    assert rig.kept(bank) == [ASKED, "Aisle, as ever.", ANSWER]
    question = start.values["messages"][-1].model_copy(update={"content": "And on short ones?"})
    await run(agent, how, None, agent.update_state(start.config, {"messages": [question]}))
    assert rig.kept(bank) == [ASKED, "Aisle, as ever.", ANSWER, "And on short ones?", "By the window."]


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_nothing_of_memory_is_in_state_or_checkpoints(rig: Rig, how: str) -> None:
    """Also not between the steps, and no key of ours."""
    bank = rig.open("alice", FACT)
    saver = InMemorySaver()
    agent, _ = agent_of(bank, call("weather", city="Rome"), ANSWER, "Yes.", memory=True, tools=[weather], checkpointer=saver)
    await run(agent, how, asked("Good day!"))
    await run(agent, how, asked())
    assert not ours((dict(saver.storage), dict(saver.writes), dict(saver.blobs)))
    assert set(agent.get_state(THREAD).values) == {"messages"}
    assert not ours(list(agent.get_state_history(THREAD)))


async def test_a_new_process_keeps_nothing_twice(rig: Rig) -> None:
    """The history that a checkpointer brings back is known."""
    saver = InMemorySaver()
    with rig.open("alice", FACT) as bank:
        agent, _ = agent_of(bank, "Next to the door.", checkpointer=saver)
        agent.invoke(asked(), THREAD)
    bank = rig.open("alice")
    agent, _ = agent_of(bank, ANSWER, checkpointer=saver)
    agent.invoke(asked("Are you sure?"), THREAD)
    assert rig.kept(bank) == [ASKED, "Next to the door.", "Are you sure?", ANSWER]


@pytest.mark.parametrize("how", ["close", "aclose", "cancel"])
async def test_a_cancelled_stream_keeps_the_user_s_words_and_no_half_answer(rig: Rig, how: str) -> None:
    """And the next turn of the conversation is as if nothing had happened."""
    bank = rig.open("alice", FACT)
    agent, _ = agent_of(
        bank, model=Streaming(script=["A long answer that is never finished.", ANSWER]), checkpointer=InMemorySaver()
    )
    if how == "close":
        stream = agent.stream(asked(), THREAD, stream_mode="messages")
        next(stream)
        stream.close()
    else:
        await _stopped(agent, how)
    assert rig.kept(bank) == [ASKED]
    await agent.ainvoke(asked("Are you there?"), THREAD)
    assert rig.kept(bank) == [ASKED, "Are you there?", ANSWER]


async def _stopped(agent: Any, how: str) -> None:
    if how == "aclose":
        stream = agent.astream(asked(), THREAD, stream_mode="messages")
        await anext(stream)
        await stream.aclose()
        return
    begun = asyncio.Event()

    async def read() -> None:
        async for _ in agent.astream(asked(), THREAD, stream_mode="messages"):
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(read())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_model_that_fails_loses_nothing_that_the_user_said(rig: Rig, how: str) -> None:
    """The error gets through; the turn can be tried again, and its words are kept once."""

    def fail(_messages: object) -> str:
        raise TimeoutError("model")

    bank = rig.open("alice", FACT)
    agent, model = agent_of(bank, fail, ANSWER, checkpointer=InMemorySaver())
    with pytest.raises(TimeoutError, match="model"):
        await run(agent, how, asked())
    assert rig.kept(bank) == [ASKED]
    await run(agent, how, None)
    assert [memories(seen) for seen in model.seen] == [[FACT], [FACT]]
    assert (rig.recalls, rig.kept(bank)) == (1, [ASKED, ANSWER])


MODES = {
    "normal": (True, True),
    "read-only": (True, False),
    "ignored": (False, False),
    "tools-only": (False, False),
    "skip_next": (True, False),
}


@pytest.mark.parametrize("mode", MODES)
async def test_the_mode_of_the_thread_s_session_holds(rig: Rig, mode: str) -> None:
    """Recall and retain as the mode says; what was passed over never comes back."""
    bank = rig.open("alice", FACT)
    agent, model = agent_of(bank, ANSWER, "Yes.", checkpointer=InMemorySaver())
    session: Session = bank.session("t")
    if mode == "skip_next":
        session.skip_next()
    else:
        session.mode = mode  # type: ignore[assignment]
    await agent.ainvoke(asked(), THREAD)
    recalls, retains = MODES[mode]
    assert memories(model.seen[0]) == [FACT] * recalls
    assert rig.kept(bank) == [ASKED, ANSWER] * retains
    session.mode = "normal"
    await agent.ainvoke(asked("Are you sure?"), THREAD)
    assert rig.kept(bank) == [*([ASKED, ANSWER] * retains), "Are you sure?", "Yes."]


def test_the_prefix_is_the_same_bytes_over_ten_turns(rig: Rig) -> None:
    """And always ahead of the application's own prompt, whatever is learnt meanwhile."""
    bank: Bank = rig.open("alice", FACT, mental_models={"freeze": "session"})
    agent, model = agent_of(bank, *[f"Answer {n}." for n in range(10)], system_prompt="Be brief.", checkpointer=InMemorySaver())
    for n in range(10):
        agent.invoke(asked(f"Ana likes olives of sort {n}."), THREAD)
    assert len({str(seen[0].content) for seen in model.seen}) == 1


BLOCKS = SystemMessage([{"type": "text", "text": "Be"}, {"type": "text", "text": "brief."}])


@pytest.mark.parametrize("prompt", [None, "Be brief.", BLOCKS])
def test_there_is_one_system_message_of_text_or_of_blocks(rig: Rig, prompt: Any) -> None:
    """Ours merges into the application's, which stays as it was."""
    bank = rig.open("alice", FACT)
    agent, model = agent_of(bank, ANSWER, "Yes.", system_prompt=prompt, checkpointer=InMemorySaver())
    for text in (ASKED, "Sure?"):
        agent.invoke(asked(text), THREAD)
    for seen in model.seen:
        memories(seen)
        blocks = seen[0].content if isinstance(seen[0].content, list) else [{"type": "text", "text": seen[0].content}]
        assert "long-term memory" in blocks[0]["text"]
        assert blocks[1:] == (prompt.content if isinstance(prompt, SystemMessage) else [])
    assert not ours(prompt)


def test_an_unknown_tool_is_no_business_of_ours(rig: Rig) -> None:
    """The host answers it; the turn goes on."""
    bank = rig.open("alice", FACT)
    agent, _ = agent_of(bank, call("nothing_such"), ANSWER, tools=[weather])
    state = agent.invoke(asked(), THREAD)
    assert any(isinstance(message, ToolMessage) and message.status == "error" for message in state["messages"])
    assert rig.kept(bank)[-1] == ANSWER
