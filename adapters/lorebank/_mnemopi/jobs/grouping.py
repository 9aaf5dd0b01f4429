"""Which memories belong together: those that share rare terms, and carry the same tags.

Only new memories are looked at, each against the candidates that the index of terms gives: never all pairs. A term that many
hold says nothing here, and is not read further than to see that. Memories of different tags never meet, since who may read the
one may not be one who may read the other. Each memory is in one group at most; a group is an observation that is there already,
or a new one of at least `LEAST`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lorebank._database.driver import Source
from lorebank._mnemopi.derived import derived_from, sources_of
from lorebank._mnemopi.dialects import speech
from lorebank._mnemopi.jobs.marks import Job
from lorebank._mnemopi.jobs.told import Row, told_rows
from lorebank._mnemopi.search.corpus import SMALL, rarity
from lorebank._mnemopi.store import bank_size

LEAST = 3
MOST = 12
"""Memories of one group; then it is closed."""
COMMON = 24
"""So many memories with a term make it a common one."""
NEAR = 0.3
"""The share of the weight of a memory's rare terms that another one of its group has, too."""
TERMS = 24
"""Rare terms of a memory that are looked up."""
CANDIDATES = 24


@dataclass(slots=True)
class Group:
    """Memories that belong together, by key, and the observation (its key and id) that says so already. `topic` are the rare
    terms that all of them hold.
    """

    rows: dict[int, Row] = field(default_factory=dict[int, Row])
    observation: tuple[int, str] | None = None
    topic: frozenset[str] = frozenset()
    grown: bool = False

    @property
    def full(self) -> bool:
        return len(self.rows) >= MOST

    def in_order(self) -> list[Row]:
        """The memories, oldest first."""
        return sorted(self.rows.values(), key=lambda row: (row["mentioned_at"], row["key"]))


class Grouping:
    """The groups that a batch of memories founds or joins."""

    def __init__(self, connection: Source, job: Job, now: int) -> None:
        self._connection, self._job, self._now = connection, job, now
        self._size = max(SMALL, bank_size(connection, job.bank))
        self._group_of: dict[int, Group] = {}

    def grouped(self, rows: Sequence[Row]) -> list[Group]:
        """The groups that these memories belong to; memories that belong nowhere are in none."""
        holders, weights = self._index(rows)
        for row in rows:
            if row["key"] in self._group_of:
                continue
            own = self._rare(row, holders, weights)
            near = self._near(row, own, holders, weights)
            group = self._home(near, frozenset(own)) or self._founded(near, own, weights)
            if group is not None:
                self._put(group, [row])
                group.topic &= frozenset(own)
                group.grown = True
        return [group for group in {id(group): group for group in self._group_of.values()}.values() if group.grown]

    def _put(self, group: Group, rows: Iterable[Row]) -> None:
        for row in rows:
            group.rows[row["key"]] = row
            self._group_of[row["key"]] = group

    def _index(self, rows: Sequence[Row]) -> tuple[Mapping[str, frozenset[int]], Mapping[str, float]]:
        """Who holds the rare terms of these memories, and how much each term weighs."""
        wanted = dict.fromkeys(term for row in rows for term in dict.fromkeys(row["terms"].split()))
        found = speech(self._connection).postings(self._connection, [self._job.bank], [(term,) for term in wanted], COMMON)
        held = dict(zip(wanted, found, strict=True))
        holders = {term: frozenset[int](keys.tolist()) for term, keys in held.items() if 1 < len(keys) < COMMON}
        return holders, {term: rarity(self._size, len(keys)) for term, keys in holders.items()}

    def _founded(self, near: Sequence[Row], own: Sequence[str], weights: Mapping[str, float]) -> Group | None:
        """A new group around the term that most of these memories hold; `None` where it would be too small."""
        free = [row for row in near if row["key"] not in self._group_of]
        counts = Counter(term for row in free for term in frozenset(own).intersection(row["terms"].split()))
        if not counts:
            return None
        best = max(own, key=lambda term: (counts[term], weights[term]))
        members = [row for row in free if best in row["terms"].split()][: MOST - 1]
        if len(members) + 1 < LEAST:
            return None
        group = Group(topic=frozenset(own).intersection(*(row["terms"].split() for row in members)))
        self._put(group, members)
        return group

    def _rare(self, row: Row, holders: Mapping[str, frozenset[int]], weights: Mapping[str, float]) -> list[str]:
        """The rarest terms of a memory that others hold, too."""
        return sorted(holders.keys() & set(row["terms"].split()), key=lambda term: (-weights[term], term))[:TERMS]

    def _near(
        self, row: Row, own: Sequence[str], holders: Mapping[str, frozenset[int]], weights: Mapping[str, float]
    ) -> list[Row]:
        """The memories of the same tags that have much in common with one, most first; none of a group that is closed."""
        shared: Counter[int] = Counter()
        for term in own:
            shared.update(dict.fromkeys(holders[term], 1))
        shared.pop(row["key"], None)
        best = sorted(shared, key=lambda key: (-shared[key], -key))[:CANDIDATES]
        whole = sum(weights[term] for term in own)
        found: list[tuple[float, Row]] = []
        for other in told_rows(self._connection, best, self._now):
            common = set(own).intersection(other["terms"].split())
            weight = sum(weights[term] for term in common)
            if other["tags"] == row["tags"] and len(common) > 1 and weight >= NEAR * whole:
                found.append((weight, other))
        self._look_up([other["key"] for _, other in found if other["key"] not in self._group_of])
        found.sort(key=lambda each: (-each[0], -each[1]["key"]))
        return [other for _, other in found if not self._closed(other["key"])]

    def _closed(self, key: int) -> bool:
        return key in self._group_of and self._group_of[key].full

    def _home(self, near: Sequence[Row], own: frozenset[str]) -> Group | None:
        """The group that most of these memories are in, if any has a topic in common with these terms."""
        groups = [self._group_of[row["key"]] for row in near if row["key"] in self._group_of]
        counts = Counter(map(id, groups))
        fitting = [group for group in groups if not group.topic.isdisjoint(own)]
        return max(fitting, key=lambda group: counts[id(group)], default=None)

    def _look_up(self, keys: Sequence[int]) -> None:
        """Finds the observations that were made of these memories."""
        observations = {each.key: each for each in derived_from(self._connection, keys)}
        for key, origins in sources_of(self._connection, list(observations)).items():
            rows = told_rows(self._connection, list(origins), self._now)
            if len(rows) > 1:
                held = [frozenset(row["terms"].split()) for row in rows]
                group = Group(observation=(key, observations[key].id), topic=held[0].intersection(*held[1:]))
                self._put(group, rows)
