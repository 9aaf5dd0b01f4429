"""`memory_prefix` and `with_memory`: where the prefix goes, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import FakeListLLM
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate
from langchain_core.runnables import (
    ConfigurableField,
    RouterRunnable,
    Runnable,
    RunnableBranch,
    RunnableLambda,
    RunnablePassthrough,
)
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import PrivateAttr
from rigs import Rig

from langchain_lorebank import MemoryCallbackHandler, memory_prefix, with_memory
from langchain_lorebank.testing import StrictChatModel, call, check_messages
from lorebank import Bank, Injection, UsageError

from .chain_rig import ANSWER, ASKED, KNOWN, MODES, model, no_marks, prompt, run, told

QUESTION = {"question": ASKED}
INJECTION = Injection("<mental_models>\nAna flies a lot.\n</mental_models>", "<memories>\n- Ana likes aisles.\n</memories>")
BLOCK = "</memories>"
WORDS = ["Row", " twelve", " is", " booked", " then."]


@pytest.mark.parametrize("mode", MODES)
async def test_by_hand_the_prefix_finds_the_run_s_handler(rig: Rig, mode: str) -> None:
    """One recall, however the chain is run; what was said is kept."""
    bank, fake = rig.open("alice", KNOWN), model()
    handler = MemoryCallbackHandler(bank, session_id="trip")
    chain = prompt() | memory_prefix() | fake | StrOutputParser()
    assert await run(chain, QUESTION, mode, {"callbacks": [handler]}) == ANSWER
    assert await handler.aflush(10)
    assert told(fake.seen[0]).count(BLOCK) == 1
    assert rig.recalls == 1
    assert rig.kept(bank) == [ASKED, ANSWER]


@pytest.mark.parametrize(
    "given",
    [
        ASKED,
        [HumanMessage(ASKED)],
        [("system", "Be brief."), ("user", ASKED)],
        ChatPromptTemplate.from_template("{q}").invoke({"q": ASKED}),
        PromptTemplate.from_template("{q}").invoke({"q": ASKED}),
        {"messages": [HumanMessage(ASKED)]},
    ],
    ids=["text", "messages", "tuples", "chat prompt", "text prompt", "state"],
)
async def test_without_a_handler_messages_stay_as_they_are(given: Any) -> None:
    """What a model takes passes as it is; of a graph's state the messages do."""
    expected = given["messages"] if isinstance(given, dict) else given
    assert memory_prefix().invoke(given) is expected
    assert await memory_prefix().ainvoke(given) is expected


@pytest.mark.parametrize("mode", MODES)
async def test_what_a_node_has_recalled_is_rendered(mode: str) -> None:
    """The state's `lorebank` key goes in front of the model; the state itself stays as it was."""
    fake, question = model(), HumanMessage(ASKED)
    state = {"messages": [SystemMessage("Be brief."), question], "lorebank": INJECTION}
    answer = await run(with_memory(fake), state, mode)
    assert answer.text == ANSWER
    [system, human] = fake.seen[0]
    assert system.text == f"{INJECTION.system_prefix}\n\nBe brief."
    assert human.text == f"{INJECTION.memories}\n\n{ASKED}"
    assert state["messages"] == [SystemMessage("Be brief."), HumanMessage(ASKED)]


async def test_a_failure_leaves_the_messages_and_one_line(caplog: pytest.LogCaptureFixture, bank: Bank) -> None:
    """What can't be read as messages goes to the model as it is."""
    odd = [object()]
    assert memory_prefix().invoke(odd) is odd
    assert await memory_prefix().ainvoke(odd) is odd
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]


