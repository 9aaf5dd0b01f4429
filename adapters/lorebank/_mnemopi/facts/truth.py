"""Which of several statements about the same thing holds now."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Statement:
    """A fact as it stands in a bank: the key of its memory, its slot, what it says, and when (in ticks)."""

    key: int
    slot: tuple[object, ...]
    value: frozenset[str]
    holds: bool
    at: int


def superseded(statements: Sequence[Statement]) -> Mapping[Statement, Statement]:
    """For each statement that holds no longer, the one that took its place.

    Within a slot the newest statement holds, and with it all before it that say the same; each other one gave way to the
    next that said something else. Two values are the same where one has all the terms of the other ("Bergen" and "Bergen,
    Norway"). That a value holds no longer ends just that value.
    """
    found: dict[Statement, Statement] = {}
    holding: dict[tuple[object, ...], list[Statement]] = {}
    for statement in sorted(statements, key=lambda each: (each.at, each.key)):
        before = holding.setdefault(statement.slot, [])
        gone = [each for each in before if _replaces(statement, each)]
        found.update(dict.fromkeys(gone, statement))
        holding[statement.slot] = [*(each for each in before if each not in gone), statement]
    return found


def _replaces(later: Statement, earlier: Statement) -> bool:
    same = later.value <= earlier.value or earlier.value <= later.value
    return later.holds != earlier.holds if same else later.holds


@dataclass(frozen=True, slots=True)
class Answers:
    """What facts say to a question: the keys of the memories that tell it, and for each of those that hold no longer the key
    of the one that took its place.
    """

    telling: frozenset[int] = frozenset()
    replaced: Mapping[int, int] = field(default_factory=dict[int, int])


NO_ANSWERS = Answers()


def answers(statements: Sequence[Statement], terms: Collection[str], *, former: bool) -> Answers:
    """What these statements say to a question with these terms: what holds now, or what held before where it asks for that.

    A question that names a former value asks for what was said of that one.
    """
    gone = superseded(statements)
    named = {each for each in gone if not each.value.isdisjoint(terms) and gone[each].value.isdisjoint(terms)}
    if former or named:
        return Answers(frozenset(each.key for each in (named or gone)))
    current = frozenset(each.key for each in statements if each not in gone)
    return Answers(current, {each.key: later.key for each, later in gone.items() if each.key not in current})
