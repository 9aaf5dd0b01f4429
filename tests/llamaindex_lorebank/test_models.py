"""LlamaIndex's embeddings make a bank's vectors."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding

from llamaindex_lorebank import EmbeddingEmbedder
from lorebank import open_bank


class Animals(BaseEmbedding):
    """Knows which texts speak of dogs."""

    def _vector(self, text: str) -> list[float]:
        dog = any(word in text.lower() for word in ("dog", "puppy", "hound", "bello"))
        return [1.0, 0.1, 0.0] if dog else [0.1, 1.0, float(len(text) % 7) / 10]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._vector(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._vector(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._vector(text)


def test_a_bank_finds_by_meaning_what_shares_no_word(url: str) -> None:
    """What the words alone can't find is found."""
    made: Any = Animals(model_name="animals-1")
    with open_bank(url, bank="ana", embedder=EmbeddingEmbedder(made)) as bank:
        bank.retain(["Bello sleeps in the kitchen.", *[f"Shelf {number} holds jars." for number in range(80)]])
        assert bank.flush(timeout=30).left == 0
        assert bank.recall("the puppy", limit=1)[0].text == "Bello sleeps in the kitchen."


def test_its_name_and_dimensions_are_the_model_s() -> None:
    """They tell its vectors from another model's."""
    embedder = EmbeddingEmbedder(Animals(model_name="animals-1"))
    assert (embedder.name, embedder.dimensions) == ("Animals:animals-1", 3)
