"""Several banks behind one handle: recalled from in parallel, as one ranking; everything else is the first one's."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from lorebank._connections import Connections
from lorebank._domain.entities import Entities
from lorebank._domain.events import Event, Listener, Skipped
from lorebank._domain.fusion import Answer, fuse
from lorebank._domain.item import Item
from lorebank._domain.memory import Memory, RecallResult, Receipt, Reflection, Removal, State, Writer
from lorebank._domain.ports import Archive, Backend, Directives, Documents, MentalModels, Operations, Outbox, Sessions
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
from lorebank._domain.scope import Scope, Scoping
from lorebank._twins import Threads
from lorebank.errors import GarbledError, MissingError, UnavailableError, UnsupportedError, UsageError

logger = logging.getLogger("lorebank")
Failure = UnavailableError | GarbledError
FAILURES = (UnavailableError, GarbledError)


@dataclass(frozen=True, slots=True)
class Part:
    """One bank of a joined one, and how much its word counts."""

    connections: Connections
    scope: Scope
    weight: float = 1.0

    @property
    def backend(self) -> Backend:
        """Where its memories are; `UsageError` once its owner has closed it."""
        if self.connections.closed:
            raise UsageError(f"the bank {self.scope.bank!r}, a part of a joined bank, is closed: open it again and join anew")
        return self.connections.backend

    def recall(self, request: RecallRequest) -> RecallResult | Failure:
        """What the part knows, or why it can't be asked."""
        try:
            return self.backend.recall(self.scope, request)
        except FAILURES as error:
            return error

    def marked(self, memories: Sequence[Memory]) -> tuple[Memory, ...]:
        """The memories, each with the backend that it comes from."""
        return tuple(replace(memory, backend=self.backend.name) for memory in memories)


def join(first: Part, other: Part) -> Connections:
    """The connections of a joined bank. They own nothing: closing them leaves the parts open."""
    connections = first.connections
    parts = (*_flat(first), *_flat(other))
    if len({(id(part.connections), part.scope) for part in parts}) < len(parts):
        raise UsageError(f"the bank {other.scope.bank!r} is a part already: a bank is joined with others, not with itself")
    backend = connections.backend if connections.off else JoinedBackend(parts)
    return Connections(backend, connections.settings, connections.listeners, connections.on_failure)


def _flat(part: Part) -> tuple[Part, ...]:
    """The banks of a joined bank, or the bank itself."""
    backend = part.connections.backend
    if not isinstance(backend, JoinedBackend):
        return (part,)
    if part.scope != backend.home:
        return (Part(backend.parts[0].connections, part.scope, part.weight),)
    return tuple(replace(each, weight=each.weight * part.weight) for each in backend.parts)


