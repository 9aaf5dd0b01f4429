"""Chat engines of every kind, run in every way, for the tests of `BankMemory`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine import (
    CondensePlusContextChatEngine,
    CondenseQuestionChatEngine,
    ContextChatEngine,
    SimpleChatEngine,
)
from llama_index.core.memory import BaseMemory
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from llamaindex_lorebank.testing import StrictLLM

FACT = "Ana prefers aisle seats on long flights."
ASKED = "Which seats does Ana prefer on long flights?"
ANSWER = "The one that is next to nobody, then."
THEN = "Is Ana's seat sure?"
MODES = ("chat", "achat", "stream_chat", "astream_chat")
KINDS = ("simple", "context", "condense plus context", "condense question")
PRIMARIES = ("buffer", "memory")
PREFIX = "You have a long-term memory"


class Documents(BaseRetriever):
    """Finds the same document for everything."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [NodeWithScore(node=TextNode(text="Planes have rows.", id_="document"), score=0.5)]


def engine_of(kind: str, llm: StrictLLM, memory: BaseMemory) -> Any:
    if kind == "simple":
        return SimpleChatEngine.from_defaults(llm=llm, memory=memory, system_prompt="Be brief.")
    if kind == "context":
        return ContextChatEngine.from_defaults(Documents(), llm=llm, memory=memory, system_prompt="Be brief.")
    if kind == "condense plus context":
        return CondensePlusContextChatEngine.from_defaults(Documents(), llm=llm, memory=memory, system_prompt="Be brief.")
    engine = RetrieverQueryEngine.from_args(Documents(), llm=llm)
    return CondenseQuestionChatEngine.from_defaults(engine, llm=llm, memory=memory)


def script_of(kind: str, *answers: str) -> list[str]:
    """What the model says: the condensing engines call it for the question, too."""
    if kind in ("simple", "context"):
        return list(answers)
    return [step for answer in answers for step in ("Condensed.", answer)]


async def chat(engine: Any, mode: str, text: str, history: list[ChatMessage] | None = None) -> str:
    """The engine's answer, whichever way it is asked."""
    given = (text,) if history is None else (text, history)
    match mode:
        case "chat":
            return str(engine.chat(*given))
        case "achat":
            return str(await engine.achat(*given))
        case "stream_chat":
            return "".join(engine.stream_chat(*given).response_gen)
        case _:
            stream = await engine.astream_chat(*given)
            return "".join([word async for word in stream.async_response_gen()])


def answering(kind: str, llm: StrictLLM) -> list[list[ChatMessage]]:
    """What the model saw when it answered."""
    return llm.seen if kind in ("simple", "context") else llm.seen[1::2]


def text_of(messages: Sequence[ChatMessage]) -> str:
    return "\n".join(f"{message.role.value}: {message.content}" for message in messages)


def roles(messages: Sequence[ChatMessage]) -> list[str]:
    return [message.role.value for message in messages]
