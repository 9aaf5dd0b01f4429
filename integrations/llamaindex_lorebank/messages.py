"""LlamaIndex messages in lorebank's neutral shape."""

from __future__ import annotations

from collections.abc import Iterable

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


def to_message(message: ChatMessage) -> Message:
    """The neutral message."""
    calls = tuple(
        ToolCall(block.tool_name, block.tool_kwargs if isinstance(block.tool_kwargs, dict) else {"input": block.tool_kwargs})
        for block in message.blocks
        if isinstance(block, ToolCallBlock)
    )
    images = sum(isinstance(block, ImageBlock) for block in message.blocks)
    name = message.additional_kwargs.get("name")
    return Message(_ROLES[message.role], message.content or "", name=name, tool_calls=calls, images=images)  # type: ignore[arg-type]


def to_messages(messages: Iterable[ChatMessage]) -> list[Message]:
    """The neutral messages of a conversation, in order."""
    return [to_message(message) for message in messages]
