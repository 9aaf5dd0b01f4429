"""Which statement holds: a newer one of the same slot that says something else takes the place of an older one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lorebank._mnemopi.facts.truth import Answers, Slot, Statement, answers, superseded

HOME = (1, "", "user", "home")
WORK = (1, "", "user", "work")


def said(*values: str, slot: Slot = HOME) -> list[Statement]:
    """Statements in their order; one that begins with `not` ends a value."""
    return [
        Statement(at, slot, frozenset(value.removeprefix("not ").split()), not value.startswith("not "), at)
        for at, value in enumerate(values)
    ]


def gone(*values: str) -> dict[int, int]:
    return {former.key: later.key for former, later in superseded(said(*values)).items()}


def test_a_newer_value_takes_the_place_of_an_older_one() -> None:
    """Each gives way to the next that says something else; the newest holds, with those that say the same."""
    assert gone("berlin", "lisbon") == {0: 1}
    assert gone("berlin", "lisbon", "rome") == {0: 1, 1: 2}
    assert gone("berlin", "berlin") == {}
    assert gone("berlin", "berlin", "rome", "rome") == {0: 2, 1: 2}
    assert gone("berlin", "rome", "berlin") == {0: 1, 1: 2}


def test_a_value_told_in_more_words_is_the_same() -> None:
    """One has all the terms of the other."""
    assert gone("bergen", "bergen norway", "bergen") == {}


def test_a_value_that_ended_ends_itself_only() -> None:
    """ "No longer at Siemens" says nothing of Bosch; what was ended may begin again."""
    assert gone("siemens", "not siemens") == {0: 1}
    assert gone("bosch", "not siemens") == {}
    assert gone("siemens", "not siemens", "siemens") == {0: 1, 1: 2}
    assert gone("", "not ") == {0: 1}


def test_slots_are_apart() -> None:
    """Another subject, relation or project is another slot."""
    assert superseded([*said("berlin"), *said("rome", "rome", slot=WORK)]) == {}


def test_answers_are_what_holds_or_what_held() -> None:
    """By what the question asks; one that names a former value asks for that one."""
    statements = said("berlin", "lisbon", "rome")
    now = answers(statements, (), ("live",), ("home",), former=False)
    assert (now.telling, now.pairs) == ({2}, ((1, 0), (2, 1)))
    before = answers(statements, (), ("live",), ("home",), former=True)
    assert (before.telling, before.pairs) == ({0, 1}, ((0, 2), (1, 2)))
    named = answers(statements, (), ("berlin", "live"), ("home",), former=False)
    assert (named.telling, named.pairs) == ({0}, ((0, 2),))
    assert answers(statements, (), ("live",), (), former=False) == Answers(frozenset(), ((1, 0), (2, 1)))
    bob = [Statement(9, (1, "", "bob", "home"), frozenset({"oslo"}), True, 9)]
    assert answers(statements, bob, ("live",), (), former=False).pairs[-1] == (2, 9)
    assert answers([], (), ("live",), ("home",), former=False) == Answers()


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c", "a b"]), st.booleans()), max_size=12), st.randoms())
def test_order_of_reading_does_not_matter(told: list[tuple[str, bool]], chance: st.DataObject) -> None:
    """Time decides; nothing newer than the newest; no statement replaces itself."""
    statements = [Statement(at, HOME, frozenset(value.split()), holds, at) for at, (value, holds) in enumerate(told)]
    mixed = list(statements)
    chance.shuffle(mixed)  # type: ignore[attr-defined]
    found = superseded(statements)
    assert superseded(mixed) == found
    assert all(former.at < later.at for former, later in found.items())
    assert not statements or statements[-1] not in found
