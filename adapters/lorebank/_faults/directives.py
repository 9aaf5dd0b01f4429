"""Directives: rules that answers follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lorebank._faults.call import Call
from lorebank._faults.checks import Checks, a_uuid
from lorebank._faults.shapes import iso
from lorebank._faults.state import Banks
from lorebank._faults.tags import fits
from lorebank._faults.values import Bank, Directive
from lorebank._faults.wire import RefusalError

__all__ = ["FIELDS", "change", "create", "delete", "get", "list_"]

FIELDS = "name content priority is_active tags"


def create(banks: Banks, call: Call) -> dict[str, Any]:
    """A new rule, active unless it says otherwise."""
    checks = Checks()
    for name in ("name", "content"):
        checks.needed_text(call.body, name)
    values = _checked(checks, call.body)
    checks.done()
    bank, now = banks.open(call.bank), banks.now()
    fresh = Directive(id=banks.new_id(), name="", content="", priority=0, is_active=True, tags=(), created_at=now, updated_at=now)
    return _kept(bank, replace(fresh, **values))


def list_(banks: Banks, call: Call) -> dict[str, Any]:
    """Active ones, by tags; `active_only=false` gives all."""
    checks = Checks()
    page = call.page(checks, least=1, most=1000)
    tags, mode = call.tags(checks, modes=("any", "all", "exact"))
    checks.done()
    bank = banks.known(call.bank)
    every = call.first("active_only") in {"false", "0"}
    wanted = "any" if not tags else mode
    found = [each for each in bank.directives.values() if (every or each.is_active) and fits(each.tags, tags, wanted)]
    found.sort(key=lambda each: -each.priority)
    return page.around([_shown(bank, each) for each in page.of(found)], len(found))


def get(banks: Banks, call: Call) -> dict[str, Any]:
    """One rule."""
    return _shown(*_found(banks, call))


def change(banks: Banks, call: Call) -> dict[str, Any]:
    """New values for the named fields."""
    checks = Checks()
    values = _checked(checks, call.body)
    checks.done()
    bank, directive = _found(banks, call)
    return _kept(bank, replace(directive, updated_at=banks.now(), **values))


def delete(banks: Banks, call: Call) -> dict[str, Any]:
    """The rule goes."""
    bank, directive = _found(banks, call)
    del bank.directives[directive.id]
    return {"status": "deleted"}


def _checked(checks: Checks, body: Mapping[str, Any]) -> dict[str, Any]:
    values = {
        "name": checks.text(body, "name"),
        "content": checks.text(body, "content"),
        "priority": checks.whole(body.get("priority"), ("body", "priority"), 0),
        "is_active": checks.flag(body, "is_active", default=True),
        "tags": checks.texts(body, "tags"),
    }
    return {name: value for name, value in values.items() if body.get(name) is not None}


def _found(banks: Banks, call: Call) -> tuple[Bank, Directive]:
    directive_id = a_uuid(call.id, "directive_id")
    bank = banks.all.get(call.bank)
    if bank is None or directive_id not in bank.directives:
        raise RefusalError(404, f"Directive '{directive_id}' not found")
    return bank, bank.directives[directive_id]


def _kept(bank: Bank, directive: Directive) -> dict[str, Any]:
    bank.directives[directive.id] = directive
    return _shown(bank, directive)


def _shown(bank: Bank, directive: Directive) -> dict[str, Any]:
    return {
        "id": directive.id,
        "bank_id": bank.id,
        "name": directive.name,
        "content": directive.content,
        "priority": directive.priority,
        "is_active": directive.is_active,
        "tags": list(directive.tags),
        "created_at": iso(directive.created_at),
        "updated_at": iso(directive.updated_at),
    }
