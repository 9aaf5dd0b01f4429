"""One ranking from several banks' answers.

Scores don't compare across backends, but within one answer they do. So each answer's scores are taken relative to its
best, times the weight of its bank: the best memory of a bank of weight 1 scores 1. An answer's own order always stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from lorebank._domain.memory import Memory


@dataclass(frozen=True, slots=True)
class Answer:
    """What one bank knows, best first, and how much its word counts."""

    memories: tuple[Memory, ...]
    weight: float = 1.0


def fuse(answers: Sequence[Answer], *, limit: int, max_tokens: int, count: Callable[[str], int]) -> tuple[Memory, ...]:
    """The memories of all answers, best first, the same text once, within both bounds.

    Of equal scores the earlier answer's comes first. A memory that does not fit what is left of `max_tokens` is left out.
    """
    scored = [
        replace(memory, score=answer.weight * share)
        for answer in answers
        for memory, share in zip(answer.memories, shares(answer.memories), strict=True)
    ]
    scored.sort(key=lambda memory: -(memory.score or 0.0))
    kept: list[Memory] = []
    seen: set[str] = set()
    left = max_tokens
    for memory in scored:
        text, cost = folded(memory.text), count(memory.text)
        if len(kept) < limit and text not in seen and cost <= left:
            seen.add(text)
            kept.append(memory)
            left -= cost
    return tuple(kept)


def shares(memories: Sequence[Memory]) -> list[float]:
    """Each memory's score as a share of the best one's, from 1 down to 0; by place where scores don't say."""
    scores = [memory.score for memory in memories]
    best = max((score for score in scores if score is not None), default=0.0)
    if best <= 0 or None in scores:
        return [1 - place / len(memories) for place in range(len(memories))]
    return list(accumulate((min(1.0, max(0.0, (score or 0.0) / best)) for score in scores), min))


def folded(text: str) -> str:
    """The text as it counts for "the same": without case and spacing."""
    return " ".join(text.casefold().split())
