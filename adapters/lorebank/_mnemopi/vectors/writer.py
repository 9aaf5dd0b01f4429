"""The background thread that gives memories their vectors.

It looks for memories without a vector, bank by bank, and has the embedder make some at a time; meanwhile it holds no lock
and no transaction. Nothing but the file says what is to be done, so a killed process loses nothing: the next one that
opens the file goes on. The thread starts when there may be work and ends when there was none for a while.

An embedder that fails is left alone for a while. One that works, and refuses a text, keeps no other text waiting: that memory
stays without a vector, found by its words, until somebody flushes or opens the file anew.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from lorebank._database.engine import Database
from lorebank._domain.ports import Embedder
from lorebank._forks import Forkable, watch_forks
from lorebank._mnemopi.schema import key_range
from lorebank._mnemopi.vectors import codec, store
from lorebank._mnemopi.vectors.background import SENTENCES
from lorebank._mnemopi.vectors.store import Model, Passage
from lorebank._mnemopi.vectors.trouble import Trouble
from lorebank.errors import LorebankError

BATCH = 64
IDLE = 2.0
"""Seconds without work after which the thread ends."""


class _Turn:
    """The right of one thread to write; it is taken away when the backend closes."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.over = False


class VectorWriter(Forkable):
    """Makes what vectors the file lacks of one embedder."""

    def __init__(self, database: Database, embedder: Embedder) -> None:
        self.database, self.embedder = database, embedder
        self.trouble = Trouble("vectors")
        self._begin()
        watch_forks(self)

    def _begin(self) -> None:
        """No thread, nothing asked for."""
        self._changed = threading.Condition()
        self._turn: _Turn | None = None
        self._asked = self._served = 0
        self._urgent = self._whole = False
        self._reason: str | None = None
        self._seen: dict[int, int] = {}
        self._refused: dict[Passage, str] = {}
        self._opening = 0

    def after_fork(self) -> None:
        """The parent's thread did not come along."""
        self._begin()
        self.trouble.after_fork()

    def wake(self, *, whole: bool = False) -> int:
        """Says that there may be work: new memories, or with `whole` also changed ones. Gives the number of the request."""
        with self._changed:
            self._asked += 1
            self._whole |= whole
            if self._turn is None:
                self._turn = _Turn()
                threading.Thread(target=self._run, args=(self._turn,), name="lorebank-vectors", daemon=True).start()
            self._changed.notify_all()
            return self._asked

    def flush(self, timeout: float, *, whole: bool = True) -> tuple[int, str | None]:
        """Waits until every memory has its vector, `timeout` seconds at most; gives how many have not, and why."""
        asked = self.wake(whole=whole)
        with self._changed:
            self._urgent, self._refused = True, {}
            self._changed.notify_all()
            ended = self._changed.wait_for(lambda: self._served >= asked, timeout)
            reason = self._reason if ended else f"not all memories have their vectors after {timeout:.3g} s"
        if reason is None:
            return 0, None
        with self.database.direct() as connection:
            model = store.model_of(connection, self.embedder.name)
            left = 0 if model is None else store.left(connection, model.number)
        return left, reason if left else None

    def stop(self, timeout: float) -> None:
        """Ends the thread; what it has begun gets `timeout` seconds. Work that is left stays in the file."""
        until = time.monotonic() + timeout
        with self._changed:
            if self._turn is not None and not self.trouble.failing:
                self._changed.wait_for(lambda: self._served >= self._asked, timeout)
            turn, self._turn = self._turn, None
            self._changed.notify_all()
        if turn is not None:
            taken = turn.lock.acquire(timeout=max(0.1, until - time.monotonic()))
            turn.over = True
            if taken:
                turn.lock.release()

    def _run(self, turn: _Turn) -> None:
        while self._next(turn):
            with self._changed:
                asked, whole, self._whole = self._asked, self._whole, False
            reason = self._pass(turn, whole=whole)
            with self._changed:
                if self._turn is turn:
                    self._served, self._reason = asked, reason
                    self._whole |= whole and reason is not None
                    self._changed.notify_all()

    def _next(self, turn: _Turn) -> bool:
        """Waits for work: a request, or the end of a pause. `False` ends the thread."""
        with self._changed:
            if self._turn is turn and self.trouble.failing:
                self._changed.wait_for(lambda: self._urgent or self._turn is not turn, self.trouble.pause)
            else:
                self._changed.wait_for(lambda: self._asked > self._served or self._turn is not turn, IDLE)
            self._urgent = False
            if self._turn is turn and (self._asked > self._served or self.trouble.failing):
                return True
            if self._turn is turn:
                self._turn = None
            return False

    def _pass(self, turn: _Turn, *, whole: bool) -> str | None:
        """Makes all that is missing; gives why it could not, or `None`."""
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
            return words
        refused = self._refused
        return f"the embedder refuses texts ({len(refused)}): {next(iter(refused.values()))}" if refused else None

    def _fill(self, turn: _Turn, model: Model, bank: tuple[int, str], after: int) -> Model:
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

    def _with_background(self, turn: _Turn, model: Model) -> Model:
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
