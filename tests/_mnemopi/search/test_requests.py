"""Whose matters a query asks for, and what was before something: what a question is known by."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lorebank import Bank
from lorebank._mnemopi.search.question import Question, parse_question
from lorebank._mnemopi.search.requests import EITHER, GENERAL, OWN

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)


def parsed(query: str) -> Question:
    return parse_question(query, NOW)


@pytest.mark.parametrize(
    "query",
    [
        "Where do I live?",
        "How do I take my coffee?",
        "Can I eat nuts?",
        "the user's dentist",
        "Welches Auto fahre ich?",
        "aktueller Zahnarzt der Nutzerin",
        "¿Qué coche tiene el usuario?",
        "Où est-ce que nous allons ?",
        "adresse de l'utilisateur",
        "私の犬の名前は?",
        "ユーザーの歯医者",
        "Can you tell me what I said about the boat?",
        "Kannst du mir sagen, wie ich heiße?",
        "Wie heiße ich?",
    ],
)
def test_questions_about_the_user(query: str) -> None:
    """In any language, by "I" or by "the user"."""
    assert parsed(query).matter == OWN


@pytest.mark.parametrize(
    "query",
    [
        "How do I boil an egg?",
        "Explain photosynthesis",
        "please write a poem about rain",
        "Can you give me three facts about sloths?",
        "What's a good name for a puppy?",
        "difference between jam and jelly",
        "Wie macht man Pfannkuchen?",
        "Wie schreibe ich eine Schleife?",
        "Erklär mir bitte die Abseitsregel.",
        "¿Cómo puedo quitar una mancha?",
        "Comment faire une béchamel ?",
        "味噌汁の作り方",
    ],
)
def test_general_requests(query: str) -> None:
    """What is asked of an assistant, whoever asks."""
    assert parsed(query).matter == GENERAL


@pytest.mark.parametrize(
    "query",
    ["Kannst du mir den Satz des Pythagoras erklären?", "¿Me puedes explicar la fotosíntesis?", "Peux-tu me dire la capitale ?"],
)
def test_whoever_is_to_be_told_asks_for_nothing_of_theirs(query: str) -> None:
    """Politeness is not about oneself."""
    assert parsed(query).matter != OWN


@pytest.mark.parametrize("query", ["Who is the dentist?", "the deadline", "Wann kommt der Klempner?", "歯医者はどこ?"])
def test_questions_about_anything(query: str) -> None:
    """What does not say whose it is."""
    assert parsed(query).matter == EITHER


def test_a_general_request_has_to_match_better(bank: Bank) -> None:
    """One word in common is an answer to somebody's question, and none to a request of the world."""
    told = "I take eggs to the shelter on Mondays."
    bank.retain([told, "We painted the shed green.", "The tram was late."])
    assert [memory.text for memory in bank.recall("What do I take to shelter animals?")][:1] == [told]
    assert list(bank.recall("How do I boil eggs for soft yolks?")) == []


def test_a_word_for_what_was_is_neither_evidence_nor_a_name(bank: Bank) -> None:
    """What was asked for needs as much evidence as what is, and a question of nothing else is no answer to itself."""
    bank.retain(["The turbine hums at night.", "We painted the shed green.", "The tram was late."])
    queries = ("What was the turbine deadline?", "What was the original turbine deadline?")
    plain, former = (bank.explain(query).trace for query in queries)
    assert plain is not None
    assert former is not None
    assert former.evidence == plain.evidence < 1
    assert list(bank.recall("What was the original one?")) == []


@pytest.mark.parametrize(
    ("query", "ended"),
    [
        ("Where did I live before Porto?", {"porto"}),
        ("Before the move, where did I live?", {"move"}),
        ("Wo habe ich vor Leipzig gewohnt?", {"leipzig"}),
        ("¿Qué coche tenía antes de la moto?", {"la", "moto"}),
        ("Où habitais-je avant Lyon ?", {"lyon"}),
        ("Where did I live before?", set()),
        ("What did I buy before 2024?", set()),
    ],
)
def test_what_came_after_is_known(query: str, ended: set[str]) -> None:
    """The words behind "before" are those of what ended it; a time is none."""
    assert parsed(query).former
    assert parsed(query).ended == ended


@pytest.mark.parametrize(
    "query",
    [
        "犬の名前は?",
        "午前は何をする?",
        "What's my first name?",
        "vor allem Tee",
        "Vor einem Jahr?",
        "What must I pack before the trip?",
        "Was muss ich vor der Reise packen?",
        "How many days until the exam?",
        "Was trinke ich morgens?",
    ],
)
def test_other_words_ask_for_nothing_former(query: str) -> None:
    """Names, hours and manners of speaking that hold the same letters."""
    assert not parsed(query).former
