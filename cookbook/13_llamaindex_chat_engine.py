"""A chat engine that remembers, for two users. You learn: BankMemory with per_user, what each of them sees, that the messages
of a chat go and the bank stays, and that nothing of ours is among them.

Runs offline with a scripted LLM; LOREBANK_MODEL=name takes OpenAI's (pip install llama-index-llms-openai).
"""

import os
import tempfile
from pathlib import Path
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.instrumentation.dispatcher import instrument_tags

from llamaindex_lorebank import BankMemory
from llamaindex_lorebank.testing import StrictLLM, shown_memories
from lorebank import Bank, open_bank, per_user


def from_memory(messages: list[ChatMessage]) -> str:
    """What the scripted LLM makes of the memories ahead of the user's words."""
    known = [memory for memory in shown_memories(messages) if memory.startswith("My")]
    return f"You told me: {known[0]}" if known else "I will remember that."


def llm() -> Any:
    if name := os.environ.get("LOREBANK_MODEL"):
        from llama_index.llms.openai import OpenAI

        return OpenAI(model=name)
    return StrictLLM(script=[from_memory], repeat=True)


def engine_of(bank: Bank, model: Any) -> Any:
    """One engine for all users: each run's tags say whose chat it is."""
    memory = BankMemory(per_user(bank))
    return SimpleChatEngine.from_defaults(llm=model, memory=memory, system_prompt="Be brief.")


def ask(engine: Any, user: str, session: str, text: str) -> None:
    with instrument_tags({"user_id": user, "session_id": session}):
        print(f"{user}, {session}: {text}\n  {engine.chat(text)}")


def main(bank: Bank) -> None:
    model = llm()
    engine = engine_of(bank, model)
    ask(engine, "ana", "monday", "My bike lock opens with 4711.")
    ask(engine, "ben", "monday", "My bike lock opens with 8822.")
    ask(engine, "ana", "monday", "Thanks!")

    engine = engine_of(bank, model)  # as in a process that starts anew: no chat, and all that was said
    ask(engine, "ana", "tuesday", "How does my bike lock open?")
    ask(engine, "ben", "tuesday", "How does my bike lock open?")
    with instrument_tags({"user_id": "ana", "session_id": "tuesday"}):
        print("ana's chat:", [message.content for message in engine.chat_history])
        engine.reset()
        print("after a reset:", engine.chat_history, "and", len(bank.named("ana").list()), "memories")

    if isinstance(model, StrictLLM):
        print("what the model saw last:")
        for message in model.seen[-1]:
            print(f"[{message.role.value}]\n{message.content}")


with tempfile.TemporaryDirectory() as folder:
    place = f"sqlite:///{Path(folder) / 'memory.db'}"
    with open_bank(place, mental_models={"enabled": False}) as bank:
        main(bank)