class JoinedBackend:
    """The port over several banks. Every part is asked in threads of its own, so that one that hangs fills only those."""

    def __init__(self, parts: tuple[Part, ...]) -> None:
        self.parts = parts
        self._threads = Threads("lorebank-part")
        self._tell: Listener = _nobody

    @property
    def home(self) -> Scope:
        """Where writes go."""
        return self.parts[0].scope

    @property
    def _first(self) -> Backend:
        return self.parts[0].backend

    @property
    def name(self) -> Literal["mnemopi", "hindsight"]:
        return self.parts[0].connections.backend.name

    @property
    def models(self) -> MentalModels:
        return self._first.models

    @property
    def documents(self) -> Documents:
        return self._first.documents

    @property
    def operations(self) -> Operations:
        return self._first.operations

    @property
    def directives(self) -> Directives:
        return self._first.directives

    @property
    def sessions(self) -> Sessions:
        return self._first.sessions

    @property
    def archive(self) -> Archive:
        return self._first.archive

    @property
    def outbox(self) -> Outbox:
        return self._first.outbox

    def announce(self, tell: Listener) -> None:
        """The parts tell their own listeners; what is told here is which part could not be asked."""
        self._tell = tell

    def scope(self, base: str, scoping: Scoping, label: str | None) -> Scope:
        """The scope of the joined bank or of its shared one. There is no other: whose memories should the parts hold?"""
        scope = self._first.scope(base, scoping, label)
        if scope.bank not in (self.home.bank, self.home.shared):
            raise UnsupportedError(f"a joined bank has fixed parts: join the bank {base!r} itself, bank.named(...).joined(...)")
        return scope

    def recall(self, scope: Scope, request: RecallRequest) -> RecallResult:
        if scope != self.home:
            return self._first.recall(scope, request)
        asked = [self._threads.submit(partial(part.recall, request), str(n)) for n, part in enumerate(self.parts)]
        return self._fused(request, [each.result() for each in asked])

    def _fused(self, request: RecallRequest, found: Sequence[RecallResult | Failure]) -> RecallResult:
        answers: list[Answer] = []
        down: list[str] = []
        trace = None
        for part, each in zip(self.parts, found, strict=True):
            if isinstance(each, RecallResult):
                answers.append(Answer(part.marked(each.memories), part.weight))
                down += each.unavailable
                trace = trace or each.trace
            else:
                down.append(self._missed(part, each))
        if not answers:
            raise UnavailableError(f"none of the joined banks answers: {', '.join(down)}") from _first_failure(found)
        kept = fuse(answers, limit=request.limit, max_tokens=request.max_tokens, count=request.count_tokens)
        state: State = "partial" if down else "found" if kept else "nothing"
        return RecallResult(state, request.query, kept, tuple(down), trace)

    def _missed(self, part: Part, error: Failure) -> str:
        """Tells that a part could not be asked; gives its name."""
        bank = part.scope.bank
        logger.warning("bank %s, a part of a joined bank, could not be asked: %s", bank, type(error).__name__)
        self._tell(Skipped(bank, "recall", type(error).__name__))
        alike = sum(each.scope.bank == bank for each in self.parts) > 1
        return f"{bank} on {part.connections.backend.name}" if alike else bank

    def get(self, scope: Scope, memory_id: str) -> Memory:
        """The memory, from the first part that has it. Where none has and one can't be asked, that one's failure."""
        if scope != self.home:
            return self._first.get(scope, memory_id)
        failed: Failure | None = None
        for part in self.parts:
            try:
                return part.marked([part.backend.get(part.scope, memory_id)])[0]
            except MissingError:
                continue
            except FAILURES as error:
                failed = failed or error
        raise failed or MissingError(f"no memory {memory_id!r} in {' or '.join(repr(p.scope.bank) for p in self.parts)}")

    def consolidate(self, scope: Scope) -> Consolidation:
        return self._first.consolidate(scope)

    def tags(self, scope: Scope) -> Mapping[str, int]:
        return self._first.tags(scope)

    def retain(self, scope: Scope, items: Sequence[Item], writer: Writer) -> Receipt:
        return self._first.retain(scope, items, writer)

    def reflect(self, scope: Scope, request: ReflectRequest) -> Reflection:
        return self._first.reflect(scope, request)

    def list(self, scope: Scope, request: ListRequest) -> tuple[Memory, ...]:
        return self._first.list(scope, request)

    def update(self, scope: Scope, memory_id: str, change: Change) -> Memory:
        return self._first.update(scope, memory_id, change)

    def invalidate(self, scope: Scope, memory_id: str, replacement: str | None) -> Memory:
        return self._first.invalidate(scope, memory_id, replacement)

    def revalidate(self, scope: Scope, memory_id: str) -> Memory:
        return self._first.revalidate(scope, memory_id)

    def entities(self, scope: Scope, limit: int) -> Entities:
        return self._first.entities(scope, limit)

    def forget(self, scope: Scope, selection: Selection, *, dry_run: bool) -> Removal:
        return self._first.forget(scope, selection, dry_run=dry_run)

    def clear(self, scope: Scope) -> Removal:
        return self._first.clear(scope)

    def purge(self) -> str | None:
        return self._first.purge()

    def stats(self, scope: Scope) -> Stats:
        return self._first.stats(scope)

    def health(self) -> Health:
        return self._first.health()

    def check(self, scope: Scope) -> Integrity:
        return self._first.check(scope)

    def flush(self, *, timeout: float, until: Literal["accepted", "completed"]) -> FlushReport:
        return self._first.flush(timeout=timeout, until=until)

    def close(self, timeout: float) -> None:
        """Ends the threads; the parts are their owners' to close."""
        del timeout
        self._threads.close()

    def __getstate__(self) -> tuple[Part, ...]:
        return self.parts

    def __setstate__(self, state: tuple[Part, ...]) -> None:
        self.__init__(state)  # type: ignore[misc]


def _first_failure(found: Sequence[RecallResult | Failure]) -> Failure | None:
    return next((each for each in found if isinstance(each, FAILURES)), None)


def _nobody(_event: Event) -> None:
    """Nobody listens yet."""
