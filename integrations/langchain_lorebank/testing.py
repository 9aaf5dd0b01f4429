"""A scripted chat model for tests and demonstrations: it says what it is told to, calls tools, and records what it saw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from pydantic import Field

Step = str | AIMessage | Callable[[list[BaseMessage]], str | AIMessage]


class ScriptedChatModel(BaseChatModel):
    """Answers with its steps, one a call. A step is a text, a message, or a function of the messages; a model whose
    steps are used up raises, and one function alone (`script=[f]`, `repeat=True`) answers for ever.
    """

    script: list[Any]
    repeat: bool = False
    seen: list[list[BaseMessage]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "lorebank-scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[LanguageModelInput, AIMessage]:
        return self.bind(**kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        step = self._step()
        self.seen.append(list(messages))
        answer = step(list(messages)) if callable(step) else step
        message = AIMessage(answer) if isinstance(answer, str) else answer
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _step(self) -> Any:
        index = len(self.seen) % len(self.script) if self.repeat else len(self.seen)
        if index >= len(self.script):
            raise IndexError(f"the script has {len(self.script)} steps; the model was called once more")
        return self.script[index]


def call(tool: str, **arguments: Any) -> AIMessage:
    """An answer that calls a tool."""
    return AIMessage("", tool_calls=[{"name": tool, "args": arguments, "id": f"call-{tool}", "type": "tool_call"}])