def parted(fake: StrictChatModel) -> dict[str, Callable[[], Runnable[Any, Any]]]:
    """Chains whose model stands somewhere."""
    spare, chain = model(), prompt() | fake | StrOutputParser()
    choose = ConfigurableField(id="which")
    return {
        "bare": lambda: prompt() | with_memory(fake),
        "bind": lambda: prompt() | fake.bind(stop=["."]) | StrOutputParser(),
        "bind_tools": lambda: prompt() | fake.bind_tools([]) | StrOutputParser(),
        "with_config": lambda: prompt() | fake.with_config(tags=["x"]) | StrOutputParser(),
        "with_retry": chain.with_retry,
        "with_listeners": lambda: chain.with_listeners(on_end=lambda _: None),
        "fallbacks": lambda: StrictChatModel(script=[]).with_fallbacks([fake]),
        "branch": lambda: prompt() | RunnableBranch((lambda _: True, fake), spare) | StrOutputParser(),
        "assign": lambda: RunnablePassthrough.assign(answer=chain),
        "each": lambda: RunnableLambda(lambda value: [value]) | chain.map() | RunnableLambda(lambda values: values[0]),
        "router": lambda: (
            RunnableLambda(lambda value: {"key": "a", "input": value})
            | RouterRunnable({"a": prompt() | fake | StrOutputParser()})
        ),
        "fields": lambda: prompt() | fake.configurable_fields(after=ConfigurableField(id="after")) | StrOutputParser(),
        "alternatives": lambda: (
            prompt()
            | spare.configurable_alternatives(choose, other=fake, default_key="it").with_config(configurable={"which": "other"})
        ),
        "prefix by hand": lambda: prompt() | memory_prefix() | fake | StrOutputParser(),
    }


@pytest.mark.parametrize("mode", ["invoke", "astream"])
@pytest.mark.parametrize("shape", parted(model()))
async def test_the_model_is_found_wherever_it_stands(bank: Bank, shape: str, mode: str) -> None:
    """It sees the memories once, and the chain given stays as it was."""
    bank.retain(KNOWN)
    fake = model()
    given = parted(fake)[shape]()
    chain: Any = with_memory(given, bank, session_id="trip")
    if shape == "fallbacks":
        chain = prompt() | chain
    await run(chain, QUESTION, mode)
    assert told(fake.seen[0]).count(BLOCK) == 1
    if shape not in ("bare", "prefix by hand", "fallbacks"):
        before = len(fake.seen)
        await run(given, QUESTION, mode)
        assert no_marks(told(fake.seen[before]))


@pytest.mark.parametrize("mode", MODES)
async def test_a_bare_model_is_a_chain_of_its_own(rig: Rig, mode: str) -> None:
    """Its words and answer are kept; keywords of the call reach the model."""
    bank, fake = rig.open("alice", KNOWN), Noting(script=[ANSWER])
    chain: Any = with_memory(fake, bank, session_id="trip")
    assert (await run(chain.bind(flavour="mint"), ASKED, mode)).text == ANSWER
    assert chain.handler.flush(10)
    assert told(fake.seen[0]).count(BLOCK) == 1
    assert fake.noted == ["mint"]
    assert rig.kept(bank) == [ASKED, ANSWER]


class Noting(StrictChatModel):
    """Notes a keyword of its calls."""

    _noted: list[Any] = PrivateAttr(default_factory=list)

    @property
    def noted(self) -> list[Any]:
        return self._noted

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        self._noted.append(kwargs.get("flavour"))
        return super()._generate(messages, stop, run_manager, **kwargs)

    def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        self._noted.append(kwargs.get("flavour"))
        yield from super()._stream(messages, stop, run_manager)


def test_tools_are_bound_to_the_model_behind_the_memory(bank: Bank) -> None:
    """With and without a bank: what comes back has the memory still."""
    bank.retain(KNOWN)
    fake = StrictChatModel(script=[call("weather", city="Porto"), ANSWER])
    bound: Any = with_memory(fake, bank, session_id="trip").bind_tools([])  # type: ignore[attr-defined]
    assert bound.invoke(ASKED).tool_calls
    assert told(fake.seen[0]).count(BLOCK) == 1
    node: Any = with_memory(fake).bind_tools([])  # type: ignore[attr-defined]
    assert node.invoke({"messages": [HumanMessage(ASKED)], "lorebank": INJECTION}).text == ANSWER
    assert told(fake.seen[1]).count(BLOCK) == 1


def test_a_completion_model_gets_plain_text(bank: Bank) -> None:
    """The prompt stays text, with prefix and memories ahead of it."""
    bank.retain(KNOWN)
    saw = Prompts()
    chain = with_memory(PromptTemplate.from_template("Q: {question}") | FakeListLLM(responses=[ANSWER]), bank, session_id="trip")
    assert chain.invoke(QUESTION, {"callbacks": [saw]}) == ANSWER
    assert saw.prompts[0].endswith(f"{BLOCK}\n\nQ: {ASKED}")
    assert saw.prompts[0].startswith("You have a long-term memory")


