"""The embedded backend: the port's verbs over one database."""

from __future__ import annotations

import logging
import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

from sqlalchemy import Connection

from lorebank._database.driver import Source
from lorebank._database.engine import Database, DatabaseSettings
from lorebank._database.migrations import migrate
from lorebank._domain.entities import Entities, counted
from lorebank._domain.events import Listener
from lorebank._domain.item import Item
from lorebank._domain.memory import (
    TYPES,
    Memory,
    RecallResult,
    Receipt,
    Reflection,
    Removal,
    Writer,
    count_tokens,
)
from lorebank._domain.ports import Completer, Embedder
from lorebank._domain.requests import (
    Change,
    Consolidation,
    FlushReport,
    Health,
    Integrity,
    ListRequest,
    RecallRequest,
    ReflectRequest,
    Selection,
    Stats,
)
from lorebank._domain.scope import Scope, Scoping, TagRule, scope_by_bank
from lorebank._domain.settings import MnemopiSettings
from lorebank._domain.toolbook import NOTHING_TO_REFLECT, ranked_reflection
from lorebank._ledger.sessions import forget_traces
from lorebank._mnemopi import derived, edits, recall, store, synthesis, upkeep
from lorebank._mnemopi.absent import NoDirectives, NoOperations, NoOutbox
from lorebank._mnemopi.archive import BankArchive
from lorebank._mnemopi.dialects import speech, speech_of
from lorebank._mnemopi.documents import DocumentStore
from lorebank._mnemopi.embedders.checking import checked
from lorebank._mnemopi.jobs.runner import Jobs
from lorebank._mnemopi.models import ModelStore
from lorebank._mnemopi.rows import Draft, draft, to_ticks
from lorebank._mnemopi.sessions import StoredSessions
from lorebank._mnemopi.tidying import Tidying
from lorebank._mnemopi.vectors.meaning import Asked
from lorebank._mnemopi.vectors.store import register
from lorebank._mnemopi.vectors.vectors import Vectors
from lorebank.errors import LorebankError, UnavailableError, UnsupportedError, UsageError

logger = logging.getLogger("lorebank")
Clock = Callable[[], datetime]
MODEL_PARTS = 4
"""A mental model's question names several things: one in so many answers it."""


def system_clock() -> datetime:
    return datetime.now(UTC)


def prepare(database: Database, embedder: tuple[str, int] | None = None) -> None:
    """Brings a file's tables up to date, and makes an embedder's name and dimensions known to it."""
    said = speech_of(database)
    migrate(database, "mnemopi", said.STEPS)
    migrate(database, "sessions", said.SESSION_STEPS)
    if embedder is not None:
        register(database, *embedder)


