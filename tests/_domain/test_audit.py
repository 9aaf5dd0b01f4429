"""Memories compared with each other: the same, nearly the same, and what must not be taken for that."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pytest

from lorebank._domain.archive import Entry, item_of
from lorebank._domain.audit import Book
from lorebank._domain.likeness import Sketcher, groups
from lorebank._mnemopi.search.terms import terms

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def found(*texts: str, **fields: Any) -> list[tuple[str, tuple[str, ...]]]:
    """What a book finds of texts, by kind; ids are their places."""
    book = Book(terms, NOW)
    for place, text in enumerate(texts):
        book.enter(Entry(str(place), item_of(content=text, **fields)))
    return [(finding.kind, finding.ids) for finding in book.findings()]


LONG = "We agreed that the gardener waters the tomatoes and the old roses behind the house every evening"


@pytest.mark.parametrize(
    ("one", "other", "near"),
    [
        (f"{LONG}.", f"{LONG}, too!", True),
        ("Ana prefers aisle seats.", "Ana prefers an aisle seat", True),
        (f"{LONG} at 6.", f"{LONG} at 7.", False),
        (f"{LONG} on Tuesday.", f"{LONG} on Thursday.", False),
        (f"{LONG} with Marta.", f"{LONG} with Helena.", False),
        (f"{LONG}.", f"{LONG.replace('waters', 'never waters')}.", False),
        (f"{LONG}.", f"{LONG.replace('waters', 'doesn’t water')}.", False),
        ("Ana likes apples.", "Ana likes pears.", False),
        ("I'm Emily.", "You too, Emily!", False),
    ],
)
def test_near_is_what_differs_in_nothing_that_matters(one: str, other: str, near: bool) -> None:
    """Names, numbers, days and negations decide, however much else is the same."""
    assert found(one, other) == ([("near_duplicates", ("0", "1"))] if near else [])


def test_the_same_text_is_a_duplicate_and_nothing_else() -> None:
    """Without case and spacing; one of them is compared with the rest."""
    assert found(f"{LONG}.", f"{LONG.upper()}.", "Ben plays.", f"{LONG}, too.") == [
        ("duplicates", ("0", "1")),
        ("near_duplicates", ("0", "3")),
    ]


def test_what_was_made_from_a_memory_repeats_it_on_purpose() -> None:
    """And what stands in another project, or is of another type, is another's."""
    book = Book(terms, NOW)
    book.enter(Entry("a", item_of(content="Ana sings.")))
    book.enter(Entry("b", item_of(content="Ana sings."), sources=("a",)))
    book.enter(Entry("c", item_of(content="Ana sings.", tags=("project:x",))))
    book.enter(Entry("d", item_of(content="Ana sings.", type="observation")))
    book.enter(Entry("e", item_of(content="Ana sings.", type="experience"), invalidated_at=NOW))
    assert book.findings() == ()
    assert book.memories == 4


def test_an_assistant_is_heard_against_what_was_said_before() -> None:
    """An echo follows; the first to say it is none."""
    book = Book(terms, NOW)
    for place, speaker in enumerate(("assistant", "user", "assistant")):
        book.enter(Entry(str(place), item_of(content="Ana prefers aisle seats.", speaker=speaker)))
    assert [(finding.kind, finding.ids) for finding in book.findings()] == [("duplicates", ("0", "1")), ("feedback", ("2",))]


def naive(texts: list[str]) -> set[frozenset[int]]:
    """All pairs that are nearly the same, each compared with each."""
    bags = [frozenset(terms(text)) for text in texts]
    return {
        frozenset((i, j))
        for i in range(len(bags))
        for j in range(i)
        if 5 * len(bags[i] & bags[j]) >= 4 * len(bags[i] | bags[j]) and min(len(bags[i]), len(bags[j])) >= 3
    }


@pytest.mark.parametrize("seed", range(5))
def test_no_pair_is_missed(seed: int) -> None:
    """The search for company finds what comparing each with each finds."""
    chance = random.Random(seed)
    vocabulary = [f"{a}{b}ku" for a in "bdfgklmnprst" for b in "aeiou"]
    texts: list[str] = []
    for _ in range(60):
        texts.append(" ".join(chance.sample(vocabulary, chance.randint(1, 40))))
        mutated = texts[-1].split()
        mutated[chance.randrange(len(mutated))] = chance.choice(vocabulary)
        texts.append(" ".join(mutated))
    sketcher = Sketcher(terms)
    grouped = {
        place: number for number, (places, _) in enumerate(groups([sketcher.sketch(t) for t in texts])) for place in places
    }
    pairs = naive(texts)
    assert pairs
    assert all(grouped.get(one, -1) == grouped.get(other, -2) for one, other in pairs)
    assert grouped.keys() == {place for pair in pairs for place in pair}


def test_many_that_are_nearly_the_same_are_one_group() -> None:
    """Each is compared with the nearest few before it, which is enough."""
    shared = " ".join(f"word{number}" for number in range(12))
    sketcher = Sketcher(str.split)
    sketches = [sketcher.sketch(f"{shared} {chr(0x4E00 + place)}") for place in range(1_000)]
    [(places, share)] = groups(sketches)
    assert (len(places), round(share, 2)) == (1_000, 0.86)
