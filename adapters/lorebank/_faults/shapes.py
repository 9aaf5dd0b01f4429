"""How values look as JSON: the keys of Hindsight 1.1.0, each there, null where there is nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from lorebank._faults.text import tokens
from lorebank._faults.values import Bank, Document, Fact, Operation

__all__ = [
    "chunk_id",
    "evidence",
    "found_fact",
    "iso",
    "listed_document",
    "listed_fact",
    "listed_operation",
    "no_operation",
    "shown_document",
    "shown_fact",
    "shown_operation",
    "usage",
]

TYPES = ("world", "experience", "observation")


def iso(moment: datetime | None) -> str | None:
    """A time with its zone."""
    return None if moment is None else moment.isoformat()


def chunk_id(bank: Bank, fact: Fact) -> str | None:
    """Which chunk of which document a fact comes from."""
    return None if fact.document_id is None else f"{bank.id}_{fact.document_id}_{fact.chunk}"


def usage(read: int) -> dict[str, int]:
    """Tokens of a call that read this many."""
    written = read // 2
    return {
        "input_tokens": read,
        "output_tokens": written,
        "total_tokens": read + written,
        "cached_tokens": 0,
        "thoughts_tokens": 0,
    }


def listed_fact(bank: Bank, fact: Fact) -> dict[str, Any]:
    """A memory in a list: `fact_type`, and entities as one text."""
    return {
        "id": fact.id,
        "text": fact.text,
        "context": fact.context,
        "date": iso(fact.start or fact.mentioned_at) or "",
        "fact_type": fact.type,
        "document_id": fact.document_id,
        "mentioned_at": iso(fact.mentioned_at),
        "occurred_start": iso(fact.start),
        "occurred_end": iso(fact.end),
        "entities": ", ".join(_entities(fact)),
        "chunk_id": chunk_id(bank, fact),
        "proof_count": max(1, len(fact.sources)),
        "tags": list(fact.tags),
        "metadata": dict(fact.metadata),
        **_lifecycle(fact),
        "updated_at": iso(fact.updated_at),
        "source_memory_ids": list(fact.sources),
    }


def shown_fact(bank: Bank, fact: Fact) -> dict[str, Any]:
    """One memory by its id: `type`, and entities as a list."""
    shown = {
        "id": fact.id,
        "text": fact.text,
        "context": fact.context,
        "date": iso(fact.start or fact.mentioned_at) or "",
        "type": fact.type,
        "mentioned_at": iso(fact.mentioned_at),
        "occurred_start": iso(fact.start),
        "occurred_end": iso(fact.end),
        "entities": _entities(fact),
        "document_id": fact.document_id,
        "chunk_id": chunk_id(bank, fact),
        "tags": list(fact.tags),
        "metadata": dict(fact.metadata),
        "observation_scopes": None,
        **_lifecycle(fact),
    }
    return shown if fact.type != "observation" else {**shown, **_sources(bank, fact)}


def found_fact(bank: Bank, fact: Fact, scores: dict[str, float | None], *, entities: bool, sources: bool) -> dict[str, Any]:
    """A result of a recall."""
    observation = fact.type == "observation"
    return {
        "id": fact.id,
        "text": fact.text,
        "type": fact.type,
        "entities": list(fact.entities) or None if entities else None,
        "context": None if observation else fact.context,
        "occurred_start": iso(fact.start),
        "occurred_end": iso(fact.end),
        "mentioned_at": iso(fact.mentioned_at),
        "document_id": fact.document_id,
        "metadata": dict(fact.metadata),
        "chunk_id": chunk_id(bank, fact),
        "tags": list(fact.tags),
        "source_fact_ids": list(fact.sources) if observation and sources else None,
        "scores": scores,
        "attachments": None,
    }


def evidence(bank: Bank, fact: Fact) -> dict[str, Any]:
    """A memory that an answer rests on."""
    return {
        "id": fact.id,
        "text": fact.text,
        "type": fact.type,
        "context": fact.context or None,
        "occurred_start": iso(fact.start),
        "occurred_end": iso(fact.end),
        "mentioned_at": iso(fact.mentioned_at),
        "document_id": fact.document_id,
        "chunk_id": chunk_id(bank, fact),
        "tags": list(fact.tags),
        "metadata": dict(fact.metadata),
        "attachments": None,
    }


def listed_document(bank: Bank, document: Document, matched: Iterable[str] = ()) -> dict[str, Any]:
    """A document in a list."""
    return {
        "id": document.id,
        "bank_id": bank.id,
        "content_hash": _hash(document),
        "created_at": iso(document.created_at),
        "updated_at": iso(document.updated_at),
        "text_length": len(document.text),
        "memory_unit_count": len(_valid(bank, document)),
        "retain_params": dict(document.params) or None,
        "document_metadata": dict(document.metadata) or None,
        "tags": list(document.tags),
        "matched_fields": list(matched),
    }


def shown_document(bank: Bank, document: Document) -> dict[str, Any]:
    """One document with its text."""
    facts = _valid(bank, document)
    ids = {fact.id for fact in facts}
    counts = {kind: sum(fact.type == kind for fact in facts) for kind in TYPES}
    counts["observation"] = sum(not ids.isdisjoint(each.sources) for each in bank.facts.values())
    return {
        "id": document.id,
        "bank_id": bank.id,
        "original_text": document.text,
        "content_hash": _hash(document),
        "created_at": iso(document.created_at),
        "updated_at": iso(document.updated_at),
        "memory_unit_count": len(facts),
        "nodes_by_fact_type": counts,
        "tags": list(document.tags),
        "document_metadata": dict(document.metadata) or None,
        "retain_params": dict(document.params) or None,
        "observation_scopes": None,
        "attachments": None,
    }


def listed_operation(operation: Operation) -> dict[str, Any]:
    """An operation in a list; type and id under both of their names."""
    return {
        "id": operation.id,
        "task_type": operation.type,
        "operation_id": operation.id,
        "operation_type": operation.type,
        "items_count": len(operation.items),
        "document_id": operation.document_id,
        "filename": None,
        "mental_model_id": operation.mental_model_id,
        "details": _details(operation),
        "created_at": iso(operation.created_at),
        "updated_at": iso(operation.updated_at),
        "status": operation.status,
        "error_message": operation.error_message,
        "retry_count": operation.retries,
        "next_retry_at": None,
        "progress": None,
    }


def shown_operation(bank: Bank, operation: Operation) -> dict[str, Any]:
    """One operation, a parent with its children."""
    children = [bank.operations[each] for each in operation.children if each in bank.operations]
    return {
        **no_operation(operation.id),
        "status": operation.status,
        "operation_type": operation.type,
        "task_type": operation.type,
        "mental_model_id": operation.mental_model_id,
        "created_at": iso(operation.created_at),
        "updated_at": iso(operation.updated_at),
        "completed_at": iso(operation.completed_at),
        "error_message": operation.error_message,
        "retry_count": operation.retries,
        "result_metadata": _result(operation),
        "details": _details(operation),
        "child_operations": [_child(each, index) for index, each in enumerate(children, 1)] if operation.children else None,
    }


def no_operation(operation_id: str) -> dict[str, Any]:
    """An operation that is not there: every key, all null."""
    names = (
        "operation_type id task_type mental_model_id created_at updated_at completed_at error_message retry_count next_retry_at"
        " progress result_metadata details child_operations task_payload"
    )
    return {"operation_id": operation_id, "status": "not_found", **dict.fromkeys(names.split()), "id": operation_id}


def _entities(fact: Fact) -> list[str]:
    return [] if fact.state == "invalidated" else sorted(fact.entities)


def _lifecycle(fact: Fact) -> dict[str, Any]:
    return {
        "state": fact.state,
        "invalidation_reason": fact.reason,
        "invalidated_at": iso(fact.invalidated_at),
        "edited_at": iso(fact.edited_at),
        "consolidated_at": iso(fact.consolidated_at),
        "consolidation_failed_at": None,
    }


def _sources(bank: Bank, observation: Fact) -> dict[str, Any]:
    facts = [bank.facts[each] for each in observation.sources if each in bank.facts]
    names = ("id", "text", "type", "context", "occurred_start", "mentioned_at")
    shown = [{name: shown_fact(bank, fact)[name] for name in names} for fact in facts]
    return {"history": [], "source_memory_ids": list(observation.sources), "source_memories": shown}


def _valid(bank: Bank, document: Document) -> list[Fact]:
    return [fact for fact in bank.facts_of(document.id) if fact.state == "valid"]


def _hash(document: Document) -> str:
    return hashlib.sha256(document.text.encode()).hexdigest()


def _details(operation: Operation) -> dict[str, Any] | None:
    if operation.outcome is None:
        return None
    return {"operation_type": operation.type, "outcome": operation.outcome, "failure_reason": None}


def _result(operation: Operation) -> dict[str, Any]:
    counts: dict[str, Any] = {"items_count": len(operation.items)}
    if operation.status == "completed" and operation.items:
        counts |= {"unit_ids_count": operation.facts, "extraction_errors_count": 0}
    if not operation.children:
        return counts
    read = sum(tokens(item.content) for item in operation.items)
    return {"is_parent": True, "document_id": operation.document_id, "total_tokens": read, "num_sub_batches": 1, **counts}


def _child(operation: Operation, index: int) -> dict[str, Any]:
    return {
        "operation_id": operation.id,
        "status": operation.status,
        "sub_batch_index": index,
        "items_count": len(operation.items),
        "error_message": operation.error_message,
    }