class MnemopiBackend:
    """Memories in one database, an SQLite file or a PostgreSQL server's. Threads and processes share it; nothing is opened
    before the first verb.

    With a `completer`, reflections and mental models are its words, checked against the memories that they cite. With an
    `embedder`, recall also finds by meaning; every memory of the file gets a vector of it in the background. What mental
    models are written from is found by words, since that happens inside a transaction.
    """

    name: Literal["mnemopi"] = "mnemopi"

    def __init__(
        self,
        url: str,
        settings: MnemopiSettings | None = None,
        *,
        clock: Clock = system_clock,
        completer: Completer | None = None,
        embedder: Embedder | str | None = None,
    ) -> None:
        self.settings = settings or MnemopiSettings()
        self.clock = clock
        self.completer = synthesis.checked(completer)
        self.embedder = lent = checked(embedder)
        opened = DatabaseSettings(url, self.settings.synchronous, self.settings.busy_timeout)
        known = None if lent is None else (lent.name, lent.dimensions)
        self.database = Database(opened, partial(prepare, embedder=known))
        self.vectors = None if lent is None else Vectors(self.database, lent, self.settings.query_timeout)
        self.tidying = Tidying(self.database)
        self.jobs = Jobs(self.database, self.completer, self.settings.follow_up, self._now, self._embed)
        self.models = ModelStore(self.database, self._recall_model, self._now, self.completer)
        self.sessions = StoredSessions(self.database, self.models, clock, self._written)
        self.documents = DocumentStore(self.database, self._now)
        self.archive = BankArchive(self.database, self._now, self._written)
        self.operations, self.directives, self.outbox = NoOperations(), NoDirectives(), NoOutbox()

    def announce(self, tell: Listener) -> None:
        """What happens here on its own is the work of the embedder and of the completer."""
        self.jobs.announce(tell)
        if self.vectors is not None:
            self.vectors.announce(tell)

    def tags(self, scope: Scope) -> Mapping[str, int]:
        return self.documents.tags(scope)

    def scope(self, base: str, scoping: Scoping, label: str | None) -> Scope:
        return scope_by_bank(base, scoping, label)

    def retain(self, scope: Scope, items: Sequence[Item], writer: Writer) -> Receipt:
        now = self.clock()
        drafts = [draft(item.stamped(scope.stamp), writer, now=now) for item in items]
        replaced = dict.fromkeys(item.document_id for item in items if item.document_id and item.update_mode == "replace")
        if replaced:
            return self._replace(scope, drafts, tuple(filter(None, replaced)), to_ticks(now))
        with self.database.direct(write=True, bank=scope.bank) as connection:
            receipt = store.add(connection, scope.bank, drafts, now=to_ticks(now))
        self._written(scope.bank, len(drafts))
        return receipt

    def _replace(self, scope: Scope, drafts: Sequence[Draft], documents: Sequence[str], now: int) -> Receipt:
        """Writes drafts in place of what their documents held; models that were written from that are answered anew."""
        with self.database.write() as connection:
            former = derived.retire(connection, scope.bank, documents, now)
            receipt = store.add(connection, scope.bank, drafts, now=now)
            self.models.touched(connection, scope, former)
        self._written(scope.bank, len(drafts))
        return receipt

    def recall(self, scope: Scope, request: RecallRequest) -> RecallResult:
        if request.prefer_observations or request.include_source_facts:
            raise UnsupportedError(
                "Mnemopi has no `prefer_observations` and no `include_source_facts`: name the `types` to read instead"
            )
        asked = None if self.vectors is None else self.vectors.asked(request.query, scope.searched)
        with self.database.direct() as connection:
            found = self._recall(connection, scope, request, asked)
        if self.vectors is not None:
            self.vectors.begin()
        self.jobs.begin(scope.bank)
        return found

    def reflect(self, scope: Scope, request: ReflectRequest) -> Reflection:
        if self.completer is None and request.response_schema is not None:
            raise UnsupportedError("Mnemopi has no `response_schema` without a completer: read the text, or use Hindsight")
        asked = "\n".join(filter(None, (request.recall.query, request.context)))
        result = self.recall(scope, replace(request.recall, query=asked))
        if self.completer is not None:
            return synthesis.reflection(self.completer, request, result.memories)
        return Reflection(ranked_reflection(result.memories) or NOTHING_TO_REFLECT, result.memories)

    def get(self, scope: Scope, memory_id: str) -> Memory:
        with self.database.read() as connection:
            return edits.get(connection, scope, memory_id)

    def list(self, scope: Scope, request: ListRequest) -> tuple[Memory, ...]:
        with self.database.read() as connection:
            return edits.page(connection, scope, request, self._now())

    def update(self, scope: Scope, memory_id: str, change: Change) -> Memory:
        with self.database.write() as connection:
            changed, gone = edits.change(connection, scope, memory_id, change, self._now())
            self.models.touched(connection, scope, [memory_id, *gone])
        self._written(changed.bank or scope.bank, 1, whole=change.content is not None)
        return changed

    def invalidate(self, scope: Scope, memory_id: str, replacement: str | None) -> Memory:
        with self.database.write() as connection:
            changed, gone = edits.invalidate(connection, scope, memory_id, replacement, self._now())
            self.models.touched(connection, scope, [memory_id, *gone])
            return changed

    def revalidate(self, scope: Scope, memory_id: str) -> Memory:
        with self.database.write() as connection:
            changed = edits.revalidate(connection, scope, memory_id, self._now())
        self._written(changed.bank or scope.bank, 1)
        return changed

    def entities(self, scope: Scope, limit: int) -> Entities:
        """Over the newest memories, since no index of names is kept."""
        with self.database.read() as connection:
            return counted(edits.names(connection, scope, self._now()), limit)

    def forget(self, scope: Scope, selection: Selection, *, dry_run: bool) -> Removal:
        if dry_run:
            with self.database.read() as connection:
                return Removal(tuple(each.id for each in edits.choose(connection, scope, selection)), dry_run=True)
        with self.database.write() as connection:
            chosen = edits.choose(connection, scope, selection)
            derived.remove(connection, chosen, self._now())
            if selection.session is not None:
                forget_traces(connection, "", scope.bank, selection.session)
            removal = self._forgotten(connection, scope, [each.id for each in chosen])
        return self._purged(removal)

    def clear(self, scope: Scope) -> Removal:
        with self.database.write() as connection:
            forget_traces(connection, "", scope.bank)
            removal = self._forgotten(connection, scope, upkeep.empty(connection, scope.bank))
        return self._purged(removal, always=True)

    def purge(self) -> str | None:
        return upkeep.purge(self.database, self.settings.busy_timeout, thorough=True)

    def stats(self, scope: Scope) -> Stats:
        with self.database.read() as connection:
            return upkeep.stats(connection, self.database, scope)

    def health(self) -> Health:
        started = time.perf_counter()
        try:
            with self.database.direct() as connection:
                version = speech(connection).version(connection)
        except LorebankError as error:
            return Health(False, self.name, str(error))
        return Health(True, self.name, f"`{self.database.name}`, {version}", time.perf_counter() - started)

    def check(self, scope: Scope) -> Integrity:
        with speech_of(self.database).checking(self.database) as connection:
            return upkeep.check(connection, scope)

    def flush(self, *, timeout: float, until: Literal["accepted", "completed"]) -> FlushReport:
        """Memories are durable when `retain` returns; what may be left is a purge that a reader blocked, follow-up work, and
        vectors. With `completed`, follow-up work is done that is not due yet.
        """
        ends = time.monotonic() + timeout
        reason = self._purge_owed(timeout)
        undone, why = self.jobs.flush(max(0.0, ends - time.monotonic()), everything=until == "completed")
        left, lacking = (0, None) if self.vectors is None else self.vectors.writer.flush(max(0.0, ends - time.monotonic()))
        return FlushReport(left + undone + int(reason is not None), "; ".join(filter(None, (reason, why, lacking))) or None)

    def close(self, timeout: float) -> None:
        """Closes the file; a purge and vectors that are not done within `timeout` seconds are left to the next who opens it."""
        ends = time.monotonic() + timeout
        try:
            self.jobs.stop(timeout)
            if self.vectors is not None:
                self.vectors.writer.stop(max(0.0, ends - time.monotonic()))
            if self.database.opened:
                self._purge_owed(max(0.0, ends - time.monotonic()))
        except UnavailableError:
            logger.warning("`%s` was closed with a purge still to be done", self.database.name)
        finally:
            self.database.close()

    def _forgotten(self, connection: Connection, scope: Scope, ids: Sequence[str]) -> Removal:
        """Clears the traces of deleted memories; the purge follows once the deletion is committed."""
        self.models.forgotten(connection, scope, ids)
        upkeep.owe_purge(connection)
        return Removal(tuple(ids), beyond=speech_of(self.database).BEYOND)

    def _purged(self, removal: Removal, *, always: bool = False) -> Removal:
        wanted = removal.ids or always
        reason = upkeep.purge(self.database, self.settings.busy_timeout) if wanted else None
        return replace(removal, purged=reason is None, reason=reason)

    def _purge_owed(self, wait: float) -> str | None:
        with self.database.direct() as connection:
            owed = upkeep.owes_purge(connection)
        return upkeep.purge(self.database, wait) if owed else None

    def consolidate(self, scope: Scope) -> Consolidation:
        """Writes observations of what is new in the scope's own bank."""
        return self.jobs.consolidate(scope.bank)

    def _written(self, bank: str, count: int, *, whole: bool = False) -> None:
        """A bank has so many new memories, or with `whole` changed ones."""
        self.tidying.wrote(count)
        self._embed(whole=whole)
        self.jobs.wake(bank)

    def _embed(self, *, whole: bool = False) -> None:
        """New memories, or with `whole` also changed ones, may lack a vector."""
        if self.vectors is not None:
            self.vectors.begin()
            self.vectors.writer.wake(whole=whole)

    def _recall(
        self, connection: Source, scope: Scope, request: RecallRequest, asked: Asked | None = None, floor: float | None = None
    ) -> RecallResult:
        admitted = replace(request, rule=scope.narrowed(request.rule))
        least, opening = self.settings.floor if floor is None else floor, self.database.openings
        return recall.recall(
            connection, recall.Search(admitted, scope.searched, self.settings, self._now(), least, asked, opening)
        )

    def _recall_model(
        self, connection: Connection, scope: Scope, question: str, max_tokens: int, rule: TagRule | None
    ) -> RecallResult:
        request = RecallRequest(question, 20, max_tokens, TYPES, self.clock(), count_tokens, rule)
        return self._recall(connection, scope, request, floor=self.settings.floor / MODEL_PARTS)

    def _now(self) -> int:
        return to_ticks(self.clock())

    def __getstate__(self) -> dict[str, Any]:
        if self.clock is not system_clock:
            raise UsageError("a backend with a clock of its own can't be pickled")
        lent = {"completer": self.completer, "embedder": self.embedder}
        for name, value in lent.items():
            try:
                pickle.dumps(value)
            except Exception as error:
                raise UsageError(
                    f"a backend is pickled with its {name}, and this one ({type(value).__name__}) can't be: "
                    "open the bank anew where it is needed"
                ) from error
        return {"url": self.database.place.url, "settings": self.settings, **lent}

    def __setstate__(self, state: dict[str, Any]) -> None:
        lent = {"completer": state["completer"], "embedder": state["embedder"]}
        self.__init__(state["url"], state["settings"], **lent)  # type: ignore[misc]
