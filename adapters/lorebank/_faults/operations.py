"""Work in the background: queued, held, run, cancelled, retried.

An async retain is a parent `batch_retain` with one child `retain`; `consolidation` follows new facts, and
`refresh_mental_model` writes a mental model. All of it runs at once, unless operations are held.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lorebank._faults.call import Call
from lorebank._faults.checks import Checks, a_uuid
from lorebank._faults.observing import consolidate
from lorebank._faults.refreshing import refresh
from lorebank._faults.shapes import listed_operation, no_operation, shown_operation
from lorebank._faults.state import Banks
from lorebank._faults.storing import store
from lorebank._faults.values import Bank, Item, Operation
from lorebank._faults.wire import RefusalError

__all__ = [
    "after_retain",
    "cancel",
    "consolidate_now",
    "delete",
    "get",
    "list_",
    "queue_refresh",
    "queue_retain",
    "retry",
    "run_held",
]

PARENT = "batch_retain"
OPEN = ("pending", "processing")


def queue_retain(banks: Banks, bank: Bank, items: Sequence[Item], operation_id: str | None) -> Operation:
    """The parent; its child has run when this returns, unless operations are held."""
    child = banks.new_id()
    parent = _add(banks, bank, PARENT, id=operation_id, items=tuple(items), children=(child,))
    _start(banks, bank, _add(banks, bank, "retain", id=child, items=tuple(items), parent=parent.id))
    return bank.operations[parent.id]


def queue_refresh(banks: Banks, bank: Bank, mental_model_id: str) -> Operation:
    """An operation that writes a mental model's content."""
    return _start(banks, bank, _add(banks, bank, "refresh_mental_model", mental_model_id=mental_model_id))


def after_retain(banks: Banks, bank: Bank) -> Operation | None:
    """The consolidation that new facts bring, where the bank has observations on and none is waiting."""
    if not bank.unseen or bank.settings.get("enable_observations") is False:
        return None
    return consolidate_now(banks, bank)


def consolidate_now(banks: Banks, bank: Bank) -> Operation:
    """A consolidation; the waiting one where there is one."""
    every = bank.operations.values() if banks.held else ()
    waiting = next((each for each in every if each.type == "consolidation" and each.status in OPEN), None)
    return waiting or _start(banks, bank, _add(banks, bank, "consolidation"))


def run_held(banks: Banks) -> None:
    """Everything pending, bank by bank, in the order of arrival."""
    for bank in list(banks.all.values()):
        for operation_id in list(bank.operations):
            operation = bank.operations.get(operation_id)
            if operation is not None and operation.type != PARENT and operation.status == "pending":
                _run(banks, bank, operation)


def list_(banks: Banks, call: Call) -> dict[str, Any]:
    """Newest first, by `status` and `type`."""
    checks = Checks()
    page = call.page(checks, default=20, least=1, most=100)
    checks.done()
    bank = banks.known(call.bank)
    status, kind = call.first("status"), call.first("type")
    parents = call.first("exclude_parents") not in {"true", "1"}
    fitting = [
        operation
        for operation in reversed(bank.operations.values())
        if status in {None, operation.status} and kind in {None, operation.type} and (parents or operation.type != PARENT)
    ]
    shown = [listed_operation(operation) for operation in page.of(fitting)]
    return {"bank_id": bank.id, "total": len(fitting), "limit": page.limit, "offset": page.offset, "operations": shown}


def get(banks: Banks, call: Call) -> dict[str, Any]:
    """One operation; an unknown one is `not_found`, and no error."""
    operation_id = a_uuid(call.id, "operation_id")
    bank = banks.all.get(call.bank)
    if bank is None or operation_id not in bank.operations:
        return no_operation(operation_id)
    return shown_operation(bank, bank.operations[operation_id])


