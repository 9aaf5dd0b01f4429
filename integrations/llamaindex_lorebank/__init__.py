"""lorebank for LlamaIndex: a tool spec and a retriever over a bank.

>>> from llamaindex_lorebank import BankRetriever

Names load on first use.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if find_spec("llama_index") is None or find_spec("llama_index.core") is None:
    raise ImportError("llamaindex_lorebank needs LlamaIndex: pip install 'lorebank[llamaindex]'")

if TYPE_CHECKING:
    from llamaindex_lorebank.messages import to_message, to_messages
    from llamaindex_lorebank.models import CompleterLLM, LLMCompleter
    from llamaindex_lorebank.retriever import BankRetriever
    from llamaindex_lorebank.tools import BankToolSpec

__all__ = ["BankRetriever", "BankToolSpec", "CompleterLLM", "LLMCompleter", "to_message", "to_messages"]

_HOMES = {
    "messages": ("to_message", "to_messages"),
    "models": ("CompleterLLM", "LLMCompleter"),
    "retriever": ("BankRetriever",),
    "tools": ("BankToolSpec",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'llamaindex_lorebank' has no attribute {name!r}")
    value = getattr(import_module(f"llamaindex_lorebank.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
