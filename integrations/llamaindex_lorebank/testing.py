"""A scripted LLM for tests and demonstrations: it says what it is told to and records what it saw."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llama_index.core.bridge.pydantic import Field
from llama_index.core.llms import CompletionResponse, CompletionResponseGen, CustomLLM, LLMMetadata
from llama_index.core.llms.callbacks import llm_completion_callback


class ScriptedLLM(CustomLLM):
    """Answers each prompt with `answer(prompt)`; `seen` keeps the prompts."""

    answer: Callable[[str], str]
    seen: list[str] = Field(default_factory=list)

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="lorebank-scripted")

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        self.seen.append(prompt)
        return CompletionResponse(text=self.answer(prompt))

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        response = self.complete(prompt, formatted, **kwargs)
        yield CompletionResponse(text=response.text, delta=response.text)
