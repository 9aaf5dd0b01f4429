"""A backend's vectors: all that an embedder adds to it, or nothing where there is none."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from lorebank._database.engine import Database
from lorebank._domain.events import Listener
from lorebank._domain.ports import Embedder
from lorebank._forks import Forkable, watch_forks
from lorebank._mnemopi.store import bank_number, bank_size
from lorebank._mnemopi.vectors.asking import QueryEmbedder, without_names
from lorebank._mnemopi.vectors.index import VectorIndex
from lorebank._mnemopi.vectors.meaning import Asked, held_of
from lorebank._mnemopi.vectors.store import model_of
from lorebank._mnemopi.vectors.writer import VectorWriter

CATCH_UP = 2.0
"""Seconds between two looks for memories that somebody else has written."""


class Vectors(Forkable):
    """The vectors of one embedder in one file: made in the background, asked by recalls."""

    def __init__(self, database: Database, embedder: Embedder, query_timeout: float) -> None:
        self.database, self.embedder = database, embedder
        self.index = VectorIndex()
        self.writer = VectorWriter(database, embedder)
        self.queries = QueryEmbedder(embedder, query_timeout)
        self._begun, self._caught_up = 0, 0.0
        watch_forks(self)

    def announce(self, tell: Listener) -> None:
        self.writer.trouble.tell = self.queries.trouble.tell = tell

    def asked(self, query: str, banks: Sequence[str]) -> Asked | None:
        """The query's vector for one recall, made before its transaction; `None` where that goes on by words: no memory has
        a vector yet, or the embedder gives none.
        """
        if self.queries.trouble.pause:
            return None
        with self.database.direct() as connection:
            model = model_of(connection, self.embedder.name)
            numbers = [number for name in banks if (number := bank_number(connection, name)) is not None]
            held = held_of(connection, model, numbers, self.index, self.database.openings) if model is not None else ()
            size = sum(map(partial(bank_size, connection), numbers))
        if size > sum(len(each.keys) for each in held):
            self._catch_up()
        if not held:
            return None
        speakers = frozenset[str]().union(*(each.speakers for each in held))
        vector = self.queries.vector(without_names(query, speakers), banks[0])
        return None if vector is None else Asked(self.embedder.name, vector, self.index, getattr(self.embedder, "trust", 1.0))

    def begin(self) -> None:
        """The file is open: what was left undone in it goes on."""
        if self._begun != self.database.openings:
            self._begun = self.database.openings
            self.writer.wake(whole=True)

    def _catch_up(self) -> None:
        """A recall saw memories without vectors: whoever wrote them, they get some. Not at every recall, since that looks
        through the whole file.
        """
        now = time.monotonic()
        if now - self._caught_up > CATCH_UP:
            self._caught_up = now
            self.writer.wake(whole=True)

    def after_fork(self) -> None:
        self._begun = 0
        self.index.clear()
        self.queries.after_fork()
