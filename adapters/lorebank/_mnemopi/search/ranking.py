"""Scoring a pool: a tuned BM25 and what a memory engine knows beside the words.

Lexical score: BM25 with k1 = 0.4 and b = 0.2 (short messages want less saturation and less length normalisation than
FTS5's fixed 1.2 and 0.75), divided by the pool's best, so that it lies between 0 and 1. To it the weighted signals are
added, never multiplied, so that none can erase a match:

    speaker     the memory's speaker is named in the query, or is the user: for questions about the user, and in part for
                others, unless they ask what the assistant said
    around      the mean lexical score of the two messages before it in its session and the two after it
    reply       that of the message before it as far as that one asks: an answer rarely repeats the question's words
    session     the mean of its session's three best lexical scores
    together    the share of the query's weight that its session holds, message by message taken together
    period      it was said in the time the query names
    time_words  the query asks for a time and the memory has time words
    number      the query asks for a number ("how many", "which code") and the memory has one
    title       the query asks for a book, a film or the like, and the memory has words in quotation marks
    own         it tells of its speaker: "I", "my", "we"
    question    minus the share of the memory that asks rather than tells
    length      the logarithm of its length: longer messages tell more
    fact        it states what the query asks for, and that holds now (or held before, where the query asks for that); then it
                matches as well as any, whatever its words
    meaning     how near it is to the query in meaning: its closeness (deviations above what is usual in the bank) divided
                by `FAR_OUT`, times how much its embedder can be trusted
    meaning_around    the mean of that of the messages before and after it
    meaning_session   the mean of its session's three best
    importance, veracity, recency    order memories that match about equally

What holds now is then lifted over what held before, by the same words (`current`, the module) and by others (`linked`).

Which signals help, and by how much, was measured; see `docs/benchmarks.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from lorebank._domain.settings import RankingWeights
from lorebank._mnemopi.rows import USERS, from_ticks, name_words
from lorebank._mnemopi.search.candidates import AROUND, Keys, Pool
from lorebank._mnemopi.search.corpus import Corpus
from lorebank._mnemopi.search.current import Matched, by_time, followed, settled
from lorebank._mnemopi.search.evidence import RELATED_HELD, asked_for, evidence, held_in_session, whose
from lorebank._mnemopi.search.homes import Column, Homes, Places, best_of_session, homes_of
from lorebank._mnemopi.search.kinds import count_terms
from lorebank._mnemopi.search.question import Question
from lorebank._mnemopi.search.traits import asking, numbered, of_own, time_words, titled

K1 = 0.4
B = 0.2
TOLD = 0.6
"""How much of `speaker` a user's messages have in questions that are not about the user."""
_TRUST = {"stated": 1.0, "true": 1.0, "tool": 0.9, "imported": 0.8, "inferred": 0.7, "unknown": 0.6, "false": 0.0}
FAR_OUT = 6.0
"""A memory that is so many deviations nearer than usual gets the whole weight of `meaning`."""
_SCALED = ("speaker", "around", "reply", "session", "together", "period", "time_words", "number", "title", "own", "length")
_MEANT = ("meaning", "meaning_around", "meaning_session")


@dataclass(frozen=True, slots=True)
class Ranking:
    """The pool in order, best first: places in it, with the scores (0 to about 1) by place.

    `evidence` (0 to 1) is how much of the question they answer; `signals` are what each signal added.
    """

    order: tuple[int, ...]
    keys: Keys
    scores: Column
    signals: Mapping[str, Column]
    evidence: float

    def explained(self, place: int) -> dict[str, float]:
        """What each signal added to one candidate's score, the largest first."""
        gained = {name: float(column[place]) for name, column in self.signals.items() if column[place]}
        return dict(sorted(gained.items(), key=lambda pair: -abs(pair[1])))


