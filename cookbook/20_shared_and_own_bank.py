"""A team's bank beside each user's own. You learn: `shared`, that one recall searches both, that nothing gets into the team's
bank unless somebody puts it there, and the tool `retain_global` by which a model may.

Runs offline with a scripted model; LOREBANK_MODEL=provider:model takes a real one.
"""

import os
import tempfile
from pathlib import Path

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model

from langchain_lorebank import memory_tools
from langchain_lorebank.testing import StrictChatModel, call
from lorebank import Bank, open_bank

PROMPT = "Keep what is about the user with retain, and what the whole team should know with retain_global."


def own_and_shared(url: str, user: str) -> Bank:
    """Each user has a bank; all read the team's beside it."""
    return open_bank(url, bank=user, shared="team")


def say(bank: Bank, text: str, *script: object) -> None:
    """One conversation with a new agent. The tool `retain_global` comes with a bank that has a shared one."""
    name = os.environ.get("LOREBANK_MODEL")
    model = init_chat_model(name) if name else StrictChatModel(script=list(script))
    agent = create_agent(model, tools=memory_tools(bank), system_prompt=PROMPT)
    print(f"{bank.name}: {text}\n  agent: {agent.invoke({'messages': [('user', text)]})['messages'][-1].text}")


def look(bank: Bank, question: str) -> None:
    """Each memory says which bank it is from."""
    print(f"{bank.name} asks: {question}")
    for memory in bank.recall(question):
        print(f"  {memory.text} (from {memory.bank})")


with tempfile.TemporaryDirectory() as folder:
    file = f"sqlite:///{Path(folder) / 'memory.db'}"
    with own_and_shared(file, "ana") as ana, own_and_shared(file, "ben") as ben:
        ana.shared.retain("The team meets for lunch at noon.")  # by your own code: explicit, too

        own = call("retain", items=[{"content": "Ana skips lunch on Mondays."}])
        say(ana, "I skip lunch on Mondays.", own, "I will remember that.")
        everybody = call("retain_global", items=[{"content": "The lunch place is closed in August."}])
        say(ana, "Tell all: the lunch place is closed in August.", everybody, "All of you will know.")

        look(ana, "What about lunch?")
        look(ben, "What about lunch?")
    with open_bank(file, bank="cleo") as cleo:  # who does not name the shared bank does not read it
        print("cleo, without it:", cleo.recall("What about lunch?").state)
