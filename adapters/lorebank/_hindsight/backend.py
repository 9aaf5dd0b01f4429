"""The server's verbs, asked directly. Writing goes another way: through the outbox."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from typing import Literal
from urllib.parse import quote

from lorebank._domain.events import Event, IgnoredParameters, Listener
from lorebank._domain.memory import Memory, RecallResult, Reflection, Removal
from lorebank._domain.operations import Document, Operation
from lorebank._domain.requests import (
    Change,
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
from lorebank._hindsight.answers import BankList, ModelList, StatsAnswer, TagList, Taken, read
from lorebank._hindsight.banks import MissionBook, Preparing
from lorebank._hindsight.client import Client, root
from lorebank._hindsight.handles import DirectiveCalls, DocumentCalls, OperationCalls
from lorebank._hindsight.memories import MemoryCalls
from lorebank._hindsight.models import ModelCalls
from lorebank.errors import LorebankError, MissingError, UnavailableError

BEYOND = ("the server's backups and copies", "the host's own checkpoints and histories")
RETAINS = ("batch_retain", "retain")
LOOK = 0.1


class HindsightBackend:
    """One server. Safe for threads; nothing is asked before the first verb."""

    name: Literal["hindsight"] = "hindsight"

    def __init__(self, url: str, connection: ConnectionSettings, retain: RetainSettings, *, version: str = "0") -> None:
        self._client = Client(url, connection, version=version)
        self._connection = connection
        self._tell: Listener = _nobody
        self._client.transport.ignored = self._ignored
        self._preparing = Preparing(self._client, retain.missions, self._told)
        self._memories = MemoryCalls(self._client)
        self.models = ModelCalls(self._client, self.prepare)
        self.documents = DocumentCalls(self._client)
        self.operations = OperationCalls(self._client)
        self.directives = DirectiveCalls(self._client)

    @property
    def route(self) -> str:
        """The server's address."""
        return self._client.transport.base

    @property
    def key_digest(self) -> str:
        """What tells keys apart without holding one; empty without a key."""
        key = self._connection.api_key
        return "" if key is None else hashlib.sha256(key.get_secret_value().encode()).hexdigest()[:16]

    def announce(self, tell: Listener) -> None:
        self._tell = tell

    def keep_missions(self, book: MissionBook) -> None:
        """From now on, changed missions are told from untouched ones by this book."""
        self._preparing.book = book

    def scope(self, base: str, scoping: Scoping, label: str | None) -> Scope:
        return scope_by_tag(base, scoping, label)

    def recall(self, scope: Scope, request: RecallRequest) -> RecallResult:
        return self._memories.recall(scope, request)

    def reflect(self, scope: Scope, request: ReflectRequest) -> Reflection:
        self.prepare(scope.bank)
        return self._memories.reflect(scope, request)

    def get(self, scope: Scope, memory_id: str) -> Memory:
        return self._memories.get(scope, memory_id)

    def list(self, scope: Scope, request: ListRequest) -> tuple[Memory, ...]:
        return self._memories.list(scope, request)

    def update(self, scope: Scope, memory_id: str, change: Change) -> Memory:
        return self._memories.update(scope, memory_id, change)

    def invalidate(self, scope: Scope, memory_id: str, replacement: str | None) -> Memory:
        return self._memories.invalidate(scope, memory_id, replacement)

    def forget(self, scope: Scope, selection: Selection, *, dry_run: bool) -> Removal:
        """Deletes the documents that match; a memory that shares its document with others is invalidated instead."""
        if selection.ids:
            return self._forget_one(scope, selection.ids[0], dry_run=dry_run)
        ids: list[str] = []
        for bank in scope.reads:
            for document in self._matching(scope, bank, selection):
                ids += [memory.id for memory in self._memories.of_document(bank, document.id)]
                if not dry_run:
                    self._delete_document(bank, document.id)
        if ids and not dry_run:
            self.models.forget(scope, set(ids))
        return Removal(tuple(ids), dry_run=dry_run, purged=bool(ids) and not dry_run, beyond=BEYOND)

    def clear(self, scope: Scope) -> Removal:
        """Deletes all memories, documents and mental models of the scope's bank, and looks whether they are gone."""
        bank = scope.bank
        ids = tuple(m.id for page in self._client.pages(f"{root(bank)}/memories/list", {}) for m in page.items)
        self._client.send("DELETE", f"{root(bank)}/memories")
        for model in self._models(bank):
            self._client.send("DELETE", f"{root(bank)}/mental-models/{quote(model, safe='')}")
        left = sum(len(page.items) for page in self._client.pages(f"{root(bank)}/memories/list", {}))
        reason = f"{left} memories were written meanwhile" if left else None
        return Removal(ids, purged=not left, reason=reason, beyond=BEYOND)

    def purge(self) -> str | None:
        """What is deleted on a server is its own to purge."""
        return None

    def tags(self, scope: Scope) -> Mapping[str, int]:
        """The tags of the scope's bank with their counts, as far as the scope may read them."""
        found: dict[str, int] = {}
        while True:
            try:
                page = self._client.get(TagList, f"{root(scope.bank)}/tags", query={"limit": 500, "offset": len(found)})
            except MissingError:
                break
            found |= {row.tag: row.count for row in page.items}
            if len(page.items) < 500:
                break
        return {tag: count for tag, count in found.items() if scope.admits((tag,))}

    def stats(self, scope: Scope) -> Stats:
        """Counts of the scope's bank. Observations are counted as memories, as the server does."""
        answer = self._stats(scope.bank)
        return Stats(
            bank=scope.bank,
            memories=answer.total_nodes,
            invalidated=0,
            by_type=answer.nodes_by_fact_type,
            by_source={},
            sessions=0,
            mental_models=len(self._models(scope.bank)),
            oldest=None,
            newest=None,
            bytes=None,
        )

    def health(self) -> Health:
        started = time.perf_counter()
        try:
            self.probe()
        except LorebankError as error:
            return Health(False, self.name, str(error))
        version = ".".join(map(str, self._client.version))
        return Health(True, self.name, f"{self.route}, Hindsight {version}", time.perf_counter() - started)

    def check(self, scope: Scope) -> Integrity:
        """What the server itself counts as failed."""
        answer = self._stats(scope.bank)
        problems = {
            "operations failed": answer.failed_operations,
            "memories could not be consolidated": answer.failed_consolidation,
        }
        return Integrity(tuple(f"{count} {what}" for what, count in problems.items() if count))

    def prepare(self, bank: str) -> None:
        """Makes the bank with its missions where there is none; never raises."""
        self._preparing.prepare(bank)

    def submit(self, bank: str, body: bytes) -> str:
        """Hands a batch over; gives the operation's id. The same batch may be handed over again."""
        path = f"{root(bank)}/memories"
        timeout = self._connection.retain_timeout
        return read(Taken, f"POST {path}", self._client.send("POST", path, body, timeout=timeout, urgent=True)).operation_id

    def progress(self, bank: str, operation_id: str) -> Operation:
        """An operation as it is now; one of a bank that is gone is `not_found`."""
        try:
            return self._client.operation(bank, operation_id, urgent=True).operation()
        except MissingError:
            return Operation(operation_id, "not_found")

    def retry(self, bank: str, operation_id: str) -> None:
        """Has a failed operation tried again."""
        self._client.send("POST", f"{root(bank)}/operations/{quote(operation_id, safe='')}/retry", urgent=True)

    def holds(self, bank: str, document_id: str, text: str) -> bool:
        """Whether a document's text has this in it."""
        try:
            return text in (self._memories.document(bank, document_id).original_text or "")
        except MissingError:
            return False

    def probe(self) -> None:
        """Asks something small that needs the key; raises what goes wrong."""
        self._client.get(BankList, "/v1/default/banks", query={"limit": 1}, urgent=True)

    def quiet(self, bank: str, deadline: float) -> bool:
        """Waits until no write is underway on the server; `False` when that takes longer than `deadline` seconds."""
        scope = Scope(bank, (bank,))
        until = time.monotonic() + deadline
        while any(
            operation.kind in RETAINS
            for state in ("pending", "processing")
            for operation in self.operations.list(scope, state=state, limit=100, offset=0)
        ):
            if time.monotonic() > until:
                return False
            time.sleep(LOOK)
        return True

    def close(self) -> None:
        self._client.transport.close()

    def _forget_one(self, scope: Scope, memory_id: str, *, dry_run: bool) -> Removal:
        known = self._memories.own(scope, memory_id)
        bank, document = known.bank or "", known.document_id
        alone = document is not None and len(self._memories.of_document(bank, document)) == 1
        if dry_run:
            return Removal((known.id,), dry_run=True, beyond=BEYOND)
        if alone and document is not None:
            self._delete_document(bank, document)
            self.models.forget(scope, {known.id})
            return Removal((known.id,), purged=True, reason="its document is deleted", beyond=BEYOND)
        self._memories.patch(known, {"state": "invalidated", "reason": "forgotten"})
        self.models.forget(scope, {known.id})
        return Removal(
            (known.id,),
            reason="it is invalidated, which is reversible: its document holds other memories. Forget the document to delete it",
            beyond=BEYOND,
        )

    def _matching(self, scope: Scope, bank: str, selection: Selection) -> Sequence[Document]:
        """The documents that a selection names, as far as the scope may touch them."""
        found: list[Document] = []
        for document in self.documents.all(bank):
            fits = selection.document in (None, document.id)
            fits = fits and selection.session in (None, document.metadata.get("session_id"))
            if fits and set(selection.tags) <= set(document.tags) and scope.admits(document.tags):
                found.append(document)
        return found

    def _delete_document(self, bank: str, document_id: str) -> None:
        """Deletes a document and looks whether it is gone."""
        try:
            self._client.send("DELETE", f"{root(bank)}/documents/{quote(document_id, safe='')}")
            self._memories.document(bank, document_id)
        except MissingError:
            return
        raise UnavailableError(f"the server still has document {document_id!r} after deleting it: forget it again")

    def _stats(self, bank: str) -> StatsAnswer:
        try:
            return self._client.get(StatsAnswer, f"{root(bank)}/stats", query={"refresh": "true"})
        except MissingError:
            return StatsAnswer()

    def _models(self, bank: str) -> Sequence[str]:
        try:
            query = {"detail": "metadata", "limit": 1000}
            return [answer.id for answer in self._client.get(ModelList, f"{root(bank)}/mental-models", query=query).items]
        except MissingError:
            return ()

    def _ignored(self, names: Sequence[str]) -> None:
        self._tell(IgnoredParameters("", tuple(names)))

    def _told(self, event: Event) -> None:
        self._tell(event)


def _nobody(_event: Event) -> None:
    """Nobody listens yet."""
