"""How near memories are to a query in meaning, on a scale that any embedder shares.

Cosines of one embedder lie around 0.1, of another around 0.8. What counts is how far one stands out: the similarity of
the query to a sample of the bank has a mean and a deviation, and a memory's closeness is how many deviations its own lies
above the mean. A small bank is filled up with common sentences, so that a single memory can stand out, too.

That orders memories. To find one that shares no word with the query asks for more: in a bank whose memories are all alike
anything else stands out. So its deviations are those among common sentences, where these are larger, and it has to do
better than the nearest of so many would by chance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lorebank._database.driver import Source
from lorebank._mnemopi.vectors import codec, store
from lorebank._mnemopi.vectors.codec import Matrix
from lorebank._mnemopi.vectors.index import Held, VectorIndex
from lorebank._mnemopi.vectors.store import Keys, Model

CANDIDATES = 300
"""Vectors of each bank that are compared exactly: those that agree with the query's in most signs."""
NEAR = 2.0
"""Deviations above what is usual from which on a memory is a candidate by its meaning alone."""
USUAL = 64
"""A bank with fewer vectors is filled up with common sentences to this many, to tell what is usual."""
_LEAST_DEVIATION = 0.01

Column = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Meaning:
    """A query's vector before the banks of one recall, with mean and deviation of what is usual there, and how much it counts."""

    model: Model
    query: Matrix
    held: tuple[Held, ...]
    mean: float
    deviation: float
    common: float
    trust: float
    _cosines: dict[int, float] = field(default_factory=dict[int, float])

    def nearest(self, connection: Source) -> Keys:
        """The keys of the memories that are nearer to the query than `NEAR`, nearest first; they are compared exactly."""
        signs, found = codec.signs(self.query, self.model.centre), dict[int, float]()
        for each in self.held:
            rows = store.by_number(connection, self.model.number, each.bank, each.nearest(signs, CANDIDATES).tolist())
            found |= self._compared(rows)
        keys, cosines = np.fromiter(found, np.int64, len(found)), np.fromiter(found.values(), np.float64, len(found))
        order = np.lexsort((-keys, -cosines))[: np.count_nonzero(cosines >= self.mean + NEAR * self.deviation)]
        return keys[order]

    def closeness(self, connection: Source, keys: Sequence[int]) -> Column:
        """How far each memory stands out, in deviations; 0 for one without a vector."""
        found = self._read(connection, keys)
        return np.array([(found[key] - self.mean) / self.deviation if key in found else 0.0 for key in keys], np.float64)

    def standing(self, closeness: Column) -> Column:
        """By how many deviations each memory stands out beyond what the nearest of so many does by chance."""
        count = max(USUAL, sum(len(each.keys) for each in self.held))
        return closeness * self.deviation / max(self.deviation, self.common) - math.sqrt(2 * math.log(count))

    def _read(self, connection: Source, keys: Sequence[int]) -> Mapping[int, float]:
        """The cosines of the query and these memories' vectors, as the connection's snapshot has them."""
        if wanted := [key for key in keys if key not in self._cosines]:
            self._compared(store.by_key(connection, self.model.number, wanted))
        return self._cosines

    def _compared(self, vectors: Mapping[int, bytes]) -> Mapping[int, float]:
        cosines = codec.unpacked(list(vectors.values()), self.model.dimensions) @ self.query[0]
        found = dict(zip(vectors, cosines.tolist(), strict=True))
        self._cosines.update(found)
        return found


def held_of(connection: Source, model: Model, banks: Sequence[int], index: VectorIndex, opening: int) -> tuple[Held, ...]:
    """The vectors of those of the banks that have any."""
    found = (index.of(connection, model, bank, opening) for bank in banks)
    return tuple(each for each in found if len(each.keys))


@dataclass(frozen=True, slots=True)
class Asked:
    """A query's vector on its way to the banks: what the embedder of this name made of it, where vectors are kept, and how
    much they count.
    """

    name: str
    query: Matrix
    index: VectorIndex
    trust: float

    def over(self, connection: Source, banks: Sequence[int], opening: int) -> Meaning | None:
        """The query before these banks, in this opening of the file; `None` where none of their memories has a vector yet."""
        model = store.model_of(connection, self.name)
        held = held_of(connection, model, banks, self.index, opening) if model is not None else ()
        if model is None or not held:
            return None
        return Meaning(model, self.query, held, *_usual(self.query, model, held), self.trust)


def _usual(query: Matrix, model: Model, held: Sequence[Held]) -> tuple[float, float, float]:
    """Mean and deviation of the query's similarity to what the banks hold, and its deviation among common sentences."""
    samples = [each.sample for each in held]
    common = model.common
    lacking = max(0, USUAL - sum(map(len, samples)))
    cosines = np.concatenate([*samples, common[:lacking]]) @ query[0]
    spread = float((common @ query[0]).std()) if len(common) else 0.0
    return float(cosines.mean()), max(float(cosines.std()), _LEAST_DEVIATION), spread
