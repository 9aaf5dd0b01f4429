"""`MemoryMiddleware` in company: sub-agents, other middlewares, several users, several banks, runs without a name."""

from __future__ import annotations

import asyncio
import logging
import re
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ModelRetryMiddleware,
    SummarizationMiddleware,
    dynamic_prompt,
    hook_config,
)
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langchain_lorebank.middleware import MemoryMiddleware
from langchain_lorebank.testing import ScriptedChatModel, call
from lorebank import UsageError, per_user
from lorebank.seams import Retained

Rig = Any  # of conftest.py
FACT = "Ana prefers aisle seats on long flights."
ASKED = "Which seats does Ana prefer on long flights?"
ANSWER = "The one that is next to nobody, then."
THREAD: Any = {"configurable": {"thread_id": "t"}}


@dataclass
class User:
    """A run's context."""

    user_id: str


def asked(text: str = ASKED) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


def agent_of(bank: Any, *script: Any, tools: Sequence[Any] = (), before: Sequence[Any] = (), **options: Any) -> tuple[Any, Any]:
    """An agent with memory, and its model. `before` are other middlewares."""
    model = ScriptedChatModel(script=list(script), repeat=options.pop("repeat", False))
    memory = MemoryMiddleware(bank, tools=options.pop("memory", False))
    return create_agent(model, tools=list(tools), middleware=[*before, memory], **options), model


def shown(messages: list[BaseMessage]) -> list[str]:
    """The memories that a model saw."""
    blocks = [block for m in messages for block in re.findall(r"<memories>\n.*?</memories>", str(m.text), re.DOTALL)]
    return [re.sub(r" \(\d{4}-\d\d-\d\d\)$", "", line[2:]) for each in blocks for line in each.splitlines() if line[:2] == "- "]


def systems(messages: list[BaseMessage]) -> list[str]:
    return [str(message.text) for message in messages if isinstance(message, SystemMessage)]


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_sub_agent_in_a_tool_has_no_memory_of_its_own(rig: Rig, how: str) -> None:
    """It neither recalls nor retains; its answer reaches the parent's conversation as a tool's result."""
    bank = rig.open("alice", FACT)
    inner, inside = agent_of(bank, "Row 12 is free.")

    @tool
    async def aseat(wish: str) -> str:
        """Looks for a seat."""
        return str((await inner.ainvoke(asked(f"{wish}, please: {ASKED}")))["messages"][-1].text)

    @tool
    def seat(wish: str) -> str:
        """Looks for a seat."""
        return str(inner.invoke(asked(f"{wish}, please: {ASKED}"))["messages"][-1].text)

    own = aseat if how == "async" else seat
    outer, _ = agent_of(bank, call(own.name, wish="front"), call(own.name, wish="back"), ANSWER, tools=[own])
    inside.script.append("Row 31 is free.")
    await outer.ainvoke(asked(), THREAD) if how == "async" else outer.invoke(asked(), THREAD)
    assert [shown(seen) + systems(seen) for seen in inside.seen] == [[], []]
    assert rig.recalls == 1
    assert rig.kept(bank) == [ASKED, f'{own.name}("wish": "front")', f'{own.name}("wish": "back")', ANSWER]


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_agents_as_nodes_of_a_graph_share_the_turn(rig: Rig, how: str) -> None:
    """Two agents one after the other, one conversation: one recall, the question once, both answers."""
    bank = rig.open("alice", FACT)
    first, one = agent_of(bank, "Somewhere in front.")
    second, two = agent_of(bank, ANSWER)
    graph: Any = StateGraph(MessagesState)
    graph.add_node("first", first).add_node("second", second).add_edge(START, "first").add_edge("first", "second")
    app = graph.compile(checkpointer=InMemorySaver())
    await app.ainvoke(asked(), THREAD) if how == "async" else app.invoke(asked(), THREAD)
    assert shown(one.seen[0]) == shown(two.seen[0]) == [FACT]
    assert (rig.recalls, rig.kept(bank)) == (1, [ASKED, "Somewhere in front.", ANSWER])


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_history_that_is_summed_up_loses_nothing(rig: Rig, how: str) -> None:
    """Each message is kept once, the summary never."""
    bank = rig.open("alice", FACT)
    summary = ScriptedChatModel(script=["They talked of Fnordland."], repeat=True)
    short = SummarizationMiddleware(summary, trigger=("messages", 4), keep=("messages", 2))
    said = [f"Remark {n} about the harbour." for n in "abcdef"]
    agent, model = agent_of(bank, *[f"Reply {n} on it." for n in "abcdef"], before=[short], checkpointer=InMemorySaver())
    for text in said:
        await agent.ainvoke(asked(text), THREAD) if how == "async" else agent.invoke(asked(text), THREAD)
    assert summary.seen
    assert "Fnordland" in str(model.seen[-1])
    assert rig.kept(bank) == [each for n in "abcdef" for each in (f"Remark {n} about the harbour.", f"Reply {n} on it.")]


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_dynamic_prompt_stands_behind_the_prefix(rig: Rig, how: str) -> None:
    """In the same system message, where memory comes last in the list."""

    @dynamic_prompt
    def prompt(request: Any) -> str:
        return f"There are {len(request.messages)} messages."

    bank = rig.open("alice", FACT)
    agent, model = agent_of(bank, ANSWER, before=[prompt])
    await agent.ainvoke(asked(), THREAD) if how == "async" else agent.invoke(asked(), THREAD)
    [system] = systems(model.seen[0])
    assert system.startswith("You have a long-term memory")
    assert system.endswith("\n\nThere are 1 messages.")


