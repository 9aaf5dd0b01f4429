"""Documents: listed, shown, tagged anew, deleted with their facts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lorebank._faults.call import Call
from lorebank._faults.checks import Checks
from lorebank._faults.observing import forget_facts, withdraw
from lorebank._faults.operations import after_retain
from lorebank._faults.shapes import iso, listed_document, shown_document
from lorebank._faults.state import Banks
from lorebank._faults.tags import fits
from lorebank._faults.values import Bank, Document
from lorebank._faults.wire import RefusalError

__all__ = ["change", "delete", "get", "list_", "list_chunks"]


def list_(banks: Banks, call: Call) -> dict[str, Any]:
    """Newest first, by a part of the id and by tags."""
    checks = Checks()
    page = call.page(checks)
    tags, mode = call.tags(checks, default="any_strict")
    checks.done()
    bank = banks.known(call.bank)
    text = (call.first("q") or "").lower()
    fitting = [(document, _matched(document, text)) for document in bank.documents.values() if fits(document.tags, tags, mode)]
    found = [each for each in fitting if not text or each[1]]
    found.sort(key=lambda each: each[0].created_at, reverse=True)
    items = [listed_document(bank, document, matched) for document, matched in page.of(found)]
    return {**page.around(items, len(found)), "total_is_estimate": False}


def get(banks: Banks, call: Call) -> dict[str, Any]:
    """One document with its text."""
    return shown_document(*_found(banks, call))


def list_chunks(banks: Banks, call: Call) -> dict[str, Any]:
    """The parts of a document, in order."""
    checks = Checks()
    page = call.page(checks)
    checks.done()
    bank, document = _found(banks, call)
    chunks = [
        {
            "chunk_id": f"{bank.id}_{document.id}_{index}",
            "document_id": document.id,
            "bank_id": bank.id,
            "chunk_index": index,
            "chunk_text": text,
            "created_at": iso(document.created_at),
            "attachments": None,
        }
        for index, text in enumerate(document.chunks)
    ]
    return page.around(page.of(chunks), len(chunks))


def change(banks: Banks, call: Call) -> dict[str, Any]:
    """New tags, on the document and all of its facts."""
    checks = Checks()
    tags = checks.texts(call.body, "tags")
    checks.done()
    if tags is None and call.body.get("observation_scopes") is None:
        raise RefusalError(422, "At least one field (tags, observation_scopes) must be provided")
    bank, document = _found(banks, call)
    if tags is not None:
        _retag(banks, bank, document, tags)
    return {"success": True}


def delete(banks: Banks, call: Call) -> dict[str, Any]:
    """The document and its facts go."""
    bank, document = _found(banks, call)
    count = len(bank.facts_of(document.id))
    forget_facts(bank, document.facts)
    del bank.documents[document.id]
    return {
        "success": True,
        "message": f"Document '{document.id}' and {count} associated memory units deleted successfully",
        "document_id": document.id,
        "memory_units_deleted": count,
    }


def _found(banks: Banks, call: Call) -> tuple[Bank, Document]:
    bank = banks.all.get(call.bank)
    if bank is None or call.id not in bank.documents:
        raise RefusalError(404, "Document not found")
    return bank, bank.documents[call.id]


def _matched(document: Document, text: str) -> list[str]:
    return ["id"] if text and text in document.id.lower() else []


def _retag(banks: Banks, bank: Bank, document: Document, tags: tuple[str, ...]) -> None:
    bank.documents[document.id] = replace(document, tags=tags, updated_at=banks.now())
    for fact in bank.facts_of(document.id):
        withdraw(bank, fact.id)
        bank.put(replace(fact, tags=tags, consolidated_at=None))
    after_retain(banks, bank)
