"""Banks themselves: made, listed, configured, counted, deleted; and how the server is."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from lorebank._faults.call import Call
from lorebank._faults.checks import Checks
from lorebank._faults.operations import consolidate_now
from lorebank._faults.shapes import iso
from lorebank._faults.state import Banks
from lorebank._faults.values import Bank
from lorebank._faults.wire import RefusalError

__all__ = [
    "BANK_FIELDS",
    "change_config",
    "consolidate",
    "create",
    "delete",
    "health",
    "list_",
    "live",
    "profile",
    "reset_config",
    "show_config",
    "stats",
    "update",
    "version",
]

STARTED = time.monotonic()
VERSION = "1.1.0"
TRAITS = ("skepticism", "literalism", "empathy")
OLD_NAMES = {"mission": "reflect_mission", "background": "reflect_mission"}
SETTINGS: dict[str, Any] = {
    "disposition_empathy": None,
    "disposition_literalism": None,
    "disposition_skepticism": None,
    "enable_auto_consolidation": True,
    "enable_graph_retrieval": True,
    "enable_observations": True,
    "enable_reranking": True,
    "enable_temporal_retrieval": True,
    "enable_text_search": True,
    "observations_mission": None,
    "recall_budget_fixed_high": 1000,
    "recall_budget_fixed_low": 100,
    "recall_budget_fixed_mid": 300,
    "recall_include_chunks": True,
    "recall_max_tokens": 2048,
    "recall_prefer_observations": False,
    "reflect_mission": None,
    "retain_chunk_size": 3000,
    "retain_custom_instructions": None,
    "retain_extraction_mode": "concise",
    "retain_max_attachments_per_chunk": 8,
    "retain_mission": None,
    "retain_structured_chunk_size": None,
    "store_document_text": True,
}
BANK_FIELDS = (
    "name disposition disposition_skepticism disposition_literalism disposition_empathy mission background reflect_mission"
    " retain_mission retain_extraction_mode retain_custom_instructions retain_chunk_size retain_structured_chunk_size"
    " retain_max_attachments_per_chunk enable_observations observations_mission enable_text_search enable_temporal_retrieval"
    " enable_graph_retrieval enable_reranking"
)


def health(_banks: Banks, _call: Call) -> dict[str, Any]:
    """Healthy, always: let a fault say otherwise."""
    pool = {"db_acquire_ms": 0.0, "db_pool_waiting": 0, "db_pool_in_use": 0, "db_pool_max": 40, "db_pool_idle": 2}
    return {"status": "healthy", "database": "connected", **pool}


def live(_banks: Banks, _call: Call) -> dict[str, Any]:
    """Alive."""
    return {"status": "alive", "version": VERSION, "uptime_seconds": round(time.monotonic() - STARTED, 1)}


def version(_banks: Banks, _call: Call) -> dict[str, Any]:
    """The version whose shapes these are."""
    on = dict.fromkeys(("observations", "worker", "bank_config_api", "store_document_text"), True)
    off = "mcp bank_llm_health file_upload_api document_export_api document_import_api audit_log llm_trace"
    return {"api_version": VERSION, "features": {**on, **dict.fromkeys(off.split(), False)}}


def list_(banks: Banks, call: Call) -> dict[str, Any]:
    """Banks, by a part of their id or name."""
    checks = Checks()
    page = call.page(checks)
    checks.done()
    text = (call.first("q") or "").lower()
    found = [bank for bank in banks.all.values() if text in bank.id.lower() or text in (bank.name or "").lower()]
    listed = [_listed(bank) for bank in page.of(found)]
    return {"banks": listed, "total": len(found), "limit": page.limit, "offset": page.offset}


def create(banks: Banks, call: Call) -> dict[str, Any]:
    """Make a bank, or change the named fields of one."""
    _check_fields(call)
    return _configured(banks, banks.open(call.bank), call)


def update(banks: Banks, call: Call) -> dict[str, Any]:
    """Change the named fields."""
    _check_fields(call)
    return _configured(banks, banks.known(call.bank), call)


def delete(banks: Banks, call: Call) -> dict[str, Any]:
    """The bank and all of it go; an unknown one is no error."""
    bank = banks.all.pop(call.bank, None)
    message = f"Bank '{call.bank}' and all associated data deleted successfully"
    return {"success": True, "message": message, "deleted_count": 0 if bank is None else len(bank.facts)}


def show_config(banks: Banks, call: Call) -> dict[str, Any]:
    """Every setting, and those that are this bank's own."""
    return _config(banks.known(call.bank))


