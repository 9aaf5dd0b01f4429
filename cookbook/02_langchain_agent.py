"""A LangChain agent with memory tools. You learn: memory_tools, and that a new agent knows what an old one was told.

Runs offline with a scripted model; LOREBANK_MODEL=provider:model takes a real one.
"""

import os
import tempfile
from pathlib import Path

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.messages import HumanMessage

from langchain_lorebank import memory_tools
from langchain_lorebank.testing import ScriptedChatModel, call
from lorebank import Bank, open_bank

PROMPT = "Save lasting facts with retain. Use recall before you answer questions about the user."


def say(bank: Bank, text: str, *script: object) -> None:
    """One conversation with a new agent."""
    name = os.environ.get("LOREBANK_MODEL")
    model = init_chat_model(name) if name else ScriptedChatModel(script=list(script))
    agent = create_agent(model, tools=memory_tools(bank), system_prompt=PROMPT)
    messages = agent.invoke({"messages": [HumanMessage(text)]})["messages"]
    print("user: ", text)
    print("agent:", messages[-1].text)


with tempfile.TemporaryDirectory() as folder:
    file = f"sqlite:///{Path(folder) / 'memory.db'}"
    with open_bank(file, bank="ana") as bank:
        fact = call("retain", items=[{"content": "Ana is allergic to peanuts."}])
        say(bank, "I'm allergic to peanuts.", fact, "I will remember that.")
    with open_bank(file, bank="ana") as bank:
        look = call("recall", query="food allergy of Ana: peanuts?")
        say(bank, "Can I have the satay?", look, lambda messages: f"Better not: {messages[-1].artifact['memories'][0]['text']}")
