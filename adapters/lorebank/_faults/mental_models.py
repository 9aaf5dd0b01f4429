"""Mental models: made, listed, changed, refreshed, deleted, with their earlier contents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lorebank._faults.call import Call
from lorebank._faults.checks import Checks
from lorebank._faults.operations import queue_refresh
from lorebank._faults.shapes import iso
from lorebank._faults.state import Banks
from lorebank._faults.tags import fits
from lorebank._faults.values import Bank, MentalModel
from lorebank._faults.wire import RefusalError

__all__ = ["CREATE", "UPDATE", "change", "create", "delete", "get", "history", "list_", "refresh"]

UPDATE = "name source_query tags max_tokens trigger"
CREATE = f"id {UPDATE}"
DETAILS = ("metadata", "content", "full")
TRIGGER: Mapping[str, Any] = {
    "budget": None,
    "mode": "full",
    "refresh_after_consolidation": False,
    "refresh_cron": None,
    "full_refresh_cron": None,
    "min_refresh_interval_seconds": None,
    "fact_types": None,
    "exclude_mental_models": False,
    "exclude_mental_model_ids": None,
    "tags_match": None,
    "tag_groups": None,
    "include_chunks": None,
    "recall_max_tokens": None,
    "recall_chunks_max_tokens": None,
    "reflect_search_observations_max_tokens": None,
    "reflect_search_observations_include_entities": None,
    "response_schema": None,
    "keep_trace": False,
}


def create(banks: Banks, call: Call) -> dict[str, Any]:
    """A model whose content is written by the operation that is named."""
    checks, body = Checks(), call.body
    name, query = checks.needed_text(body, "name"), checks.needed_text(body, "source_query")
    size, trigger = _checked(checks, body)
    tags = checks.texts(body, "tags") or ()
    checks.done()
    bank = banks.open(call.bank)
    model_id = body.get("id") or f"mm-{banks.new_id().replace('-', '')}"
    if model_id in bank.mental_models:
        raise RefusalError(409, f"Mental model '{model_id}' already exists in bank '{bank.id}'")
    bank.mental_models[model_id] = MentalModel(
        id=model_id,
        name=name,
        source_query=query,
        tags=tags,
        max_tokens=size,
        trigger={**TRIGGER, **trigger},
        created_at=banks.now(),
    )
    return {"mental_model_id": model_id, "operation_id": queue_refresh(banks, bank, model_id).id}


def list_(banks: Banks, call: Call) -> dict[str, Any]:
    """By tags; without `detail` neither content nor query is told."""
    checks = Checks()
    page = call.page(checks, least=1, most=1000)
    tags, mode = call.tags(checks, modes=("any", "all", "exact"))
    detail = checks.one_of(call.first("detail"), ("query", "detail"), DETAILS, "metadata")
    checks.done()
    bank = banks.known(call.bank)
    exact = mode == "exact" and call.first("tags") is not None
    wanted = mode if exact else mode.replace("exact", "any")
    found = [model for model in bank.mental_models.values() if fits(model.tags, tags, wanted)]
    return page.around([_shown(bank, model, detail, listed=True) for model in page.of(found)], len(found))


def get(banks: Banks, call: Call) -> dict[str, Any]:
    """One model, in full unless `detail` says less."""
    checks = Checks()
    detail = checks.one_of(call.first("detail"), ("query", "detail"), DETAILS, "full")
    checks.done()
    bank, model = _found(banks, call)
    return _shown(bank, model, detail)


def change(banks: Banks, call: Call) -> dict[str, Any]:
    """New values for the named fields; nothing named is a 404."""
    checks, body = Checks(), call.body
    size, trigger = _checked(checks, body)
    tags = checks.texts(body, "tags")
    checks.done()
    bank, model = _found(banks, call)
    if not any(body.get(name) is not None for name in UPDATE.split()):
        raise _unknown(call)
    changed = replace(
        model,
        name=body.get("name") or model.name,
        source_query=body.get("source_query") or model.source_query,
        max_tokens=size if body.get("max_tokens") is not None else model.max_tokens,
        tags=model.tags if tags is None else tags,
        trigger={**model.trigger, **trigger},
    )
    bank.mental_models[model.id] = changed
    return _shown(bank, changed, "full")


def refresh(banks: Banks, call: Call) -> dict[str, Any]:
    """Write the content anew."""
    bank = banks.all.get(call.bank)
    if bank is None or call.id not in bank.mental_models:
        raise RefusalError(404, f"Mental model {call.id} not found in bank {call.bank}")
    return {"operation_id": queue_refresh(banks, bank, call.id).id, "status": "queued"}


def history(banks: Banks, call: Call) -> list[dict[str, Any]]:
    """Earlier contents, newest first."""
    model = _found(banks, call)[1]
    return [
        {"previous_content": content, "previous_reflect_response": None, "changed_at": iso(at)} for at, content in model.history
    ]


def delete(banks: Banks, call: Call) -> dict[str, Any]:
    """The model goes."""
    bank, model = _found(banks, call)
    del bank.mental_models[model.id]
    return {"status": "deleted"}


def _checked(checks: Checks, body: Mapping[str, Any]) -> tuple[int, Mapping[str, Any]]:
    size = checks.whole(body.get("max_tokens"), ("body", "max_tokens"), 2048, least=256, most=8192)
    given = body.get("trigger")
    trigger = checks.mapping({} if given is None else given, ("body", "trigger"))
    checks.one_of(trigger.get("mode"), ("body", "trigger", "mode"), ("full", "delta"), "full")
    return size, {name: value for name, value in trigger.items() if name in TRIGGER}


def _unknown(call: Call) -> RefusalError:
    return RefusalError(404, f"Mental model '{call.id}' not found")


def _found(banks: Banks, call: Call) -> tuple[Bank, MentalModel]:
    bank = banks.all.get(call.bank)
    if bank is None or call.id not in bank.mental_models:
        raise _unknown(call)
    return bank, bank.mental_models[call.id]


def _shown(bank: Bank, model: MentalModel, detail: str, *, listed: bool = False) -> dict[str, Any]:
    told = detail != "metadata"
    stale = model.refreshed_at is not None and any(fact.updated_at > model.refreshed_at for fact in bank.facts.values())
    return {
        "id": model.id,
        "bank_id": bank.id,
        "name": model.name,
        "source_query": model.source_query if told else None,
        "content": model.content if told else None,
        "tags": list(model.tags),
        "max_tokens": model.max_tokens if told else None,
        "trigger": dict(model.trigger) if told else None,
        "last_refreshed_at": iso(model.refreshed_at or model.created_at),
        "last_memory_seen_at": iso(model.seen_at),
        "last_refresh_failed_at": None,
        "last_full_refreshed_at": iso(model.refreshed_at),
        "created_at": iso(model.created_at),
        "is_knowledge_page": False,
        "reflect_response": _response(bank, model) if detail == "full" and model.outcome else None,
        "is_stale": None if detail == "content" and not listed else stale,
    }


def _response(bank: Bank, model: MentalModel) -> dict[str, Any]:
    facts = [bank.facts[each] for each in model.based_on if each in bank.facts]
    based_on: dict[str, list[dict[str, Any]]] = {}
    for fact in facts:
        told = {"id": fact.id, "text": fact.text, "type": fact.type, "context": fact.context or None}
        based_on.setdefault(fact.type, []).append(told)
    return {"text": model.content, "outcome": model.outcome, "based_on": based_on, "mental_models": []}
