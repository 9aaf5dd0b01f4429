"""The background thread that gives memories their vectors.

It looks for memories without a vector, bank by bank, and has the embedder make some at a time; meanwhile it holds no lock
and no transaction.

An embedder that fails is left alone for a while. One that works, and refuses a text, keeps no other text waiting: that memory
stays without a vector, found by its words, until somebody flushes or opens the file anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lorebank._database.engine import Database
from lorebank._domain.ports import Embedder
from lorebank._forks import Forkable, watch_forks
from lorebank._mnemopi.background import Done, Turn, Worker
from lorebank._mnemopi.schema import key_range
from lorebank._mnemopi.trouble import Trouble
from lorebank._mnemopi.vectors import codec, store
from lorebank._mnemopi.vectors.background import SENTENCES
from lorebank._mnemopi.vectors.store import Model, Passage
from lorebank.errors import LorebankError

BATCH = 64


class VectorWriter(Forkable):
    """Makes what vectors the file lacks of one embedder."""

    def __init__(self, database: Database, embedder: Embedder) -> None:
        self.database, self.embedder = database, embedder
        self.trouble = Trouble("vectors")
        self.worker = Worker("lorebank-vectors", self.trouble, self._pass)
        self._begin()
        watch_forks(self)

    def _begin(self) -> None:
        """Nothing has been looked at."""
        self._seen: dict[int, int] = {}
        self._refused: dict[Passage, str] = {}
        self._opening = 0

    def after_fork(self) -> None:
        self._begin()

    def wake(self, *, whole: bool = False) -> None:
        """Says that there may be work: new memories, or with `whole` also changed ones."""
        self.worker.wake(whole=whole)

    def flush(self, timeout: float, *, whole: bool = True) -> tuple[int, str | None]:
        """Waits until every memory has its vector, `timeout` seconds at most; gives how many have not, and why."""
        self._refused = {}
        ended, reason = self.worker.finish(timeout, whole=whole)
        if not ended:
            reason = f"not all memories have their vectors after {timeout:.3g} s"
        if reason is None:
            return 0, None
        with self.database.direct() as connection:
            model = store.model_of(connection, self.embedder.name)
            left = 0 if model is None else store.left(connection, model.number)
        return left, reason if left else None

    def stop(self, timeout: float) -> None:
        """Ends the thread; what it has begun gets `timeout` seconds. Work that is left stays in the file."""
        self.worker.stop(timeout)

    def _pass(self, turn: Turn, whole: bool) -> Done:
        """Makes all that is missing."""
        name = ""
        try:
            with self.database.direct() as connection:
                banks, model = store.all_banks(connection), store.model_of(connection, self.embedder.name)
            if self._opening != self.database.openings:
                self._opening, self._seen = self.database.openings, {}
            for bank, name, sequence in banks if model is not None else ():
                seen = 0 if whole else self._seen.get(bank, 0)
                if model is not None and (whole or sequence > seen):
                    model = self._fill(turn, model, (bank, name), key_range(bank)[0] + seen)
                    self._seen[bank] = sequence
            self.trouble.worked(name)
        except Exception as error:  # noqa: BLE001 - a user's model may raise anything; it is told, and tried again
            words = f"{type(error).__name__}: {error}" if not isinstance(error, LorebankError) else str(error)
            self.trouble.failed(name, words)
            return Done(words)
        refused = self._refused
        return Done(f"the embedder refuses texts ({len(refused)}): {next(iter(refused.values()))}" if refused else None)

    def _fill(self, turn: Turn, model: Model, bank: tuple[int, str], after: int) -> Model:
        """Makes a bank's missing vectors, from the first key after `after` on, and once those of common sentences."""
        number, name = bank
        while not turn.over:
            with self.database.direct() as connection:
                passages = store.missing(connection, model.number, number, after, BATCH)
            if not passages:
                break
            if model.background is None:
                model = self._with_background(turn, model)
            made = self._possible([passage for passage in passages if passage not in self._refused])
            with turn.lock:
                if not turn.over:
                    with self.database.direct(write=True, bank=name) as connection:
                        store.write(connection, model.number, made)
            after = passages[-1].key
        return model

    def _possible(self, passages: Sequence[Passage]) -> list[tuple[Passage, bytes]]:
        """The vectors that the embedder makes of these. What it refuses is found by halves; raises where it makes none at all."""
        try:
            return list(zip(passages, self._made([passage.text() for passage in passages]), strict=True)) if passages else []
        except Exception as error:  # noqa: BLE001 - the same: what it refuses is told apart from a model that fails
            if len(passages) == 1:
                self._made(SENTENCES[:1])
                self._refused[passages[0]] = f"{type(error).__name__}: {error}"
                return []
        half = len(passages) // 2
        return [*self._possible(passages[:half]), *self._possible(passages[half:])]

    def _with_background(self, turn: Turn, model: Model) -> Model:
        background = b"".join(self._made(SENTENCES))
        with turn.lock:
            if not turn.over:
                with self.database.direct(write=True) as connection:
                    store.keep_background(connection, model.number, background)
        return replace(model, background=background)

    def _made(self, texts: Sequence[str]) -> list[bytes]:
        """The texts' vectors, as they are stored. Nothing is locked meanwhile."""
        vectors = self.embedder.embed(texts, kind="passage")
        return codec.packed(codec.parse(vectors, len(texts), self.embedder.dimensions))
