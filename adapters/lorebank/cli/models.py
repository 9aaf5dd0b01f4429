"""The demo's models: scripted ones, or with `LOREBANK_MODEL=provider:model` a real one."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, BaseMessage
    from llama_index.core.llms import LLM

PROMPT = (
    "You have long-term memory. Save lasting facts the user tells you with retain. "
    "Before you answer a question about the user, use recall."
)
_BULLET = re.compile(r"^- (.*?)(?: \(id: [^)]*\))?(?: \[[^\]]*\])?(?: \(\d{4}-\d\d-\d\d\))?(?: c:[-\d.]+)?$", re.MULTILINE)


def chat_model() -> BaseChatModel:
    """The chat model of the demo; `ImportError` names the package that a real one needs."""
    name = os.environ.get("LOREBANK_MODEL")
    if name:
        from langchain.chat_models import init_chat_model

        return init_chat_model(name)
    from langchain_lorebank.testing import ScriptedChatModel

    return ScriptedChatModel(script=[_respond], repeat=True)


def engine_model() -> LLM:
    """The query engine's LLM: the same model through our adapters, or a scripted one."""
    if os.environ.get("LOREBANK_MODEL"):
        from langchain_lorebank.models import ChatModelCompleter
        from llamaindex_lorebank.models import CompleterLLM

        return CompleterLLM(ChatModelCompleter(chat_model()))
    from llamaindex_lorebank.testing import ScriptedLLM

    return ScriptedLLM(answer=_from_context)


def _respond(messages: Sequence[BaseMessage]) -> str | AIMessage:
    """A scripted assistant: retains statements, recalls before it answers questions, answers with the best memory."""
    from langchain_lorebank.testing import call

    last = messages[-1]
    text = str(last.text)
    if last.type == "tool":
        found = _BULLET.search(text)
        kept = "stored" in text or "queued" in text
        return f"I remember: {found[1]}" if found else "I will remember that." if kept else text
    return call("recall", query=text) if text.rstrip().endswith("?") else call("retain", items=[{"content": text}])


def _from_context(prompt: str) -> str:
    """The first passage of a query engine's prompt, without its metadata."""
    passages = [line for line in prompt.split("---------------------")[1].splitlines() if line.strip()]
    told = [line for line in passages if not re.match(r"\w+: \d{4}-\d\d-\d\dT", line)]
    return f"I remember: {told[0]}" if told else "Nothing is known about that."
