"""`Bank`: every verb, blocking and awaitable, on one handle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal, Self

from lorebank import _audit as auditing
from lorebank import _care as care
from lorebank import _transfer as transfer
from lorebank._asking import recall_request
from lorebank._connections import Connections
from lorebank._domain import memory as parse
from lorebank._domain.events import Redacted
from lorebank._domain.item import ITEM_FIELDS, Item, parse_items
from lorebank._domain.memory import (
    APPLICATION,
    Budget,
    Memory,
    MemoryType,
    RecallResult,
    Receipt,
    Reflection,
    Removal,
    UpdateMode,
    Writer,
)
from lorebank._domain.requests import Kept, ListRequest, ReflectRequest
from lorebank._domain.scope import Scope, Scoping, TagRule, TagsMatch, parse_bank_id, parse_filter, parse_tag_groups
from lorebank._domain.toolbook import Offer, ToolName, parse_tools
from lorebank._editing import admitted_change, check_clear, forgettable, selection
from lorebank._handles import DirectiveHandle, DocumentHandle, OperationHandle, OutboxHandle, Reach, SessionHandle, parse_offset
from lorebank._joined import Part, join
from lorebank._mental_models import MentalModelHandle
from lorebank._session.home import Home
from lorebank._session.registry import registry_of
from lorebank._session.session import Session
from lorebank._twins import Threads, twin
from lorebank._writing import admit_items
from lorebank.errors import UsageError


class Bank(AbstractContextManager["Bank", None], AbstractAsyncContextManager["Bank", None]):
    """One bank of memories, opened by `open_bank`.

    Every verb blocks and has an awaitable twin (`recall` / `arecall`). A bank may be used from several threads and
    event loops at once, inside a running loop, and after a fork; pickling keeps its settings. Verbs raise `UsageError`
    for bad input before anything is written, and `UnavailableError` when memory can't answer now.
    """

    def __init__(
        self,
        connections: Connections,
        base: str,
        *,
        scoping: Scoping,
        label: str | None,
        shared: str | None = None,
        owner: bool = True,
    ) -> None:
        if shared == base and scoping == "global":
            raise UsageError(f"{base!r} is the shared bank: it is read beside others, and written by `retain_global` only")
        self.name = base
        self._connections, self._owner, self._closed = connections, owner, False
        self._scoping: Scoping = scoping
        self._label, self._shared = label, shared
        self._scope = replace(connections.backend.scope(base, scoping, label), shared=shared)

    @property
    def backend(self) -> Literal["mnemopi", "hindsight"]:
        """The name of the backend."""
        return self._connections.backend.name

    @property
    def scope(self) -> Scope:
        """Where this bank writes and reads."""
        return self._scope

    @property
    def threads(self) -> Threads:
        """The threads that the awaitable twins run on."""
        return self._connections.threads

    @property
    def connections(self) -> Connections:
        """What this bank shares with its `named` banks; `UsageError` once it is closed."""
        if self._closed or self._connections.closed:
            raise UsageError(f"the bank {self.name!r} is closed: open it again with open_bank()")
        return self._connections

    @property
    def mental_models(self) -> MentalModelHandle:
        """The bank's mental models."""
        return MentalModelHandle(lambda: self.connections, self._scope, self._scoping, self._label)

    @property
    def documents(self) -> DocumentHandle:
        """The bank's documents."""
        return DocumentHandle(self._reach)

    @property
    def operations(self) -> OperationHandle:
        """What the server works on for this bank."""
        return OperationHandle(self._reach)

    @property
    def directives(self) -> DirectiveHandle:
        """The standing instructions that the bank's `reflect` follows."""
        return DirectiveHandle(self._reach)

    @property
    def outbox(self) -> OutboxHandle:
        """The bank's writes that have not reached the server yet."""
        return OutboxHandle(self._reach)

    @property
    def sessions(self) -> SessionHandle:
        """The conversations that are kept with this bank, and what was recalled in them."""
        return SessionHandle(self._reach)

    def session(self, session_id: str, *, tools: Sequence[ToolName] | None = None) -> Session:
        """The session of a conversation: recall before each turn, retain after it. Opening an id twice gives the same live
        session; the last `close` ends it. `tools` are the memory tools that the model is offered, for the instructions.
        """
        connections = self.connections
        home = Home(connections, self._scope, self._scoping, self._label)
        opened = registry_of(connections).session(home, parse.parse_name(session_id, "session_id"))
        opened.offer = opened.offer if tools is None else Offer(parse_tools(tools))
        return opened

    def joined(self, other: Bank, weight: float = 1.0) -> Bank:
        """A bank that recalls from this one and another in parallel, as one ranking, the same text once.

        Scores are taken relative to each part's best, times its weight (this one's is 1). A part that is down is named
        in `result.unavailable`, with the state `partial`. `get` tries all parts; all else, `reflect` too, is this
        bank's alone. Joining again adds a part. Closing the joined bank closes none of its parts.
        """
        if not isinstance(other, Bank):  # pyright: ignore[reportUnnecessaryIsInstance] - users pass anything
            raise UsageError(f"`joined` takes a bank (open_bank()); found {type(other).__name__}")
        counts = parse.parse_number(weight, "weight", 1e-6, 1e6)
        connections = join(Part(self.connections, self._scope), Part(other.connections, other.scope, counts))
        return Bank(connections, self.name, scoping=self._scoping, label=self._label, shared=self._shared)

    def named(self, name: str) -> Bank:
        """Another bank on the same connections, with the same scoping, project and shared bank."""
        base = parse_bank_id(name)
        return Bank(self.connections, base, scoping=self._scoping, label=self._label, shared=self._shared, owner=False)

    @property
    def shared(self) -> Bank | None:
        """The shared bank itself, where one is configured; what `retain_global` writes to."""
        if self._shared is None:
            return None
        return Bank(self.connections, self._shared, scoping="global", label=None, owner=False)

    def retain(
        self,
        content: str | Item | Mapping[str, Any] | Iterable[str | Item | Mapping[str, Any]],
        *,
        context: str | None = None,
        tags: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        timestamp: datetime | None = None,
        document_id: str | None = None,
        update_mode: UpdateMode | None = None,
        entities: Sequence[str] = (),
        session: str | None = None,
        speaker: str | None = None,
        valid_until: datetime | None = None,
        importance: float | None = None,
        type: MemoryType | None = None,
    ) -> Receipt:
        """Writes one text, or a list of items; the keywords fill what an item leaves out.

        Nothing is written when one of the items is wrong. Secrets are taken out first. The receipt says what became of
        each: a statement that the bank holds already is a duplicate and counts as more evidence.
        """
        given = locals()
        defaults = {name: value for name in ITEM_FIELDS[1:] if (value := given[name]) is not None and value != ()}
        return self.write(content, defaults, APPLICATION)

    def write(self, content: object, defaults: Mapping[str, Any], writer: Writer) -> Receipt:
        """`retain` on behalf of a writer: the way tools and sessions write."""
        connections = self.connections
        ready = admit_items(parse_items(content, defaults), connections.settings.retain)
        if ready.redactions:
            connections.tell(Redacted(self._scope.bank, ready.redactions))
        receipt = connections.backend.retain(self._scope, ready.items, writer) if ready.items else Receipt()
        if not ready.rejected and not ready.redactions:
            return receipt
        return replace(receipt, rejected=receipt.rejected + ready.rejected, redactions=ready.redactions)

    def recall(
        self,
        query: str,
        *,
        limit: int | None = None,
        max_tokens: int | None = None,
        types: Sequence[str] | None = None,
        tags: Sequence[str] | None = None,
        tags_match: TagsMatch = "any_strict",
        tag_groups: Sequence[Mapping[str, Any]] | None = None,
        budget: Budget | None = None,
        query_timestamp: datetime | None = None,
        prefer_observations: bool | None = None,
        include_source_facts: bool | None = None,
        min_score: float | None = None,
        explain: bool = False,
    ) -> RecallResult:
        """The memories that answer a query, best first; none where nothing is relevant.

        `limit` and `max_tokens` both bound the answer. `query_timestamp` is the "now" of phrases such as "last week".
        `tags` (with `tags_match`) and `tag_groups` narrow what may be read. `explain=True` adds how it came about. What
        is left out comes from the bank's recall settings. Raises `UnavailableError` when memory could not be asked.
        """
        rule = self._rule(tags, tags_match, tag_groups)
        bounds = {"limit": limit, "max_tokens": max_tokens}
        request = recall_request(self._connections.settings, query, rule, **bounds, budget=budget, moment=query_timestamp)
        request = replace(
            request,
            types=request.types if types is None else parse.parse_types(types),
            prefer_observations=request.prefer_observations if prefer_observations is None else prefer_observations,
            include_source_facts=request.include_source_facts if include_source_facts is None else include_source_facts,
            min_score=request.min_score if min_score is None else parse.parse_number(min_score, "min_score", -1e9, 1e9),
            explain=explain,
        )
        return self.connections.backend.recall(self._scope, request)

    def reflect(
        self,
        query: str,
        *,
        context: str | None = None,
        budget: Budget | None = None,
        tags: Sequence[str] | None = None,
        tags_match: TagsMatch = "any_strict",
        tag_groups: Sequence[Mapping[str, Any]] | None = None,
        response_schema: Mapping[str, Any] | None = None,
    ) -> Reflection:
        """One answer drawn from several memories; on Mnemopi without a completer, the ranked memories themselves."""
        rule = self._rule(tags, tags_match, tag_groups)
        request = recall_request(self._connections.settings, query, rule, budget=budget)
        narrowed = None if context is None else parse.parse_text(context, "context")
        return self.connections.backend.reflect(self._scope, ReflectRequest(request, narrowed, response_schema))

    def explain(self, query: str) -> RecallResult:
        """A recall with the reasons: `result.trace`, and each memory's `signals`."""
        return self.recall(query, explain=True)

    def get(self, id: str) -> Memory:
        """The memory with this id, whole, whatever its state; `MissingError` where this bank may read no such memory."""
        return self.connections.backend.get(self._scope, parse.parse_name(id, "id"))

    def list(
        self,
        *,
        limit: int = 100,
        offset: int = 0,
        types: Sequence[str] | None = None,
        tags: Sequence[str] | None = None,
        tags_match: TagsMatch = "any_strict",
        session: str | None = None,
        document: str | None = None,
        state: Kept = "valid",
        before: datetime | None = None,
    ) -> tuple[Memory, ...]:
        """One page of the memories, newest first; with `before`, of those that were said before that moment."""
        if state not in ("valid", "invalidated", "all"):
            raise UsageError(f"`state` must be valid, invalidated or all; found {state!r}")
        kinds = None if types is None else parse.parse_types(types)
        meant = selection(session=session, document=document, rule=parse_filter(tags, tags_match))
        zone = self._connections.settings.retain.zone()
        until = None if before is None else parse.parse_moment(before, "before", zone)
        request = ListRequest(parse.parse_count(limit, "limit"), parse_offset(offset), kinds, state, meant, until)
        return self.connections.backend.list(self._scope, request)

    def update(
        self,
        id: str,
        *,
        content: str | None = None,
        importance: float | None = None,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Memory:
        """Changes a memory and what was derived from its text; gives it as it is now."""
        change = admitted_change(
            self._connections, self._scope.bank, content=content, importance=importance, tags=tags, metadata=metadata
        )
        return self.connections.backend.update(self._scope, parse.parse_name(id, "id"), change)

    def invalidate(self, id: str, *, replacement: str | None = None) -> Memory:
        """Says that a memory is no longer true: it is kept but not recalled. `replacement` is the id that is true now."""
        own, other = parse.parse_name(id, "id"), None if replacement is None else parse.parse_name(replacement, "replacement")
        if other == own:
            raise UsageError("a memory can't replace itself")
        return self.connections.backend.invalidate(self._scope, own, other)

    def forget(
        self,
        id: str | None = None,
        *,
        session: str | None = None,
        document: str | None = None,
        tags: Sequence[str] | None = None,
        dry_run: bool = False,
    ) -> Removal:
        """Deletes a memory, or all that match the filters (AND-ed; tags match all), from rows, indexes and pages.

        An unknown id raises `MissingError`; filters that match nothing remove nothing. `dry_run=True` only says which.
        """
        meant = forgettable(id, session=session, document=document, tags=tags)
        removal = self.connections.backend.forget(self._scope, meant, dry_run=dry_run)
        if not dry_run:
            registry_of(self.connections).forget(self._scope)
        return removal

    def clear(self, *, what: Literal["bank", "local"] = "bank", confirm: str | None = None) -> Removal:
        """Empties the bank that this handle writes to; `confirm` must be its full id. `"local"` delivers what is queued, within
        `close_timeout`, and drops what is cached of the bank.
        """
        backend, registry = self.connections.backend, registry_of(self.connections)
        check_clear(what, confirm, self._scope.bank)
        if what == "local":
            backend.flush(timeout=self.connections.settings.connection.close_timeout, until="accepted")
        removal = Removal(()) if what == "local" else backend.clear(self._scope)
        registry.forget(self._scope)
        return removal

    def close(self) -> None:
        """Closes the bank; the bank that `open_bank` gave also closes the connections. Closing twice is harmless."""
        self._closed = True
        if self._owner:
            self._connections.close()

    consolidate = care.consolidate
    revalidate = care.revalidate
    entities = care.entities
    tags = care.tags
    flush = care.flush
    purge = care.purge
    stats = care.stats
    health = care.health
    check = care.check
    audit = auditing.audit
    aaudit = twin(auditing.audit)
    aconsolidate = twin(care.consolidate)
    export = transfer.export
    import_ = transfer.import_
    aexport = twin(transfer.export)
    aimport_ = twin(transfer.import_)
    aretain = twin(retain, lane="local")
    awrite = twin(write, lane="local")
    arecall = twin(recall)
    areflect = twin(reflect)
    aexplain = twin(explain)
    aget = twin(get)
    alist = twin(list)
    aupdate = twin(update)
    ainvalidate = twin(invalidate)
    aforget = twin(forget)
    aclear = twin(clear)
    atags = twin(care.tags)
    arevalidate = twin(care.revalidate)
    aentities = twin(care.entities)
    apurge = twin(care.purge)
    astats = twin(care.stats)
    ahealth = twin(care.health)
    acheck = twin(care.check)
    aflush = twin(care.flush, lane="flush")

    async def aclose(self) -> None:
        """Awaitable form of `close`."""
        await self.threads.run(self.close, "flush")

    def __exit__(self, *_exc: object) -> None:
        self.close()

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<Bank {self._scope.bank!r} on {self.backend}>"

    def __deepcopy__(self, _memo: object) -> Self:
        return self

    @property
    def _reach(self) -> Reach:
        return Reach(lambda: self.connections, self._scope)

    def _rule(self, tags: Sequence[str] | None, match: object, groups: Sequence[Mapping[str, Any]] | None) -> TagRule | None:
        """The caller's tag filter; the backend AND-s the scope's."""
        return Scope("", ()).narrowed(parse_filter(tags, match), *parse_tag_groups(groups))
