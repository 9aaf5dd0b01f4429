"""`BankMemory`, the nodes and the shim on a real Hindsight server: a covering sample of what holds on the small one."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.prompts import PromptTemplate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langchain_lorebank import BankMemory, LorebankState, compat, recall_node, retain_node, with_memory
from langchain_lorebank.testing import ScriptedChatModel

# the classic classes are deprecated as such, and used here on purpose
pytestmark = pytest.mark.filterwarnings("ignore:.*was deprecated in LangChain.*")

Place = Any  # of conftest.py
FACT = "Ana prefers aisle seats on long flights."
ASKED = "Which seats does Ana prefer on long flights?"
ANSWER = "The one that is next to nobody, then."
THREAD: Any = {"configurable": {"thread_id": "t"}}


class State(MessagesState, LorebankState):
    """A conversation with memory."""


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_classic_chain(place: Place, how: str) -> None:
    """One recall a turn, each message once; a line that is cut in between loses nothing."""
    from langchain_classic.chains import ConversationChain

    with place.open(FACT) as bank:
        model = ScriptedChatModel(script=[ANSWER, "Yes."])
        prompt = PromptTemplate.from_template("{history}\n\nHuman: {input}\nAI:")
        chain: Any = ConversationChain(llm=model, memory=BankMemory(bank, "c"), prompt=prompt)
        for text in (ASKED, "Is Ana's seat sure?"):
            await chain.ainvoke({"input": text}) if how == "async" else chain.invoke({"input": text})
            place.line.stop() if text == ASKED else place.line.start()
        assert f"- {FACT}" in str(model.seen[0][0].text)
        assert f"Human: {ASKED}\nAI: {ANSWER}" in str(model.seen[1][0].text)
        assert place.kept(bank) == [ASKED, ANSWER, "Is Ana's seat sure?", "Yes."]


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_graph_and_its_replay(place: Place, how: str) -> None:
    """Memories in front of the model, each message once, nothing of ours in a checkpoint."""
    with place.open(FACT) as bank:
        fake = ScriptedChatModel(script=[ANSWER])
        model, saver = with_memory(fake), InMemorySaver()
        builder: Any = StateGraph(State)
        builder.add_node(recall_node(bank)).add_node("model", lambda state: {"messages": [model.invoke(state)]})
        builder.add_node(retain_node(bank)).add_edge(START, "recall").add_edge("recall", "model").add_edge("model", "retain")
        graph = builder.compile(checkpointer=saver)
        question = {"messages": [HumanMessage(ASKED)]}
        await graph.ainvoke(question, THREAD) if how == "async" else graph.invoke(question, THREAD)
        step = next(each for each in graph.get_state_history(THREAD) if each.next == ("retain",))
        await graph.ainvoke(None, step.config) if how == "async" else graph.invoke(None, step.config)
        assert f"- {FACT}" in str(fake.seen[0][-1].text)
        assert place.kept(bank) == [ASKED, ANSWER]
        assert "</memories>" not in repr((dict(saver.storage), dict(saver.writes), dict(saver.blobs)))


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_the_shim(place: Place, how: str) -> None:
    """Its tools and nodes on the server that they were made for; a node that is run again replaces what it wrote."""
    with place.open(FACT) as bank:
        retain, recall, reflect = compat.create_hindsight_tools(bank_id=place.name, client=bank)
        node: Any = compat.create_retain_node(bank_id=place.name, client=bank, tags=["chat"])
        assert retain.invoke({"content": "Ana lives in Porto."}) == "1 memory queued."
        for _ in range(2):
            given = {"messages": [HumanMessage("Ana sings alto in a choir.", id="m")]}
            await node.ainvoke(given, THREAD) if how == "async" else node.invoke(given, THREAD)
        assert bank.flush(timeout=60, until="completed").done
        assert f"1. {FACT}" in (await recall.ainvoke({"query": ASKED}) if how == "async" else recall.invoke({"query": ASKED}))
        assert (await reflect.ainvoke({"query": ASKED}) if how == "async" else reflect.invoke({"query": ASKED})).strip()
        assert sum(each.id == "message:m" for each in bank.documents.list()) == 1
