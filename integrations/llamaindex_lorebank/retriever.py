"""A bank as a LlamaIndex retriever."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from llamaindex_lorebank.runs import bank_of
from lorebank import Bank, Memory
from lorebank.seams import BankResolver, Retrieval, checked, described


class BankRetriever(BaseRetriever):
    """Retrieves memories as nodes: `BankRetriever(bank, similarity_top_k=5).retrieve("seat preference?")`.

    `bank` is a `Bank`, or `per_user(bank)` to give each run the bank of the user in its instrument tags. `max_tokens`
    bounds all nodes together (default: no bound); `types`, `tags` and `tags_match` narrow what may be read. Raises when
    memory is down; `on_failure="skip"` returns nothing instead and tells it in an event.
    """

    def __init__(
        self,
        bank: Bank | BankResolver,
        similarity_top_k: int = 8,
        *,
        max_tokens: int | None = None,
        types: Sequence[str] | None = None,
        tags: Sequence[str] | None = None,
        tags_match: Literal["any", "all", "any_strict", "all_strict", "exact"] = "any_strict",
        on_failure: Literal["raise", "skip"] = "raise",
        callback_manager: CallbackManager | None = None,
        **kwargs: Any,
    ) -> None:
        self._bank = checked(bank)
        self._retrieval = Retrieval(similarity_top_k, max_tokens, types, tags, tags_match, on_failure)
        super().__init__(callback_manager=callback_manager, **kwargs)  # pyright: ignore[reportUnknownMemberType]

    @property
    def similarity_top_k(self) -> int:
        """How many nodes at most."""
        return self._retrieval.limit

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return nodes_of(self._retrieval.recall(bank_of(self._bank), query_bundle.query_str))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return nodes_of(await self._retrieval.arecall(bank_of(self._bank), query_bundle.query_str))


OURS = "lorebank"
"""The metadata that tells what memory gave from documents: `"memory"`, or `"mental model"`."""
SHOWN = ("mentioned_at",)
"""The metadata that a model sees beside the text; the rest is for the application."""


def nodes_of(memories: Iterable[Memory], shown: Sequence[str] = SHOWN) -> list[NodeWithScore]:
    """Memories as nodes; `shown` names the metadata that a model sees."""
    return [NodeWithScore(node=_node(memory, shown), score=memory.score) for memory in memories]


def is_memory(source: NodeWithScore) -> bool:
    """Whether a source of an answer is a memory, or the mental models, and not a document."""
    return OURS in source.node.metadata


def _node(memory: Memory, shown: Sequence[str]) -> TextNode:
    metadata = {OURS: "memory", **described(memory)}
    return TextNode(
        id_=memory.id,
        text=memory.text,
        metadata=metadata,
        excluded_llm_metadata_keys=[name for name in metadata if name not in shown],
        excluded_embed_metadata_keys=list(metadata),
    )
