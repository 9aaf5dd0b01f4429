"""Memories on the server: found, read, listed, edited."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import quote

from lorebank._domain.memory import Memory, RecallResult, RecallTrace, Reflection
from lorebank._domain.message import substantive
from lorebank._domain.requests import Change, ListRequest, RecallRequest, ReflectRequest, Selection
from lorebank._domain.scope import Scope, TagRule
from lorebank._domain.toolbook import reflect_query
from lorebank._hindsight import wire
from lorebank._hindsight.answers import SUPERSEDED, DocumentAnswer, Fact, Recalled, Reflected, memories
from lorebank._hindsight.client import Client, root
from lorebank.errors import GarbledError, LorebankError, MissingError, RefusedError, UnavailableError, UnsupportedError

T = TypeVar("T")


class MemoryCalls:
    """What is asked of a server's memories."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def recall(self, scope: Scope, request: RecallRequest) -> RecallResult:
        """One search over all banks that the scope reads; a bank that can't be asked is named in the result."""
        started = time.perf_counter()
        if not substantive(request.query):
            return RecallResult("nothing", request.query)
        rule = scope.narrowed(request.rule)
        long = len(request.query) > wire.OLD_QUERY
        body = wire.recall_body(request, rule, old=long and self._client.old)
        found, down, error = self._asked(scope, body, rule, explain=request.explain)
        if error is not None and not found:
            raise error
        ranked = merged(found)
        kept = tuple(ranked[: request.limit])
        state = "partial" if down else "found" if kept else "nothing"
        trace = _trace(ranked, kept, request, started) if request.explain else None
        return RecallResult(state, request.query, kept, tuple(down), trace)

    def reflect(self, scope: Scope, request: ReflectRequest) -> Reflection:
        """An answer drawn from the scope's own bank."""
        rule = scope.narrowed(request.recall.rule)
        body = wire.reflect_body(
            reflect_query(request.recall.query, request.context), request.recall, rule, request.response_schema
        )
        path = f"{root(scope.reads[0])}/reflect"
        answer = self._client.ask(Reflected, path, body, timeout=self._client.settings.reflect_timeout)
        based = answer.based_on.memories if answer.based_on else ()
        return Reflection(answer.text, memories(based, scope.reads[0]), answer.structured_output)

    def get(self, scope: Scope, memory_id: str) -> Memory:
        """A memory of any state; `MissingError` where the scope may read none with this id."""
        for bank in scope.searched:
            try:
                found = self._client.get(Fact, f"{root(bank)}/memories/{quote(memory_id, safe='')}")
            except MissingError:
                continue
            except RefusedError as error:
                if error.status not in (400, 422):
                    raise
                continue
            if scope.admits(found.tags):
                return found.memory(bank)
        raise missing(memory_id)

    def list(self, scope: Scope, request: ListRequest) -> tuple[Memory, ...]:
        """One page, newest first."""
        wanted = (memory for bank in scope.searched for memory in self._listed(bank, scope, request))
        page: list[Memory] = []
        for place, memory in enumerate(wanted):
            if place >= request.offset:
                page.append(memory)
            if len(page) == request.limit:
                break
        return tuple(page)

    def update(self, scope: Scope, memory_id: str, change: Change) -> Memory:
        """Changes the text, or the tags where no other memory shares the document."""
        for name in ("importance", "metadata"):
            if getattr(change, name) is not None:
                raise UnsupportedError(f"Hindsight can't change the `{name}` of a memory: retain it anew, or use Mnemopi")
        known = self.own(scope, memory_id)
        if change.tags is not None:
            self._retagged(known, (*change.tags, *(tag for tag in scope.stamp if tag not in change.tags)))
        if change.content is not None:
            self.patch(known, {"text": change.content})
        return self.get(scope, memory_id)

    def invalidate(self, scope: Scope, memory_id: str, replacement: str | None) -> Memory:
        """Takes a memory out of recall; its reason names what is true now."""
        known = self.own(scope, memory_id)
        if replacement is not None:
            self.get(scope, replacement)
        if known.invalidated_at is not None:
            return known
        reason = f"{SUPERSEDED}{replacement}" if replacement else "no longer true"
        self.patch(known, {"state": "invalidated", "reason": reason})
        return self.get(scope, memory_id)

    def own(self, scope: Scope, memory_id: str) -> Memory:
        """A memory that the scope may change: the shared bank is only read."""
        known = self.get(scope, memory_id)
        if known.bank not in scope.reads:
            raise missing(memory_id)
        return known

    def patch(self, memory: Memory, fields: dict[str, Any]) -> None:
        """Changes fields of a memory."""
        self._client.send("PATCH", f"{root(memory.bank or '')}/memories/{quote(memory.id, safe='')}", fields)

    def document(self, bank: str, document_id: str) -> DocumentAnswer:
        """The document that memories come from."""
        return self._client.get(DocumentAnswer, f"{root(bank)}/documents/{quote(document_id, safe='')}")

    def of_document(self, bank: str, document_id: str) -> list[Memory]:
        """All facts of a document, whatever their state."""
        return [
            memory
            for state in ("valid", "invalidated")
            for page in self._client.pages(f"{root(bank)}/memories/list", {"document_id": document_id, "state": state})
            for memory in memories(page.items, bank)
        ]

    def _retagged(self, memory: Memory, tags: Sequence[str]) -> None:
        bank, document = memory.bank or "", memory.document_id
        if document is None or len(self.of_document(bank, document)) != 1:
            raise UnsupportedError(
                "on Hindsight tags belong to a document, and this memory shares its document with others: retain it anew"
            )
        self._client.send("PATCH", f"{root(bank)}/documents/{quote(document, safe='')}", {"tags": list(tags)})

    def _listed(self, bank: str, scope: Scope, request: ListRequest) -> Iterator[Memory]:
        chosen, rule = request.selection, scope.narrowed(request.selection.rule)
        query: dict[str, object] = {}
        if chosen.document is not None:
            query["document_id"] = chosen.document
        if request.types is not None and len(request.types) == 1:
            query["type"] = request.types[0]
        states = ("valid", "invalidated") if request.kept == "all" else (request.kept,)
        for state in states:
            for page in self._client.pages(f"{root(bank)}/memories/list", {**query, "state": state}):
                for memory in memories(page.items, bank):
                    if _fits(memory, request, chosen) and (rule is None or rule.admits(memory.tags)):
                        yield memory

    def _asked(
        self, scope: Scope, body: dict[str, Any], rule: TagRule | None, *, explain: bool
    ) -> tuple[list[list[Memory]], list[str], LorebankError | None]:
        """The results of each bank, the banks that could not be asked, and why."""

        def ask(bank: str) -> list[Memory]:
            return self._search(bank, body, rule, explain=explain)

        found: list[list[Memory]] = []
        down: list[str] = []
        problem: LorebankError | None = None
        for bank, answer in zip(scope.searched, side_by_side(ask, scope.searched), strict=True):
            if isinstance(answer, LorebankError):
                down.append(bank)
                problem = problem or answer
            else:
                found.append(answer)
        return found, down, problem

    def _search(self, bank: str, body: dict[str, Any], rule: TagRule | None, *, explain: bool) -> list[Memory]:
        try:
            answer = self._client.ask(
                Recalled, f"{root(bank)}/memories/recall", body, timeout=self._client.settings.recall_timeout
            )
        except MissingError:
            return []
        admitted = (fact for fact in answer.results if rule is None or rule.admits(fact.tags))
        return [fact.memory(bank, explain=explain, sources=answer.source_facts) for fact in admitted]


