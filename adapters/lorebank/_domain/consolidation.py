"""Observations: what several memories say together. What a model is asked for one, and how weak it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lorebank._domain.memory import Memory, Veracity
from lorebank._domain.synthesis import DATA, SHAPE, shown

WEAKEST: tuple[Veracity, ...] = ("false", "unknown", "inferred", "imported", "tool", "stated", "true")
"""The weakest comes first."""
MAX_TOKENS = 256
"""Tokens of an observation."""
_TASK = "Say in one to three short statements what these memories tell together about what they have in common."
_RULES = (
    "Each statement is drawn from several of the memories where it can be, complete in itself, and true now; what held before "
    "may follow, as the past. Take names and numbers as they stand there. Give with each the numbers of all memories that it is "
    "drawn from; a statement without them is thrown away. No statement at all is a good answer where the memories have nothing "
    "in common."
)


def weakest(told: Iterable[Veracity]) -> Veracity:
    """How far what rests on all of these can be trusted."""
    found = tuple(told)
    return min(found, key=WEAKEST.index) if found else "unknown"


def observation_prompt(memories: Sequence[Memory]) -> str:
    """What is asked for an observation."""
    return "\n\n".join([_TASK, DATA, shown(memories), _RULES, SHAPE])
