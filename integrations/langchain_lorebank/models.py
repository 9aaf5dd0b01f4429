"""LangChain chat models as what lorebank borrows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
