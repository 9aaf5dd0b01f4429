"""LangChain's models as what lorebank borrows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel

from lorebank import GarbledError


@dataclass(frozen=True, slots=True)
class ChatModelCompleter:
    """Any chat model as a completer. With a schema, the model's structured output is asked for and given as JSON."""

    model: BaseChatModel

    def complete(self, prompt: str, *, schema: Mapping[str, Any] | None = None, max_tokens: int) -> str:
        """The model's text for a prompt; `GarbledError` where structured output was asked for and did not come."""
        if schema is None:
            return str(self.model.invoke(prompt, max_tokens=max_tokens).text)
        answer = self.model.with_structured_output(dict(schema)).invoke(prompt)
        if not isinstance(answer, Mapping):
            raise GarbledError(f"the model was asked for JSON and gave {type(answer).__name__}")
        return json.dumps(dict(answer), ensure_ascii=False)


class EmbeddingsEmbedder:
    """Any `Embeddings` as an embedder: `open_bank(embedder=EmbeddingsEmbedder(embeddings))`.

    Vectors of one `name` are taken for those of one model; by default it is made of the class and its model's name. The number of
    dimensions is that of a first vector, unless it is given.
    """

    def __init__(self, embeddings: Embeddings, *, name: str | None = None, dimensions: int | None = None) -> None:
        self.embeddings = embeddings
        self.name = name or _name_of(embeddings)
        if dimensions is not None:
            self.dimensions = dimensions

    @cached_property
    def dimensions(self) -> int:
        """How long its vectors are."""
        return len(self.embeddings.embed_query("dimensions"))

    def embed(self, texts: Sequence[str], *, kind: Literal["query", "passage"]) -> Sequence[Sequence[float]]:
        """One vector for each text; queries go the model's own way for queries."""
        if kind == "query":
            return [self.embeddings.embed_query(text) for text in texts]
        return self.embeddings.embed_documents(list(texts))


def _name_of(embeddings: Embeddings) -> str:
    model = next((found for each in ("model", "model_name", "model_id") if (found := getattr(embeddings, each, None))), "")
    return f"{type(embeddings).__name__}:{model}" if model else type(embeddings).__name__
