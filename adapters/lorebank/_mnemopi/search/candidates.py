"""Which memories are worth scoring: full text by term, the named period, neighbours in the session.

Each term's memories are read from the full-text index within the banks' key ranges, so that document frequencies are
those of the banks asked and nothing of another bank can weigh in. A term that is common in a large bank is read up to a
bound (its newest memories), unless a tag filter may leave out just those; it still counts in the scoring. The best by
summed weight, as many as the budget says and the filters admit, form the pool. Where the query has a vector, half as many
that are nearest in meaning join them, from the whole of the banks. So do the messages around the first of both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorebank._database.driver import Row, Source, rows_of
from lorebank._domain.memory import MemoryType
from lorebank._domain.scope import TagRule
from lorebank._mnemopi.dialects import speech, spoken
from lorebank._mnemopi.facts import asking, store
from lorebank._mnemopi.facts.truth import NO_ANSWERS, Answers, answers
from lorebank._mnemopi.rows import tags_of, to_ticks
from lorebank._mnemopi.schema import OBSERVATION
from lorebank._mnemopi.search.corpus import SMALL, Corpus, rarity
from lorebank._mnemopi.search.everyday import counted
from lorebank._mnemopi.search.inflections import forms_asked
from lorebank._mnemopi.search.kinds import kin_of
from lorebank._mnemopi.search.linked import Link, Reader, links
from lorebank._mnemopi.search.question import Question
from lorebank._mnemopi.vectors.meaning import Meaning

COMMON_SHARE = 20
"""A term is read up to one in so many of the banks' memories ..."""
COMMON_AT_LEAST = 4_000
"""... but always up to this many."""
PERIOD_AT_MOST = 2_000
AROUND = (-2, -1, 1, 2)
"""Which messages of a session are a message's neighbours: the two before it and the two after it."""
NEIGHBOURED = 25
"""Neighbours are read of so many of the best matches: further down they never reached a result (measured)."""

_OBSERVATIONS = "SELECT key FROM memories WHERE bank = ? AND type = 'observation'"
_COLUMNS = "m.key, m.bank, m.session, m.position, m.speaker, m.mentioned_at, m.traits, m.importance, m.veracity, m.terms, m.tags"
_LIVE = "m.type IN (?, ?, ?) AND m.invalidated_at IS NULL AND (m.valid_until IS NULL OR m.valid_until > ?)"
_IN_PERIOD = f"""SELECT m.key FROM memories m WHERE m.bank = ? AND m.mentioned_at >= ? AND m.mentioned_at < ? AND {_LIVE}
                 ORDER BY m.mentioned_at DESC LIMIT ?"""  # noqa: S608 - our own names
_NEWEST = f"""SELECT m.key FROM memories m WHERE m.bank = ? AND {_LIVE}
              ORDER BY m.mentioned_at DESC LIMIT ?"""  # noqa: S608 - our own names
_BY_KEY = spoken(f"SELECT {_COLUMNS} FROM {{memories_by_key}} WHERE {_LIVE}")  # noqa: S608 - our own names
_BY_PLACE = spoken(f"SELECT {_COLUMNS} FROM {{memories_by_place}} WHERE {_LIVE}")  # noqa: S608 - our own names

Keys = NDArray[np.int64]
Place = tuple[int, str, int]
"""Bank, session, position in the session."""


@dataclass(frozen=True, slots=True)
class Filter:
    """What a memory must satisfy to be read. `now` is in ticks."""

    types: tuple[MemoryType, ...]
    now: int
    rule: TagRule | None = None

    def live(self) -> tuple[object, ...]:
        """The parameters of `_LIVE`."""
        return (*(*self.types, *self.types[-1:] * 2)[:3], self.now)

    def admitted(self, connection: Source, statement: str, wanted: Sequence[object]) -> list[Row]:
        """The rows of a statement that pass."""
        rows = rows_of(connection, statement, (json.dumps(wanted), *self.live()))
        return rows if (rule := self.rule) is None else [row for row in rows if rule.admits(tags_of(row[10]))]


@dataclass(frozen=True, slots=True)
class Related:
    """The memories that hold a word which a query's term stands for, and how much that weighs."""

    term: str
    holders: Keys
    weight: float


