"""The server backend: the port's verbs over Hindsight's HTTP API. Writes are delivered by the outbox, which wraps this."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from lorebank._domain.entities import Entities
from lorebank._domain.events import Listener
from lorebank._domain.memory import Memory, RecallResult, Reflection, Removal
from lorebank._domain.operations import Operation
from lorebank._domain.requests import (
    Change,
    Consolidation,
    Health,
    Integrity,
    ListRequest,
    RecallRequest,
    ReflectRequest,
    Selection,
    Stats,
)
from lorebank._domain.scope import Scope, Scoping, scope_by_tag
from lorebank._domain.settings import ConnectionSettings, RetainSettings
from lorebank._hindsight import asking, documents, editing, memories, naming, recall, removal, upkeep
from lorebank._hindsight.answers import Banks, Paper, Retained
from lorebank._hindsight.archive import BankArchive
from lorebank._hindsight.missions import Bootstrap, MissionBook
from lorebank._hindsight.models import ModelHandle
from lorebank._hindsight.server import BANKS, Server, at
from lorebank._hindsight.transport import Call
from lorebank.errors import LorebankError, MissingError

LOOK = 0.1
"""Seconds between two looks at a bank that is awaited."""
RETAINING = ("batch_retain", "retain")


class HindsightBackend:
    """Memories on a Hindsight server. Threads share it; nothing is asked before the first verb."""

    name: Literal["hindsight"] = "hindsight"

    def __init__(
        self,
        url: str,
        connection: ConnectionSettings,
        retain: RetainSettings,
        *,
        missions_known: MissionBook | None = None,
    ) -> None:
        from lorebank import __version__

        self._given = url, connection, retain
        self._server = Server(url, connection, version=__version__)
        self._bootstrap = Bootstrap(self._server, retain)
        self._bootstrap.book = missions_known
        self.route = self._server.transport.base
        self.key_digest = _digest(connection)
        self.models = ModelHandle(self._server, self.prepare)
        self.documents = documents.DocumentHandle(self._server)
        self.archive = BankArchive(self._server, self.models)
        self.operations = documents.OperationHandle(self._server)
        self.directives = documents.DirectiveHandle(self._server, self.prepare)

    @property
    def missions_known(self) -> MissionBook | None:
        """Where it is kept what missions banks were told."""
        return self._bootstrap.book

    @missions_known.setter
    def missions_known(self, book: MissionBook | None) -> None:
        self._bootstrap.book = book

    def announce(self, tell: Listener) -> None:
        """From now on, events go there."""
        self._server.tell = tell

    def scope(self, base: str, scoping: Scoping, label: str | None) -> Scope:
        return scope_by_tag(base, scoping, label)

    def recall(self, scope: Scope, request: RecallRequest) -> RecallResult:
        return recall.recall(self._server, scope, request)

    def reflect(self, scope: Scope, request: ReflectRequest) -> Reflection:
        asking.reflect_body(request, scope.narrowed(request.recall.rule))  # refuses what can't be asked, before any call
        self.prepare(scope.bank, project=bool(scope.stamp))
        return recall.reflect(self._server, scope, request)

    def get(self, scope: Scope, memory_id: str) -> Memory:
        return memories.find(self._server, scope, memory_id, scope.searched).memory()

    def list(self, scope: Scope, request: ListRequest) -> tuple[Memory, ...]:
        return memories.page(self._server, scope, request)

    def update(self, scope: Scope, memory_id: str, change: Change) -> Memory:
        return editing.update(self._server, scope, memory_id, change)

    def invalidate(self, scope: Scope, memory_id: str, replacement: str | None) -> Memory:
        return editing.invalidate(self._server, scope, memory_id, replacement)

    def revalidate(self, scope: Scope, memory_id: str) -> Memory:
        return editing.revalidate(self._server, scope, memory_id)

    def entities(self, scope: Scope, limit: int) -> Entities:
        return naming.entities(self._server, scope, limit)

    def forget(self, scope: Scope, selection: Selection, *, dry_run: bool) -> Removal:
        return removal.forget(self._server, scope, selection, dry_run=dry_run)

    def clear(self, scope: Scope) -> Removal:
        return removal.clear(self._server, scope)

    def purge(self) -> str | None:
        """A server keeps its own pages: nothing can be done from here."""
        return None

    def consolidate(self, scope: Scope) -> Consolidation:
        return upkeep.consolidate(self._server, scope)

    def tags(self, scope: Scope) -> Mapping[str, int]:
        return upkeep.tags(self._server, scope)

    def stats(self, scope: Scope) -> Stats:
        return upkeep.stats(self._server, scope)

    def health(self) -> Health:
        """Whether the server answers and takes the key; never raises."""
        started = time.perf_counter()
        try:
            self.probe()
            version = upkeep.version_text(self._server)
        except LorebankError as error:
            return Health(ok=False, backend=self.name, detail=str(error))
        elapsed, skew = time.perf_counter() - started, self._server.transport.skew
        return Health(True, self.name, f"{self.route}, Hindsight {version}", elapsed, skew)

    def check(self, scope: Scope) -> Integrity:
        return upkeep.check(self._server, scope)

    def close(self) -> None:
        """Ends the connections."""
        self._server.transport.close()

    def prepare(self, bank: str, *, project: bool = False) -> None:
        """Makes a bank with its missions where it is not there; once for each bank, never raises."""
        self._bootstrap.prepare(bank, project=project)

    def submit(self, bank: str, body: bytes) -> str:
        """Sends a sealed batch; gives the id of its operation once the server has taken it."""
        timeout = self._server.settings.retain_timeout
        call = Call("POST", at(bank, "memories"), timeout, body=body, read=False, urgent=True, bank=bank)
        return self._server.ask(Retained, call).operation_id

    def progress(self, bank: str, operation_id: str) -> Operation:
        """How far an operation has come."""
        return self._server.operation(bank, operation_id, urgent=True)

    def retry(self, bank: str, operation_id: str) -> None:
        """Has the server try a failed operation again."""
        documents.retry(self._server, bank, operation_id, urgent=True)

    def holds(self, bank: str, document_id: str, text: str) -> bool:
        """Whether a document's text contains this one, as after an append that was carried out."""
        try:
            paper = self._server.read(Paper, bank, "documents", document_id, urgent=True)
        except MissingError:
            return False
        return text in (paper.original_text or "")

    def revive(self, bank: str, documents: Sequence[str], before: datetime) -> None:
        """Makes statements that were told again valid again; `before` is when the server took them."""
        editing.revive(self._server, bank, documents, before)

    def probe(self) -> None:
        """Asks for as little as can be, with the key; raises where that fails."""
        call = Call("GET", BANKS, self._server.settings.timeout, {"limit": 1}, urgent=True)
        self._server.ask(Banks, call)

    def quiet(self, bank: str, deadline: float) -> bool:
        """Waits, `deadline` seconds at most, until the server retains nothing for the bank; says whether that came."""
        until = time.monotonic() + deadline
        while self._retaining(bank):
            if time.monotonic() >= until:
                return False
            time.sleep(LOOK)
        return True

    def _retaining(self, bank: str) -> bool:
        return any(
            operation.kind in RETAINING
            for state in ("pending", "processing")
            for operation in documents.operations(self._server, bank, state=state)
        )

    def __getstate__(self) -> dict[str, Any]:
        return {"given": self._given}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(*state["given"])  # type: ignore[misc]


def _digest(connection: ConnectionSettings) -> str:
    """Tells keys apart without naming them."""
    if connection.api_key is None:
        return ""
    return hashlib.sha256(connection.api_key.get_secret_value().encode()).hexdigest()[:12]
