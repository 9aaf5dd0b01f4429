"""What the engine says to SQLite and to PostgreSQL in different words; all else is one SQL that both understand.

Common SQL has `ON CONFLICT`, quotes column names that are words of a dialect, and casts a parameter whose type nothing else
tells. What can't be common is a fragment of that name in `sqlite.py` and in `postgresql.py`, or a function there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from lorebank._database import driver
from lorebank._database.driver import Source, Spoken
from lorebank._database.engine import Database
from lorebank._mnemopi.dialects import postgresql, sqlite


class Speech(Protocol):
    """How the engine speaks to one kind of database."""

    @property
    def STEPS(self) -> Sequence[Sequence[str]]:  # noqa: N802 - a module's constant
        """The numbered steps of the tables."""
        ...

    @property
    def SESSION_STEPS(self) -> Sequence[Sequence[str]]:  # noqa: N802 - the same
        """Those of the sessions' tables."""
        ...

    @property
    def FRAGMENTS(self) -> Mapping[str, str]:  # noqa: N802 - the same
        """Pieces of statements, by name."""
        ...

    def postings(
        self, connection: Source, banks: Sequence[int], wanted: Sequence[Sequence[str]], bound: int
    ) -> list[NDArray[np.int64]]:
        """For each group of terms the keys of the memories that hold any of them, the newest, `bound` at most from each bank."""
        ...

    def version(self, connection: Source) -> str:
        """Which database this is."""
        ...

    def size(self, connection: Connection, database: Database) -> int:
        """How many bytes the database's tables take up."""
        ...

    def checking(self, database: Database) -> AbstractContextManager[Connection]:
        """The transaction for a check."""
        ...

    def problems(self, connection: Connection) -> list[str]:
        """What is wrong with the tables and the index of terms."""
        ...

    @property
    def BEYOND(self) -> tuple[str, ...]:  # noqa: N802 - the same
        """What no deletion reaches."""
        ...

    def merge(self, connection: Source, pages: int, *, begin: bool) -> bool:
        """Merges the pieces of the full-text index, so many pages of it; gives whether there is more to do. `begin` takes in all
        pieces that there are now.
        """
        ...

    def purge(self, database: Database, wait: float, *, thorough: bool) -> str | None:
        """Removes what deleted rows have left, `wait` seconds at most unless it is `thorough`; gives why it could not."""
        ...


SPEECHES: Mapping[driver.Dialect, Speech] = {"sqlite": sqlite, "postgresql": postgresql}


def speech(source: Source) -> Speech:
    """How to speak to what statements would run in."""
    return SPEECHES[driver.dialect_of(source)]


def speech_of(database: Database) -> Speech:
    return SPEECHES[database.place.dialect]


def spoken(template: str) -> Spoken:
    """A statement with each dialect's own fragments where the template names them."""
    return Spoken(template.format_map(sqlite.FRAGMENTS), template.format_map(postgresql.FRAGMENTS))