def side_by_side(ask: Callable[[str], T], banks: Sequence[str]) -> list[T | LorebankError]:
    """Asks several banks at once; a failure that may pass stands in the place of its answer."""

    def tried(bank: str) -> T | LorebankError:
        try:
            return ask(bank)
        except (UnavailableError, GarbledError) as error:
            return error

    if len(banks) == 1:
        return [tried(banks[0])]
    with ThreadPoolExecutor(len(banks), thread_name_prefix="lorebank-bank") as pool:
        return [future.result() for future in [pool.submit(copy_context().run, tried, bank) for bank in banks]]


def merged(parts: Sequence[Sequence[Memory]]) -> list[Memory]:
    """One ranking: scores relative to each bank's best, each text once."""
    if len(parts) == 1:
        return list(parts[0])
    scored: list[tuple[float, Memory]] = []
    for part in parts:
        best = max((memory.score or 0.0 for memory in part), default=0.0) or 1.0
        scored += [((memory.score or 0.0) / best, memory) for memory in part]
    scored.sort(key=lambda pair: -pair[0])
    first: dict[str, Memory] = {}
    for score, memory in scored:
        first.setdefault(memory.text, replace(memory, score=score))
    return list(first.values())


def missing(memory_id: str) -> MissingError:
    return MissingError(f"there is no memory {memory_id!r} in this bank")


def _fits(memory: Memory, request: ListRequest, chosen: Selection) -> bool:
    types = request.types is None or memory.type in request.types
    return types and chosen.session in (None, memory.session) and chosen.document in (None, memory.document_id)


def _trace(ranked: Sequence[Memory], kept: Sequence[Memory], request: RecallRequest, started: float) -> RecallTrace:
    best = max((memory.score or 0.0 for memory in ranked), default=0.0)
    dropped = tuple(memory.id for memory in ranked[len(kept) :])
    return RecallTrace({}, (), len(ranked), best, request.min_score or 0.0, dropped, time.perf_counter() - started)
