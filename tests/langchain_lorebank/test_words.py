"""What counts as the user's words and as the answer, in the inputs and outputs of chains."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate
from langgraph.types import Command

from langchain_lorebank.testing import call
from langchain_lorebank.words import answered, history_of, said
from lorebank.seams import Message

USER = HumanMessage("hi")
CASES: list[tuple[Any, str | None, str | None]] = [
    ("hi", None, "hi"),
    (USER, None, "hi"),
    ([SystemMessage("s"), USER], None, "hi"),
    ([("human", "no"), ("ai", "x"), ("user", "hi")], None, "hi"),
    (("user", "hi"), None, "hi"),
    ([{"role": "user", "content": "hi"}], None, "hi"),
    ({"role": "user", "content": "hi"}, None, "hi"),
    ({"messages": [USER]}, None, "hi"),
    ({"messages": [USER], "input": "no"}, None, "hi"),
    ({"messages": [], "input": "hi"}, "input", "hi"),
    ({"input": "hi", "chat_history": [HumanMessage("no")]}, None, "hi"),
    ({"input": [HumanMessage("no"), USER], "context": "no"}, None, "hi"),
    ({"topic": "hi"}, None, "hi"),
    ({"topic": "hi", "language": "en"}, None, None),
    ({"topic": "hi", "language": "en"}, "topic", "hi"),
    (ChatPromptTemplate.from_template("{x}").invoke({"x": "hi"}), None, "hi"),
    ([USER, HumanMessage("summary", additional_kwargs={"lc_source": "summarization"})], None, "hi"),
    ({"input": ""}, None, None),
    (Command(resume="hi"), None, None),
    (["one", "two"], None, None),
    ([1, 2], None, None),
    ({}, None, None),
    (None, None, None),
    (3, None, None),
]


@pytest.mark.parametrize(("inputs", "key", "words"), CASES)
def test_the_user_s_words_are_found_in_inputs_of_any_shape(inputs: Any, key: str | None, words: str | None) -> None:
    """The newest user message; what can't be read is nothing, and raises nothing."""
    found = said(inputs, key)
    assert (found[0].text if found else None) == words


def test_words_that_were_answered_before_are_not_new() -> None:
    """In a tool loop by hand the user has not said anything again."""
    assert said([USER, call("weather", city="Porto"), ToolMessage("sunny", tool_call_id="call-weather")]) == (
        Message("user", "hi"),
        False,
    )


@pytest.mark.parametrize(
    ("outputs", "key", "words"),
    [
        ("yes", None, "yes"),
        (AIMessage("yes"), None, "yes"),
        (AIMessageChunk(content="yes"), None, "yes"),
        ({"answer": "yes", "context": ["no"]}, None, "yes"),
        ({"x": AIMessage("yes"), "y": "no"}, "x", "yes"),
        ({"x": "yes"}, None, "yes"),
        ({"x": "no", "y": "no"}, None, None),
        ([USER, AIMessage("yes")], None, "yes"),
        ({"answer": {"a": 1}}, None, None),
        (" ", None, None),
        (USER, None, None),
        (3, None, None),
        (None, None, None),
    ],
)
def test_the_answer_is_found_in_outputs_of_any_shape(outputs: Any, key: str | None, words: str | None) -> None:
    """Or nothing is, and nothing raises."""
    found = answered(outputs, key)
    assert (found.text if found else None) == words


def test_only_messages_with_ids_are_a_whole_history() -> None:
    """What a graph ends with; a chain's own list of messages is none."""
    named = [HumanMessage("hi", id="1"), AIMessage("yes", id="2")]
    assert [each.id for each in history_of({"messages": named})] == ["1", "2"]
    assert history_of({"messages": [USER, *named]}) == history_of("yes") == history_of({"messages": []}) == []
