"""LlamaIndex's models as what lorebank borrows, and the other way round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import Field
from llama_index.core.llms import LLM, CompletionResponse, CompletionResponseGen, CustomLLM, LLMMetadata
from llama_index.core.llms.callbacks import llm_completion_callback

from lorebank.seams import Completer


@dataclass(frozen=True, slots=True)
class LLMCompleter:
    """Any LLM as a completer. A schema is part of the prompt; the answer is checked by who asked."""

    llm: LLM

    def complete(self, prompt: str, *, schema: Mapping[str, Any] | None = None, max_tokens: int) -> str:
        """The LLM's text for a prompt."""
        asked = prompt if schema is None else f"{prompt}\n\nAnswer with JSON alone that follows this JSON Schema:\n{dict(schema)}"
        return self.llm.complete(asked, max_tokens=max_tokens).text


class CompleterLLM(CustomLLM):
    """A completer as an LLM, for query engines: `RetrieverQueryEngine.from_args(retriever, llm=CompleterLLM(completer=...))`."""

    completer: Any = Field(exclude=True, repr=False)
    max_tokens: int = 1024

    def __init__(self, completer: Completer, **fields: Any) -> None:
        super().__init__(completer=completer, **fields)

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="lorebank-completer", num_output=self.max_tokens)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text=self.completer.complete(prompt, max_tokens=self.max_tokens))

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        text = self.completer.complete(prompt, max_tokens=self.max_tokens)
        yield CompletionResponse(text=text, delta=text)


class EmbeddingEmbedder:
    """Any `BaseEmbedding` as an embedder: `open_bank(embedder=EmbeddingEmbedder(embed_model))`.

    Vectors of one `name` are taken for those of one model; by default it is made of the class and its model's name. The number of
    dimensions is that of a first vector, unless it is given.
    """

    def __init__(self, embed_model: BaseEmbedding, *, name: str | None = None, dimensions: int | None = None) -> None:
        self.embed_model = embed_model
        self.name = name or f"{type(embed_model).__name__}:{embed_model.model_name}"
        if dimensions is not None:
            self.dimensions = dimensions

    @cached_property
    def dimensions(self) -> int:
        """How long its vectors are."""
        return len(self.embed_model.get_query_embedding("dimensions"))

    def embed(self, texts: Sequence[str], *, kind: Literal["query", "passage"]) -> Sequence[Sequence[float]]:
        """One vector for each text; queries go the model's own way for queries."""
        if kind == "query":
            return [self.embed_model.get_query_embedding(text) for text in texts]
        return self.embed_model.get_text_embedding_batch(list(texts))
