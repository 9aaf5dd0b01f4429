"""LlamaIndex messages in lorebank's neutral shape."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from llama_index.core.base.llms.types import ChatMessage, ImageBlock, MessageRole, ToolCallBlock

from lorebank.seams import Message, ToolCall

_ROLES = {
    MessageRole.USER: "user",
    MessageRole.ASSISTANT: "assistant",
    MessageRole.CHATBOT: "assistant",
    MessageRole.MODEL: "assistant",
    MessageRole.SYSTEM: "system",
    MessageRole.DEVELOPER: "system",
    MessageRole.TOOL: "tool",
    MessageRole.FUNCTION: "tool",
}
SYSTEM = (MessageRole.SYSTEM, MessageRole.DEVELOPER)
OUR_TOOLS: dict[str, str] = {}
"""The names under which memory tools are offered, where those are not their own, and which tools they are."""
EXECUTE = "execute"
"""`CodeActAgent`'s name for running code."""
_RESULT = "Result of executing the code given:\n\n"
"""How `CodeActAgent` begins the user message in which it tells what the code gave."""
_CODE = re.compile(rf"<{EXECUTE}>(.*?)</{EXECUTE}>", re.DOTALL)
_ANSWER = re.compile(r"^Thought:.*(?:\n(?!Thought:|Answer:).*)*\nAnswer:[ \t]*", re.MULTILINE)
_OBSERVED = re.compile(r"^Observation:", re.MULTILINE)


def to_message(message: ChatMessage) -> Message:
    """The neutral message."""
    calls = tuple(
        ToolCall(
            _tool(block.tool_name), block.tool_kwargs if isinstance(block.tool_kwargs, dict) else {"input": block.tool_kwargs}
        )
        for block in message.blocks
        if isinstance(block, ToolCallBlock)
    )
    images = sum(isinstance(block, ImageBlock) for block in message.blocks)
    name = message.additional_kwargs.get("name")
    return Message(_ROLES[message.role], message.content or "", name=name, tool_calls=calls, images=images)  # type: ignore[arg-type]


def to_messages(messages: Iterable[ChatMessage]) -> list[Message]:
    """The neutral messages of a conversation, in order."""
    return [to_message(message) for message in messages]


def spoken(messages: Sequence[ChatMessage]) -> list[Message]:
    """The neutral messages of a conversation as it was held, without what agents write around it: a `ReActAgent`'s reasoning is
    left out, code that was run is a tool call, and a tool's result has the tool's name.
    """
    neutral = to_messages(messages)
    tools: dict[str, str] = {}
    for place, message in enumerate(messages):
        calls = [block for block in message.blocks if isinstance(block, ToolCallBlock)]
        tools |= {str(call.tool_call_id): _tool(call.tool_name) for call in calls}
        said = neutral[place]
        if said.role == "tool" and said.name is None:
            neutral[place] = replace(said, name=tools.get(str(message.additional_kwargs.get("tool_call_id"))))
        elif said.role == "assistant":
            neutral[place] = replace(said, text=answer_of(said.text))
        elif is_result(messages, place):
            neutral[place] = Message("tool", said.text, name=EXECUTE)
            neutral[place - 1] = _ran(neutral[place - 1])
    return neutral


def answer_of(text: str) -> str:
    """The answer in what a `ReActAgent` stores, which is all the steps of its reasoning; any other text as it is."""
    if not text.startswith("Thought:"):
        return text
    ends = [found.end() for found in _ANSWER.finditer(text)]
    if not ends:
        return text
    return text[ends[-1] if _OBSERVED.search(text) else ends[0] :].strip()


def is_result(messages: Sequence[ChatMessage], place: int) -> bool:
    """Whether a user message is what a `CodeActAgent`'s code gave."""
    told, before = messages[place], messages[place - 1] if place else None
    if told.role != MessageRole.USER or before is None or not (told.content or "").startswith(_RESULT):
        return False
    return _ROLES[before.role] == "assistant" and _CODE.search(before.content or "") is not None


def newest_user(messages: Sequence[ChatMessage]) -> int | None:
    """Where the newest message stands that a user said."""
    users = (place for place in reversed(range(len(messages))) if messages[place].role == MessageRole.USER)
    return next((place for place in users if not is_result(messages, place)), None)


def _ran(message: Message) -> Message:
    """An assistant's message with its code as tool calls."""
    calls = tuple(ToolCall(EXECUTE, {"code": code.strip()}) for code in _CODE.findall(message.text))
    return replace(message, text=_CODE.sub("", message.text).strip(), tool_calls=(*message.tool_calls, *calls))


def _tool(name: str) -> str:
    """A tool's name; a memory tool's own, whatever it is offered as."""
    return OUR_TOOLS.get(name, name)
