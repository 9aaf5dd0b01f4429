"""Scripted chat models for tests and demonstrations: they say what they are told to, call tools, and record what they saw."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, SystemMessage, ToolMessage, message_to_dict
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from pydantic import Field

from lorebank import seams

__all__ = ["ScriptedChatModel", "Step", "StrictChatModel", "call", "check_messages", "shown_memories"]

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


def shown_memories(messages: Sequence[BaseMessage]) -> tuple[str, ...]:
    """The memories that a model was shown among these messages, in their order, without dates."""
    return tuple(memory for message in messages for memory in seams.shown_memories(message.text))


class StrictChatModel(ScriptedChatModel):
    """A scripted model that is as strict as the strictest provider: a second or misplaced system message, a tool call without
    its answer, and an answer without its call are refused with a `ValueError`.

    Key init args:
        script, repeat: as `ScriptedChatModel`; `stream` gives the answers word by word
        failing: raised instead of an answer, or after `after` words of a stream
        after: how many words come before the failure or the hang
        hanging: a `threading.Event` that an answer waits for; whoever hangs it lets it go

    Instantiation:
        `StrictChatModel(script=["Noted."])`

    `seen` holds the messages of each call that was answered, `wire` those of each call as bytes.
    """

    failing: Any = None
    after: int = 0
    hanging: Any = None
    wire: list[bytes] = Field(default_factory=list)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        self._take(messages)
        self._stumble()
        return super()._generate(messages, stop, run_manager, **kwargs)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        self._take(messages)
        answer: Any = super()._generate(messages, stop, run_manager, **kwargs).generations[0].message
        words = re.findall(r"\s*\S+\s*$|\s*\S+", str(answer.text)) or [""]
        for place, word in enumerate(words):
            if place == self.after:
                self._stumble()
            last = place == len(words) - 1
            calls = [
                tool_call_chunk(name=each["name"], args=json.dumps(each["args"]), id=each["id"], index=index)
                for index, each in enumerate(answer.tool_calls if last else ())
            ]
            chunk = AIMessageChunk(content=word, id=answer.id, tool_call_chunks=calls)
            if run_manager is not None:
                run_manager.on_llm_new_token(word, chunk=ChatGenerationChunk(message=chunk))
            yield ChatGenerationChunk(message=chunk)

    def _take(self, messages: list[BaseMessage]) -> None:
        check_messages(messages)
        self.wire.append(json.dumps([message_to_dict(each) for each in messages], default=str, sort_keys=True).encode())

    def _stumble(self) -> None:
        if self.hanging is not None:
            self.hanging.wait()
        if self.failing is not None:
            raise self.failing


def check_messages(messages: Sequence[BaseMessage]) -> None:
    """Raises `ValueError` where a strict provider would refuse these messages."""
    if not any(not isinstance(each, SystemMessage) for each in messages):
        raise ValueError("a model needs at least one message that is no system message")
    if any(isinstance(each, SystemMessage) for each in messages[1:]):
        raise ValueError("a system message may only be the first, and there may be only one")
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in waiting:
                raise ValueError(f"the tool message {message.tool_call_id!r} answers no call of the message before")
            waiting.remove(message.tool_call_id)
            continue
        if waiting:
            raise ValueError(f"the tool calls {waiting} were not answered")
        waiting = [str(each["id"]) for each in message.tool_calls] if isinstance(message, AIMessage) else []
    if waiting:
        raise ValueError(f"the tool calls {waiting} were not answered")
