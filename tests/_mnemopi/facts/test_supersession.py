"""Changed facts in a bank: what holds now comes first, what held stays askable, and edits carry through."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lorebank import Bank, Item, open_bank

START = datetime(2026, 1, 1, tzinfo=UTC)


def tell(bank: Bank, *texts: str, first: int = 0, **said: object) -> list[str]:
    """Texts on one day after the other; gives their ids."""
    days = [START + timedelta(days=first + number) for number in range(len(texts))]
    return [str(bank.retain(text, timestamp=day, **said).stored[0].id) for text, day in zip(texts, days, strict=True)]


def first(bank: Bank, question: str) -> str:
    return next(iter(bank.recall(question))).text


CHANGES = [
    ("I live in Berlin.", "I moved to Lisbon.", "Where do I live?", "Where did I live before?"),
    ("I work at Siemens.", "I started at Bosch.", "Where do I work?", "Where did I work before Bosch?"),
    (
        "My favourite colour is blue.",
        "My favorite color is green.",
        "What's my favorite colour?",
        "What was my favourite colour at first?",
    ),
    ("I love coffee.", "I gave up coffee.", "Do I like coffee?", "Did I like coffee before?"),
    ("I prefer aisle seats.", "I prefer window seats.", "Which seats do I prefer?", "Which seats did I prefer before?"),
    ("The deadline is June 5.", "The deadline slipped to June 12.", "When is the deadline?", "What was the original deadline?"),
    (
        "The user prefers dark mode.",
        "The user prefers light mode.",
        "Which mode does the user prefer?",
        "Which mode was preferred before?",
    ),
    ("Ana lives in Rome.", "Ana moved to Milan.", "Where does Ana live?", "Where did Ana live before?"),
    ("I'm 34 years old.", "I turned 35 today.", "How old am I?", "How old was I before?"),
    ("My name is Ella Braun.", "My name is Ella Weiss.", "What is my first name?", "What was my name before?"),
    ("Ich wohne in Köln.", "Ich bin nach Bremen gezogen.", "Wo wohne ich?", "Wo habe ich früher gewohnt?"),
]


@pytest.mark.parametrize(("former", "current", "asked", "asked_former"), CHANGES)
@pytest.mark.parametrize("order", ["told", "backdated"])
def test_the_current_comes_first_and_the_former_stays_askable(
    bank: Bank, former: str, current: str, asked: str, asked_former: str, order: str
) -> None:
    """Whichever is written first: what was said when decides."""
    if order == "told":
        old, new = tell(bank, former, current)
    else:
        [new] = tell(bank, current, first=1)
        [old] = tell(bank, former)
    tell(bank, "Bob lives in Oslo.", "Bob works at Equinor.", "Bob prefers middle seats.", "Bob likes coffee.", first=5)
    assert first(bank, asked) == current
    assert first(bank, asked_former) == former
    assert (bank.get(old).superseded_by, bank.get(new).superseded_by) == (new, None)


def test_nothing_that_was_said_is_lost(bank: Bank) -> None:
    """The former is recalled and listed as valid, marked with what took its place."""
    old, new = tell(bank, "I live in Berlin.", "I moved to Lisbon.")
    assert {memory.id for memory in bank.list()} == {old, new}
    found = {memory.id: memory for memory in bank.recall("Where do I live?")}
    assert (found[old].superseded_by, found[old].invalidated_at) == (new, None)


def test_a_chain_leads_to_the_present(bank: Bank) -> None:
    """Each names the next; one that is true again is the present."""
    ids = tell(bank, "I live in Berlin.", "I moved to Lisbon.", "I moved to Rome.", "I moved to Berlin.")
    assert [bank.get(each).superseded_by for each in ids] == [ids[1], ids[2], ids[3], None]
    assert first(bank, "Where do I live?") == "I moved to Berlin."


def test_removing_the_present_brings_the_former_back(bank: Bank) -> None:
    """Whether it is forgotten, invalidated, changed or replaced with its document."""
    removals: list[Callable[[str], object]] = [
        bank.forget,
        bank.invalidate,
        lambda each: bank.update(each, content="I bought a boat."),
    ]
    for number, remove in enumerate(removals):
        old, new = tell(bank.named(f"b{number}"), "I live in Berlin.", "I moved to Lisbon.")
        other = bank.named(f"b{number}")
        assert other.get(old).superseded_by == new
        getattr(other, remove.__name__)(new) if remove.__name__ != "<lambda>" else other.update(new, content="I bought a boat.")
        assert other.get(old).superseded_by is None
        assert first(other, "Where do I live?") == "I live in Berlin."
    [old] = tell(bank, "I live in Berlin.")
    bank.retain("I moved to Lisbon.", document_id="d", timestamp=START + timedelta(days=1))
    bank.retain("I bought a boat.", document_id="d", update_mode="replace", timestamp=START + timedelta(days=2))
    assert bank.get(old).superseded_by is None


def test_an_update_carries_its_facts_along(bank: Bank) -> None:
    """What was derived from the old text is gone, what the new one states takes effect."""
    old, new = tell(bank, "I live in Berlin.", "I bought a boat.")
    bank.update(new, content="I moved to Lisbon.")
    assert bank.get(old).superseded_by == new
    assert first(bank, "Where do I live?") == "I moved to Lisbon."
    bank.update(old, content="I live in Lisbon, Portugal.")
    assert bank.get(old).superseded_by is None


def test_a_replacement_that_was_named_outlives_an_update(bank: Bank) -> None:
    """Who invalidated a memory said what holds instead; its text or tags may change all the same."""
    old, new = tell(bank, "The code is lost.", "The code is found.")
    bank.invalidate(old, replacement=new)
    bank.update(old, tags=["former"], content="I live in Berlin.")
    assert bank.get(old).superseded_by == new


def test_what_is_told_again_lives_again(bank: Bank) -> None:
    """An invalidated statement that is retained again counts from now on."""
    [old] = tell(bank, "I live in Berlin.")
    bank.invalidate(old)
    tell(bank, "I moved to Lisbon.", first=1)
    again = bank.retain("I live in Berlin.", timestamp=START)
    assert [each.id for each in again.stored] == [old]
    assert bank.get(old).superseded_by is not None


def test_projects_have_facts_of_their_own(url: str) -> None:
    """The deadline of one project says nothing about another's."""
    with open_bank(url, bank="ana", project="atlas", scoping="per-project-tagged") as atlas:
        [old] = tell(atlas, "The deadline is June 5.")
        with open_bank(url, bank="ana", project="zeus", scoping="per-project-tagged") as zeus:
            tell(zeus, "The deadline is July 1.", first=1)
            assert first(zeus, "When is the deadline?") == "The deadline is July 1."
        assert atlas.get(old).superseded_by is None
        assert first(atlas, "When is the deadline?") == "The deadline is June 5."


