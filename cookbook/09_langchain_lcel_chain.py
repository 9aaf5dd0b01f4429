"""One LCEL chain for many users, streamed. You learn: with_memory, per_user with the run's metadata, flush() before you look, and
what is kept of an answer that the user broke off.

Runs offline with a scripted model; LOREBANK_MODEL=provider:model takes a real one.
"""

import os
import tempfile
from pathlib import Path
from typing import Any

from langchain.chat_models import init_chat_model
from langchain_core.messages import BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate

from langchain_lorebank import with_memory
from langchain_lorebank.testing import StrictChatModel, shown_memories
from lorebank import Bank, open_bank, per_user


def from_memory(messages: list[BaseMessage]) -> str:
    """What the scripted model makes of the memories that it is shown."""
    known = shown_memories(messages)
    return f"You told me: {known[0]}" if known else "I will remember that."


def chain_of(bank: Bank) -> Any:
    """Any chain will do: every model in it gets the memories of the run's user."""
    name = os.environ.get("LOREBANK_MODEL")
    model = init_chat_model(name) if name else StrictChatModel(script=[from_memory], repeat=True)
    prompt = ChatPromptTemplate.from_messages([("system", "Be brief."), ("human", "{question}")])
    return with_memory(prompt | model | StrOutputParser(), per_user(bank))


def run_of(user: str, session: str) -> Any:
    """The config of a run. Callbacks see nothing but metadata, so this is where a chain's user is named."""
    return {"metadata": {"user_id": user, "session_id": session}}


def ask(chain: Any, user: str, session: str, question: str) -> None:
    print(f"{user}, {session}: {question}")
    chunks = list(chain.stream({"question": question}, run_of(user, session)))
    print("  streamed:", "|".join(chunk for chunk in chunks if chunk))
    chain.handler.flush(10)  # answers are recorded in the background


def main(bank: Bank) -> None:
    chain = chain_of(bank)
    ask(chain, "ana", "monday", "My bike lock opens with 4711.")
    ask(chain, "ben", "monday", "My bike lock opens with 8822.")
    ask(chain, "ana", "tuesday", "How does my bike lock open?")
    ask(chain, "ben", "tuesday", "How does my bike lock open?")

    stream = chain.stream({"question": "Once more: how does my bike lock open?"}, run_of("ana", "wednesday"))
    print("ana, wednesday, stops after:", next(chunk for chunk in stream if chunk))
    stream.close()
    chain.handler.flush(10)
    print("  kept of it:", [memory.text for memory in bank.named("ana").list(session="wednesday")])

    for user in ("ana", "ben"):
        print(f"{user}'s bank, monday:", [memory.text for memory in reversed(bank.named(user).list(session="monday"))])


with tempfile.TemporaryDirectory() as folder, open_bank(f"sqlite:///{Path(folder) / 'memory.db'}") as bank:
    main(bank)
