"""What an unstable prefix costs. You learn: that providers charge less for a prompt which begins as the one before, how much of
each prompt that is, and what is lost when memories go into the system message instead of the user's message (the default).

Runs offline with a scripted model; LOREBANK_MODEL=provider:model takes a real one.
"""

import json
import os
from itertools import pairwise
from typing import Any

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.callbacks import BaseCallbackHandler
from langgraph.checkpoint.memory import InMemorySaver

from langchain_lorebank import MemoryMiddleware
from langchain_lorebank.testing import StrictChatModel
from lorebank import Bank
from lorebank.testing import temporary_bank

PROMPT = "You are a travel agent. " + "Follow the house rules, answer in one sentence and name your sources. " * 20
FACTS = ["Ana takes aisle seats.", "Ana stays at quiet hotels.", "Ana eats no nuts.", "Ana's budget is 900 euros."]
QUESTIONS = ["Which seats?", "Which hotels?", "Any nuts to avoid?", "What budget do I have?", "Which seats and hotels, again?"]
ANSWER = "As you told me; the sources are the timetable, the price list and what I know of you. " * 3


class Prompts(BaseCallbackHandler):
    """Each prompt as the text that is sent: the system message first, then the conversation."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def on_chat_model_start(self, *given: Any, **_: Any) -> None:
        self.sent += ["".join(json.dumps([m.type, m.text]) for m in messages) for messages in given[1]]


def agent_of(bank: Bank) -> Any:
    """Where memories go is a setting of the bank: `recall={"position": ...}`."""
    name = os.environ.get("LOREBANK_MODEL")
    model = init_chat_model(name) if name else StrictChatModel(script=[ANSWER], repeat=True)
    return create_agent(model, [], system_prompt=PROMPT, middleware=[MemoryMiddleware(bank)], checkpointer=InMemorySaver())


def conversation(position: str) -> list[str]:
    watch, place = Prompts(), {"configurable": {"thread_id": "monday"}}
    with temporary_bank(recall={"position": position}, mental_models={"enabled": False}) as bank:
        bank.retain(FACTS)
        agent = agent_of(bank)
        for question in QUESTIONS:
            agent.invoke({"messages": [("user", question)]}, {**place, "callbacks": [watch]})
    return watch.sent


def tokens(text: str) -> int:
    """An estimate that is the same for both."""
    return len(text) // 4


def same_beginning(before: str, now: str) -> str:
    """What a prompt cache has of a prompt."""
    length = next((at for at, pair in enumerate(zip(before, now, strict=False)) if pair[0] != pair[1]), len(before))
    return now[:length]


def main() -> None:
    paid = {}
    for position in ("in-user", "system"):
        sent = conversation(position)
        print(f"{position}: tokens of each prompt, and how many of them begin it as the one before")
        known = [tokens(same_beginning(before, now)) for before, now in pairwise(sent)]
        print(" ", *(f"{tokens(now)} ({same})" for now, same in zip(sent[1:], known, strict=True)))
        paid[position] = sum(map(tokens, sent[1:])) - sum(known)
        print("  paid in full:", paid[position])
    print(f"memories in the system message: {paid['system'] / paid['in-user']:.1f} times the tokens at full price")


if __name__ == "__main__":
    main()
