"""The shim for those who come from `hindsight-langgraph` 0.3.1."""

from __future__ import annotations

import inspect
import logging
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from typing_extensions import TypedDict

from langchain_lorebank import compat
from langchain_lorebank.testing import ScriptedChatModel, call
from lorebank import Bank, LorebankError, UsageError, open_bank
from lorebank.seams import Places, Skipped
from lorebank.testing import FaultServer

Rig = Any  # of conftest.py
FACT = "Ana prefers aisle seats on long flights."
ASKED = "Which seats does Ana prefer on long flights?"
ANSWER = "The one that is next to nobody, then."
ANA: Any = {"configurable": {"user_id": "ana"}}
CLIENT = {"client": None, "hindsight_api_url": None, "api_key": None}
TAKEN: dict[str, dict[str, Any]] = {
    "create_hindsight_tools": {
        "bank_id": None,
        **CLIENT,
        **dict.fromkeys(["budget", "max_tokens", "tags", "recall_tags", "recall_tags_match"]),
        **dict.fromkeys(["retain_metadata", "retain_document_id", "recall_types"]),
        "recall_include_entities": False,
        "bank_id_from_config": "user_id",
        **dict.fromkeys(
            ["reflect_context", "reflect_max_tokens", "reflect_response_schema", "reflect_tags", "reflect_tags_match"]
        ),
        **dict.fromkeys(["include_retain", "include_recall", "include_reflect"], True),
    },
    "create_recall_node": {
        "bank_id": None,
        **CLIENT,
        "budget": "mid",
        "max_tokens": 4096,
        "max_results": 10,
        "tags": None,
        "tags_match": "any",
        "recall_types": None,
        "recall_include_entities": False,
        "bank_id_from_config": "user_id",
        "output_key": None,
    },
    "create_retain_node": {
        "bank_id": None,
        **CLIENT,
        "tags": None,
        "metadata": None,
        "document_id": None,
        "bank_id_from_config": "user_id",
        "retain_human": True,
        "retain_ai": False,
    },
    "memory_instructions": {
        "bank_id": inspect.Parameter.empty,
        "base_instructions": "",
        **CLIENT,
        "query": "relevant context about the user",
        "budget": None,
        "max_results": 5,
        "max_tokens": None,
        "prefix": "\n\nRelevant memories:\n",
        "tags": None,
        "tags_match": None,
    },
}
"""The keyword arguments of the official package, with their defaults."""


class Noted(TypedDict):
    """A state with a key of its own for memories."""

    messages: Annotated[list[AnyMessage], add_messages]
    known: str | None


@pytest.fixture
def hall(rig: Rig) -> Bank:
    """Banks of users; Ana's knows one thing."""
    bank: Bank = rig.open("hall")
    rig.tell(bank.named("ana"), FACT)
    return bank


def graph_of(*nodes: Any, state: Any = MessagesState) -> Any:
    graph: Any = StateGraph(state)
    before = START
    for node in nodes:
        graph.add_node(node.get_name(), node).add_edge(before, node.get_name())
        before = node.get_name()
    return graph.compile()


async def run(runnable: Any, how: str, given: Any, config: Any = ANA) -> Any:
    return await runnable.ainvoke(given, config) if how == "async" else runnable.invoke(given, config)


def said(*texts: str) -> dict[str, Any]:
    return {"messages": [(AIMessage if n % 2 else HumanMessage)(text, id=f"m{n}") for n, text in enumerate(texts)]}


