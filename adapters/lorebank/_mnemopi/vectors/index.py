"""What is kept of a bank's vectors in memory: their sign bits, and a sample that tells what is usual.

48 bytes for a vector of 384 dimensions, beside its number and its memory's key. It follows the file by two numbers: the
largest number of a vector, since a number is used once, and how many of the bank's vectors were dropped. It only says
where to look: every vector is read from the file, in the recall's own snapshot, before it counts, so that what was
forgotten can't come back from here.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from lorebank._database.driver import Source
from lorebank._mnemopi.vectors import codec, store
from lorebank._mnemopi.vectors.codec import Matrix, Signs
from lorebank._mnemopi.vectors.store import Keys, Model

BANKS = 256
"""Banks that are kept at most; the one that was asked longest ago goes first."""
SAMPLE = 128
"""Vectors of a bank that tell which similarities are usual there."""
_PAGE = 10_000


@dataclass(frozen=True, slots=True)
class Held:
    """One bank's vectors of one model, in the order of their numbers. `opening` is which opening of the file they are from,
    `speakers` whose memories have a vector.
    """

    bank: int
    opening: int
    last: int
    dropped: int
    numbers: Keys
    keys: Keys
    signs: Signs
    sample: Matrix
    sampled: int
    speakers: frozenset[str]

    def nearest(self, query: Signs, count: int) -> Keys:
        """The numbers of the vectors that agree with the query's in most signs."""
        if len(self.numbers) <= count:
            return self.numbers
        differing = codec.differing(self.signs, query)
        return self.numbers[np.argpartition(differing, count)[:count]]


class VectorIndex:
    """The banks that were asked lately. Threads share it; what one of them reads anew is there for all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: OrderedDict[tuple[int, int], Held] = OrderedDict()

    def of(self, connection: Source, model: Model, bank: int, opening: int) -> Held:
        """The bank's vectors as the connection's snapshot has them, and maybe some that are newer or gone."""
        known = self._known(model, bank, opening)
        found = self._followed(connection, model, bank, known)
        if found is not known:
            self._keep((model.number, bank), found)
        return found

    def clear(self) -> None:
        """Forgets all banks, and the lock of a process that is no longer there."""
        self._lock, self._held = threading.Lock(), OrderedDict()

    def _known(self, model: Model, bank: int, opening: int) -> Held:
        with self._lock:
            found = self._held.get((model.number, bank))
            if found is not None and found.opening == opening:
                self._held.move_to_end((model.number, bank))
                return found
        nothing = np.empty(0, np.int64)
        empty = np.empty((0, model.dimensions), np.float32)
        return Held(bank, opening, 0, 0, nothing, nothing, codec.signs(empty), empty, 0, frozenset())

    def _keep(self, place: tuple[int, int], found: Held) -> None:
        with self._lock:
            known = self._held.get(place)
            if known is None or known.opening != found.opening or (known.last, known.dropped) <= (found.last, found.dropped):
                self._held[place] = found
                self._held.move_to_end(place)
            while len(self._held) > BANKS:
                self._held.popitem(last=False)

    def _followed(self, connection: Source, model: Model, bank: int, known: Held) -> Held:
        dropped = store.dropped(connection, bank)
        parts = [(known.numbers, known.keys, known.signs)]
        if dropped > known.dropped and len(known.numbers):
            alive = np.isin(known.numbers, store.numbers(connection, model.number, bank), assume_unique=True)
            parts = [(known.numbers[alive], known.keys[alive], known.signs[alive])]
        last, speakers = known.last, known.speakers
        while rows := store.newer(connection, model.number, bank, last, _PAGE):
            last = int(rows[-1][0])
            numbers, keys = (np.fromiter((row[at] for row in rows), np.int64, len(rows)) for at in (0, 1))
            speakers |= {row[3] for row in rows if row[3]}
            vectors = codec.unpacked([row[2] for row in rows], model.dimensions)
            parts.append((numbers, keys, codec.signs(vectors, model.centre)))
        if last == known.last and dropped <= known.dropped:
            return known
        numbers, keys = np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
        signs = np.concatenate([part[2] for part in parts])
        sample, sampled = known.sample, known.sampled
        if dropped > known.dropped or len(keys) > 2 * sampled or sampled < SAMPLE:
            sample, sampled = _sampled(connection, model, keys), len(keys)
        return Held(bank, known.opening, last, max(dropped, known.dropped), numbers, keys, signs, sample, sampled, speakers)


def _sampled(connection: Source, model: Model, keys: Keys) -> Matrix:
    """Vectors from all over the bank."""
    chosen = keys[np.linspace(0, len(keys) - 1, min(SAMPLE, len(keys))).astype(np.intp)] if len(keys) else keys
    found = store.by_key(connection, model.number, chosen.tolist())
    return codec.unpacked(list(found.values()), model.dimensions)