def rank(pool: Pool, corpus: Corpus, question: Question, weights: RankingWeights) -> Ranking:
    """Scores and orders a pool."""
    columns = pool.columns()
    keys, times = np.array(columns[0], np.int64), np.array(columns[5], np.int64)
    find = _finder(keys[: pool.matched])
    holding = {term: find(holders) for term, holders in pool.holders.items()}
    related = [find(each.holders) for each in pool.related]
    asked = asked_for(pool, columns[4], question)
    lexical, held, lengths = _lexical(pool, holding, related, corpus, asked)
    homes = homes_of(columns)
    answered = evidence(pool, held, held_in_session(homes, pool, holding, related, asked), asked, corpus)
    lexical /= lexical.max(initial=0.0) or 1.0
    fact = np.array([key in pool.answers.telling for key in columns[0]], np.bool_)
    lexical[fact] = 1.0
    signals = {"lexical": lexical, "fact": fact.astype(np.float64), "length": np.log1p(lengths) / 4}
    signals |= _known(columns, times, question)
    shares = _shares(pool, holding)
    signals |= _around(homes, lexical, -signals["question"], shares)
    if pool.closeness is not None:
        signals |= _meant(homes, pool.closeness, pool.trust)
    scale = 1 + sum(getattr(weights, name) for name in (*_SCALED, *_MEANT) if name in signals and signals[name].any())
    gained = {name: column * ((1.0 if name == "lexical" else getattr(weights, name)) / scale) for name, column in signals.items()}
    scores = sum(gained.values(), np.zeros(len(keys)))
    told = _in_time(scores, columns, _matched(lexical, pool, holding, question), pool, question)
    gained["current"] = told - scores
    order = tuple(np.lexsort((-keys, -times, -told)).tolist())
    return Ranking(order, keys, told, gained, min(1.0, answered * whose(pool, columns[4], question)))


def _in_time(scores: Column, columns: Sequence[tuple[Any, ...]], matched: Matched, pool: Pool, question: Question) -> Column:
    """The scores, with what holds at the time that the question asks for before what doesn't."""
    if question.present or question.former:
        scores = by_time(columns, matched, scores, _telling(columns[4], question), question.former)
    return settled(pool.answers, columns[0], followed(pool.links, columns[0], scores))


def _lexical(
    pool: Pool, holding: Mapping[str, Places], related: Sequence[Places], corpus: Corpus, asked: Mapping[str, float]
) -> tuple[Column, Column, Column]:
    """BM25 of each candidate, the weight of the `asked` terms that it holds at all, and how many terms it has.

    Where it holds what a term stands for, and not the term, that counts in part. Neighbours were not found by the query: they
    have no lexical score of their own.
    """
    texts: list[str] = [row[9] for row in pool.rows]
    mean = corpus.length / corpus.size if corpus.size else 1.0
    lengths = np.array(list(map(count_terms, texts)), np.float64)
    norms = K1 * (1 - B + B * lengths / mean)
    scores, held = np.zeros(len(texts)), np.zeros(len(texts))
    padded: list[str] = [f" {text} " for text in texts[: pool.matched]]
    counted = pool.counted
    for term, places in holding.items():
        weight, counts = asked.get(term, 0.0), counted[term]
        for place in cast("list[int]", places.tolist()):
            frequency: int = padded[place].count(f" {term} ")
            if frequency:
                held[place] += weight
                scores[place] += counts * frequency * (K1 + 1) / (frequency + norms[place])
    for each, places in zip(pool.related, related, strict=True):
        gained = np.zeros(len(texts))
        gained[places] = each.weight
        gained[holding[each.term]] = 0.0
        scores += gained * (K1 + 1) / (1 + norms)
        held += RELATED_HELD * np.minimum(gained, asked.get(each.term, 0.0))
    return scores, held, lengths


def _finder(keys: Keys) -> Callable[[Keys], Places]:
    """Gives the places of those of these keys that are among others."""
    order = np.argsort(keys)
    ordered = keys[order]

    def find(others: Keys) -> Places:
        if not len(ordered):
            return order
        at = np.minimum(np.searchsorted(ordered, others), len(ordered) - 1)
        found: Places = order[at[ordered[at] == others]]
        return found

    return find


