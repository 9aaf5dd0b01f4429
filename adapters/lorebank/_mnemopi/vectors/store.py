"""The rows of vectors: which memories still lack one, writing them, reading them. Every statement names model and bank.

A memory without a vector of a model is what that model's embedder has to do: there is no other list of work to lose.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lorebank._database.driver import Row, Source, rows_of, run, run_many
from lorebank._database.engine import Database
from lorebank._mnemopi.dialects import spoken
from lorebank._mnemopi.rows import ROLES
from lorebank._mnemopi.schema import key_range
from lorebank._mnemopi.vectors import codec
from lorebank._mnemopi.vectors.codec import Centre, Matrix
from lorebank.errors import UsageError

Keys = NDArray[np.int64]

_MODEL = "SELECT number, dimensions, background FROM embedding_models WHERE name = ?"
_NEW_MODEL = "INSERT INTO embedding_models (name, dimensions) VALUES (?, ?) ON CONFLICT DO NOTHING"
_BACKGROUND = "UPDATE embedding_models SET background = ? WHERE number = ?"
_BANKS = "SELECT number, name, sequence FROM banks ORDER BY number"
_LACKING = "NOT EXISTS (SELECT 1 FROM vectors v WHERE v.key = m.key AND v.model = ?)"
_MISSING = f"""SELECT m.key, m.content, m.speaker FROM memories m WHERE m.key > ? AND m.key <= ? AND {_LACKING}
               ORDER BY m.key LIMIT ?"""  # noqa: S608 - our own names
_LEFT = f"SELECT count(*) FROM memories m WHERE {_LACKING}"  # noqa: S608 - our own names
_WRITE = """INSERT INTO vectors (model, bank, key, vector)
            SELECT ?, m.bank, m.key, ? FROM memories m WHERE m.key = ? AND m.content = ? ON CONFLICT DO NOTHING"""
_DROPPED = "SELECT dropped FROM banks WHERE number = ?"
_NEWER = spoken("""SELECT v.number, v.key, v.vector, m.speaker FROM vectors v {memory_of_vector}
                   WHERE v.model = ? AND v.bank = ? AND v.number > ? ORDER BY v.number LIMIT ?""")
_NUMBERS = spoken(
    "SELECT {joined_numbers} FROM (SELECT number FROM vectors WHERE model = ? AND bank = ? ORDER BY number) numbers"
)
_BY_NUMBER = spoken("SELECT v.key, v.vector FROM {vectors_by_number} WHERE v.model = ? AND v.bank = ?")
_BY_KEY = spoken("SELECT v.key, v.vector FROM {vectors_by_key} AND v.model = ?")


LOPSIDED = 0.2
"""From this mean cosine of common sentences on, an embedder's vectors lie to one side."""


@dataclass(frozen=True, slots=True)
class Model:
    """An embedder, as a file knows it."""

    number: int
    dimensions: int
    background: bytes | None

    @property
    def common(self) -> Matrix:
        """The vectors of common sentences, one a row; none before there are others."""
        return codec.unpacked_all(self.background or b"", self.dimensions)

    @property
    def centre(self) -> Centre | float:
        """The point that its vectors lie around, as the common sentences tell it, where they lie to one side."""
        if not len(self.common):
            return 0.0
        mean: Centre = self.common.mean(0)
        return mean if mean @ mean >= LOPSIDED else 0.0


@dataclass(frozen=True, slots=True)
class Passage:
    """A memory that lacks a vector: its row's key and its text."""

    key: int
    content: str
    speaker: str | None

    def text(self) -> str:
        """What is embedded: the text, after its speaker where they are named and the text does not begin with them."""
        speaker = self.speaker
        if not speaker or speaker.casefold() in ROLES or self.content.startswith(speaker):
            return self.content
        return f"{speaker}: {self.content}"


def register(database: Database, name: str, dimensions: int) -> None:
    """Makes an embedder known to the file; `UsageError` where its name stands for vectors of another length."""
    with database.read() as connection:
        known = model_of(connection, name)
    if known is None:
        with database.write() as connection:
            run(connection, _NEW_MODEL, (name, dimensions))
            known = model_of(connection, name)
    if known is not None and known.dimensions != dimensions:
        raise UsageError(
            f"`embedder` {name!r} has {dimensions} dimensions; `{database.name}` holds vectors of that name with "
            f"{known.dimensions}: give another model another name"
        )


def model_of(connection: Source, name: str) -> Model | None:
    """The embedder of this name."""
    found = rows_of(connection, _MODEL, (name,))
    return Model(*found[0]) if found else None


def keep_background(connection: Source, model: int, background: bytes) -> None:
    run(connection, _BACKGROUND, (background, model))


def all_banks(connection: Source) -> list[Row]:
    """Number, name and last key's sequence of every bank."""
    return rows_of(connection, _BANKS)


def missing(connection: Source, model: int, bank: int, after: int, count: int) -> list[Passage]:
    """The first memories of a bank, by key, that lack a vector; `after` is the last key that is known to have one."""
    low, high = key_range(bank)
    return [Passage(*row) for row in rows_of(connection, _MISSING, (max(after, low), high, model, count))]


def left(connection: Source, model: int) -> int:
    """How many memories of the file lack a vector."""
    return int(rows_of(connection, _LEFT, (model,))[0][0])


def write(connection: Source, model: int, made: Sequence[tuple[Passage, bytes]]) -> None:
    """Keeps the vectors of those memories that still are there with the same text."""
    run_many(connection, _WRITE, [(model, vector, passage.key, passage.content) for passage, vector in made])


def dropped(connection: Source, bank: int) -> int:
    """How many vectors of a bank were ever dropped."""
    return int(rows_of(connection, _DROPPED, (bank,))[0][0])


def newer(connection: Source, model: int, bank: int, after: int, count: int) -> list[Row]:
    """Number, key and vector of a bank's vectors with a larger number, and the memory's speaker, oldest first."""
    return rows_of(connection, _NEWER, (model, bank, after, count))


def numbers(connection: Source, model: int, bank: int) -> Keys:
    """The numbers of all vectors of a bank, in order."""
    return np.fromstring(rows_of(connection, _NUMBERS, (model, bank))[0][0] or "", np.int64, sep=",")


def by_key(connection: Source, model: int, keys: Sequence[int]) -> Mapping[int, bytes]:
    """The vectors of these memories, as far as they have one."""
    return dict(rows_of(connection, _BY_KEY, (json.dumps(keys), model)))


def by_number(connection: Source, model: int, bank: int, wanted: Sequence[int]) -> Mapping[int, bytes]:
    """The vectors of these numbers by their memory's key, as far as they are there."""
    return dict(rows_of(connection, _BY_NUMBER, (json.dumps(wanted), model, bank)))
