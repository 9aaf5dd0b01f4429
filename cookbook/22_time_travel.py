"""Time travel without duplicates. You learn: that a thread which goes back to a checkpoint and runs again, or forks there, keeps
each message once, that an edited question is a new one, and that what was kept stays when the thread goes back.

Runs offline with a scripted model; LOREBANK_MODEL=provider:model takes a real one.
"""

import os
from typing import Any

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langchain_lorebank import MemoryMiddleware
from langchain_lorebank.testing import StrictChatModel
from lorebank import Bank
from lorebank.testing import temporary_bank

THREAD = {"configurable": {"thread_id": "trip"}}


def agent_of(bank: Bank) -> Any:
    """Nothing to set: the middleware knows which messages of a thread are kept."""
    name = os.environ.get("LOREBANK_MODEL")
    model = init_chat_model(name) if name else StrictChatModel(script=[answer], repeat=True)
    return create_agent(model, [], middleware=[MemoryMiddleware(bank)], checkpointer=InMemorySaver())


def answer(messages: list[Any]) -> str:
    """The scripted model: one answer for each question."""
    return f"Answer to {len(messages[-1].text.split('</memories>')[-1].strip())} letters."


def kept(bank: Bank, what: str) -> None:
    users = [memory.text for memory in bank.list() if memory.speaker == "user"]
    print(f"{what}: {len(bank.list())} memories, {len(users)} of the user's")


def main(bank: Bank) -> None:
    agent = agent_of(bank)
    for text in ("I leave for Porto on Monday.", "I take the night train.", "I stay at the Hotel Aurora."):
        agent.invoke({"messages": [HumanMessage(text)]}, THREAD)
    kept(bank, "three turns")

    history = list(agent.get_state_history(THREAD))  # newest first
    asked = next(state for state in history if state.next == ("model",) and len(state.values["messages"]) == 3)
    agent.invoke(None, asked.config)
    kept(bank, "back to the second question, and run again")
    agent.invoke(None, asked.config)
    kept(bank, "and once more")

    first = next(state for state in history if len(state.values["messages"]) == 2)
    fork = agent.update_state(first.config, {"messages": [HumanMessage("I take the early bus.")]}, as_node="__start__")
    agent.invoke(None, fork)
    kept(bank, "a fork, with another second question")
    print("asked about the train:", bank.recall("Which night train do I take?")[0].text)
    print("asked about the bus:", bank.recall("Which early bus do I take?")[0].text)


with temporary_bank("ana", mental_models={"enabled": False}) as opened:
    main(opened)
