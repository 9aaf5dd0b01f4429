"""Mental models as the system prefix. You learn: a standing question whose answer the bank keeps, where the agent sees it, how it
learns, what has changed in it, and `freeze`, which keeps a running session's prefix as it was.

Runs offline with a scripted model; LOREBANK_MODEL=provider:model takes a real one.
"""

import os
from typing import Any

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.callbacks import BaseCallbackHandler
from langgraph.checkpoint.memory import InMemorySaver

from langchain_lorebank import MemoryMiddleware
from langchain_lorebank.testing import StrictChatModel
from lorebank import Bank
from lorebank.testing import temporary_bank

MODELS = {"auto_seed": False, "freeze": "session"}  # only the model made here; a session's prefix never changes
SPICES = {"name": "Spices", "source_query": "Which spices does Ana like?", "max_tokens": 200}


class Prefixes(BaseCallbackHandler):
    """The model's system message, call by call."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_chat_model_start(self, *given: Any, **_: Any) -> None:
        self.seen += [messages[0].text for messages in given[1]]


def agent_of(bank: Bank) -> Any:
    name = os.environ.get("LOREBANK_MODEL")
    model = init_chat_model(name) if name else StrictChatModel(script=["Noted."], repeat=True)
    return create_agent(model, [], system_prompt="Cook.", middleware=[MemoryMiddleware(bank)], checkpointer=InMemorySaver())


def ask(agent: Any, thread: str, text: str) -> None:
    watch = Prefixes()
    agent.invoke({"messages": [("user", text)]}, {"configurable": {"thread_id": thread}, "callbacks": [watch]})
    block = watch.seen[-1].partition("<mental_models>")[2].partition("</mental_models>")[0]
    print(f"{thread}, {text!r}: the prefix says", *(line for line in block.splitlines() if line.startswith("- ")), sep="\n  ")


def main(bank: Bank) -> None:
    bank.retain("Ana likes the spice cumin.")
    model = bank.mental_models.create("spices", **SPICES)
    print("answered at once:", model.content)

    agent = agent_of(bank)
    ask(agent, "monday", "What shall I cook?")

    bank.retain("Ana likes the spice sumac, too.")
    with bank.session("tuesday") as session:
        session.reload_mental_models()  # happens on its own, too, every five minutes
    ask(agent, "monday", "And what for dessert?")
    ask(agent, "tuesday", "What shall I cook today?")
    for revision in bank.mental_models.history("spices"):
        print("what has changed:", revision.diff)


with temporary_bank("ana", mental_models=MODELS) as opened:
    main(opened)
