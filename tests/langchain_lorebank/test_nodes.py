"""`recall_node` and `retain_node` in hand-written graphs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any

import pytest
from blockbuster import blockbuster_ctx
from langchain.agents import create_agent
from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langgraph.channels import UntrackedValue
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt
from pydantic import BaseModel
from typing_extensions import TypedDict

from langchain_lorebank import LorebankState, recall_node, retain_node, with_memory
from langchain_lorebank.injecting import injected
from langchain_lorebank.middleware import MemoryMiddleware
from langchain_lorebank.testing import ScriptedChatModel, call
from lorebank import Injection, LorebankError, UsageError, open_bank, per_user
from lorebank.testing import Fault, FaultServer

Rig = Any  # of conftest.py
FACT = "Ana prefers aisle seats on long flights."
ASKED = "Which seats does Ana prefer on long flights?"
ANSWER = "The one that is next to nobody, then."
THREAD: Any = {"configurable": {"thread_id": "t"}}


class State(MessagesState, LorebankState):
    """A conversation with memory."""


@dataclass
class User:
    """A run's context."""

    user_id: str


def graph_of(bank: Any, *script: Any, state: Any = State, ask: bool = False, **options: Any) -> tuple[Any, ScriptedChatModel]:
    """recall -> model -> retain, and the model. `ask` stops the run between recall and model, which then recalls again."""
    model = ScriptedChatModel(script=list(script))

    def answer(state: Any) -> dict[str, Any]:
        return {"messages": [model.invoke(injected(state["messages"], state["lorebank"]))]}

    def sure(state: Any) -> dict[str, Any]:
        interrupt("sure?")
        return {}

    schemas = {name: options.pop(name) for name in ("context_schema", "output_schema") if name in options}
    graph: Any = StateGraph(state, **schemas)
    if ask:
        graph.add_node("sure", sure)
    graph.add_node(recall_node(bank)).add_node("answer", answer).add_node(retain_node(bank))
    steps = [START, *(["sure"] if ask else []), "recall", "answer", "retain", END]
    for one, other in pairwise(steps):
        graph.add_edge(one, other)
    return graph.compile(**options), model


async def run(graph: Any, how: str, question: Any = ASKED, config: Any = THREAD, **options: Any) -> Any:
    given = {"messages": [HumanMessage(question)]} if isinstance(question, str) else question
    return await graph.ainvoke(given, config, **options) if how == "async" else graph.invoke(given, config, **options)


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_graph_recalls_before_the_model_and_retains_after_it(rig: Rig, how: str) -> None:
    """Memory is ahead of the question in the model's copy; the stored messages stay as they were."""
    bank = rig.open("alice", FACT)
    graph, model = graph_of(bank, ANSWER)
    state = await run(graph, how)
    assert isinstance(state["lorebank"], Injection)
    assert f"- {FACT}" in str(model.seen[0][-1].text)
    assert str(model.seen[0][-1].text).endswith(f"\n\n{ASKED}")
    assert [isinstance(message, SystemMessage) for message in model.seen[0]] == [True, False]
    assert [message.text for message in state["messages"]] == [ASKED, ANSWER]
    assert (rig.recalls, rig.kept(bank)) == (1, [ASKED, ANSWER])


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_what_was_recalled_is_never_in_a_checkpoint(rig: Rig, how: str) -> None:
    """Nor in the result, where the output's schema leaves it out."""
    bank, saver = rig.open("alice", FACT), InMemorySaver()
    graph, _ = graph_of(bank, ANSWER, "Yes.", checkpointer=saver, output_schema=MessagesState)
    for text in (ASKED, "Sure?"):
        assert set(await run(graph, how, text)) == {"messages"}
    assert "</memories>" not in repr((dict(saver.storage), dict(saver.writes), dict(saver.blobs)))
    assert "lorebank" not in graph.get_state(THREAD).values
    assert rig.kept(bank) == [ASKED, ANSWER, "Sure?", "Yes."]


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_replayed_checkpoint_writes_nothing_twice(rig: Rig, how: str) -> None:
    """From every checkpoint of the run: the question once, and each answer that was given."""
    bank = rig.open("alice", FACT)
    graph, model = graph_of(bank, ANSWER, "In front.", "By the door.", checkpointer=InMemorySaver())
    await run(graph, how)
    history = {each.next: each for each in graph.get_state_history(THREAD)}
    await run(graph, how, None, history[("retain",)].config) if how == "async" else graph.invoke(
        None, history[("retain",)].config
    )
    assert rig.kept(bank) == [ASKED, ANSWER]
    assert len(model.seen) == 1
    await run(graph, how, None, history[("recall",)].config) if how == "async" else graph.invoke(
        None, history[("recall",)].config
    )
    assert f"- {FACT}" in str(model.seen[1][-1].text)
    assert rig.kept(bank) == [ASKED, ANSWER, "In front."]


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_run_that_is_resumed_has_its_memories(rig: Rig, how: str) -> None:
    """Where the recall stands behind the question to a person."""
    bank = rig.open("alice", FACT)
    graph, model = graph_of(bank, ANSWER, ask=True, checkpointer=InMemorySaver())
    assert (await run(graph, how))["__interrupt__"]
    await run(graph, how, Command(resume="yes"))
    assert f"- {FACT}" in str(model.seen[0][-1].text)
    assert (rig.recalls, rig.kept(bank)) == (1, [ASKED, ANSWER])


