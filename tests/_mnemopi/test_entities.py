"""Names in texts, by rule."""

from __future__ import annotations

import pytest

from lorebank import Item, open_bank
from lorebank._mnemopi.entities import AT_MOST, READ, entities_of


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("My sister Ana Silva moved to Lisbon with Ben.", ("Ana Silva", "Lisbon", "Ben")),
        ("I read the Lord of the Rings on the Bay of Biscay.", ("Lord of the Rings", "Bay of Biscay")),
        ("I work at Siemens in New York, on PAY-1423 with PostgreSQL 16.", ("Siemens", "New York", "PAY-1423", "PostgreSQL 16")),
        ("Mail ana@example.org or @ben.", ("ana@example.org", "@ben")),
        ("Miso eats. My cat is Miso.", ("Miso",)),
        ("In Berlin I met Anna's friend.", ("Berlin", "Anna")),
        ("The API is down at UCLA.", ("API", "UCLA")),
        ("What does Élise do in Île-de-France?", ("Élise", "Île-de-France")),
        ("Hey John! Thanks, Mel.", ("John", "Mel")),
    ],
)
def test_names_are_found(text: str, names: tuple[str, ...]) -> None:
    """In order, each once, whole."""
    assert entities_of(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Yesterday it rained. We stayed at home.",
        "It's Monday in May, and I turned 30. I swim on Thursdays.",
        "Am Sonntag kaufen wir im Laden ein Brot und die Butter.",
        "PLEASE DO NOT WRITE LIKE THIS",
        "昨日は友達と映画を見ました。",
    ],
)
def test_what_is_no_name_is_not_taken_for_one(text: str) -> None:
    """Beginnings of sentences, days, German nouns, shouting."""
    assert entities_of(text) == ()


def test_a_long_text_gives_a_bounded_list() -> None:
    """However many names it has, and however long it is."""
    names = [f"of {chr(65 + number % 26)}{'xyz'[number // 26]}a," for number in range(60)]
    assert len(entities_of(" ".join(names))) == AT_MOST
    assert entities_of("a" * READ + " in Lisbon") == ()


def test_memories_tell_names_beside_those_that_were_given(url: str) -> None:
    """What the application knows stands first; nothing is stored of what is read from the text."""
    with open_bank(url, bank="ana") as bank:
        [outcome] = bank.retain(Item("I met Ben in Lisbon.", entities=["Ben Okafor"])).stored
        assert bank.get(outcome.id).entities == ("Ben Okafor", "Ben", "Lisbon")
        bank.update(outcome.id, content="I met Eva in Oslo.")
        assert bank.get(outcome.id).entities == ("Ben Okafor", "Eva", "Oslo")
        assert bank.recall("Who did I meet?")[0].entities == ("Ben Okafor", "Eva", "Oslo")
