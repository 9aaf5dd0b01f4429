"""The tools in LangChain agents."""

import copy
import pickle
from dataclasses import dataclass
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import BaseTool

from langchain_lorebank import MemoryToolkit, RecallTool, RetainTool, memory_tools
from langchain_lorebank.testing import ScriptedChatModel, call
from lorebank import Bank, UsageError, open_bank, per_user
from lorebank.seams import TOOLBOOK

Caller = Any


@dataclass
class User:
    """A run's context."""

    user_id: str


def agent_of(tools: list[BaseTool], *script: Any, **options: Any) -> Any:
    return create_agent(ScriptedChatModel(script=list(script)), tools=tools, **options)


async def ask(agent: Any, mode: str, text: str = "hello", **options: Any) -> list[Any]:
    """The messages of a run, blocking or awaited."""
    question = {"messages": [HumanMessage(text)]}
    answer = await agent.ainvoke(question, **options) if mode == "async" else agent.invoke(question, **options)
    return list(answer["messages"])


def told(messages: list[Any]) -> ToolMessage:
    return next(message for message in messages if isinstance(message, ToolMessage))


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_an_agent_retains_and_another_one_recalls(bank: Bank, mode: str) -> None:
    """What one agent saved, a new agent finds, with the receipt and the memories as artifacts."""
    first = agent_of(memory_tools(bank), call("retain", items=[{"content": "Ana prefers aisle seats."}]), "Noted.")
    saved = told(await ask(first, mode))
    assert saved.content == "1 memory stored."
    assert saved.artifact["count"] == 1
    second = agent_of(memory_tools(bank), call("recall", query="seat?"), lambda messages: str(messages[-1].text))
    messages = await ask(second, mode)
    assert "- Ana prefers aisle seats. (id: " in str(messages[-1].text)
    assert told(messages).artifact["memories"][0]["text"] == "Ana prefers aisle seats."


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_each_run_gets_its_user_s_bank_from_context_or_config(bank: Bank, mode: str) -> None:
    """`per_user` reads the context, then `configurable`, then metadata; users never meet."""
    bank.named("ana").retain("The door code is 4711.")
    bank.named("ben").retain("The door code is 8822.")
    script = [call("recall", query="door code"), lambda messages: str(messages[-1].text)] * 3
    agent = agent_of(memory_tools(per_user(bank)), *script, context_schema=User)
    by_context = await ask(agent, mode, context=User("ana"), config={"configurable": {"user_id": "ben"}})
    by_config = await ask(agent, mode, config={"configurable": {"user_id": "ben"}})
    by_metadata = await ask(agent, mode, config={"metadata": {"user_id": "ana"}})
    assert ["4711" in str(m[-1].text) for m in (by_context, by_config, by_metadata)] == [True, False, True]
    assert "8822" in str(by_config[-1].text)
    assert "8822" not in str(by_context[-1].text)


def test_a_run_without_its_user_says_where_it_was_looked_for(bank: Bank) -> None:
    """The error names the key and the places."""
    agent = agent_of(memory_tools(per_user(bank)), call("recall", query="x"), "never")
    with pytest.raises(UsageError, match=r"'user_id'.*context, then config\['configurable'\], then config\['metadata'\]"):
        agent.invoke({"messages": [HumanMessage("x")]})


def test_the_model_can_not_choose_the_bank(bank: Bank) -> None:
    """What the model writes beside the arguments changes nothing."""
    bank.named("ana").retain("The door code is 4711.")
    script = [call("recall", query="door code", user_id="ana", config={"configurable": {"user_id": "ana"}}), "done"]
    agent = agent_of(memory_tools(per_user(bank)), *script)
    answer = agent.invoke({"messages": [HumanMessage("x")]}, {"configurable": {"user_id": "eve"}})
    assert "4711" not in str(told(answer["messages"]).content)


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_memory_that_is_off_is_told_to_the_model_and_the_run_goes_on(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tool message is an error in plain words, never "nothing found"."""
    monkeypatch.setenv("LOREBANK_URL", "off")
    messages = await ask(agent_of(memory_tools(open_bank()), call("recall", query="seat"), "went on"), mode)
    assert told(messages).status == "error"
    assert "unavailable" in str(told(messages).content)
    assert "No relevant" not in str(told(messages).content)
    assert messages[-1].text == "went on"


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_on_failure_raise_ends_the_run(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who wants a failing run gets the typed error."""
    monkeypatch.setenv("LOREBANK_URL", "off")
    agent = agent_of(memory_tools(open_bank(on_failure="raise")), call("recall", query="seat"), "never")
    with pytest.raises(Exception, match="memory is off"):
        await ask(agent, mode)


def test_editing_needs_to_be_asked_for(bank: Bank) -> None:
    """By default retain, recall and reflect; `memory_edit` by name; `retain_global` with a shared bank."""
    assert [tool.name for tool in memory_tools(bank)] == ["retain", "recall", "reflect"]
    assert [tool.name for tool in memory_tools(bank, include=["memory_edit"], prefix="m_")] == ["m_memory_edit"]
    assert [tool.name for tool in MemoryToolkit(bank, prefix="my_").get_tools()] == ["my_retain", "my_recall", "my_reflect"]


def test_a_memory_is_edited_by_its_id(bank: Bank) -> None:
    """Update, invalidate and forget say what changed."""
    [outcome] = bank.retain("Ana lives in Lisbon.").stored
    [tool] = memory_tools(bank, include=["memory_edit"])
    assert (
        tool.invoke({"operation": "update", "id": outcome.id, "content": "Ana lives in Porto."})
        == f"Memory {outcome.id} updated."
    )
    assert tool.invoke({"operation": "invalidate", "id": outcome.id}) == f"Memory {outcome.id} invalidated."
    assert tool.invoke({"operation": "forget", "id": outcome.id}) == f"Memory {outcome.id} forgotten."
    assert "no memory" in tool.invoke({"operation": "forget", "id": outcome.id})


def test_schemas_and_descriptions_are_the_toolbook_s(bank: Bank) -> None:
    """Both frameworks' models read the same."""
    for tool in memory_tools(bank, include=list(TOOLBOOK)[:4]):
        entry = TOOLBOOK[tool.name]  # type: ignore[index]
        assert tool.description == entry.description
        assert tool.args_schema is entry.arguments
        assert tool.args == entry.arguments.model_json_schema()["properties"]


def test_a_wrong_bank_is_an_error_at_construction(bank: Bank) -> None:
    """A URL or a missing bank is no bank."""
    with pytest.raises(UsageError, match="open_bank"):
        RecallTool("sqlite:///memory.db")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="names no tool 'recal'"):
        memory_tools(bank, include=["recal"])
    with pytest.raises(UsageError, match="shared bank"):
        memory_tools(bank, include=["retain_global"])


def test_tools_can_be_copied_and_pickled(bank: Bank) -> None:
    """Hosts copy and pickle tools; a copy works on the same bank."""
    bank.retain("Ana prefers aisle seats.")
    for copied in (copy.deepcopy(RecallTool(bank)), pickle.loads(pickle.dumps(RecallTool(bank)))):  # noqa: S301 - our own bytes
        assert "aisle" in copied.invoke({"query": "seats"})
    assert (
        RetainTool(bank).invoke({"items": [{"content": "Ana prefers aisle seats."}]})
        == "0 memories stored. 1 already known, 0 rejected."
    )
