"""What servers have and the embedded engine does without: operations, directives, an outbox."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from lorebank._domain.operations import Operation, OperationState
from lorebank._domain.outbox import OutboxEntry, OutboxStatus, Rerouted, RowState
from lorebank._domain.scope import Scope
from lorebank.errors import MissingError, UnsupportedError


class NoOperations:
    """Every write is done when its verb returns: there is nothing to wait for, and nothing to try again."""

    def list(self, scope: Scope, *, state: OperationState | None, limit: int, offset: int) -> tuple[Operation, ...]:
        del scope, state, limit, offset
        return ()

    def get(self, scope: Scope, operation_id: str) -> Operation:
        del scope
        return Operation(operation_id, "not_found")

    def retry(self, scope: Scope, operation_id: str) -> None:
        del scope
        raise MissingError(f"no operation {operation_id!r}: Mnemopi works in the foreground")

    cancel = retry


class NoDirectives:
    """Standing instructions for `reflect` need a model that reads them."""

    def _refuse(self, *_args: Any, **_fields: Any) -> NoReturn:
        raise UnsupportedError("Mnemopi has no `directives`: they steer the `reflect` of a Hindsight server")

    list = create = update = delete = _refuse


class NoOutbox:
    """Memories are durable when `retain` returns: nothing is ever on its way."""

    def status(self, bank: str | None) -> OutboxStatus:
        del bank
        return OutboxStatus({})

    def list(self, bank: str | None, *, state: RowState | None, limit: int, offset: int) -> tuple[OutboxEntry, ...]:
        del bank, state, limit, offset
        return ()

    def get(self, row_id: str) -> OutboxEntry:
        raise MissingError(f"no outbox row {row_id!r}: Mnemopi writes its memories directly")

    def requeue(self, bank: str | None, ids: Sequence[str] | None) -> int:
        del bank
        return self._none_of(ids or ())

    def purge(self, bank: str | None, ids: Sequence[str]) -> int:
        del bank
        return self._none_of(ids)

    def reroute(self, bank: str, ids: Sequence[str] | None, *, url: str | None, origin: str | None, dry_run: bool) -> Rerouted:
        del bank, url, origin
        self._none_of(ids or ())
        return Rerouted(dry_run=dry_run)

    def _none_of(self, ids: Sequence[str]) -> int:
        for row_id in ids:
            self.get(row_id)
        return 0
