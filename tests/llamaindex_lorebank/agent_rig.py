"""Workflow agents of every kind, for the tests of memory in agents."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, CodeActAgent, FunctionAgent, ReActAgent
from llama_index.core.base.llms.types import ChatMessage

from llamaindex_lorebank.testing import StrictLLM, call

FLOOR = version("llama-index-core") == "0.14.12"
"""The lowest version: its own ReActAgent loses its system prompt, its runs can't be stopped early, its workflows give no
structured output.
"""
above_the_floor = pytest.mark.skipif(FLOOR, reason="llama-index-core 0.14.12 has not got it")
AGENTS = ("function", "react", "code act", "workflow", "react workflow", "hand-off")
KEPT = {
    "function": ['weather("city": "Rome")', 'weather("city": "Oslo")'],
    "react": [],
    "code act": ['Let me see.\nexecute("code": "print(weather(\'Rome\'))")'],
    "workflow": ['weather("city": "Rome")', 'weather("city": "Oslo")'],
    "react workflow": [],
    "hand-off": ['handoff("to_agent": "second", "reason": "seats")', 'weather("city": "Rome")'],
}
"""What is retained between question and answer: tool calls in compact form, no scaffold, no successful results."""


def weather(city: str) -> str:
    """The weather in a city."""
    return f"{city} is sunny."


async def execute(code: str) -> dict[str, Any]:
    """Runs code."""
    return {"ran": code}


def agent_of(kind: str, llm: StrictLLM, prompt: str | None = None, *, streaming: bool = True, **options: Any) -> Any:
    given: dict[str, Any] = {"llm": llm, "system_prompt": prompt, "streaming": streaming, "tools": [weather], **options}
    match kind:
        case "function":
            return FunctionAgent(**given)
        case "react":
            return ReActAgent(**given)
        case "code act":
            return CodeActAgent(code_execute_fn=execute, **given)
        case "workflow":
            return AgentWorkflow([FunctionAgent(**given)])
        case "react workflow":
            return AgentWorkflow([ReActAgent(**given)])
        case _:
            first = FunctionAgent(name="first", description="Knows who knows.", **given)
            second = FunctionAgent(name="second", description="Knows seats.", can_handoff_to=[], **given)
            return AgentWorkflow([first, second], root_agent="first")


def script_of(kind: str, answer: str) -> list[str | ChatMessage]:
    """A turn with more than one call of the model."""
    match kind:
        case "function" | "workflow":
            return [call("weather", city="Rome"), call("weather", city="Oslo"), answer]
        case "react" | "react workflow":
            return [
                'Thought: I look.\nAction: weather\nAction Input: {"city": "Rome"}',
                f"Thought: I can answer.\nAnswer: {answer}",
            ]
        case "code act":
            return ["Let me see. <execute>print(weather('Rome'))</execute>", answer]
        case _:
            return [call("handoff", to_agent="second", reason="seats"), call("weather", city="Rome"), answer]