@dataclass(frozen=True, slots=True)
class Pool:
    """The candidates, column by column: the first `matched` match the query itself, the rest stand beside those.

    `weights` are the query's terms with their rarity, `holders` the keys of the memories that hold them, `related` those that
    hold what they stand for, `closeness` how
    near each candidate is to the query in meaning, where that is known, `standing` by how much it stands out beyond chance,
    both in deviations, and `trust` how much that counts; `answers` is what the banks' facts say to the query.
    """

    rows: tuple[Row, ...]
    matched: int
    weights: Mapping[str, float]
    holders: Mapping[str, Keys]
    related: tuple[Related, ...] = ()
    answers: Answers = NO_ANSWERS
    links: tuple[Link, ...] = ()
    closeness: NDArray[np.float64] | None = None
    trust: float = 1.0
    standing: NDArray[np.float64] | None = None

    @property
    def counted(self) -> dict[str, float]:
        """The weights as scores count them."""
        return counted(self.weights)

    def columns(self) -> list[tuple[Any, ...]]:
        """Key, bank, session, position, speaker, time, traits, importance, veracity, terms, tags."""
        return list(zip(*self.rows, strict=True)) if self.rows else [()] * 11


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a pool is gathered for: up to `size` memories that match the question, and half as many by its meaning."""

    question: Question
    meaning: Meaning | None
    size: int


def gather(connection: Source, corpus: Corpus, wanted: Wanted, admit: Filter) -> Pool:
    """The pool for a question: the memories that match it, by words and by meaning, and their neighbours."""
    question, size = wanted.question, wanted.size
    bound = max(COMMON_AT_LEAST, corpus.size // COMMON_SHARE) if admit.rule is None else corpus.size + 1
    holders, related = _holders(connection, corpus, question, bound, admit)
    weights = {term: rarity(max(corpus.size, SMALL), len(keys)) for term, keys in holders.items()}
    lists = [*_leading(holders, counted(weights), bound), *((each.holders, each.weight) for each in related)]
    if question.period is not None:
        mean = sum(weights.values()) / len(weights) if weights else 1.0
        lists.append((_in_period(connection, corpus, question, admit), mean))
    elif question.anything and not any(map(len, holders.values())):
        lists.append((_newest(connection, corpus, admit, size), 1.0))
    matched, beside = _admitted(connection, _ranked(lists), admit, size)
    told, said = _told(connection, corpus, question, admit)
    found = {row[0] for row in matched}
    matched += [row for row in told if row[0] not in found]
    beyond, linked = links(question, matched, _reader(connection, corpus, admit))
    matched += beyond
    if (meaning := wanted.meaning) is None:
        rows = (*matched, *_neighbours(connection, matched, matched[:NEIGHBOURED], beside, admit))
        return Pool(rows, len(matched), weights, holders, related, said, linked)
    nearest: list[int] = meaning.nearest(connection).tolist()
    known = {row[0]: row for row in matched}
    room = size // 2 - sum(key in known for key in nearest[: size // 2])
    fresh, also = _admitted(connection, np.array([key for key in nearest if key not in known], np.int64), admit, room)
    known |= {row[0]: row for row in fresh}
    leading = {row[0]: row for row in matched[:NEIGHBOURED]} | {key: known[key] for key in nearest[:NEIGHBOURED] if key in known}
    around = {row[0]: row for row in (*beside, *also)}
    every = list(known.values())
    rows = (*every, *_neighbours(connection, every, list(leading.values()), list(around.values()), admit))
    closeness = meaning.closeness(connection, [row[0] for row in rows])
    standing = meaning.standing(closeness)
    return Pool(rows, len(every), weights, holders, related, said, linked, closeness, meaning.trust, standing)


def _holders(
    connection: Source, corpus: Corpus, question: Question, bound: int, admit: Filter
) -> tuple[dict[str, Keys], tuple[Related, ...]]:
    """The memories that hold each of the question's terms, and those that hold what a term stands for, where that is not so
    common that it tells nothing.
    """
    kin = [*kin_of(question.terms), *forms_asked(question.text, question.words, question.terms)]
    wanted = [*((term,) for term in question.terms), *(each.words for each in kin)]
    found = _without_observations(connection, corpus, speech(connection).postings(connection, corpus.banks, wanted, bound), admit)
    held = dict(zip(question.terms, found, strict=False))
    size = max(corpus.size, SMALL)
    every = [
        Related(each.term, keys, each.share * rarity(size, len(keys)))
        for each, keys in zip(kin, found[len(held) :], strict=True)
        if 0 < len(keys) < bound
    ]
    return held, tuple(every)


def _reader(connection: Source, corpus: Corpus, admit: Filter) -> Reader:
    """How links read the banks."""

    def holders(terms: Sequence[str], bound: int) -> list[Keys]:
        found = speech(connection).postings(connection, corpus.banks, [(term,) for term in terms], bound)
        return _without_observations(connection, corpus, found, admit)

    return Reader(max(corpus.size, SMALL), holders, partial(admit.admitted, connection, _BY_KEY))


def _without_observations(connection: Source, corpus: Corpus, holders: list[Keys], admit: Filter) -> list[Keys]:
    """The holders of terms but for observations, where these are not asked for: what they repeat is not more common for that."""
    if OBSERVATION in admit.types:
        return holders
    found = _keys([row for bank in corpus.banks for row in rows_of(connection, _OBSERVATIONS, (bank,))])
    return [keys[~np.isin(keys, found)] for keys in holders] if len(found) else holders


def _told(connection: Source, corpus: Corpus, question: Question, admit: Filter) -> tuple[list[Row], Answers]:
    """The memories whose facts the question asks for, and what they say to it."""
    wanted = asking.asked(question)
    meant, others = store.asked_for(connection, corpus.banks, wanted, admit.now)
    rows = admit.admitted(connection, _BY_KEY, list(dict.fromkeys(each.key for each in meant))) if meant else []
    there = {row[0] for row in rows}
    stated = [each for each in meant if each.key in there]
    return rows, answers(stated, others, question.terms, wanted.mainly, former=question.former)


def _keys(found: Sequence[Row]) -> Keys:
    return np.fromiter((row[0] for row in found), np.int64, len(found))


def _leading(holders: Mapping[str, Keys], weights: Mapping[str, float], bound: int) -> list[tuple[Keys, float]]:
    """The terms that choose the pool: all that were read whole, the common ones only where there is no other."""
    whole = [(keys, weights[term]) for term, keys in holders.items() if 0 < len(keys) < bound]
    return whole or [(keys, weights[term]) for term, keys in holders.items() if len(keys)]


def _in_period(connection: Source, corpus: Corpus, question: Question, admit: Filter) -> Keys:
    spans = question.period.spans if question.period else ()
    found: list[Row] = []
    for bank in corpus.banks:
        for start, end in spans:
            found += rows_of(connection, _IN_PERIOD, (bank, to_ticks(start), to_ticks(end), *admit.live(), PERIOD_AT_MOST))
    return np.unique(_keys(found))


def _newest(connection: Source, corpus: Corpus, admit: Filter, size: int) -> Keys:
    """For a question without a word to search by ("what about me?", "about the user"): what was said last."""
    return _keys([row for bank in corpus.banks for row in rows_of(connection, _NEWEST, (bank, *admit.live(), size))])


def _ranked(lists: Sequence[tuple[Keys, float]]) -> Keys:
    """All keys of the lists by summed weight, best first; newer first among equals."""
    if not lists:
        return np.empty(0, np.int64)
    every = np.concatenate([keys for keys, _ in lists])
    gained = np.repeat([weight for _, weight in lists], [len(keys) for keys, _ in lists])
    keys, places = np.unique(every, return_inverse=True)
    sums = np.bincount(places, gained, len(keys))
    newest: Keys = keys[::-1][np.argsort(-sums[::-1], kind="stable")]
    return newest


def _admitted(connection: Source, keys: Keys, admit: Filter, size: int) -> tuple[list[Row], list[Row]]:
    """The first `size` of the keys that pass the filter, read page by page, and the rows that arrived right beside them."""
    matched: list[Row] = []
    beside: list[Row] = []
    start, page = 0, size
    while start < len(keys) and len(matched) < size:
        wanted: list[int] = keys[start : start + page].tolist()
        known = set(wanted)
        near = {key + step for key in wanted[:NEIGHBOURED] for step in AROUND} - known
        rows = {row[0]: row for row in admit.admitted(connection, _BY_KEY, wanted + list(near))}
        matched += [rows[key] for key in wanted if key in rows]
        beside += [row for key, row in rows.items() if key not in known]
        start, page = start + page, min(page * 4, 8_000)
    return matched[:size], beside


def _neighbours(
    connection: Source, matched: Sequence[Row], leading: Sequence[Row], beside: Sequence[Row], admit: Filter
) -> list[Row]:
    """The messages around the leading ones in their sessions, where they are not matched themselves.

    Most arrived right beside them; where sessions took turns, the rest is read by place.
    """
    known = set(_places(matched))
    wanted = {
        (bank, session, place + step) for bank, session, place in _places(leading) for step in AROUND if place + step >= 0
    } - known
    found = [row for row, place in zip(beside, _places(beside), strict=True) if place in wanted]
    if missing := wanted.difference(_places(found)):
        found += admit.admitted(connection, _BY_PLACE, sorted(missing))
    return found


def _places(rows: Iterable[Row]) -> list[Place]:
    """Each row's place in its session; rows without a session have a place of their own."""
    return [(row[1], row[2], row[3]) if row[2] is not None else (row[1], "", -2 - row[0]) for row in rows]