def test_a_model_call_that_is_tried_again_recalls_once(rig: Rig) -> None:
    """A retrying middleware outside asks for the same memories."""

    def fail(_messages: object) -> str:
        raise TimeoutError("model")

    bank = rig.open("alice", FACT)
    retry = ModelRetryMiddleware(max_retries=2, initial_delay=0, jitter=False)
    agent, model = agent_of(bank, fail, fail, ANSWER, before=[retry])
    agent.invoke(asked(), THREAD)
    assert [shown(seen) for seen in model.seen] == [[FACT]] * 3
    assert (rig.recalls, rig.kept(bank)) == (1, [ASKED, ANSWER])


def test_what_another_middleware_cuts_from_a_call_is_kept_all_the_same(rig: Rig) -> None:
    """The state says what was said."""

    class Newest(AgentMiddleware[Any, Any]):
        """Shows the model the newest message only."""

        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return handler(request.override(messages=request.messages[-1:]))

    bank = rig.open("alice", FACT)
    agent, model = agent_of(bank, "Good day.", ANSWER, before=[Newest()], checkpointer=InMemorySaver())
    for text in ("Hello there!", ASKED):
        agent.invoke(asked(text), THREAD)
    assert [message.type for message in model.seen[1]] == ["system", "human"]
    assert rig.kept(bank) == ["Hello there!", "Good day.", ASKED, ANSWER]


def test_an_agent_that_is_stopped_before_its_model_still_retains(rig: Rig) -> None:
    """A middleware that jumps to the end skips the recall, not what was said."""

    class Closed(AgentMiddleware[Any, Any]):
        """Answers by itself."""

        @hook_config(can_jump_to=["end"])
        def before_model(self, state: Any, runtime: Any) -> dict[str, Any]:
            return {"messages": [AIMessage("We are closed.")], "jump_to": "end"}

    bank = rig.open("alice", FACT)
    agent, _ = agent_of(bank, before=[Closed()])
    agent.invoke(asked(), THREAD)
    assert (rig.recalls, rig.kept(bank)) == (0, [ASKED, "We are closed."])


@pytest.mark.parametrize("how", ["threads", "tasks"])
@pytest.mark.parametrize("named", ["context", "configurable", "metadata"])
async def test_two_users_at_once_on_one_agent_never_meet(rig: Rig, how: str, named: str) -> None:
    """Each run sees and writes its own user's bank only."""
    bank = rig.open("hall", mental_models={"enabled": False})
    codes = {"ana": "4711", "ben": "8822"}
    for user, code in codes.items():
        rig.tell(bank.named(user), f"The door code is {code}.")
    echo = [lambda messages: f"I heard: {messages[-1].text.splitlines()[-1]}"]
    agent, model = agent_of(per_user(bank), *echo, repeat=True, context_schema=User, checkpointer=InMemorySaver())

    def arguments(n: int) -> tuple[Any, Any, Any]:
        user = ("ana", "ben")[n % 2]
        config: Any = {"configurable": {"thread_id": f"{user}-{n}"}}
        if named != "context":
            config.setdefault(named, {})["user_id"] = user
        question = asked(f"What is the door code? {user} asks for the {n}th time.")
        return question, config, User(user) if named == "context" else None

    if how == "tasks":
        given = [arguments(n) for n in range(8)]
        await asyncio.gather(*(agent.ainvoke(q, c, context=u) for q, c, u in given))
    else:
        with ThreadPoolExecutor(8) as pool:
            given = [arguments(n) for n in range(8)]
            list(pool.map(lambda each: agent.invoke(each[0], each[1], context=each[2]), given))
    for seen in model.seen:
        text = str(seen[-1].text)
        mine, other = codes["ana" if "ana asks" in text else "ben"], codes["ben" if "ana asks" in text else "ana"]
        assert mine in text
        assert other not in text
    for user, other in (("ana", "ben"), ("ben", "ana")):
        kept = rig.kept(bank.named(user))
        assert sum(text.startswith("What is") for text in kept) == 4
        assert not [text for text in kept if f"{other} asks" in text]