def test_an_expired_statement_gives_the_place_back(bank: Bank) -> None:
    """While it is valid it holds; the question sees the state of now."""
    tell(bank, "I live in Berlin.")
    bank.retain("I moved to Lisbon.", timestamp=START + timedelta(days=1), valid_until=datetime(2026, 1, 3, tzinfo=UTC))
    assert first(bank, "Where do I live?") == "I live in Berlin."


def test_what_the_filter_leaves_out_has_no_say(bank: Bank) -> None:
    """A question to some tags is answered from these."""
    tell(bank, "I live in Berlin.", tags=["old"])
    tell(bank, "I moved to Lisbon.", first=1, tags=["new"])
    assert [memory.text for memory in bank.recall("Where do I live?", tags=["old"])] == ["I live in Berlin."]


def test_a_memory_with_several_facts_is_not_superseded_by_one(bank: Bank) -> None:
    """Its other facts hold still."""
    both, _ = tell(bank, "I work as a baker at Krume.", "I started at Kruste.")
    assert bank.get(both).superseded_by is None
    assert first(bank, "Where do I work?") == "I started at Kruste."


def test_what_an_assistant_says_changes_nothing(bank: Bank) -> None:
    """Only the user's own words do."""
    bank.retain(
        [
            Item("I live in Berlin.", session="s", speaker="user", timestamp=START),
            Item("I live in Lisbon, in a server.", session="s", speaker="assistant", timestamp=START + timedelta(days=1)),
        ]
    )
    assert first(bank, "Where do I live?") == "I live in Berlin."


def test_a_mental_model_tells_the_current_only(bank: Bank) -> None:
    """Written from ranked memories, it leaves out what no longer holds."""
    bank.mental_models.create("home", name="Home", source_query="Where does the user live?", max_tokens=400)
    tell(bank, "I live in Berlin.", "I moved to Lisbon.")
    assert bank.mental_models.refresh("home").content == "- I moved to Lisbon."


def test_asking_about_oneself_the_newest_of_equals_comes_first(bank: Bank) -> None:
    """Where no rule sees a fact, time decides between messages that match about equally; not for what was before."""
    bank.retain(
        [
            Item("The plot? It's number 14 on the Withy Bank site.", speaker="user", session="a", timestamp=START),
            Item(
                "I felt stupid, the plot number is not that, the letter says plot 41.",
                speaker="user",
                session="b",
                timestamp=START + timedelta(days=30),
            ),
        ]
    )
    assert "41" in first(bank, "What's the number of my plot?")
    assert "14" in first(bank, "What was the number of my plot on the site at first?")


def test_an_imported_bank_knows_what_holds(bank: Bank, tmp_path: Path) -> None:
    """Facts are found anew in what is imported, also against what the bank was told itself."""
    old, new = tell(bank, "I live in Berlin.", "I moved to Lisbon.")
    bank.export(tmp_path / "bank.jsonl")
    other = bank.named("other")
    [latest] = tell(other, "I moved to Rome.", first=2)
    other.import_(tmp_path / "bank.jsonl")
    assert [other.get(each).superseded_by for each in (old, new, latest)] == [new, latest, None]
    assert first(other, "Where do I live?") == "I moved to Rome."


def test_a_forgotten_fact_is_nowhere(url: str, bytes_of: Callable[[], bytes]) -> None:
    """Not in the table of facts nor in its indexes: no page of the file holds its words."""
    with open_bank(url, bank="alice") as bank:
        tell(bank, "I live in Oslo.", "My favourite colour is green.")
        [gone] = tell(bank, "I love quokkas.")
        assert b"quokka" in bytes_of()
        assert bank.forget(gone).purged
        assert b"quokka" not in bytes_of()
        bank.update(tell(bank, "I love wombats.")[0], content="I love tea.")
        bank.purge()
        assert b"wombat" not in bytes_of()
        assert bank.check().problems == ()