class Other(TypedDict):
    """A key of this name that is checkpointed is the application's own choice."""

    messages: Annotated[list[AnyMessage], add_messages]
    lorebank: Any


class Chat(TypedDict):
    """Messages under another key."""

    chat: Annotated[list[AnyMessage], add_messages]
    lorebank: Annotated[Injection, UntrackedValue]


@dataclass
class Data:
    """A state that is a dataclass."""

    messages: Annotated[list[AnyMessage], add_messages]
    lorebank: Annotated[Injection | None, UntrackedValue] = None


class Model(BaseModel, arbitrary_types_allowed=True):
    """A state that is a pydantic model."""

    messages: Annotated[list[AnyMessage], add_messages]
    lorebank: Annotated[Injection | None, UntrackedValue] = None


@pytest.mark.parametrize("state", [Other, Data, Model, Chat])
@pytest.mark.parametrize("how", ["sync", "async"])
async def test_states_of_every_make(rig: Rig, how: str, state: Any) -> None:
    """Typed dicts, dataclasses, pydantic models, other names."""
    bank = rig.open("alice", FACT)
    key = "chat" if state is Chat else "messages"
    graph: Any = StateGraph(state)
    graph.add_node(recall_node(bank, messages_key=key)).add_node(retain_node(bank, messages_key=key))
    graph.add_edge(START, "recall").add_edge("recall", "retain")
    found = await run(graph.compile(), how, {key: [("user", ASKED)]})
    assert FACT in found["lorebank"].memories
    assert rig.kept(bank) == [ASKED]


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_graph_without_the_key_says_what_to_do(rig: Rig, how: str) -> None:
    """LangGraph would drop what the node writes without a word. Outside a graph there is no schema to look at."""
    bank = rig.open("alice", FACT)
    graph, _ = graph_of(bank, ANSWER, state=MessagesState)
    with pytest.raises(UsageError, match=r"class State\(MessagesState, LorebankState\)"):
        await run(graph, how)
    assert rig.kept(bank) == []
    alone: Any = recall_node(bank)
    given = {"messages": [HumanMessage(ASKED)]}
    found = await alone.ainvoke(given, THREAD) if how == "async" else alone.invoke(given, THREAD)
    assert FACT in found["lorebank"].memories


def test_a_state_without_its_messages_says_so(rig: Rig) -> None:
    """By the name of the option."""
    with pytest.raises(UsageError, match=r"no 'talk'.*messages_key"):
        recall_node(rig.open("alice"), messages_key="talk").invoke({"messages": []})


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_each_run_gets_its_user_s_memory(rig: Rig, how: str) -> None:
    """From the context or the config; a run without one is an error."""
    bank = rig.open("hall", mental_models={"enabled": False})
    for user, code in (("ana", "4711"), ("ben", "8822")):
        rig.tell(bank.named(user), f"The door code is {code}.")
    graph, model = graph_of(per_user(bank), "One.", "Two.", context_schema=User)
    await run(graph, how, "What is the door code?", {"configurable": {"thread_id": "1"}}, context=User("ana"))
    await run(graph, how, "What is the door code?", {"configurable": {"thread_id": "2", "user_id": "ben"}})
    assert [("4711" in str(seen), "8822" in str(seen)) for seen in model.seen] == [(True, False), (False, True)]
    assert [rig.kept(bank.named(user))[-1] for user in ("ana", "ben")] == ["One.", "Two."]
    with pytest.raises(UsageError, match="'user_id'"):
        await run(graph, how)


