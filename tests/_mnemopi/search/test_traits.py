"""What a text is like: time words, and how much of it asks."""

import numpy as np
import pytest
from numpy.typing import NDArray

from lorebank._mnemopi.search.terms import words
from lorebank._mnemopi.search.traits import asking, question_share, time_words, traits


def packed(text: str) -> NDArray[np.int64]:
    return np.array([traits(text, words(text))], np.int64)


@pytest.mark.parametrize(
    "text",
    [
        "We met yesterday.", "Two days AGO", "this weekend", "on Tuesday", "In May, no: in june", "in 2023", "the 3rd", "gestern",
        "ayer", "昨日", "5月", "recently",
    ],
)  # fmt: skip
def test_time_words_are_seen(text: str) -> None:
    """In several languages and any case."""
    assert time_words(packed(text)).tolist() == [1.0]


@pytest.mark.parametrize("text", ["", "Ana prefers aisle seats.", "Bob is vegan", "yesterdays", "12345", "thirdly"])
def test_other_words_are_no_time_words(text: str) -> None:
    """Whole words only."""
    assert time_words(packed(text)).tolist() == [0.0]


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("", 0.0),
        ("I like tea.", 0.0),
        ("Tea?", 1.0),
        ("Tea? Yes.", 0.5),
        ("お茶？はい。", 0.5),
        ("A? B! C. D", 0.25),
        ("?", 0.0),
        ("Really?!", 0.0),
    ],
)
def test_the_share_of_questions(text: str, share: float) -> None:
    """Sentences that end with a question mark, of all sentences."""
    assert question_share(text) == share


@pytest.mark.parametrize(("text", "share"), [("Tea?", 1.0), ("Tea? Yes.", 0.5), ("No.", 0.0), ("A? B. C.", 2 / 6)])
def test_packed_traits_give_the_share_back(text: str, share: float) -> None:
    """In sixths."""
    assert asking(packed(text)).tolist() == [share]


def test_both_traits_fit_one_number() -> None:
    """Bit 0 for time words, the rest for questions."""
    assert [traits(text, words(text)) for text in ("Tea.", "Today.", "Tea?", "Today?")] == [0, 1, 12, 13]
