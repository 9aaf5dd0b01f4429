"""What a bank keeps beside its memories: `bank.documents`, `.operations`, `.directives`, `.sessions`, `.outbox`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast, get_args

from lorebank._connections import Connections
from lorebank._domain.memory import parse_count, parse_name, parse_number, parse_text
from lorebank._domain.operations import Directive, Document, Operation, OperationState
from lorebank._domain.outbox import STATES, OutboxEntry, OutboxStatus, Rerouted, RowState
from lorebank._domain.ports import Backend, SessionLedger
from lorebank._domain.scope import Scope, parse_tags
from lorebank._domain.session import SessionRecord, Trace
from lorebank._twins import Threads, twin
from lorebank.errors import MissingError, UsageError


class Reach:
    """How a handle comes to its bank: by the open connections, within one scope."""

    def __init__(self, opened: Callable[[], Connections], scope: Scope) -> None:
        self._opened, self.scope = opened, scope

    @property
    def backend(self) -> Backend:
        return self._opened().backend

    @property
    def threads(self) -> Threads:
        return self._opened().threads


class DocumentHandle:
    """The documents of one bank: what one retain created or extended, by `document_id`."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    @property
    def threads(self) -> Threads:
        return self._reach.threads

    def list(self, *, limit: int = 100, offset: int = 0) -> tuple[Document, ...]:
        """One page of the documents, newest first, without their texts."""
        page = {"limit": parse_count(limit, "limit"), "offset": parse_offset(offset)}
        return self._reach.backend.documents.list(self._reach.scope, **page)

    def get(self, id: str) -> Document:
        """One document with its text; `MissingError` where this bank may read no such document."""
        return self._reach.backend.documents.get(self._reach.scope, parse_name(id, "id"))

    alist = twin(list)
    aget = twin(get)


class OperationHandle:
    """What the server works on for one bank. Mnemopi has done everything when a verb returns: it lists none."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    @property
    def threads(self) -> Threads:
        return self._reach.threads

    def list(self, *, state: OperationState | None = None, limit: int = 20, offset: int = 0) -> tuple[Operation, ...]:
        """One page of the operations, newest first; all states, or one."""
        allowed = tuple(name for name in get_args(OperationState) if name != "not_found")
        if state is not None and state not in allowed:
            raise UsageError(f"`state` must be one of {', '.join(allowed)}; found {state!r}")
        count, start = parse_count(limit, "limit"), parse_offset(offset)
        return self._reach.backend.operations.list(self._reach.scope, state=state, limit=count, offset=start)

    def get(self, id: str) -> Operation:
        """One operation; its state is `not_found` where the server knows none with this id."""
        return self._reach.backend.operations.get(self._reach.scope, parse_name(id, "id"))

    def retry(self, id: str) -> None:
        """Has a failed operation tried again."""
        self._reach.backend.operations.retry(self._reach.scope, parse_name(id, "id"))

    def cancel(self, id: str) -> None:
        """Stops an operation that has not begun."""
        self._reach.backend.operations.cancel(self._reach.scope, parse_name(id, "id"))

    alist = twin(list)
    aget = twin(get)
    aretry = twin(retry)
    acancel = twin(cancel)


class DirectiveHandle:
    """The standing instructions that a Hindsight server follows in `reflect`. Mnemopi has none: `UnsupportedError`."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    @property
    def threads(self) -> Threads:
        return self._reach.threads

    def list(self) -> tuple[Directive, ...]:
        """All directives of the bank."""
        return self._reach.backend.directives.list(self._reach.scope)

    def create(self, name: str, *, content: str, priority: int = 0, active: bool = True, tags: Sequence[str] = ()) -> Directive:
        """A new directive, with the id that the server gives it."""
        given = {"name": name, "content": content, "priority": priority, "active": active, "tags": tags}
        fields = {field: _DIRECTIVE[field](value, field) for field, value in given.items()}
        return self._reach.backend.directives.create(self._reach.scope, Directive("", **fields))

    def update(
        self,
        id: str,
        *,
        name: str | None = None,
        content: str | None = None,
        priority: int | None = None,
        active: bool | None = None,
        tags: Sequence[str] | None = None,
    ) -> Directive:
        """Changes the given fields; gives the directive as it is now."""
        given = {"name": name, "content": content, "priority": priority, "active": active, "tags": tags}
        fields = {field: _DIRECTIVE[field](value, field) for field, value in given.items() if value is not None}
        if not fields:
            raise UsageError("`update` needs something to change: name, content, priority, active or tags")
        return self._reach.backend.directives.update(self._reach.scope, parse_name(id, "id"), fields)

    def delete(self, id: str) -> None:
        """Deletes a directive."""
        self._reach.backend.directives.delete(self._reach.scope, parse_name(id, "id"))

    alist = twin(list)
    acreate = twin(create)
    aupdate = twin(update)
    adelete = twin(delete)


