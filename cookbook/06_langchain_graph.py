"""A hand-written LangGraph graph with memory. You learn: recall_node, retain_node, LorebankState, with_memory for the model, and
that going back in time keeps nothing twice.

Runs offline with a scripted model; LOREBANK_MODEL=provider:model takes a real one.
"""

import os
import tempfile
from pathlib import Path

from langchain.chat_models import init_chat_model
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langchain_lorebank import LorebankState, recall_node, retain_node, with_memory
from langchain_lorebank.testing import ScriptedChatModel, shown_memories
from lorebank import Bank, open_bank


class State(MessagesState, LorebankState):
    """Messages, and a key for memories that never gets into a checkpoint."""


def graph_of(bank: Bank, *script: object):
    """recall -> model -> retain."""
    name = os.environ.get("LOREBANK_MODEL")
    model = with_memory(init_chat_model(name) if name else ScriptedChatModel(script=list(script)))

    def answer(state: State) -> dict:
        return {"messages": [model.invoke(state)]}  # memories go into the model's copy; the stored messages stay as they are

    graph = StateGraph(State, output_schema=MessagesState)
    graph.add_node("recall", recall_node(bank)).add_node("model", answer).add_node("retain", retain_node(bank))
    graph.add_edge(START, "recall").add_edge("recall", "model").add_edge("model", "retain")
    return graph.compile(checkpointer=InMemorySaver())


def ask(graph, thread: str, text: str) -> None:
    config = {"configurable": {"thread_id": thread}}
    print("user: ", text)
    print("agent:", graph.invoke({"messages": [HumanMessage(text)]}, config)["messages"][-1].text)
    stored = [message.text for message in graph.get_state(config).values["messages"]]
    print(f"  stored: {stored}")


def from_memory(messages) -> str:
    """What the scripted model makes of the memories that it is shown."""
    known = shown_memories(messages)
    return f"Better not, as you told me: {known[0]}" if known else "Enjoy!"


with tempfile.TemporaryDirectory() as folder, open_bank(f"sqlite:///{Path(folder) / 'memory.db'}", bank="ana") as bank:
    ask(graph_of(bank, "I will remember that."), "monday", "I'm allergic to peanuts.")
    graph = graph_of(bank, from_memory)
    ask(graph, "tuesday", "The satay has peanuts. Am I allergic?")

    before, thread = len(bank.list()), {"configurable": {"thread_id": "tuesday"}}
    step = next(each for each in graph.get_state_history(thread) if each.next == ("retain",))
    graph.invoke(None, step.config)  # goes back in time, and retains again
    print("memories:", before, "- after a replay:", len(bank.list()))
