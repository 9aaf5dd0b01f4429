"""Single memories and lists of them: shown, edited, invalidated, cleared; tags counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from lorebank._faults.call import Call
from lorebank._faults.checks import Checks, a_uuid
from lorebank._faults.observing import drop_observations, forget_facts
from lorebank._faults.operations import after_retain
from lorebank._faults.shapes import listed_fact, shown_fact
from lorebank._faults.state import Banks
from lorebank._faults.tags import fits, wildcard
from lorebank._faults.text import moment, words
from lorebank._faults.values import Bank, Fact
from lorebank._faults.wire import RefusalError

__all__ = ["change", "clear", "get", "list_", "list_tags"]

EDITS = ("text", "context", "occurred_start", "occurred_end", "mentioned_at", "fact_type", "entities")


def list_(banks: Banks, call: Call) -> dict[str, Any]:
    """Newest first, by type, text, tags, document, entity, state and when it was said."""
    checks = Checks()
    page = call.page(checks)
    tags, mode = call.tags(checks)
    checks.done()
    state = call.first("state") or "valid"
    if state not in {"valid", "invalidated"}:
        raise RefusalError(400, f"Invalid state '{state}': expected 'valid' or 'invalidated'.")
    bank = banks.known(call.bank)
    facts = [
        fact for fact in bank.facts.values() if fact.state == state and _listed(bank, fact, call) and fits(fact.tags, tags, mode)
    ]
    if call.first("time_field") == "mentioned_at" and (end := call.first("end_date")) is not None:
        facts = [fact for fact in facts if fact.mentioned_at is not None and fact.mentioned_at < moment(end)]
    facts.reverse()
    facts.sort(key=lambda fact: fact.mentioned_at.timestamp() if fact.mentioned_at else 0.0, reverse=True)
    return page.around([listed_fact(bank, fact) for fact in page.of(facts)], len(facts))


def get(banks: Banks, call: Call) -> dict[str, Any]:
    """One memory, an observation with its sources."""
    return shown_fact(*_found(banks, call))


def change(banks: Banks, call: Call) -> dict[str, Any]:
    """An edit, an invalidation, or its reversal."""
    checks, body = Checks(), call.body
    if not any(body.get(name) is not None for name in (*EDITS, "state")):
        checks.wrong(("body",), "Provide at least one field to update.", body)
    if body.get("state") not in {None, "valid", "invalidated"}:
        checks.wrong(("body",), "state must be 'valid' or 'invalidated'.", body)
    checks.done()
    bank, fact = _found(banks, call)
    if fact.type == "observation":
        problem = "is a observation; only world/experience facts can be curated. Observations follow their sources."
        raise RefusalError(400, f"Memory '{fact.id}' {problem}")
    edited = _edited(banks, fact, body)
    changed = _stated(banks, edited, body)
    if changed != fact:
        drop_observations(bank, fact.id)
        bank.put(changed)
    answer = shown_fact(bank, bank.facts[fact.id])
    after_retain(banks, bank)
    return answer


def clear(banks: Banks, call: Call) -> dict[str, Any]:
    """Every memory and document of the bank, or the memories of one type."""
    kind = call.first("type")
    bank = banks.all.get(call.bank)
    count = 0 if bank is None else _cleared(bank, kind)
    of_type = "" if kind is None else f" of type '{kind}'"
    message = f"Cleared {count} memory unit(s){of_type} from bank '{call.bank}'"
    return {"success": True, "message": message, "deleted_count": count}


def list_tags(banks: Banks, call: Call) -> dict[str, Any]:
    """Tags with the number of memories that have them, observations counted."""
    checks = Checks()
    page = call.page(checks)
    checks.done()
    bank = banks.known(call.bank)
    counts = Counter(tag for fact in bank.facts.values() if fact.state == "valid" for tag in fact.tags)
    listed = [{"tag": tag, "count": count} for tag, count in counts.most_common() if wildcard(tag, call.first("q"))]
    return page.around(page.of(listed), len(listed))


def _listed(bank: Bank, fact: Fact, call: Call) -> bool:
    text, entity = call.first("q"), call.first("entity_id")
    return (
        call.first("type") in {None, fact.type}
        and call.first("document_id") in {None, fact.document_id}
        and (text is None or text.lower() in fact.text.lower())
        and (entity is None or entity in {bank.entities.get(name) for name in fact.entities})
    )


def _found(banks: Banks, call: Call) -> tuple[Bank, Fact]:
    memory_id = a_uuid(call.id, "memory_id")
    bank = banks.all.get(call.bank)
    if bank is None or memory_id not in bank.facts:
        raise RefusalError(404, f"Memory unit '{memory_id}' not found")
    return bank, bank.facts[memory_id]


def _edited(banks: Banks, fact: Fact, body: Mapping[str, Any]) -> Fact:
    if not any(body.get(name) is not None for name in EDITS):
        return fact
    if fact.state == "invalidated":
        raise RefusalError(400, "Cannot edit an invalidated memory; revert it to 'valid' first.")
    text = body.get("text") or ("" if "text" in body else fact.text)
    if not text.strip():
        raise RefusalError(400, "text must not be empty.")
    entities = body.get("entities")
    return replace(
        fact,
        text=text,
        words=words(text),
        type=body.get("fact_type") or fact.type,
        context=fact.context if body.get("context") is None else body["context"],
        mentioned_at=_time(body, "mentioned_at", fact.mentioned_at),
        start=_time(body, "occurred_start", fact.start),
        end=_time(body, "occurred_end", fact.end),
        entities=fact.entities if entities is None else tuple(entities),
        edited_at=banks.now(),
        updated_at=banks.now(),
        consolidated_at=None,
    )


def _time(body: Mapping[str, Any], name: str, before: datetime | None) -> datetime | None:
    value = body.get(name)
    return before if value is None else moment(value)


def _stated(banks: Banks, fact: Fact, body: Mapping[str, Any]) -> Fact:
    state = body.get("state") or fact.state
    if state == fact.state:
        return fact
    if state == "valid":
        return replace(fact, state=state, reason=None, invalidated_at=None, consolidated_at=None)
    return replace(fact, state=state, reason=body.get("reason"), invalidated_at=banks.now())


def _cleared(bank: Bank, kind: str | None) -> int:
    gone = [fact.id for fact in bank.facts.values() if kind in {None, fact.type}]
    if kind is None:
        for each in (bank.documents, bank.entities, bank.facts, bank.unseen, bank.observed):
            each.clear()
    forget_facts(bank, gone)
    return len(gone)