class SessionHandle:
    """The conversations of one bank, as the ledger has them: counts and traces, never what was said."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    @property
    def threads(self) -> Threads:
        return self._reach.threads

    def list(self, *, limit: int = 100, offset: int = 0) -> tuple[SessionRecord, ...]:
        """One page of the sessions, those with the newest messages first."""
        page = {"limit": parse_count(limit, "limit"), "offset": parse_offset(offset)}
        return self._reach.backend.sessions.list(self._reach.scope, **page)

    def traces(self, id: str) -> tuple[Trace, ...]:
        """How the recalls of a session's last turns went, newest first: as many as `RecallSettings.keep_traces` says; none for
        an id that is unknown.
        """

        def kept(ledger: SessionLedger) -> list[Trace | None]:
            ledger.load()
            return [Trace.read(body) for body in ledger.traces()]

        found = self._reach.backend.sessions.read(self._reach.scope, parse_name(id, "id"), kept)
        return tuple(trace for trace in found if trace is not None)

    alist = twin(list, lane="local")
    atraces = twin(traces, lane="local")


class OutboxHandle:
    """The writes of one bank that have not reached the server yet: ids, states and counts, never content.

    Nothing here waits for the server. On Mnemopi the outbox is always empty.
    """

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    @property
    def threads(self) -> Threads:
        return self._reach.threads

    @property
    def _bank(self) -> str:
        return self._reach.scope.bank

    def status(self, *, everything: bool = False) -> OutboxStatus:
        """How many writes wait, since when, and how the server answers; of all of the server's banks with `everything`."""
        return self._reach.backend.outbox.status(None if everything else self._bank)

    def list(self, *, state: RowState | None = None, limit: int = 100, offset: int = 0) -> tuple[OutboxEntry, ...]:
        """One page of the bank's writes, oldest first; all that are not delivered, or those of one state."""
        if state is not None and state not in STATES:
            raise UsageError(f"`state` must be one of {', '.join(STATES)}; found {state!r}")
        count, start = parse_count(limit, "limit"), parse_offset(offset)
        return self._reach.backend.outbox.list(self._bank, state=state, limit=count, offset=start)

    def get(self, id: str) -> OutboxEntry:
        """One write; `MissingError` where this bank has none with this id."""
        entry = self._reach.backend.outbox.get(parse_name(id, "id"))
        if entry.bank != self._bank:
            raise MissingError(f"the outbox has no row {id!r} of the bank {self._bank!r}")
        return entry

    def requeue(self, ids: Sequence[str] | None = None) -> int:
        """Has dead letters sent again, all of the bank's or those with these ids; gives how many."""
        return self._reach.backend.outbox.requeue(self._bank, None if ids is None else _ids(ids))

    def purge(self, ids: Sequence[str]) -> int:
        """Deletes writes that are dead or not yet sent, by id; gives how many. What is underway is not touched."""
        return self._reach.backend.outbox.purge(self._bank, _ids(ids))

    def reroute(
        self, ids: Sequence[str] | None = None, *, url: str | None = None, bank: str | None = None, dry_run: bool = False
    ) -> Rerouted:
        """Takes over writes that are queued in the same ledger for another bank (`bank`, its id) or a server at another address
        (`url`), or those with these ids, wherever they were to go, and has them sent to this bank on this server.

        All of them move in one transaction, or none. What waits moves; a dead letter only by its id. What the former server
        has taken, and what is being sent, stays and is told as `underway`; named by its id it raises `RefusedError`, and
        nothing moves. Sessions whose messages move bring their cursors.
        """
        if ids is None and url is None and bank is None:
            raise UsageError("`reroute` needs to know from where: `url`, `bank`, or the ids of writes")
        origin, address = None if bank is None else parse_name(bank, "bank"), None if url is None else parse_name(url, "url")
        chosen, look = None if ids is None else _ids(ids), _switch(dry_run, "dry_run")
        return self._reach.backend.outbox.reroute(self._bank, chosen, url=address, origin=origin, dry_run=look)

    astatus = twin(status, lane="local")
    alist = twin(list, lane="local")
    aget = twin(get, lane="local")
    areroute = twin(reroute, lane="local")
    arequeue = twin(requeue, lane="local")
    apurge = twin(purge, lane="local")


def parse_offset(value: object) -> int:
    """How many to pass over: a whole number of at least 0."""
    if isinstance(value, bool) or parse_number(value, "offset", 0, 2**62) != value or not isinstance(value, int):
        raise UsageError(f"`offset` must be a whole number; found {value!r}")
    return value


def _ids(values: object) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise UsageError(f"`ids` must be a list of ids; found {values!r}")
    if not (ids := tuple(dict.fromkeys([parse_name(value, "ids") for value in cast("Iterable[object]", values)]))):
        raise UsageError("`ids` is empty: name at least one")
    return ids


def _priority(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(f"`{name}` must be a whole number; found {value!r}")
    return value


def _switch(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"`{name}` must be True or False; found {value!r}")
    return value


_DIRECTIVE: dict[str, Callable[[Any, str], Any]] = {
    "name": parse_name,
    "content": parse_text,
    "priority": _priority,
    "active": _switch,
    "tags": lambda value, _: parse_tags(value),
}
"""How each field of a directive is checked."""
