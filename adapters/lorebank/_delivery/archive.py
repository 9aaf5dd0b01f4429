"""Imports into a server's bank: memories go through the outbox, so that a server that is away keeps nobody waiting.

A server makes its own memories of what it is told. So each memory of a file is told as a document of its own, whose name
follows from what it is: told again, it replaces itself. What a server can't be told stays behind: what was true once,
and observations, which it draws itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import Literal, Protocol

from lorebank._domain.archive import IMPORTED, Archived, Dump, Entry, Loaded, ModelEntry, Rejection
from lorebank._domain.item import Item
from lorebank._domain.memory import Receipt, Writer
from lorebank._domain.mental_model import MODEL_ID, MentalModel
from lorebank._domain.operations import Directive, Document
from lorebank._domain.ports import Directives, MentalModels
from lorebank._domain.requests import FlushReport
from lorebank._domain.scope import Scope
from lorebank._hindsight.archive import BankArchive
from lorebank._hindsight.wire import explicit_id
from lorebank.errors import LorebankError, OutboxFullError, RefusedError

PAGE = 100
"""Memories that are queued at once."""
PATIENCE = 60.0
"""Seconds that a full outbox is given to drain."""
DOCUMENT = "document_id"
"""The metadata key under which a memory's document is told: its own is one of its own here."""
PAST = "no longer true: a server keeps what is told as true"
CONCLUDED = "an observation: the server draws its own from what it is told"


class Queue(Protocol):
    """What takes the items."""

    def retain(self, scope: Scope, items: Sequence[Item], writer: Writer) -> Receipt: ...
    def flush(self, *, timeout: float, until: Literal["accepted", "completed"]) -> FlushReport: ...


class QueuedArchive:
    """A server's bank, taken out by asking the server and filled through the outbox."""

    def __init__(self, archive: BankArchive, models: MentalModels, directives: Directives, queue: Queue) -> None:
        self._archive, self._models, self._directives, self._queue = archive, models, directives, queue

    def dump(self, scope: Scope) -> AbstractContextManager[Dump]:
        return self._archive.dump(scope)

    def load(self, scope: Scope, records: Iterable[Archived], *, dry_run: bool) -> Loaded:
        """Queues the memories page by page; then asks the server for the mental models and directives that it lacks.

        A process that is killed, or an outbox that stays full, leaves a part queued: the same import again tells the
        rest, and doubles nothing.
        """
        loading = _Loading(datetime.now(UTC))
        for page in _pages(loading.items(scope, records)):
            loading.took(Receipt() if dry_run else self._queued(scope, page), len(page), dry_run=dry_run)
        for model in loading.models:
            loading.made += self._model(scope, model, loading, dry_run=dry_run)
        if loading.directives and not dry_run:
            self._direct(scope, loading)
        directives = len(loading.directives) if dry_run else loading.directed
        return Loaded(0, loading.known, loading.queued, loading.made, directives, tuple(loading.rejected))

    def _queued(self, scope: Scope, items: Sequence[Item]) -> Receipt:
        """What became of a page; a full outbox is given time."""
        try:
            return self._queue.retain(scope, items, IMPORTED)
        except OutboxFullError:
            self._queue.flush(timeout=PATIENCE, until="accepted")
            return self._queue.retain(scope, items, IMPORTED)

    def _model(self, scope: Scope, entry: ModelEntry, loading: _Loading, *, dry_run: bool) -> int:
        """Has the server keep a mental model that it lacks; it writes the text itself."""
        if not MODEL_ID.fullmatch(entry.model.id):
            loading.rejected.append(Rejection(entry.model.id, f"its id does not match {MODEL_ID.pattern}", entry.line))
            return 0
        if dry_run:
            return 1
        asked = replace(entry.model, content="", based_on=(), refreshed_at=None)
        return self._made(scope, asked, entry, loading)

    def _made(self, scope: Scope, asked: MentalModel, entry: ModelEntry, loading: _Loading) -> int:
        try:
            self._models.create(scope, asked)
        except RefusedError as error:
            if "exists already" not in str(error):
                loading.rejected.append(Rejection(asked.id, str(error), entry.line))
            return 0
        except LorebankError as error:
            loading.rejected.append(Rejection(asked.id, str(error), entry.line))
            return 0
        return 1

    def _direct(self, scope: Scope, loading: _Loading) -> None:
        """Creates the directives that the bank lacks, by name and text."""
        try:
            held = {(each.name, each.content) for each in self._directives.list(scope)}
            for each in loading.directives:
                if (each.name, each.content) not in held:
                    self._directives.create(scope, each)
                    loading.directed += 1
        except LorebankError as error:
            loading.rejected += [Rejection(each.id, str(error)) for each in loading.directives[loading.directed :]]


class _Loading:
    """One import as it goes on."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self.known = self.queued = self.made = self.directed = 0
        self.models: list[ModelEntry] = []
        self.directives: list[Directive] = []
        self.rejected: list[Rejection] = []

    def items(self, scope: Scope, records: Iterable[Archived]) -> Iterator[Item]:
        """The memories that the server is told; what else comes is put aside. Documents come with what is told of them."""
        for record in records:
            match record:
                case Entry():
                    if (reason := _behind(record, self._now)) is None:
                        yield told(record, scope.bank)
                    else:
                        self.rejected.append(Rejection(record.id, reason, record.line))
                case ModelEntry():
                    self.models.append(record)
                case Directive():
                    self.directives.append(record)
                case Document():
                    pass

    def took(self, receipt: Receipt, count: int, *, dry_run: bool) -> None:
        self.queued += count if dry_run else len(receipt.queued)
        self.known += len(receipt.duplicates)


def _behind(entry: Entry, now: datetime) -> str | None:
    """Why a memory is not told, or `None`."""
    expired = entry.item.valid_until is not None and entry.item.valid_until <= now
    if entry.invalidated_at is not None or expired:
        return PAST
    return CONCLUDED if entry.type == "observation" else None


def told(entry: Entry, bank: str) -> Item:
    """A memory as a server is told it. A statement without a session and a document is named as `retain` names it, so that
    it is known where it was retained before.
    """
    item = entry.item
    alone = item.session is None and item.document_id is None
    metadata = {**(item.metadata or {}), **({DOCUMENT: item.document_id} if item.document_id else {})}
    return item.rewritten(
        document_id=None if alone else explicit_id(bank, entry.id, item.session, item.document_id, item.content),
        metadata=metadata or None,
        timestamp=entry.said or item.timestamp,
        valid_until=None,
        importance=None,
        type=None,
    )


def _pages(items: Iterator[Item]) -> Iterator[list[Item]]:
    while page := list(islice(items, PAGE)):
        yield page
