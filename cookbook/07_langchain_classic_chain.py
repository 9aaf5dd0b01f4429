"""A classic ConversationChain with a memory that outlives it. You learn: BankMemory, recent turns beside memories, and what
clear() keeps.

Runs offline with a scripted model; LOREBANK_MODEL=provider:model takes a real one. Needs lorebank[langchain-classic].
"""

import os
import tempfile
import warnings
from pathlib import Path

from langchain.chat_models import init_chat_model
from langchain_classic.chains import ConversationChain

from langchain_lorebank import BankMemory
from langchain_lorebank.testing import ScriptedChatModel, shown_memories
from lorebank import Bank, open_bank

warnings.filterwarnings("ignore", message=".*was deprecated in LangChain.*")  # the chain; BankMemory is no reason to keep it


def chain_of(memory: BankMemory, *script: object) -> ConversationChain:
    name = os.environ.get("LOREBANK_MODEL")
    model = init_chat_model(name) if name else ScriptedChatModel(script=list(script))
    return ConversationChain(llm=model, memory=memory)


def say(chain: ConversationChain, text: str) -> None:
    print("user: ", text)
    print("chain:", chain.invoke({"input": text})["response"])


def from_memory(messages: list) -> str:
    """What the scripted model makes of the memories that it is shown."""
    known = shown_memories(messages)
    return f"You said: {known[0]}" if known else "I don't know."


def main(bank: Bank) -> None:
    monday = BankMemory(bank)  # one conversation; the bank may have many
    chain = chain_of(monday, "Aisle it is.", "Safe travels!")
    say(chain, "I always take aisle seats.")
    say(chain, "I fly on Friday.")
    print("-- recent turns:")
    print(monday.load_memory_variables({})["history"])

    monday.clear()  # forgets the recent turns; what the bank knows stays
    print("-- after clear:", monday.load_memory_variables({})["history"] or "no turns", f"and {len(bank.list())} memories")

    say(chain_of(BankMemory(bank), from_memory), "Which seats do I take?")


with tempfile.TemporaryDirectory() as folder, open_bank(f"sqlite:///{Path(folder) / 'memory.db'}", bank="ana") as bank:
    main(bank)
