"""What texts state, and what they don't: one row for each way of telling."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebank._mnemopi.facts.rules import MAX_TEXT, Fact, facts_of
from lorebank._mnemopi.search.terms import words


def told(text: str, speaker: str | None = None) -> list[tuple[str, str, str, bool]]:
    return [(fact.subject, fact.relation, " ".join(fact.value), fact.holds) for fact in facts_of(text, words(text), speaker)]


STATED = {
    "I live in Bristol, on Marigold Street, with two nurses.": ("user", "home", "bristol", True),
    "I'm based in New York these days.": ("user", "home", "new york", True),
    "I've recently moved from Berlin to Lisbon last month.": ("user", "home", "lisbon", True),
    "I no longer live in Berlin.": ("user", "home", "berlin", False),
    "I don\u2019t live in Berlin any more.": ("user", "home", "berlin", False),
    "The user lives in Paris.": ("user", "home", "pari", True),
    "Ana moved to Milan in spring.": ("ana", "home", "milan", True),
    "I work at Siemens.": ("user", "work", "siemen", True),
    "Ana no longer works at Siemens.": ("ana", "work", "siemen", False),
    "I got promoted to head of design.": ("user", "role", "design head", True),
    "My name is Ella Braun.": ("user", "name", "braun ella", True),
    "I'm 34 years old.": ("user", "age", "34", True),
    "I'm vegetarian.": ("user", "diet", "vegetarian", True),
    "I'm no longer vegan.": ("user", "diet", "vegan", False),
    "My favorite colour is green now.": ("user", "favourite color", "green", True),
    "User's favourite color is blue.": ("user", "favourite color", "blue", True),
    "Green is my favourite colour.": ("user", "favourite color", "green", True),
    "I drive a Fiat Panda.": ("user", "car", "fiat panda", True),
    "We use PostgreSQL for the orders database.": ("", "use databas order", "postgr postgresql sql", True),
    "We switched to MySQL for the orders database.": ("", "use databas order", "mysql sql", True),
    "I love strong black coffee in the morning.": ("user", "likes coffe", "", True),
    "I like going to the gym.": ("user", "likes gym", "", True),
    "I can't stand coffee any more.": ("user", "likes coffe", "", False),
    "I gave up coffee.": ("user", "likes coffe", "", False),
    "I'm allergic to peanuts.": ("user", "likes peanut", "", False),
    "Ana doesn't like olives.": ("ana", "likes oliv", "", False),
    "Ana prefers aisle seats.": ("ana", "prefers seat", "aisl seat", True),
    "I prefer tea to coffee.": ("user", "likes tea", "", True),
    "The deadline slipped to June 12.": ("", "is deadlin", "12 june", True),
    "The staging port is 8443.": ("", "is port stage", "8443", True),
    "Our API limit was raised from 100 to 500 requests per minute.": ("", "is api limit", "500 minut request", True),
    "My wife's name is Ella.": ("user", "is name wife", "ella", True),
    "Ich wohne jetzt in München.": ("user", "home", "munchen", True),
    "Ich bin im Mai nach Hamburg gezogen.": ("user", "home", "hamburg", True),
    "Ich arbeite bei Bosch.": ("user", "work", "bosch", True),
    "Meine Lieblingsfarbe ist Grün.": ("user", "favourite farb", "grun", True),
    "Ich mag keinen Kaffee.": ("user", "likes kaffe", "", False),
    "Ich trinke gerne Tee.": ("user", "likes tee", "", True),
    "Vivo en Madrid.": ("user", "home", "madrid", True),
    "Me mudé a Valencia.": ("user", "home", "valencia", True),
    "No me gusta el café.": ("user", "likes cafe", "", False),
    "J'habite à Lyon.": ("user", "home", "lyon", True),
    "Je n'aime plus le fromage.": ("user", "likes fromag", "", False),
}  # fmt: skip
SILENT = (
    "Do you know where I live in Bristol?",
    "If I lived in Paris, I would walk more.",
    "I used to live in Berlin.",
    "I might move to Lisbon.",
    "My brother said I live in the past.",
    'She wrote "I live in Rome" on the card.',
    "We moved to the next topic.",
    "I moved to the couch.",
    "Ich bin nach Hamburg gefahren.",
    "My friend is Anna.",
    "My plan is to sleep.",
    "The problem is that nobody came.",
    "The weather is nice.",
    "He lives in Rome.",
    "Thanks, that helps!",
    "",
)


@pytest.mark.parametrize(("text", "fact"), STATED.items(), ids=str)
def test_a_statement_is_found(text: str, fact: tuple[str, str, str, bool]) -> None:
    """Its subject, relation, value, and whether it holds."""
    assert told(text) == [fact]


@pytest.mark.parametrize("text", SILENT, ids=repr)
def test_what_is_no_statement_gives_none(text: str) -> None:
    """Questions, wishes, conditions, hearsay, and what may be several things at once."""
    assert told(text) == []


def test_several_statements_are_found_in_their_order() -> None:
    """Each sentence's own; repeats once."""
    text = "I live in Oslo. I work at Equinor as an engineer. Do I live in Rome? I live in Oslo!"
    assert told(text) == [("user", "home", "oslo", True), ("user", "work", "equinor", True)]
    assert told("I work as an engineer at Equinor.") == [("user", "work", "equinor", True), ("user", "role", "engin", True)]


@pytest.mark.parametrize(
    ("speaker", "subject"),
    [(None, "user"), ("user", "user"), ("Human", "user"), ("Ana Braun", "ana"), ("assistant", None), ("AI", None)],
)
def test_whose_words_they_are(speaker: str | None, subject: str | None) -> None:
    """The user's, a named person's; an assistant speaks of nobody."""
    assert [fact[0] for fact in told("I live in Oslo.", speaker)] == ([] if subject is None else [subject])


def test_a_document_is_no_statement() -> None:
    """Long texts are about something else."""
    assert told("I live in Oslo. " + "word " * MAX_TEXT) == []


@given(st.text(max_size=300), st.none() | st.text(max_size=20))
def test_any_text_can_be_read(text: str, speaker: str | None) -> None:
    """Without an error, and to facts that a database can hold."""
    for fact in facts_of(text, words(text), speaker):
        assert isinstance(fact, Fact)
        assert fact.relation
        assert len(fact.value) <= 8
