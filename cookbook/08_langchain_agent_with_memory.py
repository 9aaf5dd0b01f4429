"""An agent that remembers on its own. You learn: MemoryMiddleware, what the model sees and what is stored, and that a turn
recalls once however many tools it calls. Recipe 02 leaves all of it to the model; `tools=True` gives this one the tools, too.

Runs offline with a scripted model; LOREBANK_MODEL=provider:model takes a real one.
"""

import os
import tempfile
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from langchain_lorebank import MemoryMiddleware
from langchain_lorebank.testing import StrictChatModel, call, shown_memories
from lorebank import Bank, open_bank
from lorebank.seams import Event, Recalled


@tool
def ingredients(dish: str) -> str:
    """What is in a dish."""
    return f"{dish}: peanuts, lime, sugar."


class Calls(BaseCallbackHandler):
    """What a model was given, call by call."""

    def __init__(self) -> None:
        self.seen: list[list[BaseMessage]] = []

    def on_chat_model_start(self, *given: Any, **_: Any) -> None:
        self.seen += given[1]  # after the model's own description


def agent_of(bank: Bank, *script: object) -> Any:
    name = os.environ.get("LOREBANK_MODEL")
    model = init_chat_model(name) if name else StrictChatModel(script=list(script))
    memory = MemoryMiddleware(bank, tools=True)  # stands last where there are others
    prompt = "You are a waiter."
    return create_agent(model, [ingredients], system_prompt=prompt, middleware=[memory], checkpointer=InMemorySaver())


def ask(agent: Any, thread: str, text: str) -> None:
    calls, place = Calls(), {"configurable": {"thread_id": thread}}
    agent.invoke({"messages": [HumanMessage(text)]}, {**place, "callbacks": [calls]})
    system, question = calls.seen[-1][:2]
    print(f"== {thread}: {len(calls.seen)} model calls; the last one saw, in its system message:")
    print(system.text)
    print("== in the user's message:")
    print(question.text)
    stored = agent.get_state(place).values["messages"]
    print("== stored:", stored[0].text)
    print("== answered:", stored[-1].text)


def from_memory(messages: list[BaseMessage]) -> str:
    """What the scripted model makes of the memories in the user's message."""
    known = shown_memories(messages)
    return f"Both have peanuts in them, and you told me: {known[0]}" if known else "Enjoy!"


events: list[Event] = []
with tempfile.TemporaryDirectory() as folder:
    with open_bank(f"sqlite:///{Path(folder) / 'memory.db'}", bank="ana", on_event=events.append) as bank:
        ask(agent_of(bank, "I will remember that."), "monday", "I'm allergic to peanuts.")
        script = [call("ingredients", dish="satay"), call("ingredients", dish="pad thai"), from_memory]
        ask(agent_of(bank, *script), "tuesday", "Am I allergic to what is in satay or pad thai?")
    print("== recalls:", sum(isinstance(event, Recalled) for event in events), "in two turns")
