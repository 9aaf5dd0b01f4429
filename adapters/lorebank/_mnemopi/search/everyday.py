"""Words of everyday talk, which tell less than they are rare: few messages can't show how common "good" is in all others.

`everyday.txt` is written for lorebank, in English, German, Spanish and French.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from lorebank._mnemopi.search.terms import terms

SHARE = 0.7
"""How much an everyday word counts in a score beside another one that is as rare (measured: 0.5 to 0.8 are alike) ..."""
EVIDENCE_SHARE = 0.5
"""... and how much as evidence (measured: questions off the topic find less by it, others as much)."""


def counted(weights: Mapping[str, float], share: float = SHARE) -> dict[str, float]:
    """The weights of terms, those of everyday words with their share."""
    common = everyday()
    return {term: weight * (share if term in common else 1.0) for term, weight in weights.items()}


@cache
def everyday() -> frozenset[str]:
    """Their terms; made when the first question is asked."""
    return frozenset(terms((files("lorebank._mnemopi.search") / "everyday.txt").read_text(encoding="utf-8")))
