"""What a text is like: time words, how much of it asks, whether it tells of its speaker, whether it has a title."""

import numpy as np
import pytest
from numpy.typing import NDArray

from lorebank._mnemopi.search.terms import words
from lorebank._mnemopi.search.traits import asking, changed, numbered, of_own, question_share, time_words, titled, traits


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


@pytest.mark.parametrize("text", ["I left.", "That's MY cup", "we met", "Ich gehe.", "mi casa", "mon chat", "私は行く", "我们"])
def test_words_of_oneself_are_seen(text: str) -> None:
    """In several languages and any case."""
    assert of_own(packed(text)).tolist() == [1.0]


@pytest.mark.parametrize("text", ["", "You left.", "Ian met Myra", "III", "彼は行く"])
def test_other_words_are_not_of_oneself(text: str) -> None:
    """Whole words only."""
    assert of_own(packed(text)).tolist() == [0.0]


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ('I read "Dune".', 1.0),
        ("„Der Prozess“", 1.0),
        ("«Nada»", 1.0),
        ("「銀河鉄道」", 1.0),
        ('5" and 6', 0.0),
        ('""', 0.0),
        ("It's", 0.0),
    ],
)
def test_titles_are_in_quotation_marks(text: str, share: float) -> None:
    """Of any kind; an apostrophe and an inch are none."""
    assert titled(packed(text)).tolist() == [share]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("We moved to Porto.", True),
        ("Please, no more kibble", True),
        ("Ich esse kein Fleisch mehr.", True),
        ("Ya no vivo allí.", True),
        ("On a vendu la Clio.", True),
        ("引っ越しました", True),
        ("We live in Porto.", False),
        ("Ich esse mehr Fleisch.", False),
        ("犬がいます", False),
    ],
)
def test_words_of_change_are_seen(text: str, told: bool) -> None:
    """What was otherwise before, in several languages."""
    assert changed(traits(text, words(text))) is told


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("Ticket 88-1043", 1.0),
        ("Two cats", 1.0),
        ("zwölf Kilo", 1.0),
        ("二匹の犬", 1.0),
        ("One of them", 0.0),
        ("Tom's cats", 0.0),
    ],
)
def test_numbers_are_digits_or_words(text: str, share: float) -> None:
    """But for one, which hardly ever counts."""
    assert numbered(packed(text)).tolist() == [share]


def test_all_traits_fit_one_number() -> None:
    """Bit 0 for time words, three for questions, one each for oneself, titles, change and numbers."""
    told = ("Tea.", "Today.", "Tea?", "Today?", "I.", '"Tea leaves"', "Sold.", "Two.", 'My "tea" today?')
    assert [traits(text, words(text)) for text in told] == [0, 1, 12, 13, 32, 64, 128, 256, 32 + 64 + 13]
