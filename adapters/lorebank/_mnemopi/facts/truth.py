"""Which of several statements about the same thing holds now."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

Slot = tuple[int, str, str, str]


@dataclass(frozen=True, slots=True)
class Statement:
    """A fact as it stands in a bank: the key of its memory, its slot (bank, realm, subject, relation), what it says, and
    when (in ticks).
    """

    key: int
    slot: Slot
    value: frozenset[str]
    holds: bool
    at: int

    @property
    def subject(self) -> str:
        return self.slot[2]

    @property
    def relation(self) -> str:
        return self.slot[3]


def superseded(statements: Sequence[Statement]) -> Mapping[Statement, Statement]:
    """For each statement that holds no longer, the one that took its place.

    Within a slot the newest statement holds, and with it all before it that say the same; each other one gave way to the
    next that said something else. Two values are the same where one has all the terms of the other ("Bergen" and "Bergen,
    Norway"). That a value holds no longer ends just that value.
    """
    found: dict[Statement, Statement] = {}
    holding: dict[Slot, list[Statement]] = {}
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
    """What facts say to a question: the keys of the memories that tell it, and pairs of keys of which the first goes before
    the second, in the order in which they take effect.
    """

    telling: frozenset[int] = frozenset()
    pairs: tuple[tuple[int, int], ...] = ()


NO_ANSWERS = Answers()


def answers(
    statements: Sequence[Statement],
    others: Sequence[Statement],
    terms: Collection[str],
    telling: Collection[str],
    *,
    former: bool,
) -> Answers:
    """What these statements say to a question with these terms: what holds now, or what held before where it asks for that.

    A question that names a former value asks for what was said of that one. What is said of `others` than who is meant goes
    last. `telling` are the relations that the question is about as a whole.
    """
    gone = superseded(statements)
    named = [each for each in gone if not each.value.isdisjoint(terms) and gone[each].value.isdisjoint(terms)]
    if former or named:
        first = named or list(gone)
        pairs = [(each.key, _present(each, gone).key) for each in first]
    else:
        first = [each for each in statements if each not in gone]
        pairs = [(later.key, each.key) for each, later in gone.items()]
    pairs += [(each.key, other.key) for each in first for other in others if other.relation == each.relation]
    told = frozenset(each.key for each in first if each.relation in telling)
    return Answers(told, tuple((one, other) for one, other in pairs if one != other))


def _present(statement: Statement, gone: Mapping[Statement, Statement]) -> Statement:
    """What a statement gave way to in the end."""
    while statement in gone:
        statement = gone[statement]
    return statement
