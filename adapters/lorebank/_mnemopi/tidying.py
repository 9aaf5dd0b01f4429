"""Keeps the full-text index in few pieces: every write adds one, and every search looks into all of them."""

from __future__ import annotations

from contextlib import suppress

from lorebank._database.driver import rows_of
from lorebank._database.engine import Database
from lorebank._mnemopi.dialects import speech_of
from lorebank.errors import LorebankError

AT_LEAST = 1_024
"""New memories that are worth a merge ..."""
SHARE = 8
"""... where they are one in so many of the file's: so each memory is merged about so many times in all."""
PAGES = 64
"""Pages of the index that are merged after one write: some 5 ms of work."""


class Tidying:
    """Merges one database's index, a step after a write, whenever enough of its memories are new.

    What is counted are this process's writes. A step never waits for other writers: it is taken after a later write.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._new, self._enough = 0, AT_LEAST
        self._merging = False

    def wrote(self, count: int) -> None:
        """So many memories are new. What was written is safe already: no fault of the merge reaches who wrote it."""
        self._new += count
        with suppress(LorebankError):
            if self._merging or self._due():
                self._step()

    def _step(self) -> None:
        with self._database.alone(0) as connection:
            more = speech_of(self._database).merge(connection, PAGES, begin=not self._merging)
        if not self._merging:
            self._new = 0
        self._merging = more

    def _due(self) -> bool:
        if self._new < self._enough:
            return False
        with self._database.direct() as connection:
            held = rows_of(connection, "SELECT sum(size) FROM banks")[0][0] or 0
        self._enough = max(AT_LEAST, int(held) // SHARE)
        return self._new >= self._enough
