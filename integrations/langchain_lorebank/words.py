"""What a user has said and what was answered, in the inputs and outputs of a chain, whatever their shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, convert_to_messages
from langchain_core.prompt_values import PromptValue

from langchain_lorebank.messages import is_user, to_message, to_messages
from lorebank.seams import Message

INPUTS = ("input", "question", "query", "human_input", "user_input", "prompt", "message", "text", "content")
OUTPUTS = ("response", "answer", "output", "text", "result", "content")
"""Where chains have the user's words and the answer, the first that there is."""


def said(inputs: Any, key: str | None = None) -> tuple[Message, bool] | None:
    """The user's newest words among a chain's inputs, and whether nothing was said after them; `None` where there are none."""
    messages = _spoken(_under(inputs, key))
    newest = next((place for place in reversed(range(len(messages))) if is_user(messages[place])), None)
    found = None if newest is None else to_message(messages[newest])
    if newest is None or found is None or not (found.text.strip() or found.images):
        return None
    return found, newest == len(messages) - 1


def answered(outputs: Any, key: str | None = None) -> Message | None:
    """The answer among a chain's outputs."""
    value = _chosen(outputs, OUTPUTS, key) if isinstance(outputs, Mapping) else outputs
    if isinstance(value, (list, tuple)):
        value = next((each for each in reversed(value) if isinstance(each, AIMessage)), None)
    if isinstance(value, str):
        return Message("assistant", value) if value.strip() else None
    found = to_message(value) if isinstance(value, BaseMessage) else None
    return found if found is not None and found.role == "assistant" else None


def history_of(outputs: Any) -> list[Message]:
    """The conversation that a graph ends with; empty for other outputs."""
    messages = outputs.get("messages") if isinstance(outputs, Mapping) else None
    if not isinstance(messages, (list, tuple)) or not messages:
        return []
    named = all(isinstance(each, BaseMessage) and each.id is not None for each in messages)
    return list(to_messages(messages)) if named else []


def _under(inputs: Any, key: str | None) -> Any:
    """What holds the user's words among inputs."""
    if isinstance(inputs, Mapping):
        if "role" in inputs and "content" in inputs:
            return [inputs]
        if key is None and isinstance(inputs.get("messages"), (list, tuple)):
            return inputs["messages"]
        return _chosen(inputs, INPUTS, key)
    return getattr(inputs, "messages", inputs)


def _chosen(values: Mapping[str, Any], keys: Sequence[str], key: str | None) -> Any:
    """The value under the key, else under the first of the usual keys, else the only one."""
    if key is not None:
        return values.get(key)
    named = next((each for each in keys if values.get(each) is not None), None)
    if named is not None:
        return values[named]
    return next(iter(values.values())) if len(values) == 1 else None


def _spoken(value: Any) -> list[BaseMessage]:
    """Messages, in any of the shapes that LangChain takes for them; none for anything else."""
    if isinstance(value, str):
        return [HumanMessage(value)]
    if isinstance(value, BaseMessage):
        return [value]
    if isinstance(value, PromptValue):
        return value.to_messages()
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(each, str) for each in value):
        value = [value]
    if not isinstance(value, (list, tuple)) or any(isinstance(each, str) for each in value):
        return []
    try:
        return convert_to_messages(value)
    except (ValueError, NotImplementedError, TypeError):  # no messages: some other list
        return []
