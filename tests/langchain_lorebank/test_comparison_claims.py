"""What docs/comparison.md says of lorebank in LangChain, where no other test says it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langgraph.graph import START, MessagesState, StateGraph
from rigs import Rig

from langchain_lorebank import BankRetriever, LorebankState, MemoryMiddleware, memory_tools, recall_node, with_memory
from langchain_lorebank.testing import StrictChatModel, call
from lorebank import Bank, UnavailableError
from lorebank.testing import Fault

from .chain_rig import ANSWER, ASKED, KNOWN, MODES, model, prompt, run

THREAD: Any = {"configurable": {"thread_id": "trip"}}
TRAINS = "Ana prefers window seats on night trains."
QUESTION: Any = {"messages": [HumanMessage(ASKED)]}
SEEDED: dict[str, Any] = {"mental_models": {"auto_seed": False, "first_wait": 10}, "recall": {"deadline": 10}}


class State(MessagesState, LorebankState):
    """A conversation with memory."""


def agent_of(bank: Bank) -> tuple[Any, StrictChatModel]:
    """An agent with memory, and its model."""
    fake = model()
    agent: Any = create_agent(fake, middleware=[MemoryMiddleware(bank)], system_prompt="Be brief.")
    return agent, fake


def lines_of(document: str) -> list[dict[str, Any]]:
    """What stands in a document of a session: JSON arrays, one behind the other."""
    return [line for part in document.split("\n") for line in json.loads(part)]


def graph_of(bank: Bank) -> Any:
    graph: Any = StateGraph(State).add_node("recall", recall_node(bank)).add_edge(START, "recall")
    return graph.compile()


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_mental_models_stand_in_the_system_message_of_an_agent(rig: Rig, how: str) -> None:
    """After the instructions and ahead of the application's prompt; the user's message has only what was recalled."""
    bank = rig.open("alice", KNOWN, **SEEDED)
    bank.mental_models.create("seats", name="Seats", source_query=ASKED)
    assert bank.flush(timeout=30, until="completed").left == 0
    agent, fake = agent_of(bank)
    await agent.ainvoke(QUESTION, THREAD) if how == "async" else agent.invoke(QUESTION, THREAD)
    system, user = (str(message.text) for message in fake.seen[0])
    before, models = system.split("<mental_models>\n")
    assert before.startswith("You have a long-term memory")
    assert KNOWN in models
    assert models.endswith("</mental_models>\n\nBe brief.")
    assert "mental_models" not in user


@pytest.mark.parametrize("mode", MODES)
async def test_mental_models_stand_in_the_system_message_of_a_chain(rig: Rig, mode: str) -> None:
    """Whichever way it is run."""
    bank = rig.open("alice", KNOWN, **SEEDED)
    bank.mental_models.create("seats", name="Seats", source_query=ASKED)
    assert bank.flush(timeout=30, until="completed").left == 0
    fake = model()
    chain: Any = with_memory(prompt() | fake | StrOutputParser(), bank, session_id="trip")
    await run(chain, {"question": ASKED}, mode)
    assert chain.handler.flush(10)
    assert KNOWN in str(fake.seen[0][0].text).split("<mental_models>\n")[1]
    assert str(fake.seen[0][0].text).endswith("</mental_models>\n\nBe brief.")


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_the_trace_of_an_agent_s_turn_says_what_was_shown(rig: Rig, how: str) -> None:
    """By the id of its thread: the query, and the memories with their scores."""
    bank = rig.open("alice", KNOWN)
    [known] = bank.recall(ASKED)
    agent, _ = agent_of(bank)
    await agent.ainvoke(QUESTION, THREAD) if how == "async" else agent.invoke(QUESTION, THREAD)
    trace = bank.session("trip").last_recall()
    assert trace is not None
    assert (trace.query, trace.state) == (ASKED, "found")
    assert [(each.id, bool(each.score)) for each in trace.shown] == [(known.id, True)]


@pytest.mark.parametrize("rig", ["hindsight"], indirect=True)
async def test_a_model_is_told_of_an_outage_where_that_is_wanted(rig: Rig) -> None:
    """`tell_model`: never as "nothing known", of which there is no block at all."""
    assert rig.server is not None
    bank = rig.open("alice", recall={"tell_model": True, "deadline": 5}, mental_models={"enabled": False})
    agent, fake = agent_of(bank)
    agent.invoke(QUESTION, THREAD)
    rig.server.fault(Fault(status=503), path="/memories/recall$")
    agent.invoke(QUESTION, {"configurable": {"thread_id": "another"}})
    assert [message.text for message in fake.seen[0][1:]] == [ASKED]
    block, words = str(fake.seen[1][1].text).split("</memories>\n\n")
    assert "unavailable" in block
    assert words == ASKED


@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize("rig", ["hindsight"], indirect=True)
async def test_a_tool_on_a_dead_server_ends_the_run_where_that_is_wanted(rig: Rig, how: str) -> None:
    """`on_failure="raise"`: the typed error reaches whoever runs the agent."""
    assert rig.server is not None
    bank = rig.open("alice", KNOWN, on_failure="raise", connection={"close_timeout": 0})
    rig.server.stop()
    fake = StrictChatModel(script=[call("recall", query=ASKED)])
    agent: Any = create_agent(fake, tools=memory_tools(bank))
    with pytest.raises(UnavailableError):
        await agent.ainvoke(QUESTION) if how == "async" else agent.invoke(QUESTION)


@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize("rig", ["hindsight"], indirect=True)
async def test_a_run_ends_while_the_server_takes_no_write(rig: Rig, how: str) -> None:
    """The writes wait on disk; what they carry has role, time and session."""
    assert rig.server is not None
    bank = rig.open("alice", KNOWN, retain={"every_n_turns": 1})
    rig.server.fault(Fault(hang=True), path="/memories$", method="POST")
    agent, _ = agent_of(bank)
    state = await agent.ainvoke(QUESTION, THREAD) if how == "async" else agent.invoke(QUESTION, THREAD)
    assert state["messages"][-1].text == ANSWER
    assert bank.outbox.status().waiting == 2
    rig.server.heal()
    assert rig.kept(bank) == [ASKED, ANSWER]
    document = lines_of(rig.server.bank("alice").documents["lorebank:trip:0"])
    assert [line["role"] for line in document] == ["user", "assistant"]
    assert all(line["timestamp"].startswith("20") for line in document)
    assert {memory.session for memory in bank.list() if memory.document_id == "lorebank:trip:0"} == {"trip"}


@pytest.mark.parametrize("rig", ["hindsight"], indirect=True)
async def test_the_bank_s_settings_hold_in_all_that_reads(rig: Rig) -> None:
    """Tool, agent, graph and chain ask once each, for what `open_bank` was told; a retriever's bounds are its own."""
    assert rig.server is not None
    settings = {"types": ("observation",), "max_tokens": 77, "deadline": 10}
    bank = rig.open("alice", KNOWN, recall=settings, mental_models={"enabled": False})
    memory_tools(bank, include=["recall"])[0].invoke({"query": ASKED})
    agent_of(bank)[0].invoke(QUESTION, {"configurable": {"thread_id": "agent"}})
    graph_of(bank).invoke(QUESTION, {"configurable": {"thread_id": "graph"}})
    chain: Any = with_memory(prompt() | model() | StrOutputParser(), bank, session_id="chain")
    chain.invoke({"question": ASKED})
    assert chain.handler.flush(10)
    BankRetriever(bank).invoke(ASKED)
    asked = [request.json() for request in rig.server.requests if request.path.endswith("/memories/recall")]
    assert [body["types"] for body in asked] == [["observation"]] * 5
    assert [body["max_tokens"] for body in asked[:4]] == [77, 154, 154, 154]  # sessions ask for twice what they show
    assert asked[4]["max_tokens"] > 154


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_retriever_reads_what_its_tags_allow(rig: Rig, how: str) -> None:
    """The rest of the bank stays out."""
    bank = rig.open("alice", KNOWN)
    bank.retain(TRAINS, tags=["trip"])
    assert bank.flush(timeout=30, until="completed").left == 0
    for tags, match, found in (
        (["trip"], "any_strict", {TRAINS}),
        (["trip"], "any", {TRAINS, KNOWN}),
        (["work"], "any_strict", set()),
    ):
        retriever = BankRetriever(bank, tags=tags, tags_match=match)
        documents = await retriever.ainvoke(ASKED) if how == "async" else retriever.invoke(ASKED)
        assert {document.page_content for document in documents} == found


OFFLINE = """
import sys
def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "socket.bind"):
        raise RuntimeError(f"{event} {arguments}")
sys.addaudithook(refuse)
from langchain.agents import create_agent
from langchain_lorebank import MemoryMiddleware
from langchain_lorebank.testing import StrictChatModel
from lorebank import open_bank
for text in ("I always take aisle seats.", "Which seats do I take?"):
    with open_bank(sys.argv[1], bank="alice") as bank:
        model = StrictChatModel(script=["Noted."])
        agent = create_agent(model, middleware=[MemoryMiddleware(bank)])
        agent.invoke({"messages": [("user", text)]}, {"configurable": {"thread_id": text}})
print("- I always take aisle seats." in model.seen[0][-1].text)
"""


def test_an_agent_on_a_file_needs_no_network(url: str) -> None:
    """A process that may not connect, listen or look up a name keeps what it is told and knows it later."""
    done = subprocess.run([sys.executable, "-c", OFFLINE, url], capture_output=True, text=True, check=False, timeout=120)
    assert (done.stdout.strip(), done.returncode) == ("True", 0), done.stderr
