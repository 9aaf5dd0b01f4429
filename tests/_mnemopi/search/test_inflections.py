"""Words of German, Spanish and French in other forms than the question's."""

from __future__ import annotations

from pathlib import Path

import pytest

from lorebank import Item, open_bank
from lorebank._mnemopi.search.compounds import parts_of
from lorebank._mnemopi.search.function_words import language_of, languages_of
from lorebank._mnemopi.search.inflections import forms_asked, inflected
from lorebank._mnemopi.search.kinds import OF_A_FORM, OF_A_KIND
from lorebank._mnemopi.search.terms import MAX_TERM, query_terms, words

OTHERS = (
    "Die Rechnung vom März ist bezahlt.",
    "Wir streichen am Samstag den Zaun.",
    "La valla del jardín es de madera.",
    "El sábado hay mercado en la plaza.",
    "On repeint le portail avec mon frère.",
    "Il pleut depuis ce matin dans la vallée.",
    "The server room needs a new fan.",
)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("¿Dónde trabajaba yo antes?", "Trabajo en Telefónica, con Marta."),
        ("¿Qué idioma aprendía yo?", "Estoy aprendiendo alemán por la tarde."),
        ("À quoi est-ce que j'étais allergique ?", "Mes allergies : le kiwi et les fraises."),
        ("Où est-ce que j'habitais ?", "J'habite à Nantes depuis dix ans."),
        ("Bei wem habe ich gearbeitet?", "Ich arbeite bei Siemens in der Entwicklung."),
        ("Was habe ich früher gespielt?", "Mittwochs spiele ich mit Jonas Dame."),
        ("Wie lautet die Bestellnummer?", "Die Bestellung hat das Zeichen OV-55093 und kommt bald."),
        ("Wer hat mir einen Kuchen gebracht?", "Von unten kam gleich ein Marmorkuchen für mich."),
    ],
)
def test_a_word_is_found_in_another_form(tmp_path: Path, question: str, answer: str) -> None:
    """No word is the same, and there is no model."""
    with open_bank(f"sqlite:///{tmp_path / 'memory.db'}") as bank:
        bank.retain([*OTHERS, answer])
        assert [memory.text for memory in bank.recall(question)][:1] == [answer]


def test_a_change_of_the_text_changes_its_forms(tmp_path: Path) -> None:
    """What is no longer said is not found by another form of it either."""
    with open_bank(f"sqlite:///{tmp_path / 'memory.db'}") as bank:
        known = bank.retain([Item("Trabajo en Telefónica, con Marta."), *OTHERS]).stored[0].id
        bank.update(known, content="Vivo en Valencia, con Marta.")
        assert not bank.recall("¿En qué trabajaba?")
        assert bank.recall("¿En qué ciudad vivía?")[0].id == known
        assert bank.check().ok


@pytest.mark.parametrize(
    ("text", "languages"),
    [
        ("I moved to Porto in May.", ()),
        ("Ich wohne in Köln.", ("de",)),
        ("Vivo en Valencia.", ("es", "fr")),
        ("La valla del jardín es de madera.", ("es",)),
        ("On habite dans la vallée.", ("fr",)),
        ("PAY-1423", ()),
    ],
)
def test_function_words_tell_the_language(text: str, languages: tuple[str, ...]) -> None:
    """Where few words tell, it may be one of several."""
    assert languages_of(words(text)) == languages
    assert language_of(words(text)) == next(iter(languages), None)


def test_english_texts_have_no_other_forms() -> None:
    """Nothing is written for them, and nothing more is read."""
    text = "I worked in Berlin, and was so happy there."
    assert inflected(text, words(text)) == []
    assert forms_asked(text, words(text), query_terms(text)) == []


def test_forms_count_more_than_the_parts_of_a_compound() -> None:
    """A part is half of what was meant. Function words have no forms."""
    text = "Wo ist die Bestellnummer der Noten?"
    found = forms_asked(text, words(text), query_terms(text))
    assert {kin.words: kin.share for kin in found} == {
        ("_de_bestellnumm",): OF_A_FORM,
        ("_de_bestell",): OF_A_KIND,
        ("_de_numm",): OF_A_KIND,
        ("_de_not",): OF_A_FORM,
    }


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("auftragsnummer", ("auftrag", "numm")),
        ("zahnärztin", ("zahn", "arztin")),
        ("haustiere", ("haus", "tier")),
        ("nummer", ()),
        ("vertrag", ()),
        ("kleidung", ()),
    ],
)
def test_compounds_are_parted_before_their_last_word(word: str, parts: tuple[str, ...]) -> None:
    """Where that is known; a word by itself is no compound."""
    assert parts_of(word) == parts


def test_a_run_of_letters_without_end_is_no_word() -> None:
    """Neither read as a compound at every place nor kept whole."""
    text = "Ich habe das hier: " + "donaudampfschiff" * 4_000
    assert max(map(len, inflected(text, words(text)))) <= MAX_TERM + len("_de_")


def test_a_sign_for_several_words_is_no_word() -> None:
    """A ligature that is written out as four words would leave three of them unmarked."""
    text = "Ich habe \ufdfa\ufdfa\ufdfa gelesen."
    assert inflected(text, words(text)) == ["_de_geles", "_de_les"]
