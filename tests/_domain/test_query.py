"""The query of an automatic recall."""

import pytest

from lorebank._domain.message import Message
from lorebank._domain.query import compose_query

TALK = [
    Message("user", "I fly to Lisbon."),
    Message("assistant", "Which day?"),
    Message("user", "On Friday."),
    Message("assistant", "Window or aisle?"),
    Message("user", "Which seat do I like?"),
]


@pytest.mark.parametrize(
    ("turns", "query"),
    [
        (1, "Which seat do I like?"),
        (2, "Which seat do I like?\nWindow or aisle?\nOn Friday."),
        (3, "Which seat do I like?\nWindow or aisle?\nOn Friday.\nWhich day?\nI fly to Lisbon."),
        (9, "Which seat do I like?\nWindow or aisle?\nOn Friday.\nWhich day?\nI fly to Lisbon."),
    ],
)
def test_turns_before_the_newest_follow_it_newest_first(turns: int, query: str) -> None:
    """`context_turns` counts user turns, the newest included."""
    assert compose_query(TALK, context_turns=turns, max_chars=800) == query


def test_context_is_left_out_where_it_does_not_fit() -> None:
    """The newest text stays whole; the first context text that is too long ends the query."""
    assert compose_query(TALK, context_turns=3, max_chars=40) == "Which seat do I like?\nWindow or aisle?"


def test_the_newest_text_is_cut_only_when_it_is_too_long_itself() -> None:
    """`max_chars` is never passed."""
    assert compose_query(TALK, context_turns=3, max_chars=10) == "Which seat"


def test_our_blocks_are_no_part_of_a_query() -> None:
    """Recalled memories never search for themselves."""
    block = "<memories>\nBackground\n- Ana likes aisle seats\n</memories>\n"
    assert compose_query([Message("user", block + "Which seat?")], context_turns=1, max_chars=100) == "Which seat?"


def test_an_injected_user_message_is_not_the_newest_text() -> None:
    """What we put in ourselves is never part of a query."""
    messages = [Message("user", "Which seat?"), Message("user", "Ana likes aisle seats", injected=True)]
    assert compose_query(messages, context_turns=1, max_chars=100) == "Which seat?"


def test_injected_messages_are_no_context() -> None:
    """Nor do they stand behind the newest text."""
    messages = [Message("user", "Hi"), Message("assistant", "Aisle, I know", injected=True), Message("user", "Which seat?")]
    assert compose_query(messages, context_turns=2, max_chars=100) == "Which seat?\nHi"


def test_tool_and_system_messages_are_no_context() -> None:
    """Only what user and assistant said gives context."""
    messages = [Message("user", "Hi"), Message("tool", "42"), Message("system", "Be kind"), Message("user", "Seat?")]
    assert compose_query(messages, context_turns=2, max_chars=100) == "Seat?\nHi"


def test_what_the_assistant_said_after_the_newest_user_message_is_no_context() -> None:
    """The query of a turn is the same at each of its model calls."""
    messages = [Message("user", "Seat?"), Message("assistant", "Let me look")]
    assert compose_query(messages, context_turns=3, max_chars=100) == "Seat?"


def test_repeats_are_left_out() -> None:
    """A text said twice stands once."""
    messages = [Message("user", "Seat?"), Message("assistant", "What?"), Message("user", "Seat?")]
    assert compose_query(messages, context_turns=2, max_chars=100) == "Seat?\nWhat?"


@pytest.mark.parametrize("text", ["", "  ", "?!", "<memories>\n- x\n</memories>"])
def test_a_message_that_says_nothing_asks_nothing(text: str) -> None:
    """Without a letter or digit there is no query, whatever was said before."""
    assert compose_query([Message("user", "Hi"), Message("user", text)], context_turns=3, max_chars=100) == ""


def test_without_a_user_message_there_is_no_query() -> None:
    """Nothing was asked."""
    assert compose_query([Message("assistant", "Hello")], context_turns=3, max_chars=100) == ""
    assert compose_query([], context_turns=3, max_chars=100) == ""


def test_a_limit_below_one_is_refused() -> None:
    """A programming mistake is told."""
    with pytest.raises(ValueError, match="`max_chars` must be at least 1; found 0"):
        compose_query(TALK, context_turns=1, max_chars=0)