def retry(banks: Banks, call: Call) -> dict[str, Any]:
    """Failed or cancelled work runs again, all of its items."""
    bank, operation = _found(banks, call)
    if operation.type == PARENT:
        again = [each for each in _children(bank, operation) if each.status in {"failed", "cancelled"}]
        if not again:
            problem = "is a batch_retain parent with no incomplete sub-batches to retry"
            raise RefusalError(409, f"Operation {operation.id} {problem}")
    elif operation.status not in {"failed", "cancelled"}:
        problem = f"cannot be retried: status is '{operation.status}', expected 'failed', 'cancelled' or deferred"
        raise RefusalError(409, f"Operation {operation.id} {problem}")
    else:
        again = [operation]
    for each in again:
        _start(banks, bank, _change(banks, bank, each, status="pending", error_message=None, retries=each.retries + 1))
    return _done(operation.id, "queued for retry")


def cancel(banks: Banks, call: Call) -> dict[str, Any]:
    """What is pending never runs."""
    bank, operation = _found(banks, call)
    if operation.status not in OPEN:
        problem = (
            f"cannot be cancelled: status is '{operation.status}', only 'pending' and 'processing' operations can be cancelled"
        )
        raise RefusalError(409, f"Operation {operation.id} {problem}")
    for each in (operation, *_children(bank, operation)):
        if each.status in OPEN:
            _change(banks, bank, each, status="cancelled")
    return _done(operation.id, "cancelled")


def delete(banks: Banks, call: Call) -> dict[str, Any]:
    """The record goes; what it stored stays."""
    bank, operation = _found(banks, call)
    del bank.operations[operation.id]
    return _done(operation.id, "deleted")


def _done(operation_id: str, what: str) -> dict[str, Any]:
    return {"success": True, "message": f"Operation {operation_id} {what}", "operation_id": operation_id}


def _found(banks: Banks, call: Call) -> tuple[Bank, Operation]:
    operation_id = a_uuid(call.id, "operation_id")
    bank = banks.all.get(call.bank)
    if bank is None or operation_id not in bank.operations:
        raise RefusalError(404, f"Operation {operation_id} not found for bank {call.bank}")
    return bank, bank.operations[operation_id]


def _children(bank: Bank, parent: Operation) -> list[Operation]:
    return [bank.operations[each] for each in parent.children if each in bank.operations]


def _add(banks: Banks, bank: Bank, kind: str, *, id: str | None = None, **values: Any) -> Operation:
    now = banks.now()
    operation = Operation(id=id or banks.new_id(), type=kind, status="pending", created_at=now, updated_at=now, **values)
    bank.operations[operation.id] = operation
    return operation


def _change(banks: Banks, bank: Bank, operation: Operation, **values: Any) -> Operation:
    changed = replace(operation, updated_at=banks.now(), **values)
    bank.operations[operation.id] = changed
    parent = bank.operations.get(changed.parent or "")
    if parent is not None and (parent.status, parent.error_message) != (changed.status, changed.error_message):
        _change(banks, bank, parent, **{**values, "retries": 0})
    return changed


def _start(banks: Banks, bank: Bank, operation: Operation) -> Operation:
    return operation if banks.held else _run(banks, bank, operation)


def _run(banks: Banks, bank: Bank, operation: Operation) -> Operation:
    if operation.type == "retain":
        return _retain(banks, bank, operation)
    if operation.type == "consolidation":
        consolidate(banks, bank)
        done = _complete(banks, bank, operation)
        for model in list(bank.mental_models.values()):
            if model.trigger.get("refresh_after_consolidation"):
                queue_refresh(banks, bank, model.id)
        return done
    outcome = refresh(banks, bank, operation.mental_model_id or "")
    return _complete(banks, bank, operation, outcome=outcome)


def _retain(banks: Banks, bank: Bank, operation: Operation) -> Operation:
    stored = store(banks, bank, operation.items)
    if stored.failure is None:
        done = _complete(banks, bank, operation, facts=stored.facts)
    else:
        done = _change(banks, bank, operation, status="failed", error_message=f"RuntimeError: {stored.failure}")
    after_retain(banks, bank)
    return done


def _complete(banks: Banks, bank: Bank, operation: Operation, **values: Any) -> Operation:
    return _change(banks, bank, operation, status="completed", completed_at=banks.now(), **values)