@pytest.mark.parametrize("name", TAKEN)
def test_the_arguments_are_those_of_the_official_package(name: str) -> None:
    """All by keyword, with its defaults."""
    parameters = inspect.signature(getattr(compat, name)).parameters
    assert {each.name: each.default for each in parameters.values()} == TAKEN[name]
    assert {each.kind for each in parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_the_tools_retain_recall_and_reflect(rig: Rig, hall: Bank, how: str) -> None:
    """Names and arguments as there; the run's user gets their bank; a numbered list is what is recalled."""
    tools = compat.create_hindsight_tools(client=hall, tags=["trip"], retain_metadata={"from": "chat"}, retain_document_id="d")
    script = [
        call("hindsight_retain", content="Ana lives in Porto."),
        call("hindsight_recall", query=ASKED),
        call("hindsight_reflect", query=ASKED),
        "Done.",
    ]
    agent: Any = create_agent(ScriptedChatModel(script=script), tools=tools)
    state = await run(agent, how, said("Hello."))
    told = [str(message.content) for message in state["messages"] if isinstance(message, ToolMessage)]
    assert told[0] in ("1 memory stored.", "1 memory queued.")
    assert told[1].startswith(f"1. {FACT}")
    assert FACT in told[2]
    ana = hall.named("ana")
    assert ana.flush(timeout=30, until="completed").left == 0
    [porto] = ana.list(document="d")
    assert ("Porto" in porto.text, porto.tags, porto.metadata["from"]) == (True, ("trip",), "chat")


def test_a_fixed_bank_wins_over_the_run_s(rig: Rig, hall: Bank) -> None:
    """And tools can be left out."""
    [tool] = compat.create_hindsight_tools(bank_id="ana", client=hall, include_retain=False, include_reflect=False)
    assert str(tool.invoke({"query": ASKED}, {"configurable": {"user_id": "ben"}})).startswith(f"1. {FACT}")
    [tool] = compat.create_hindsight_tools(client=hall, include_retain=False, include_reflect=False)
    with pytest.raises(UsageError, match="'user_id'"):
        tool.invoke({"query": ASKED})


def test_tags_narrow_what_the_tools_read(rig: Rig, hall: Bank) -> None:
    """An empty list would read everything: it is refused."""
    ana = hall.named("ana")
    ana.retain("Ana prefers window seats on short flights.", tags=["short"])
    assert ana.flush(timeout=30, until="completed").left == 0
    tools = compat.create_hindsight_tools(bank_id="ana", client=hall, recall_tags=["short"], recall_tags_match="any_strict")
    assert "long flights" not in tools[1].invoke({"query": ASKED})
    assert "window" in tools[1].invoke({"query": ASKED})
    assert "long flights" not in tools[2].invoke({"query": ASKED})
    for wrong in ({"recall_tags": []}, {"reflect_tags": []}):
        with pytest.raises(UsageError, match="at least one tag"):
            compat.create_hindsight_tools(bank_id="ana", client=hall, **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_the_recall_node_writes_text_under_its_key(rig: Rig, hall: Bank, how: str) -> None:
    """Or nothing at all; as a function it can be awaited, too."""
    node: Any = compat.create_recall_node(client=hall, output_key="known", max_results=1)
    state = await run(graph_of(node, state=Noted), how, said(ASKED))
    assert f"- {FACT}" in state["known"]
    assert [message.text for message in state["messages"]] == [ASKED]
    assert await node(said("Quantum chromodynamics?"), ANA) == {"known": None}


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_the_recall_node_without_a_key_adds_one_message(rig: Rig, hall: Bank, how: str) -> None:
    """Under the official id, replaced by the next recall and gone where nothing is known."""
    graph = graph_of(compat.create_recall_node(client=hall))
    first = await run(graph, how, said(ASKED))
    assert isinstance(first["messages"][-1], SystemMessage)
    assert FACT in str(first["messages"][-1].text)
    again = await run(graph, how, {"messages": [*first["messages"], HumanMessage(ASKED)]})
    assert [message.type for message in again["messages"]] == ["human", "system", "human"]
    gone = await run(graph, how, {"messages": [*first["messages"], HumanMessage("Quantum chromodynamics?")]})
    assert [message.type for message in gone["messages"]] == ["human", "human"]


@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize(("human", "ai"), [(True, False), (False, True), (True, True), (False, False)])
async def test_the_retain_node_saves_the_newest_messages_once(rig: Rig, hall: Bank, how: str, human: bool, ai: bool) -> None:
    """Those that are wanted; a replayed step writes nothing new."""
    graph = graph_of(compat.create_retain_node(client=hall, retain_human=human, retain_ai=ai, tags=["chat"]))
    for _ in range(2):
        await run(graph, how, said("Old words.", "Old answer.", "Ana sings alto in a choir.", ANSWER))
    ana = hall.named("ana")
    assert ana.flush(timeout=30, until="completed").left == 0
    kept = sorted(memory.text for memory in ana.list(tags=["chat"], types=("world", "experience")))
    assert kept == sorted(["Ana sings alto in a choir."] * human + [ANSWER] * ai)


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_run_that_names_no_bank_goes_on_without(rig: Rig, hall: Bank, how: str, caplog: pytest.LogCaptureFixture) -> None:
    """With a warning, as there."""
    graph = graph_of(compat.create_recall_node(client=hall), compat.create_retain_node(client=hall))
    with caplog.at_level(logging.WARNING, "lorebank"):
        state = await run(graph, how, said(ASKED), {})
    assert [message.text for message in state["messages"]] == [ASKED]
    assert sum("no 'user_id'" in record.getMessage() for record in caplog.records) == 2


async def test_instructions_with_what_is_known(rig: Rig, hall: Bank) -> None:
    """Whatever arguments the host passes; alone where nothing is known."""
    written = compat.memory_instructions(bank_id="ana", client=hall, base_instructions="Be brief.", query=ASKED, max_results=1)
    assert await written({"any": 1}, thing=2) == f"Be brief.\n\nRelevant memories:\n1. {FACT}"
    assert await compat.memory_instructions(bank_id="ben", client=hall, base_instructions="Be brief.")() == "Be brief."


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_server_that_is_down_is_told_and_breaks_nothing(file: Path, how: str) -> None:
    """Nodes go on, tools tell the model, writes wait; with `on_failure="raise"` nodes raise."""
    events: list[Any] = []
    with FaultServer() as server:
        url = server.url
    options: dict[str, Any] = {"ledger": f"sqlite:///{file}", "connection": {"close_timeout": 0}}
    with open_bank(url, bank="hall", on_event=events.append, **options) as hall:
        nodes = compat.create_recall_node(client=hall), compat.create_retain_node(client=hall)
        assert [message.text for message in (await run(graph_of(*nodes), how, said(ASKED)))["messages"]] == [ASKED]
        assert hall.named("ana").outbox.status().waiting == 1
        assert Skipped("ana", "recall", "UnavailableError") in events
        assert await compat.memory_instructions(bank_id="ana", client=hall, base_instructions="Be brief.")() == "Be brief."
        tool = compat.create_hindsight_tools(client=hall)[1]
        told = await run(tool, how, {"name": tool.name, "args": {"query": ASKED}, "id": "1", "type": "tool_call"})
        assert (told.status, "does not mean that nothing is known" in told.content) == ("error", True)
    with open_bank(url, bank="hall", on_failure="raise", **options) as hall, pytest.raises(LorebankError):
        await run(graph_of(compat.create_recall_node(client=hall)), how, said(ASKED))


def test_the_mode_of_a_session_holds(rig: Rig, hall: Bank) -> None:
    """`ignored`: no memories, nothing written, and tools that say why."""
    hall.named("ana").session("t").mode = "ignored"
    hall.named("ana").session("t").save()
    config: Any = {"configurable": {"user_id": "ana", "thread_id": "t"}}
    nodes = compat.create_recall_node(client=hall), compat.create_retain_node(client=hall, tags=["chat"])
    state = graph_of(*nodes).invoke(said(ASKED), config)
    assert [message.text for message in state["messages"]] == [ASKED]
    assert hall.named("ana").list(tags=["chat"]) == ()
    for tool in compat.create_hindsight_tools(client=hall):
        assert "was not done" in tool.invoke({"content" if "retain" in tool.name else "query": "x"}, config)


def test_a_place_is_opened_once_for_all(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`hindsight_api_url` and `api_key` are those of `open_bank`; a key without a server is a question."""
    monkeypatch.setattr(compat, "_places", Places())
    retain, recall = compat.create_hindsight_tools(bank_id="ana", hindsight_api_url=url, include_reflect=False)
    assert retain.invoke({"content": FACT}) == "1 memory stored."
    assert recall.invoke({"query": ASKED}).startswith(f"1. {FACT}")
    compat.create_recall_node(bank_id="ana", hindsight_api_url=url)
    [bank] = compat._places.banks.values()
    bank.close()
    with pytest.raises(UsageError, match=r"hindsight_api_url='https://api\.hindsight\.vectorize\.io'"):
        compat.create_recall_node(bank_id="ana", api_key="k")


def test_what_has_no_meaning_here_says_what_to_use(rig: Rig, hall: Bank) -> None:
    """At construction."""
    with pytest.raises(UsageError, match=r"open_bank\(url, api_key=\.\.\.\); found str"):
        compat.create_hindsight_tools(client="theirs")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="recall_include_entities"):
        compat.create_recall_node(client=hall, recall_include_entities=True)
    with pytest.raises(UsageError, match=r"recall=\{'max_tokens'"):
        compat.create_hindsight_tools(client=hall, reflect_max_tokens=100)