def test_a_run_without_its_user_says_where_it_was_looked_for(rig: Rig) -> None:
    """Rather than using somebody else's memory."""
    agent, _ = agent_of(per_user(rig.open("hall")), ANSWER)
    with pytest.raises(UsageError, match=r"'user_id'.*context, then config\['configurable'\]"):
        agent.invoke(asked(), THREAD)


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_two_banks_side_by_side(rig: Rig, how: str) -> None:
    """One agent, a private and a team's memory: both are shown, both retain, one system message."""
    own, team = rig.open("alice", FACT), rig.open("team", "The team's flights leave from Porto.")
    model = ScriptedChatModel(script=[call("team_recall", query="flights"), ANSWER])
    both = [MemoryMiddleware(own), MemoryMiddleware(team, tools=["recall"], prefix="team_")]
    agent: Any = create_agent(model, middleware=both, system_prompt="Be brief.")
    question = asked("Which seats does Ana prefer on the team's long flights?")
    await agent.ainvoke(question, THREAD) if how == "async" else agent.invoke(question, THREAD)
    assert sorted(shown(model.seen[0])) == sorted([FACT, "The team's flights leave from Porto."])
    assert all(len(systems(seen)) == 1 for seen in model.seen)
    assert systems(model.seen[0])[0].endswith("Be brief.")
    for bank in (own, team):
        kept = rig.kept(bank)
        assert (kept[0], kept[-1]) == (question["messages"][0].text, ANSWER)


def test_runs_that_name_no_conversation_share_one_and_say_so_once(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """With a `session_id` of the middleware's own there is nothing to say."""
    bank = rig.open(f"nameless-{uuid.uuid4().hex}", FACT)
    agent, _ = agent_of(bank, ANSWER, "Yes.")
    with caplog.at_level(logging.WARNING, "lorebank"):
        for text in (ASKED, "Sure?"):
            agent.invoke(asked(text))
    assert sum("names no conversation" in record.getMessage() for record in caplog.records) == 1
    assert rig.kept(bank) == [ASKED, ANSWER, "Sure?", "Yes."]
    assert sum(event.stored + event.queued for event in rig.of(Retained)) == 4


async def test_an_awaited_agent_never_blocks_the_loop(rig: Rig) -> None:
    """Files and network are for other threads."""
    bank = rig.open("alice", FACT)
    agent, _ = agent_of(bank, call("recall", query="seats"), ANSWER, memory=True)
    with blockbuster_ctx(scanned_modules=["lorebank", "langchain_lorebank"]):
        await agent.ainvoke(asked(), THREAD)
    assert rig.kept(bank)[-1] == ANSWER


KNOWN = "reported 2026-11-28: "


async def test_a_prefixed_tool_of_ours_is_ours(rig: Rig) -> None:
    """Its calls are not retained, whatever it is called."""
    bank = rig.open("alice", FACT)
    model = ScriptedChatModel(script=[call("team_recall", query="flights"), ANSWER])
    agent: Any = create_agent(model, middleware=[MemoryMiddleware(bank, tools=["recall"], prefix="team_")])
    agent.invoke(asked(), THREAD)
    assert rig.kept(bank) == [ASKED, ANSWER]


async def test_the_instructions_name_the_tools_as_the_model_has_them(rig: Rig) -> None:
    """A model that is told to call `recall` must have it."""
    bank = rig.open("alice", FACT)
    model = ScriptedChatModel(script=[ANSWER])
    agent: Any = create_agent(model, middleware=[MemoryMiddleware(bank, tools=["recall"], prefix="team_")])
    agent.invoke(asked(), THREAD)
    assert "Call team_recall" in systems(model.seen[0])[0]


async def test_an_agent_is_told_of_its_own_tools_only(rig: Rig) -> None:
    """Not of those that another agent of the same conversation has."""
    bank = rig.open("alice", FACT)
    first, _ = agent_of(bank, "One.", memory=True)
    second, model = agent_of(bank, "Two.")
    for agent in (first, second):
        agent.invoke(asked(), THREAD)
    assert "Call recall" not in systems(model.seen[0])[0]


@pytest.mark.parametrize("own", [True, False])
def test_a_sub_agent_is_told_of_its_own_tools(rig: Rig, own: bool) -> None:
    """Whatever its parent has."""
    bank = rig.open("alice", FACT)
    inner, inside = agent_of(bank, "Row 12.", memory=own)

    @tool
    def seat(wish: str) -> str:
        """Looks for a seat."""
        return str(inner.invoke(asked(wish))["messages"][-1].text)

    outer, _ = agent_of(bank, call("seat", wish="front"), ANSWER, tools=[seat], memory=not own)
    outer.invoke(asked(), THREAD)
    assert any("Call recall" in text for text in systems(inside.seen[0])) == own
