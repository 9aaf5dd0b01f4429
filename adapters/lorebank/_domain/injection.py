"""What of a recall is put in front of the model, and which answers only repeat it.

Memories that come from a message which the model sees anyway are left out, and of several that say nearly the same only the
best is shown; those that differ in a name, a number, a day or a negation don't say the same. An answer made of what was
recalled is not retained again: memory would feed on itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from lorebank._domain.fusion import folded
from lorebank._domain.likeness import is_fixed
from lorebank._domain.likeness import words_of as spelled
from lorebank._domain.memory import Memory

ALIKE = 0.9
"""The share of common words (of all words of both) from which two memories say the same."""
ECHO = 0.8
"""The share of a text's words that must stand in what was recalled for the text to be an echo."""
SPARE = 40
"""How many memories more than wanted are asked for, at most, since some will be left out."""
_WORD = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    """The words of a text, without case."""
    return _WORD.findall(text.casefold())


@dataclass(frozen=True, slots=True)
class Seen:
    """What the model sees anyway: the session, the texts of the messages handed over (folded) and their words, and whether all
    that this session has retained is among them.
    """

    session: str
    texts: Collection[str] = ()
    words: Collection[str] = ()
    complete: bool = False


@dataclass(frozen=True, slots=True)
class Shown:
    """The memories that are shown, and the ids of those that are not."""

    memories: tuple[Memory, ...]
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Room:
    """How much may be shown: memories, and tokens of their texts."""

    limit: int
    max_tokens: int
    count: Callable[[str], int] = field(repr=False)

    @property
    def asked(self) -> int:
        """How many memories to ask for."""
        return self.limit + min(self.limit, SPARE)


def shown(memories: Sequence[Memory], seen: Seen, room: Room) -> Shown:
    """The memories to show, best first."""
    kept: list[Memory] = []
    bags: list[_Bag] = []
    dropped: list[str] = []
    left = room.max_tokens
    for memory in memories:
        bag, cost = _bag(memory.text), room.count(memory.text)
        known = _seen_anyway(memory, seen) or any(_alike(bag, other) for other in bags)
        if known or len(kept) == room.limit or cost > left:
            dropped.append(memory.id)
            continue
        kept.append(memory)
        bags.append(bag)
        left -= cost
    return Shown(tuple(kept), tuple(dropped))


def _seen_anyway(memory: Memory, seen: Seen) -> bool:
    """Whether a memory was made from a message that was handed over."""
    if memory.session != seen.session:
        return False
    if memory.source is not None:  # Mnemopi: a memory is a message
        return folded(memory.text) in seen.texts
    return seen.complete or is_echo(memory.text, seen.words)


@dataclass(frozen=True, slots=True)
class _Bag:
    """The words of a text, without case, and those of them that must not differ."""

    words: frozenset[str]
    fixed: frozenset[str]


def _bag(text: str) -> _Bag:
    words = list(spelled(text))
    fixed = (plain for word, plain in words if word[0].isupper() or is_fixed(plain))
    return _Bag(frozenset(plain for _, plain in words), frozenset(fixed))


def _alike(one: _Bag, other: _Bag) -> bool:
    if not (one.fixed <= other.words and other.fixed <= one.words):
        return False
    common = len(one.words & other.words)
    return common >= ALIKE * len(one.words | other.words) if common else False


def is_echo(text: str, recalled: Collection[str]) -> bool:
    """Whether a text's words are nearly all among those of what was recalled."""
    words = words_of(text)
    return bool(words) and bool(recalled) and sum(word in recalled for word in words) >= ECHO * len(words)
