"""LlamaIndex LLMs as what lorebank borrows, and the other way round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
