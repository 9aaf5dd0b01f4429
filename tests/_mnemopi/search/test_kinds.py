"""Questions for a kind of thing, memories of one of that kind."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from lorebank import open_bank
from lorebank._mnemopi.search.kinds import OF_A_FORM, OF_A_KIND, kin_of, kinds_told, unmarked
from lorebank._mnemopi.search.terms import terms

OTHERS = (
    "The invoice for March was paid on time.",
    "We painted the fence on Saturday.",
    "The server room needs a new fan.",
    "Nora will send the slides.",
    "The train to the fair was late.",
)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Which pets do I have?", "My cat Miso sleeps on the heater."),
        ("What instrument do I play?", "I practise the cello every evening."),
        ("Do I have any allergies?", "Peanuts make my throat swell."),
        ("Which countries did I visit?", "We spent two weeks in Portugal."),
        ("When did I buy the bicycle?", "I bought it in May, the green one."),
        ("Welche Haustiere habe ich?", "Meine Katze Miso schläft auf der Heizung."),
        ("¿Qué mascota tengo?", "Mi perro Toby ladra mucho."),
        ("Quel est mon métier ?", "Je suis infirmière à Lyon."),
    ],
)
def test_a_question_for_a_kind_finds_one_of_it(tmp_path: Path, question: str, answer: str) -> None:
    """No word but the kind's joins them, and there is no model."""
    with open_bank(f"sqlite:///{tmp_path / 'memory.db'}") as bank:
        bank.retain([*OTHERS, answer])
        assert [memory.text for memory in bank.recall(question)][:1] == [answer]


def test_what_names_the_kind_goes_before_one_of_it(tmp_path: Path) -> None:
    """The word itself is the better evidence."""
    with open_bank(f"sqlite:///{tmp_path / 'memory.db'}") as bank:
        bank.retain([*OTHERS, "The neighbour's cat sat outside.", "My pet sat outside."])
        assert next(memory.text for memory in bank.recall("Which pet is it?")) == "My pet sat outside."


def test_a_term_stands_for_its_forms_and_its_kind() -> None:
    """A term of the question itself is no other one's form: it counts for itself."""
    assert {kin.share for kin in kin_of(terms("buy pets"))} == {OF_A_KIND, OF_A_FORM}
    assert all(set(terms("bought")).isdisjoint(kin.words) for kin in kin_of(terms("buy or bought")))
    assert kin_of(terms("quarterly turbine report")) == []


def test_a_memory_is_of_the_kinds_that_its_words_tell_of() -> None:
    """Each once, however many words tell of it, and apart from the terms."""
    found = terms("The cat and the two kittens sleep beside the dog.")
    kinds = kinds_told(found)
    assert "_pet" in kinds
    assert len(kinds) == len(set(kinds))
    assert unmarked(" ".join([*found, *kinds])) == unmarked(" ".join(found)) == " ".join(found)
    assert kinds_told(terms("The quarterly turbine report")) == []


def test_the_lists_can_be_read() -> None:
    """Each kind has a first word of its own, words to ask with and words that tell, one bar between them; none is told by itself
    alone.
    """
    text = (files("lorebank._mnemopi.search") / "kinds.txt").read_text(encoding="utf-8")
    lines = list(filter(None, text.splitlines()))
    assert len({terms(line.split()[0])[0] for line in lines}) == len(lines)
    for line in lines:
        asked, bar, told = line.partition(" | ")
        assert bar, line
        assert "|" not in told
        assert set(terms(told)) - set(terms(asked)), line
