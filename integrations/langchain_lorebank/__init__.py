"""lorebank for LangChain and LangGraph: tools and a retriever over a bank.

>>> from langchain_lorebank import memory_tools

Names load on first use.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from lorebank.seams import lazily

if find_spec("langchain_core") is None:
    raise ImportError("langchain_lorebank needs LangChain: pip install 'lorebank[langchain]'")

if TYPE_CHECKING:
    from langchain_lorebank.callbacks import MemoryCallbackHandler
    from langchain_lorebank.memory import BankMemory
    from langchain_lorebank.messages import to_message, to_messages
    from langchain_lorebank.middleware import MemoryMiddleware
    from langchain_lorebank.models import ChatModelCompleter, EmbeddingsEmbedder
    from langchain_lorebank.nodes import LorebankState, recall_node, retain_node
    from langchain_lorebank.retriever import BankRetriever
    from langchain_lorebank.runnable import memory_prefix, with_memory
    from langchain_lorebank.tools import (
        MemoryEditTool,
        MemoryToolkit,
        RecallTool,
        ReflectTool,
        RetainGlobalTool,
        RetainTool,
        memory_tools,
    )

__all__ = [
    "BankMemory",
    "BankRetriever",
    "ChatModelCompleter",
    "EmbeddingsEmbedder",
    "LorebankState",
    "MemoryCallbackHandler",
    "MemoryEditTool",
    "MemoryMiddleware",
    "MemoryToolkit",
    "RecallTool",
    "ReflectTool",
    "RetainGlobalTool",
    "RetainTool",
    "memory_prefix",
    "memory_tools",
    "recall_node",
    "retain_node",
    "to_message",
    "to_messages",
    "with_memory",
]

_HOMES = {
    "callbacks": ("MemoryCallbackHandler",),
    "memory": ("BankMemory",),
    "messages": ("to_message", "to_messages"),
    "middleware": ("MemoryMiddleware",),
    "models": ("ChatModelCompleter", "EmbeddingsEmbedder"),
    "nodes": ("LorebankState", "recall_node", "retain_node"),
    "retriever": ("BankRetriever",),
    "runnable": ("memory_prefix", "with_memory"),
    "tools": ("MemoryEditTool", "MemoryToolkit", "RecallTool", "ReflectTool", "RetainGlobalTool", "RetainTool", "memory_tools"),
}
__getattr__ = lazily(__name__, __name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