def _known(columns: Sequence[tuple[Any, ...]], times: Keys, question: Question) -> dict[str, Column]:
    """The signals of a memory by itself."""
    speakers, importance, veracity = columns[4], columns[7], columns[8]
    traits = np.array(columns[6], np.int64)
    speaks = {speaker: _speaks(speaker, question) for speaker in set(speakers)}
    trust = {each: _TRUST.get(each, 0.6) - 0.6 for each in set(veracity)}
    nothing = np.zeros(len(times))
    period = question.period
    return {
        "speaker": np.array([speaks[each] for each in speakers]) if any(speaks.values()) else nothing,
        "period": np.array([period.closeness(from_ticks(each)) for each in times.tolist()]) if period else nothing,
        "time_words": time_words(traits) if question.asks_when else nothing,
        "number": numbered(traits) if question.asks_number else nothing,
        "title": titled(traits) if question.asks_title else nothing,
        "own": of_own(traits),
        "question": -asking(traits),
        "importance": np.array(importance, np.float64) - 0.5,
        "veracity": np.array([trust[each] for each in veracity]) if len(trust) > 1 else nothing + sum(trust.values()),
        "recency": (times - times.min()) / (float(np.ptp(times)) or 1.0) if len(times) else nothing,
    }


def _around(homes: Homes, lexical: Column, asking: Column, shares: Sequence[tuple[Places, float]]) -> dict[str, Column]:
    """The signals that a memory has from its session: what stands before and after it, and what the session holds."""
    if not len(lexical):
        return dict.fromkeys(("around", "reply", "session", "together"), lexical)
    return {
        "around": sum((homes.beside(lexical, step) for step in AROUND), np.zeros(len(lexical))) / len(AROUND),
        "reply": homes.beside(lexical * asking, -1),
        "session": np.where(homes.alone, 0.0, best_of_session(homes, lexical)),
        "together": homes.together(shares),
    }


def _meant(homes: Homes, closeness: Column, trust: float) -> dict[str, Column]:
    """The signals of meaning: a memory's own, and what it has from its session."""
    near = np.clip(closeness / FAR_OUT, 0.0, 1.0) * trust
    if not len(near):
        return dict.fromkeys(_MEANT, near)
    return {
        "meaning": near,
        "meaning_around": (homes.beside(near, -1) + homes.beside(near, 1)) / 2,
        "meaning_session": np.where(homes.alone, 0.0, best_of_session(homes, near)),
    }


def _shares(pool: Pool, holding: Mapping[str, Places]) -> list[tuple[Places, float]]:
    """For each term, who may hold it and its share of the query's weight."""
    counted = pool.counted
    total = sum(counted.values()) or 1.0
    return [(places, counted[term] / total) for term, places in holding.items()]


def _matched(lexical: Column, pool: Pool, holding: Mapping[str, Places], question: Question) -> Matched:
    """How well the candidates match what is asked for, without what ended that."""
    asked = {term: places for term, places in holding.items() if term not in question.ended}
    return Matched(lexical, _shares(pool, asked), ended=bool(question.ended) and bool(asked))


def _telling(speakers: Sequence[str | None], question: Question) -> frozenset[str | None]:
    """The speakers whose later words hold: in a chat with an assistant the user, in any chat those who ask about themselves."""
    every = frozenset(speakers)
    return every if question.ours else frozenset(each for each in every if (names := name_words(each)) and names[0] in USERS)


def _speaks(speaker: str | None, question: Question) -> float:
    """1 where the query names the speaker (the whole name or its first word) or the user asks about themselves; the user told
    what other questions are about, too, unless they ask what the assistant said.
    """
    names = name_words(speaker)
    if not names:
        return 0.0
    if names[0] in USERS:
        return 1.0 if question.ours else 0.0 if question.yours else TOLD
    return float(names[0] in question.words or all(name in question.words for name in names))
