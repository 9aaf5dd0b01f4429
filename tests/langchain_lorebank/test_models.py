"""LangChain's embeddings make a bank's vectors."""

from __future__ import annotations

import pytest
from langchain_core.embeddings import Embeddings

from langchain_lorebank import EmbeddingsEmbedder
from lorebank import UsageError, open_bank


class Animals(Embeddings):
    """Knows which texts speak of dogs; counts what it is asked."""

    model = "animals-1"

    def __init__(self) -> None:
        self.queries = self.passages = 0

    def vector(self, text: str) -> list[float]:
        dog = any(word in text.lower() for word in ("dog", "puppy", "hound", "bello"))
        return [1.0, 0.1, 0.0] if dog else [0.1, 1.0, float(len(text) % 7) / 10]

    def embed_query(self, text: str) -> list[float]:
        self.queries += 1
        return self.vector(text)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.passages += len(texts)
        return [self.vector(text) for text in texts]


def test_a_bank_finds_by_meaning_what_shares_no_word(url: str) -> None:
    """Passages and queries each go the model's own way; what the words alone can't find is found."""
    embeddings = Animals()
    with open_bank(url, bank="ana", embedder=EmbeddingsEmbedder(embeddings, dimensions=3)) as bank:
        bank.retain(["Bello sleeps in the kitchen.", *[f"Shelf {number} holds jars." for number in range(80)]])
        assert bank.flush(timeout=30).left == 0
        assert bank.recall("the puppy", limit=1)[0].text == "Bello sleeps in the kitchen."
    assert embeddings.passages >= 81
    assert embeddings.queries == 1


def test_its_name_tells_models_apart() -> None:
    """By default the class and its model's name; the dimensions are those of a first vector."""
    assert EmbeddingsEmbedder(Animals()).name == "Animals:animals-1"
    assert EmbeddingsEmbedder(Animals(), name="mine").name == "mine"
    assert EmbeddingsEmbedder(Animals()).dimensions == 3


def test_embeddings_themselves_are_no_embedder(url: str) -> None:
    """The error says what one is."""
    with pytest.raises(UsageError, match="dimensions"):
        open_bank(url, embedder=Animals())  # type: ignore[arg-type]
