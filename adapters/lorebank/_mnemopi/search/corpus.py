"""What is searched as one, and how rare a term is in it."""

from __future__ import annotations

import math
from dataclasses import dataclass

SMALL = 30
"""Rarity in a bank with fewer memories is taken as in one with so many: two memories about Ana don't make "Ana" a
common word."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """The banks that are searched as one: their numbers, how many memories they hold, and terms in all."""

    banks: tuple[int, ...]
    size: int
    length: int


def rarity(total: int, found: int) -> float:
    """Inverse document frequency as in BM25: ln(1 + (N - n + 0.5) / (n + 0.5))."""
    return math.log(1 + (max(total, found) - found + 0.5) / (found + 0.5))
