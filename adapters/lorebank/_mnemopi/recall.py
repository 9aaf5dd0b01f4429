"""One recall: question, pool, ranking, floor, bounds."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lorebank._database.driver import Source, rows_of
from lorebank._domain.memory import Budget, Memory, RecallResult, RecallTrace
from lorebank._domain.requests import RecallRequest
from lorebank._domain.settings import MnemopiSettings
from lorebank._mnemopi.derived import sources_of
from lorebank._mnemopi.rows import full_rows, to_memory
from lorebank._mnemopi.schema import OBSERVATION
from lorebank._mnemopi.search.candidates import Filter, Pool, Wanted, gather
from lorebank._mnemopi.search.corpus import Corpus
from lorebank._mnemopi.search.question import Question, parse_question
from lorebank._mnemopi.search.ranking import Ranking, rank
from lorebank._mnemopi.vectors.meaning import Asked

POOL: Mapping[Budget, int] = {"low": 50, "mid": 200, "high": 600}
"""How many matching memories are scored, by budget."""

_BANKS = "SELECT number, name, size, length FROM banks WHERE name IN ({})"


@dataclass(frozen=True, slots=True)
class Search:
    """One recall at work: what is asked, of which banks, at what time (`now` in ticks).

    `floor` is the evidence that is needed, `asked` the query's vector, where it has one, `opening` which opening of the file
    this one is.
    """

    request: RecallRequest
    banks: tuple[str, ...]
    settings: MnemopiSettings
    now: int
    floor: float
    asked: Asked | None = None
    opening: int = 0


def recall(connection: Source, search: Search) -> RecallResult:
    """The memories that answer the request, searched in all its banks as one; none of any other bank."""
    started = time.perf_counter()
    request = search.request
    names, corpus = _corpus(connection, search.banks)
    question = parse_question(request.query, request.moment)
    meaning = search.asked.over(connection, corpus.banks, search.opening) if search.asked is not None else None
    wanted = Wanted(question, meaning, max(POOL[request.budget], request.limit))
    pool = gather(connection, corpus, wanted, Filter(request.types, search.now, request.rule))
    ranking = rank(pool, corpus, question, search.settings.ranking)
    relevant = _relevant(pool, ranking, question, search)
    kept, dropped = _bounded(_read(connection, relevant, ranking, names, request), request)
    trace = None
    if request.explain:
        trace = _trace(pool, ranking, question, search.floor, dropped, time.perf_counter() - started)
    return RecallResult("found" if kept else "nothing", request.query, kept, trace=trace)


def _corpus(connection: Source, banks: Sequence[str]) -> tuple[dict[int, str], Corpus]:
    """The banks of these names that this file holds, and what they hold together."""
    rows = rows_of(connection, _BANKS.format(",".join("?" * len(banks))), banks)
    names = {int(row[0]): str(row[1]) for row in rows}
    return names, Corpus(tuple(sorted(names)), sum(row[2] for row in rows), sum(row[3] for row in rows))


def _relevant(pool: Pool, ranking: Ranking, question: Question, search: Search) -> Sequence[int]:
    """The places in the pool that may be returned, best first.

    Where the evidence stays under the floor, only what stands out in meaning: often none at all. A memory of the time that
    the query names is evidence by itself.
    """
    found: Sequence[int] = ranking.order
    if question.terms and not pool.answers.telling and not ranking.signals["period"].any() and ranking.evidence < search.floor:
        if (standing := pool.standing) is None:
            return ()
        found = [place for place in found if standing[place] >= search.settings.standing]
    least = search.request.min_score
    return found if least is None else [place for place in found if ranking.scores[place] >= least]


def _read(
    connection: Source, places: Sequence[int], ranking: Ranking, names: Mapping[int, str], request: RecallRequest
) -> Iterator[Memory]:
    """Full memories in the ranking's order, the same text once, as many as the request's limit. An observation is left out where
    a memory that it was made of is among the first: it would say the same again.
    """
    seen: set[str] = set()
    first = frozenset[int](ranking.keys[list(places[: request.limit])].tolist())
    for start in range(0, len(places), page := request.limit + 2):
        part = places[start : start + page]
        keys: list[int] = ranking.keys[list(part)].tolist()
        rows = {row["key"]: row for row in full_rows(connection, keys)}
        repeating = _repeating(connection, rows, first)
        for place, key in zip(part, keys, strict=True):
            if key in repeating:
                continue
            text = " ".join(rows[key]["content"].casefold().split())
            if text not in seen:
                seen.add(text)
                signals = ranking.explained(place) if request.explain else None
                score = round(float(ranking.scores[place]), 6)
                yield to_memory(rows[key], names[rows[key]["bank"]], score=score, signals=signals)
            if len(seen) == request.limit:
                return


def _repeating(connection: Source, rows: Mapping[int, Mapping[str, Any]], first: frozenset[int]) -> frozenset[int]:
    """The observations among these rows that were made of some of the `first` memories."""
    observations = [key for key, row in rows.items() if row["type"] == OBSERVATION]
    return frozenset(key for key, origins in sources_of(connection, observations).items() if not first.isdisjoint(origins))


def _bounded(found: Iterator[Memory], request: RecallRequest) -> tuple[tuple[Memory, ...], tuple[str, ...]]:
    """The memories that fit the token bound together, and the ids of those that don't.

    Where not even the best fits, the beginning of it does: an excerpt is more use than nothing.
    """
    kept: list[Memory] = []
    dropped: list[str] = []
    left = request.max_tokens
    for memory in found:
        cost = request.count_tokens(memory.text)
        if cost <= left:
            kept.append(memory)
            left -= cost
        elif not kept and not dropped:
            excerpt = _excerpt(memory, request)
            kept, left = ([excerpt], 0) if excerpt else ([], left)
        else:
            dropped.append(memory.id)
    return tuple(kept), tuple(dropped)


def _excerpt(memory: Memory, request: RecallRequest) -> Memory | None:
    """The memory with the longest beginning of its text that fits, cut between words."""
    low, high = 0, len(memory.text)
    while low < high:
        middle = (low + high + 1) // 2
        fits = request.count_tokens(memory.text[:middle] + "…") <= request.max_tokens
        low, high = (middle, high) if fits else (low, middle - 1)
    text = memory.text[:low]
    text = text[: text.rfind(" ")] if " " in text[low // 2 :] else text
    return replace(memory, text=text.rstrip() + "…", truncated=True) if text.strip() else None


def _trace(
    pool: Pool, ranking: Ranking, question: Question, floor: float, dropped: tuple[str, ...], elapsed: float
) -> RecallTrace:
    return RecallTrace(
        terms={term: round(weight, 3) for term, weight in pool.weights.items()},
        period=question.period.spans if question.period else (),
        pool=len(pool.rows),
        evidence=round(ranking.evidence, 3),
        floor=floor,
        dropped=dropped,
        elapsed=elapsed,
    )
