"""The tool spec in LlamaIndex agents."""

from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, MessageRole, ToolCallBlock
from llama_index.core.instrumentation.dispatcher import instrument_tags
from llama_index.core.llms.mock import MockFunctionCallingLLM

from llamaindex_lorebank import BankToolSpec, to_messages, with_memory
from lorebank import Bank, UsageError, open_bank, per_user
from lorebank.seams import TOOLBOOK, ToolFailure


def llm_that(*steps: Any) -> MockFunctionCallingLLM:
    """A scripted LLM: a tuple is a tool call, a text an answer, a function makes one of the messages."""
    rest = list(steps)

    def respond(messages: Any, **_options: Any) -> ChatMessage:
        step = rest.pop(0)
        step = step(messages) if callable(step) else step
        if isinstance(step, str):
            return ChatMessage(role=MessageRole.ASSISTANT, content=step)
        name, arguments = step
        block = ToolCallBlock(tool_call_id=name, tool_name=name, tool_kwargs=arguments)
        return ChatMessage(role=MessageRole.ASSISTANT, blocks=[block])

    return MockFunctionCallingLLM(response_generator=respond, is_chat_model=True)


def last(messages: Any) -> str:
    return str(messages[-1].content)


async def test_an_agent_retains_and_another_one_recalls(bank: Bank) -> None:
    """What one agent saved, a new agent finds."""
    tools: Any = BankToolSpec(bank).to_tool_list()
    saving = ("retain", {"items": [{"content": "Ana prefers aisle seats."}]})
    first = FunctionAgent(tools=tools, llm=llm_that(saving, last))
    assert str(await first.run(user_msg="hello")) == "1 memory stored."
    second = FunctionAgent(tools=BankToolSpec(bank).to_tool_list(), llm=llm_that(("recall", {"query": "seat?"}), last))  # type: ignore[arg-type]
    assert "- Ana prefers aisle seats. (id: " in str(await second.run(user_msg="which seat?"))


async def test_each_run_gets_its_user_s_bank(bank: Bank) -> None:
    """The instrument tags of a run reach the tools inside an agent; users never meet."""
    bank.named("ana").retain("The door code is 4711.")
    bank.named("ben").retain("The door code is 8822.")
    for user, code in (("ana", "4711"), ("ben", "8822")):
        tools: Any = BankToolSpec(per_user(bank)).to_tool_list()
        agent = FunctionAgent(tools=tools, llm=llm_that(("recall", {"query": "door code"}), last))
        with instrument_tags({"user_id": user}):
            assert code in str(await agent.run(user_msg="the code?"))


async def test_memory_that_is_off_is_told_to_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent goes on with a tool error in plain words."""
    monkeypatch.setenv("LOREBANK_URL", "off")
    tools: Any = BankToolSpec(open_bank()).to_tool_list()
    agent = FunctionAgent(tools=tools, llm=llm_that(("recall", {"query": "seat?"}), last))
    assert "unavailable" in str(await agent.run(user_msg="which seat?"))


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_a_direct_call_gives_text_and_artifact(bank: Bank, mode: str) -> None:
    """The text is what a model reads; the raw output also holds the artifact."""
    retain = BankToolSpec(bank).to_tool_list()[0]
    items = [{"content": "Ana prefers aisle seats."}]
    output = await retain.acall(items=items) if mode == "async" else retain.call(items=items)
    assert output.content == "1 memory stored."
    assert output.raw_output.artifact["count"] == 1


def test_schemas_and_descriptions_are_the_toolbook_s(bank: Bank) -> None:
    """Both frameworks' models read the same."""
    for tool in BankToolSpec(bank, include=list(TOOLBOOK)[:4]).to_tool_list():
        entry = TOOLBOOK[tool.metadata.name]  # type: ignore[index]
        assert tool.metadata.description == entry.description
        assert tool.metadata.fn_schema is entry.arguments


def test_names_can_have_a_prefix_and_editing_must_be_asked_for(bank: Bank) -> None:
    """By default retain, recall and reflect."""
    assert [t.metadata.name for t in BankToolSpec(bank, prefix="m_").to_tool_list()] == ["m_retain", "m_recall", "m_reflect"]
    [outcome] = bank.retain("Ana lives in Lisbon.").stored
    [edit] = BankToolSpec(bank, include=["memory_edit"]).to_tool_list()
    assert edit.call(operation="forget", id=outcome.id).content == f"Memory {outcome.id} forgotten."
    with pytest.raises(ToolFailure, match="no memory"):
        edit.call(operation="forget", id=outcome.id)


def test_a_run_without_its_user_says_where_to_put_it(bank: Bank) -> None:
    """The error names the key and the way to give it."""
    recall = BankToolSpec(per_user(bank)).to_tool_list()[1]
    with pytest.raises(UsageError, match=r"'user_id'.*instrument_tags"):
        recall.call(query="x")
    with pytest.raises(UsageError, match="open_bank"):
        BankToolSpec("alice")  # type: ignore[arg-type]


@pytest.mark.parametrize("wrapped", [False, True], ids=["tags", "with_memory"])
async def test_the_tools_obey_the_mode_of_the_run_s_session(bank: Bank, wrapped: bool) -> None:
    """In a session that is `read-only` a write is refused in words for the model, and what may be read is read."""
    bank.retain("Ana prefers aisle seats.")
    with bank.session("c") as session:
        session.mode = "read-only"
        session.save()
        tools: Any = BankToolSpec(bank).to_tool_list()
        saving = ("retain", {"items": [{"content": "Ana moved to Porto."}]})
        agent: Any = FunctionAgent(tools=tools, llm=llm_that(saving, ("recall", {"query": "seat?"}), last))
        run = with_memory(agent, bank, session_id="c") if wrapped else agent
        with instrument_tags({} if wrapped else {"session_id": "c"}):
            assert "aisle seats" in str(await run.run(user_msg="hello"))
        assert [memory.text for memory in bank.list()] == ["Ana prefers aisle seats."]


def test_prefixed_tools_are_known_as_memory_s(bank: Bank) -> None:
    """What they say is not retained again."""
    BankToolSpec(bank, prefix="long_term_")
    with bank.session("c") as session:
        call = ChatMessage(
            role=MessageRole.ASSISTANT,
            blocks=[ToolCallBlock(tool_call_id="1", tool_name="long_term_recall", tool_kwargs={"query": "seats of Ana"})],
        )
        session.after_turn(to_messages([ChatMessage("Which seats?"), call]))
        assert [memory.text for memory in bank.list()] == ["Which seats?"]
