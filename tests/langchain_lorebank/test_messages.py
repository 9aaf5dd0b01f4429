"""LangChain messages in the neutral shape, and models as completers."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage

from langchain_lorebank import ChatModelCompleter, to_message, to_messages
from langchain_lorebank.testing import ScriptedChatModel
from lorebank.seams import Completer, Message, ToolCall


def test_roles_ids_and_calls_are_kept() -> None:
    """Each kind of message becomes its role; what is no message of a conversation is left out."""
    calls = [{"name": "search", "args": {"q": "x"}, "id": "1", "type": "tool_call"}]
    found = to_messages([
        SystemMessage("be kind", id="s"),
        HumanMessage("hi", id="u", name="ana"),
        AIMessage("", id="a", tool_calls=calls),
        ToolMessage("boom", tool_call_id="1", id="t", name="search", status="error"),
        RemoveMessage(id="r"),
    ])  # fmt: skip
    assert found == [
        Message("system", "be kind", id="s"),
        Message("user", "hi", id="u", name="ana"),
        Message("assistant", "", id="a", tool_calls=(ToolCall("search", {"q": "x"}),)),
        Message("tool", "boom", id="t", name="search", failed=True),
    ]


def test_images_are_counted_and_summaries_marked() -> None:
    """Text blocks are the text, pictures a number; what the host wrote in the user's name is marked."""
    parts = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "https://example.org/x.png"}}]
    assert to_message(HumanMessage(parts)) == Message("user", "look", images=1)  # type: ignore[arg-type]
    summary = to_message(HumanMessage("summary", additional_kwargs={"lc_source": "summarization"}))
    assert summary is not None
    assert summary.injected


def test_a_chat_model_is_a_completer() -> None:
    """Any chat model writes text from a prompt."""
    completer = ChatModelCompleter(ScriptedChatModel(script=["forty-two"]))
    assert isinstance(completer, Completer)
    assert completer.complete("6 x 7?", max_tokens=10) == "forty-two"


def test_a_script_that_is_used_up_raises() -> None:
    """The scripted model never makes up an answer."""
    model = ScriptedChatModel(script=["one"])
    model.invoke("a")
    with pytest.raises(IndexError, match="1 steps"):
        model.invoke("b")
