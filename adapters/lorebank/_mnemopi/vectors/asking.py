"""Making the vector of a query, within a bound: a recall never fails for its embedder, and hardly waits for it.

The names of the bank's speakers are taken out of the query first. Who spoke is a signal of its own; in a vector, a name
draws the query to whatever that person said (measured: without the names, vectors alone find half as much again).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

from lorebank._domain.ports import Embedder
from lorebank._mnemopi.embedders.wordllama import WordLlama
from lorebank._mnemopi.rows import ROLES, name_words
from lorebank._mnemopi.search.function_words import ENGLISH
from lorebank._mnemopi.search.terms import normalize, words
from lorebank._mnemopi.trouble import Trouble
from lorebank._mnemopi.vectors import codec
from lorebank._mnemopi.vectors.codec import Matrix

AT_ONCE = 16
"""Queries that may be with the embedder at a time; what comes beside goes on by words."""
_WORD = re.compile(r"([^\W_]+)(?:['\u2019]s\b)?")


def without_names(query: str, speakers: Iterable[str]) -> str:
    """The query without the words of these names; as it is, where nothing of meaning would be left."""
    names = {word for speaker in speakers if speaker.casefold() not in ROLES for word in name_words(speaker)}
    if names.isdisjoint(words(query)):
        return query
    rest = _WORD.sub(lambda found: "" if normalize(found[1]) in names else found[0], query)
    return " ".join(rest.split()) if set(words(rest)) - ENGLISH else query


class QueryEmbedder:
    """Asks an embedder for the vectors of queries, in a thread of their own that nobody has to wait for."""

    def __init__(self, embedder: Embedder, timeout: float) -> None:
        self.embedder, self.timeout = embedder, timeout
        self.trouble = Trouble("query")
        self._places = threading.Semaphore(AT_ONCE)

    def vector(self, query: str, bank: str) -> Matrix | None:
        """The query's vector; `None` where the embedder fails, is too slow, or was so just now."""
        if self.trouble.pause:
            return None
        try:
            vectors: object = self._asked(query)
            found = None if vectors is None else codec.parse(vectors, 1, self.embedder.dimensions)
        except FutureTimeoutError:
            self.trouble.failed(bank, f"no vector of the query after {self.timeout:g} s")
            return None
        except Exception as error:  # noqa: BLE001 - a user's model may raise anything; it is told, and recall goes on
            self.trouble.failed(bank, f"{type(error).__name__}: {error}")
            return None
        self.trouble.worked(bank)
        return found if found is not None and found.any() else None

    def _asked(self, query: str) -> object:
        if isinstance(self.embedder, WordLlama):
            return self.embedder.embed([query], kind="query")
        if not self._places.acquire(blocking=False):
            return None
        future: Future[Any] = Future()
        threading.Thread(target=self._answer, args=(query, future), name="lorebank-query", daemon=True).start()
        return future.result(self.timeout)

    def _answer(self, query: str, future: Future[Any]) -> None:
        try:
            future.set_result(self.embedder.embed([query], kind="query"))
        except BaseException as error:  # noqa: BLE001 - a future hands it to whoever asks for the result
            future.set_exception(error)
        finally:
            self._places.release()

    def after_fork(self) -> None:
        """The parent's threads did not come along, nor what they would give back."""
        self._places = threading.Semaphore(AT_ONCE)
        self.trouble.after_fork()
