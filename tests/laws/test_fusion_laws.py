"""Laws of the joined ranking."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lorebank import Memory
from lorebank._domain.fusion import Answer, folded, fuse, shares
from lorebank._domain.memory import count_tokens

TEXTS = st.sampled_from(["Ana sings.", "ana  sings.", "Ben drums.", "Cleo", "A long sentence about a flute.", "x"])
SCORES = st.none() | st.floats(-5, 5)


@st.composite
def answers(draw: st.DrawFn) -> list[Answer]:
    """Up to four answers, each ranked as a backend ranks: best first."""
    found: list[Answer] = []
    for number in range(draw(st.integers(0, 4))):
        texts = draw(st.lists(TEXTS, max_size=6))
        scores = sorted(draw(st.lists(SCORES, min_size=len(texts), max_size=len(texts))), key=lambda s: -(s or 0))
        memories = [Memory(f"{number}-{place}", text, score=scores[place]) for place, text in enumerate(texts)]
        found.append(Answer(tuple(memories), draw(st.floats(0.01, 100))))
    return found


def fused(given_answers: list[Answer], limit: int = 1000, tokens: int = 10**6) -> tuple[Memory, ...]:
    return fuse(given_answers, limit=limit, max_tokens=tokens, count=count_tokens)


@given(answers(), st.integers(1, 8), st.integers(1, 30))
def test_both_bounds_hold(parts: list[Answer], limit: int, tokens: int) -> None:
    """Never more memories, never more tokens."""
    kept = fused(parts, limit, tokens)
    assert len(kept) <= limit
    assert sum(count_tokens(memory.text) for memory in kept) <= tokens


@given(answers())
def test_every_text_is_there_exactly_once(parts: list[Answer]) -> None:
    """Without bounds nothing is lost, and nothing is shown twice."""
    told = [folded(memory.text) for memory in fused(parts)]
    assert len(told) == len(set(told))
    assert set(told) == {folded(memory.text) for part in parts for memory in part.memories}


@given(answers())
def test_scores_fall_and_stay_within_the_weights(parts: list[Answer]) -> None:
    """Best first; no score passes the greatest weight or falls under 0."""
    scores = [memory.score or 0.0 for memory in fused(parts)]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= max(part.weight for part in parts) for score in scores)


@given(answers())
def test_an_answers_own_order_stands(parts: list[Answer]) -> None:
    """Two memories of one bank are never swapped."""
    kept = [memory.id for memory in fused(parts)]
    for part in parts:
        places = [kept.index(memory.id) for memory in part.memories if memory.id in kept]
        assert places == sorted(places)


@given(answers(), st.integers(1, 8))
def test_a_smaller_limit_gives_the_beginning(parts: list[Answer], limit: int) -> None:
    """The limit cuts and does nothing else."""
    assert fused(parts, limit) == fused(parts)[:limit]


@given(st.lists(SCORES, max_size=6))
def test_shares_lie_between_one_and_nothing(scores: list[float | None]) -> None:
    """The best has 1 where scores say so; missing and negative scores go by place."""
    found = shares([Memory(str(place), "x", score=score) for place, score in enumerate(scores)])
    assert all(0 <= share <= 1 for share in found)
    assert found == sorted(found, reverse=True)


def test_the_best_of_each_bank_scores_its_weight() -> None:
    """0.9 of one scale and 40 of another are both the best of their bank."""
    one = Answer((Memory("a", "one", score=0.9), Memory("b", "two", score=0.45)))
    other = Answer((Memory("c", "three", score=40.0), Memory("d", "four", score=10.0)), 0.6)
    assert [(memory.id, memory.score) for memory in fused([one, other])] == [("a", 1.0), ("c", 0.6), ("b", 0.5), ("d", 0.15)]