@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize("kind", ["dead", "slow", "garbage"])
async def test_a_server_that_is_down_breaks_no_graph(file: Any, how: str, kind: str) -> None:
    """The run goes on, and all is delivered later; `on_failure="raise"` raises."""
    options: dict[str, Any] = {"ledger": f"sqlite:///{file}", "recall": {"deadline": 0.5}, "outbox": {"batch_seconds": 0.02}}
    with FaultServer() as server:
        with open_bank(server.url, bank="alice", **options) as bank:
            if kind == "dead":
                server.stop()
            else:
                server.fault(Fault(hang=True) if kind == "slow" else Fault(body=b"[]"))
            graph, model = graph_of(bank, ANSWER)
            assert (await run(graph, how))["messages"][-1].text == ANSWER
            assert "</memories>" not in str(model.seen)
            if kind == "dead":
                server.start()
            server.heal()
            assert bank.flush(timeout=60, until="completed").left == 0
            [text] = server.bank("alice").documents.values()
            assert (text.count(ASKED), text.count(ANSWER)) == (1, 1)
        server.stop()
        options["connection"] = {"close_timeout": 0}
        with open_bank(server.url, bank="alice", on_failure="raise", **options) as bank, pytest.raises(LorebankError):
            await run(graph_of(bank, ANSWER)[0], how)


async def test_modes_hold_and_the_loop_is_never_blocked(rig: Rig) -> None:
    """`read-only` recalls, and retains nothing; many runs at once."""
    bank = rig.open("alice", FACT)
    bank.session("t").mode = "read-only"
    graph, model = graph_of(bank, *[ANSWER] * 9)
    with blockbuster_ctx(scanned_modules=["lorebank", "langchain_lorebank"]):
        await run(graph, "async")
        await asyncio.gather(*(run(graph, "async", ASKED, {"configurable": {"thread_id": str(n)}}) for n in range(8)))
    assert f"- {FACT}" in str(model.seen[0][-1].text)
    assert rig.kept(bank).count(ASKED) == 8


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_with_memory_shows_the_model_what_was_recalled(rig: Rig, how: str) -> None:
    """From the state as it is; a run without the recall shows nothing."""
    bank, fake = rig.open("alice", FACT), ScriptedChatModel(script=[ANSWER, ANSWER])
    model = with_memory(fake)

    def answer(state: Any) -> dict[str, Any]:
        return {"messages": [model.invoke(state)]}

    async def aanswer(state: Any) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state)]}

    for recalls in (True, False):
        graph: Any = StateGraph(State)
        graph.add_node("answer", aanswer if how == "async" else answer)
        if recalls:
            graph.add_node(recall_node(bank)).add_edge(START, "recall").add_edge("recall", "answer")
        else:
            graph.add_edge(START, "answer")
        await run(graph.compile(), how)
    assert [f"- {FACT}" in str(seen[-1].text) for seen in fake.seen] == [True, False]
    assert [message.type for message in fake.seen[0]] == ["system", "human"]


def test_a_graph_inside_an_agent_s_tool_has_no_memory_of_its_own(rig: Rig) -> None:
    """It neither recalls nor retains: what it finds out reaches the agent's conversation."""
    bank = rig.open("alice", FACT)
    graph: Any = StateGraph(State)
    graph.add_node(recall_node(bank)).add_node(retain_node(bank)).add_edge(START, "recall").add_edge("recall", "retain")
    inner = graph.compile()

    @tool
    def seat(wish: str) -> str:
        """Looks for a seat."""
        return str(inner.invoke({"messages": [HumanMessage(wish)]})["lorebank"].memories) or "free"

    model = ScriptedChatModel(script=[call("seat", wish="in front"), ANSWER])
    agent: Any = create_agent(model, tools=[seat], middleware=[MemoryMiddleware(bank)])
    agent.invoke({"messages": [HumanMessage(ASKED)]}, THREAD)
    assert (rig.recalls, rig.kept(bank)) == (1, [ASKED, 'seat("wish": "in front")', ANSWER])