class Prompts(BaseCallbackHandler):
    """What completion models are asked."""

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def on_llm_start(self, serialized: Any, prompts: list[str], **kwargs: Any) -> None:
        self.prompts += prompts


def test_what_can_t_remember_is_refused(bank: Bank) -> None:
    """Each with what to do instead."""
    graph: Any = StateGraph(MessagesState).add_node("model", lambda state: state).add_edge(START, "model").compile()
    for given in (graph, graph.with_config(tags=["x"])):
        with pytest.raises(UsageError, match=r"MemoryMiddleware.*recall_node"):
            with_memory(given, bank)
    with pytest.raises(UsageError, match="finds no model"):
        with_memory(prompt() | StrOutputParser(), bank)
    with pytest.raises(UsageError, match=r"finds no model.*memory_prefix"):
        with_memory(RunnableLambda(lambda _: "x"), bank)
    with pytest.raises(UsageError, match="takes a chain or a model"):
        with_memory("model", bank)
    with pytest.raises(UsageError, match="only with a bank"):
        with_memory(model(), session_id="s")
    with pytest.raises(UsageError, match="can't raise"):
        with_memory(model(), bank, on_failure="raise")


@pytest.mark.parametrize("mode", MODES)
async def test_two_banks_stand_side_by_side(rig: Rig, mode: str) -> None:
    """The memories of both are seen, and both keep the turn."""
    ana, team, fake = rig.open("ana", KNOWN), rig.open("team", "Team flights leave from Lisbon."), model()
    inner: Any = with_memory(prompt() | fake | StrOutputParser(), ana, session_id="trip")
    chain: Any = with_memory(inner, team, session_id="trip")
    words = "Which seats does Ana prefer, and where do team flights leave from?"
    assert await run(chain, {"question": words}, mode) == ANSWER
    assert chain.handler.flush(10)
    assert inner.handler.flush(10)
    assert KNOWN in told(fake.seen[0])
    assert "Lisbon" in told(fake.seen[0])
    assert rig.kept(ana) == rig.kept(team) == [words, ANSWER]


async def test_a_stream_stays_a_stream(bank: Bank) -> None:
    """The words come one by one, also where the chain is a step of a bigger one."""
    chain = with_memory(prompt() | model() | StrOutputParser(), bank, session_id="trip")
    bigger = RunnableLambda(lambda text: {"question": text}) | chain
    for each, value in ((chain, QUESTION), (bigger, ASKED)):
        assert [chunk for chunk in each.stream(value) if chunk] == WORDS
        assert [chunk async for chunk in each.astream(value) if chunk] == WORDS


async def test_twenty_runs_at_once_get_their_own_memories(bank: Bank) -> None:
    """In one conversation: each model sees its own question, and each turn is kept once."""
    fake = model()
    chain: Any = with_memory(prompt() | fake | StrOutputParser(), bank, session_id="trip")
    questions = [f"Question number {number}?" for number in range(20)]
    await asyncio.gather(*(chain.ainvoke({"question": each}) for each in questions))
    assert await chain.handler.aflush(20)
    assert sorted(seen[-1].text.rsplit("\n\n", 1)[-1] for seen in fake.seen) == sorted(questions)
    kept = [memory.text for memory in bank.list(limit=100)]
    assert sorted(text for text in kept if text.startswith("Question")) == sorted(questions)


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [SystemMessage("s")],
        [SystemMessage("s"), SystemMessage("t"), HumanMessage("u")],
        [HumanMessage("u"), SystemMessage("s")],
        [HumanMessage("u"), call("tool"), HumanMessage("u")],
        [HumanMessage("u"), call("tool")],
        [HumanMessage("u"), ToolMessage("x", tool_call_id="call-tool")],
        [HumanMessage("u"), call("tool"), ToolMessage("x", tool_call_id="other")],
    ],
)
def test_the_strict_model_refuses_what_providers_refuse(messages: Any) -> None:
    """A second or misplaced system message, and broken pairs of tool calls and answers."""
    with pytest.raises(ValueError, match=r"system message|tool"):
        check_messages(messages)
    check_messages([SystemMessage("s"), HumanMessage("u"), call("tool"), ToolMessage("x", tool_call_id="call-tool")])
