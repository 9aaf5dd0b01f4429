"""Scripted LLMs for tests and demonstrations: they say what they are told to, call tools, and record what they saw."""

# pyright: reportUntypedFunctionDecorator=false, reportUnknownVariableType=false
# the host's decorators have no types
from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from typing import Any, cast

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ChatResponseAsyncGen,
    ChatResponseGen,
    CompletionResponse,
    CompletionResponseAsyncGen,
    CompletionResponseGen,
    LLMMetadata,
    MessageRole,
    ToolCallBlock,
)
from llama_index.core.bridge.pydantic import Field
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.tools import BaseTool

from lorebank import seams

__all__ = ["ScriptedLLM", "Step", "StrictLLM", "call", "check_messages", "shown_memories", "wire"]

Step = str | ChatMessage | Callable[[list[ChatMessage]], str | ChatMessage]


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


class StrictLLM(FunctionCallingLLM):
    """A scripted chat LLM that calls tools and streams, and that is as strict as the strictest provider: a second or misplaced
    system message, a tool call without its answer, and an answer without its call are refused with a `ValueError`.

    Key init args:
        script: its answers, one a call: a text, a message, or a function of the messages; `IndexError` where it is over
        repeat: begins the script anew where it is over
        failing: raised instead of an answer, or after `after` words of a stream

    Instantiation:
        `StrictLLM(script=[call("weather", city="Rome"), "It is sunny."])`

    `seen` holds the messages of each call, `prefixes` a digest of the system message's bytes for each (`""` where there is none).
    A prompt for completion counts as one user message.
    """

    script: list[Any]
    repeat: bool = False
    failing: Any = None
    after: int = 0
    seen: list[list[ChatMessage]] = Field(default_factory=list)
    prefixes: list[str] = Field(default_factory=list)

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="lorebank-strict", is_chat_model=True, is_function_calling_model=True)

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return ChatResponse(message=self._whole(messages))

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return ChatResponse(message=self._whole(messages))

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        return self._words(self._answer(messages))

    @llm_chat_callback()
    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseAsyncGen:
        answer = self._answer(messages)

        async def words() -> ChatResponseAsyncGen:
            for each in self._words(answer):
                yield each

        return words()

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text=self._whole([ChatMessage(prompt)]).content or "")

    @llm_completion_callback()
    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text=self._whole([ChatMessage(prompt)]).content or "")

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        answer = self._answer([ChatMessage(prompt)])
        return (CompletionResponse(text=each.message.content or "", delta=each.delta) for each in self._words(answer))

    @llm_completion_callback()
    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseAsyncGen:
        answer = self._answer([ChatMessage(prompt)])

        async def words() -> CompletionResponseAsyncGen:
            for each in self._words(answer):
                yield CompletionResponse(text=each.message.content or "", delta=each.delta)

        return words()

    def get_tool_calls_from_response(
        self, response: ChatResponse, error_on_no_tool_call: bool = True, **kwargs: Any
    ) -> list[ToolSelection]:
        """The calls of an answer."""
        calls = _calls(response.message)
        if error_on_no_tool_call and not calls:
            raise ValueError("the answer calls no tool")
        return [ToolSelection(tool_id=str(c.tool_call_id), tool_name=c.tool_name, tool_kwargs=dict(c.tool_kwargs)) for c in calls]

    def _prepare_chat_with_tools(
        self,
        tools: Sequence[BaseTool],
        user_msg: str | ChatMessage | None = None,
        chat_history: list[ChatMessage] | None = None,
        verbose: bool = False,
        allow_parallel_tool_calls: bool = False,
        tool_required: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        said = ChatMessage(user_msg) if isinstance(user_msg, str) else user_msg
        return {"messages": [*(chat_history or []), *([] if said is None else [said])]}

    def _whole(self, messages: Sequence[ChatMessage]) -> ChatMessage:
        answer = self._answer(messages)
        self._stumble(self.after)
        return answer

    def _answer(self, messages: Sequence[ChatMessage]) -> ChatMessage:
        """The next step of the script, for messages that no provider would refuse."""
        check_messages(messages)
        place = len(self.seen) % len(self.script) if self.repeat else len(self.seen)
        self.seen.append([message.model_copy(deep=True) for message in messages])
        system = messages[0].content if messages[0].role == MessageRole.SYSTEM else None
        self.prefixes.append(hashlib.sha256(system.encode()).hexdigest() if system else "")
        if place >= len(self.script):
            raise IndexError(f"the script has {len(self.script)} steps; the model was called once more")
        step: Any = self.script[place]
        answer: Any = step(list(messages)) if callable(step) else step
        return (
            ChatMessage(answer, role=MessageRole.ASSISTANT)
            if isinstance(answer, str)
            else cast("ChatMessage", answer).model_copy(deep=True)
        )

    def _words(self, answer: ChatMessage) -> ChatResponseGen:
        """An answer word by word; its tool calls come with the last one."""
        words = re.findall(r"\s*\S+\s*$|\s*\S+", answer.content or "") or [""]
        for place, word in enumerate(words):
            self._stumble(place)
            last = place == len(words) - 1
            said = "".join(words[: place + 1])
            message = answer if last else ChatMessage(said, role=MessageRole.ASSISTANT)
            yield ChatResponse(message=message.model_copy(deep=True), delta=word)

    def _stumble(self, place: int) -> None:
        if self.failing is not None and place == self.after:
            raise self.failing


def call(tool: str, **arguments: Any) -> ChatMessage:
    """An answer that calls a tool."""
    block = ToolCallBlock(tool_call_id=f"call-{tool}", tool_name=tool, tool_kwargs=arguments)
    return ChatMessage(role=MessageRole.ASSISTANT, blocks=[block])


def shown_memories(messages: Sequence[ChatMessage]) -> tuple[str, ...]:
    """The memories that an LLM was shown among these messages, in their order, without dates. Query engines show theirs as
    nodes: those are in `response.source_nodes`.
    """
    return tuple(memory for message in messages for memory in seams.shown_memories(message.content or ""))


def check_messages(messages: Sequence[ChatMessage]) -> None:
    """Raises `ValueError` where a strict provider would refuse these messages."""
    if not any(each.role != MessageRole.SYSTEM for each in messages):
        raise ValueError("a model needs at least one message that is no system message")
    if any(each.role == MessageRole.SYSTEM for each in messages[1:]):
        raise ValueError("a system message may only be the first, and there may be only one")
    waiting: list[str] = []
    for message in messages:
        if message.role == MessageRole.TOOL:
            answered = str(message.additional_kwargs.get("tool_call_id"))
            if answered not in waiting:
                raise ValueError(f"the tool message {answered!r} answers no call of the message before")
            waiting.remove(answered)
            continue
        if waiting:
            raise ValueError(f"the tool calls {waiting} were not answered")
        waiting = [str(each.tool_call_id) for each in _calls(message)]
    if waiting:
        raise ValueError(f"the tool calls {waiting} were not answered")


def wire(messages: Sequence[ChatMessage]) -> bytes:
    """Messages as the bytes that would be sent."""
    return json.dumps([message.model_dump(mode="json") for message in messages], sort_keys=True).encode()


def _calls(message: ChatMessage) -> list[Any]:
    return [block for block in message.blocks if isinstance(block, ToolCallBlock)]
