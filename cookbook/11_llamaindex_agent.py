"""A LlamaIndex agent that remembers on its own. You learn: with_memory(agent, bank), that what was told in one session is known
in another, that there is one system message, the agent's own, and that a run recalls once however many tools it calls.

Runs offline with a scripted LLM; LOREBANK_MODEL=name takes OpenAI's (pip install llama-index-llms-openai).
"""

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.callbacks import CallbackManager, LlamaDebugHandler
from llama_index.core.instrumentation.dispatcher import instrument_tags

from llamaindex_lorebank import with_memory
from llamaindex_lorebank.testing import StrictLLM, call, shown_memories
from lorebank import Bank, open_bank
from lorebank.seams import Event, Recalled


def ingredients(dish: str) -> str:
    """What is in a dish."""
    return f"{dish}: peanuts, lime, sugar."


def from_memory(messages: list[ChatMessage]) -> str:
    """What the scripted LLM makes of the memories in the user's message."""
    known = shown_memories(messages)
    return f"Both have peanuts in them, and you told me: {known[0]}" if known else "Enjoy!"


def llm_of(script: list[Any]) -> Any:
    """A scripted LLM is as strict as the strictest provider: it refuses a second system message."""
    if name := os.environ.get("LOREBANK_MODEL"):
        from llama_index.llms.openai import OpenAI

        return OpenAI(model=name)
    return StrictLLM(script=script)


async def ask(bank: Bank, session: str, text: str, *script: Any) -> None:
    """A new process would do the same: all that two sessions share is the bank."""
    watch, llm = LlamaDebugHandler(print_trace_on_end=False), llm_of(list(script))
    llm.callback_manager = CallbackManager([watch])
    agent = with_memory(FunctionAgent(llm=llm, tools=[ingredients], system_prompt="You are a waiter."), bank)
    with instrument_tags({"session_id": session}):
        answer = await agent.run(text)
    seen = [start.payload["messages"] for start, _ in watch.get_llm_inputs_outputs()]
    print(f"== {session}: {len(seen)} calls of the model, which saw:")
    for message in seen[-1][:2]:
        print(f"[{message.role.value}]\n{message.content}")
    print("== roles:", *(message.role.value for message in seen[-1]))
    print("== answered:", answer)


async def main(bank: Bank) -> None:
    await ask(bank, "monday", "I'm allergic to peanuts.", "I will remember that.")
    script = [call("ingredients", dish="satay"), call("ingredients", dish="pad thai"), from_memory]
    await ask(bank, "tuesday", "Am I allergic to what is in satay or pad thai?", *script)
    print("== kept:", *(memory.text for memory in reversed(bank.list())), sep="\n")


events: list[Event] = []
with tempfile.TemporaryDirectory() as folder:
    with open_bank(f"sqlite:///{Path(folder) / 'memory.db'}", bank="ana", on_event=events.append) as bank:
        asyncio.run(main(bank))
    print("== recalls:", sum(isinstance(event, Recalled) for event in events), "in two sessions")
