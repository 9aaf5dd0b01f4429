"""Streamed answers that the user breaks off. You learn: that the user's words are kept and half an answer is not, with an agent
and with a query engine, and that the next session knows what was said. (A chat engine's stream goes on when nobody reads it:
LlamaIndex reads it in a thread of its own, and the whole answer is kept.)

Runs offline with a scripted LLM; LOREBANK_MODEL=name takes OpenAI's (pip install llama-index-llms-openai).
"""

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from llama_index.core import Document, SummaryIndex
from llama_index.core.agent.workflow import AgentStream, FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse

from llamaindex_lorebank import with_memory
from llamaindex_lorebank.testing import StrictLLM, shown_memories
from lorebank import Bank, open_bank


def reply(messages: list[ChatMessage]) -> str:
    """What the scripted LLM says: what it knows, else too much."""
    known = " ".join(sorted(shown_memories(messages)))
    return f"You told me: {known}" if known else "There are nine flights a day, and here is all about them."


class TypingLLM(StrictLLM):
    """Takes its time for each word, as a real one does."""

    async def astream_chat(self, messages: Any, **kwargs: Any) -> AsyncGenerator[ChatResponse, None]:
        async def words() -> AsyncGenerator[ChatResponse, None]:
            for each in self.stream_chat(messages, **kwargs):
                yield each
                await asyncio.sleep(0.01)

        return words()


def llm() -> Any:
    if name := os.environ.get("LOREBANK_MODEL"):
        from llama_index.llms.openai import OpenAI

        return OpenAI(model=name)
    return TypingLLM(script=[reply], repeat=True)


async def with_agent(bank: Bank) -> None:
    agent, heard = with_memory(FunctionAgent(llm=llm()), bank, session_id="monday"), list[str]()
    handler = agent.run("I always take aisle seats. Which flights are there?")
    async for event in handler.stream_events():
        heard += [event.delta] if isinstance(event, AgentStream) else []
        if len(heard) == 4:
            await handler.cancel_run()
    print("agent, stopped after:", "".join(heard[:4]))


def with_engine(bank: Bank) -> None:
    index = SummaryIndex.from_documents([Document(text="Flights leave every hour.")])
    engine = with_memory(index.as_query_engine(llm=llm(), streaming=True), bank, session_id="tuesday", mental_models=False)
    stream: Any = engine.query("I fly in May. Which day is best?")
    print("query engine, stopped after:", "".join(next(stream.response_gen) for _ in range(4)))
    stream.response_gen.close()


async def main(bank: Bank) -> None:
    await with_agent(bank)
    with_engine(bank)
    for session in ("monday", "tuesday"):
        print(f"kept of {session}:", [memory.text for memory in bank.list(session=session)])
    agent = with_memory(FunctionAgent(llm=llm()), bank, session_id="wednesday")
    print("wednesday:", await agent.run("Which seats do I take, and in which month do I fly?"))


with tempfile.TemporaryDirectory() as folder, open_bank(f"sqlite:///{Path(folder) / 'memory.db'}", bank="ana") as bank:
    asyncio.run(main(bank))