def change_config(banks: Banks, call: Call) -> dict[str, Any]:
    """Change settings by name."""
    checks = Checks()
    there = checks.required(call.body, "updates")
    updates = checks.mapping(call.body["updates"] if there else {}, ("body", "updates"))
    checks.done()
    secret = sorted(name for name in updates if name.endswith(("_api_key", "_base_url")))
    if secret:
        raise RefusalError(400, f"Cannot set credential fields via API: {secret}.")
    unknown = sorted(updates.keys() - SETTINGS.keys())
    if unknown:
        raise RefusalError(400, f"Unknown configuration fields: {unknown}. Valid configurable fields: {sorted(SETTINGS)}")
    bank = banks.open(call.bank)
    bank.settings |= updates
    return _config(bank)


def reset_config(banks: Banks, call: Call) -> dict[str, Any]:
    """Back to the server's defaults."""
    bank = banks.known(call.bank)
    bank.settings.clear()
    return _config(bank)


def profile(_banks: Banks, _call: Call) -> dict[str, Any]:
    """Gone in 1.x."""
    raise RefusalError(410, "The bank profile endpoints have been removed; use GET and PATCH of the bank's config.")


def stats(banks: Banks, call: Call) -> dict[str, Any]:
    """Counts of what is stored and of what is under way."""
    bank = banks.known(call.bank)
    facts = [fact for fact in bank.facts.values() if fact.state == "valid"]
    types = Counter(fact.type for fact in facts)
    states = Counter(operation.status for operation in bank.operations.values())
    return {
        "bank_id": bank.id,
        "total_nodes": len(facts),
        "total_links": 0,
        "total_documents": len(bank.documents),
        "nodes_by_fact_type": dict(types),
        "links_by_link_type": {},
        "links_by_fact_type": {},
        "links_breakdown": {},
        "pending_operations": states["pending"],
        "failed_operations": states["failed"],
        "operations_by_status": dict(states),
        "last_consolidated_at": iso(max((fact.consolidated_at for fact in facts if fact.consolidated_at), default=None)),
        "last_memory_write_at": iso(max((fact.updated_at for fact in facts), default=None)),
        "pending_consolidation": len(bank.unseen),
        "failed_consolidation": 0,
        "total_observations": types["observation"],
    }


def consolidate(banks: Banks, call: Call) -> dict[str, Any]:
    """Consolidate now."""
    bank = banks.known(call.bank)
    known = set(bank.operations)
    operation = consolidate_now(banks, bank)
    return {"operation_id": operation.id, "deduplicated": operation.id in known}


def _check_fields(call: Call) -> None:
    checks = Checks()
    for trait in TRAITS:
        name = f"disposition_{trait}"
        checks.whole(call.body.get(name), ("body", name), 3, least=1, most=5)
    for name in ("name", "reflect_mission", "retain_mission", "observations_mission", "mission", "background"):
        checks.text(call.body, name)
    checks.done()


def _configured(banks: Banks, bank: Bank, call: Call) -> dict[str, Any]:
    given = {name: value for name, value in call.body.items() if name in BANK_FIELDS.split() and value is not None}
    bank.name = given.pop("name", bank.name)
    for trait, value in given.pop("disposition", {}).items():
        given.setdefault(f"disposition_{trait}", value)
    bank.settings |= {OLD_NAMES.get(name, name): value for name, value in given.items()}
    bank.updated_at = banks.now()
    mission = bank.settings.get("reflect_mission") or ""
    return {
        "bank_id": bank.id,
        "name": bank.name or bank.id,
        "disposition": _disposition(bank),
        "mission": mission,
        "background": mission,
    }


def _disposition(bank: Bank) -> dict[str, int]:
    return {trait: bank.settings.get(f"disposition_{trait}") or 3 for trait in TRAITS}


def _config(bank: Bank) -> dict[str, Any]:
    return {"bank_id": bank.id, "config": {**SETTINGS, **bank.settings}, "overrides": dict(bank.settings)}


def _listed(bank: Bank) -> dict[str, Any]:
    return {
        "bank_id": bank.id,
        "name": bank.name or bank.id,
        "disposition": _disposition(bank),
        "mission": bank.settings.get("reflect_mission") or "",
        "created_at": iso(bank.created_at),
        "updated_at": iso(bank.updated_at),
        "fact_count": len(bank.facts),
        "last_document_at": iso(max((each.updated_at for each in bank.documents.values()), default=None)),
        "last_write_at": iso(max((fact.updated_at for fact in bank.facts.values()), default=None)),
        "display_alias": None,
        "matched_aliases": [],
    }
