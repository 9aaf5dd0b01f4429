"""lorebank for LlamaIndex: memory for agents, chat engines and query engines, tools and a retriever over a bank.

>>> from llamaindex_lorebank import BankRetriever

Names load on first use.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from lorebank.seams import lazily

if find_spec("llama_index") is None or find_spec("llama_index.core") is None:
    raise ImportError("llamaindex_lorebank needs LlamaIndex: pip install 'lorebank[llamaindex]'")

if TYPE_CHECKING:
    from llamaindex_lorebank.block import BankMemoryBlock
    from llamaindex_lorebank.callbacks import MemoryCallbackHandler
    from llamaindex_lorebank.events import MemoryEventHandler
    from llamaindex_lorebank.memory import BankMemory
    from llamaindex_lorebank.messages import to_message, to_messages
    from llamaindex_lorebank.models import CompleterLLM, EmbeddingEmbedder, LLMCompleter
    from llamaindex_lorebank.postprocessor import MentalModelPostprocessor
    from llamaindex_lorebank.query_engine import MemoryQueryEngine, is_memory
    from llamaindex_lorebank.retriever import BankRetriever
    from llamaindex_lorebank.runnable import with_memory
    from llamaindex_lorebank.tools import BankToolSpec

__all__ = [
    "BankMemory",
    "BankMemoryBlock",
    "BankRetriever",
    "BankToolSpec",
    "CompleterLLM",
    "EmbeddingEmbedder",
    "LLMCompleter",
    "MemoryCallbackHandler",
    "MemoryEventHandler",
    "MemoryQueryEngine",
    "MentalModelPostprocessor",
    "is_memory",
    "to_message",
    "to_messages",
    "with_memory",
]

_HOMES = {
    "block": ("BankMemoryBlock",),
    "callbacks": ("MemoryCallbackHandler",),
    "events": ("MemoryEventHandler",),
    "memory": ("BankMemory",),
    "messages": ("to_message", "to_messages"),
    "models": ("CompleterLLM", "EmbeddingEmbedder", "LLMCompleter"),
    "postprocessor": ("MentalModelPostprocessor",),
    "query_engine": ("MemoryQueryEngine", "is_memory"),
    "retriever": ("BankRetriever",),
    "runnable": ("with_memory",),
    "tools": ("BankToolSpec",),
}
__getattr__ = lazily(__name__, __name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
