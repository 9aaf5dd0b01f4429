"""Forgetting on a server reaches what has not arrived yet, too.

First the server is asked whether it is there, so that nothing is half done. Then waiting rows are taken out, and what is
underway is awaited: a running operation would bring back what was just deleted. Then the server deletes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from sqlalchemy import ColumnElement, Connection, RowMapping, and_, delete, false, or_, select, true

from lorebank._delivery.owner import is_gone
from lorebank._delivery.sender import Sender
from lorebank._domain.memory import Memory, Removal
from lorebank._domain.operations import Operation
from lorebank._domain.outbox import LOST, WAITING
from lorebank._domain.requests import Selection
from lorebank._domain.scope import Scope
from lorebank._hindsight.wire import explicit
from lorebank._ledger import settling
from lorebank._ledger.inspection import doomed, names, spared
from lorebank._ledger.ledger import Ledger, free_leases
from lorebank._ledger.schema import batches, outbox, outcomes
from lorebank._ledger.sessions import forget_traces
from lorebank._ledger.values import Claim, Route, place
from lorebank.errors import DeadlineError

LOOK = 0.1
"""Seconds between two looks at an operation that is awaited."""


class Server(Protocol):
    """What removal asks of a server."""

    def probe(self) -> None: ...
    def progress(self, bank: str, operation_id: str) -> Operation: ...
    def quiet(self, bank: str, deadline: float) -> bool: ...
    def get(self, scope: Scope, memory_id: str) -> Memory: ...
    def forget(self, scope: Scope, selection: Selection, *, dry_run: bool) -> Removal: ...
    def clear(self, scope: Scope) -> Removal: ...


class Removing:
    """`forget` and `clear` over ledger and server; `patience` seconds are waited for what is underway."""

    def __init__(self, ledger: Ledger, server: Server, sender: Sender, route: Route, patience: float) -> None:
        self._ledger, self._server, self._sender = ledger, server, sender
        self._route, self._patience = route, patience

    def forget(self, scope: Scope, selection: Selection, *, dry_run: bool) -> Removal:
        """Removes what matches, from the outbox and from the server; the id of a queued row takes that row out."""
        if not self._ledger.exists:
            return self._server.forget(scope, selection, dry_run=dry_run)
        if queued := self._queued(scope, selection.ids):
            return self._taken_out(scope, queued, dry_run=dry_run)
        self._server.probe()
        places = self._again(scope, selection.ids[0]) if selection.ids else self._matching(scope, selection)
        rows = self._names(places) if dry_run else self._without(scope, places)
        if selection.session is not None and not dry_run:
            self._ledger.write(lambda c: forget_traces(c, self._route.url, scope.bank, selection.session))
        return self._with_rows(self._server.forget(scope, selection, dry_run=dry_run), rows)

    def clear(self, scope: Scope) -> Removal:
        """Empties the scope's bank, here and on the server."""
        if not self._ledger.exists:
            return self._server.clear(scope)
        self._server.probe()
        until = time.monotonic() + self._patience
        everything = self._ledger.read(lambda c: _places(c, self._route, scope.bank))
        rows = self._without(replace(scope, reads=(scope.bank,)), everything)
        if not self._server.quiet(scope.bank, max(until - time.monotonic(), 1.0)):
            raise DeadlineError(
                f"the server still works on bank {scope.bank!r} after {self._patience:g} s: its queued writes are purged, "
                "its memories not deleted. Call `clear` again"
            )
        removal = self._server.clear(scope)
        self._ledger.write(lambda c: _no_traces(c, self._route, scope.bank))
        return self._with_rows(removal, rows)

    def _with_rows(self, removal: Removal, rows: Sequence[str]) -> Removal:
        return replace(removal, rows=tuple(rows)) if rows else removal

    def _queued(self, scope: Scope, ids: Sequence[str]) -> list[int]:
        """The places of rows that the ids name, if they name rows of this scope."""
        named = [found for found in map(place, ids) if found is not None]
        chosen = or_(false(), *(and_(outbox.c.nonce == nonce, outbox.c.seq == seq) for nonce, seq in named))
        return [row["seq"] for row in self._rows(scope, chosen) if scope.admits(_tags(row["body"]))] if named else []

    def _taken_out(self, scope: Scope, places: Sequence[int], *, dry_run: bool) -> Removal:
        if dry_run:
            return Removal((), dry_run=True, rows=tuple(self._names(places)))
        taken = self._without(scope, places)
        late = len(places) - len(taken)
        reason = f"{late} of the writes had been delivered already: forget the memories, or their document" if late else None
        return Removal((), purged=not late, reason=reason, rows=tuple(taken))

    def _again(self, scope: Scope, memory_id: str) -> list[int]:
        """The places of rows that would tell a memory again. Others of a document that callers name say something else."""
        document = self._server.get(scope, memory_id).document_id
        if document is None or not explicit(document):
            return []
        return [row["seq"] for row in self._rows(scope, outbox.c.document == document)]

    def _matching(self, scope: Scope, selection: Selection) -> list[int]:
        """The places of rows that filters name, as far as the scope may touch them."""
        filters = (outbox.c.document, selection.document), (outbox.c.session, selection.session)
        chosen = and_(true(), *(column == wanted for column, wanted in filters if wanted is not None))
        tagged = [(row["seq"], _tags(row["body"])) for row in self._rows(scope, chosen)]
        return [seq for seq, tags in tagged if set(selection.tags) <= set(tags) and scope.admits(tags)]

    def _rows(self, scope: Scope, chosen: ColumnElement[bool]) -> Sequence[RowMapping]:
        """Rows of the scope's banks that are not delivered."""
        mine = outbox.c.state.in_((*WAITING, *LOST)) & outbox.c.bank.in_(scope.reads) & (outbox.c.route == self._route.url)
        wanted = select(outbox.c.seq, outbox.c.body).where(mine, chosen)
        return self._ledger.read(lambda c: c.execute(wanted).mappings().all())

    def _names(self, places: Sequence[int]) -> list[str]:
        return self._ledger.read(lambda c: names(c, places))

    def _without(self, scope: Scope, places: Sequence[int]) -> list[str]:
        """Takes rows out; those underway are awaited first. Gives the ids of the rows that will have no effect."""
        if not places:
            return []
        self._ledger.write(lambda c: free_leases(c, is_gone))
        taken: list[str] = []
        underway: list[str] = []
        for bank in scope.reads:
            rows, held = self._ledger.write(partial(doomed, route=self._route, bank=bank, places=places))
            taken, underway = taken + rows, underway + held
        until = time.monotonic() + self._patience
        try:
            for batch in underway:
                taken += self._settled(batch, set(places), until)
        finally:
            self._ledger.write(lambda c: spared(c, underway))
            self._sender.wake()
        return taken

    def _settled(self, batch: str, places: set[int], until: float) -> list[str]:
        """Waits until nothing of a batch is underway; gives the rows of it that never had effect."""
        while time.monotonic() < until:
            row = self._ledger.read(lambda c: c.execute(select(batches).where(batches.c.id == batch)).mappings().one_or_none())
            if row is None:
                return []
            if row["owner"] is not None and row["lease"] > time.time():
                time.sleep(LOOK)
                continue
            operation = self._server.progress(row["bank"], batch)
            if operation.running:
                time.sleep(LOOK)
                continue
            return self._ledger.write(partial(self._over, row=row, operation=operation, places=places))
        raise DeadlineError(f"operation {batch} still runs after {self._patience:g} s: nothing was deleted. Call it again")

    def _over(self, connection: Connection, row: Any, operation: Operation, places: set[int]) -> list[str]:
        """The batch is at its end: what it has stored is deleted with the rest, what it has not is taken out."""
        rows = tuple(json.loads(row["rows"]))
        claim = Claim(row["id"], row["bank"], rows, row["items"], row["body"], row["state"])
        if operation.state == "completed":
            if row["state"] == "sealed":
                settling.accepted(connection, claim, self._route, time.time())
            settling.retried(connection, claim, time.time())  # one that failed here was tried again by somebody else
            settling.completed(connection, claim, self._route, time.time(), (operation.items, operation.tokens))
            return []
        chosen = [seq for seq in rows if seq in places]
        named = names(connection, chosen)
        settling.forgotten(connection, chosen)
        settling.dissolved(connection, claim)
        return named


def _places(connection: Connection, route: Route, bank: str) -> list[int]:
    chosen = (outbox.c.route == route.url) & (outbox.c.bank == bank) & (outbox.c.state != "completed")
    return list(connection.scalars(select(outbox.c.seq).where(chosen)))


def _no_traces(connection: Connection, route: Route, bank: str) -> None:
    """Of a bank that was cleared, no document's name stays here."""
    delivered = (outbox.c.route == route.url) & (outbox.c.bank == bank) & (outbox.c.state == "completed")
    connection.execute(delete(outbox).where(delivered))
    connection.execute(delete(outcomes).where(outcomes.c.route == route.url, outcomes.c.bank == bank))
    forget_traces(connection, route.url, bank)


def _tags(body: str | None) -> tuple[str, ...]:
    try:
        return tuple(json.loads(body or "{}").get("tags", ()))
    except (ValueError, AttributeError):
        return ()
