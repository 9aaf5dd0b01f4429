"""Retain: items checked, stored at once or queued."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

from lorebank._faults.call import Call
from lorebank._faults.checks import Checks, Place
from lorebank._faults.operations import after_retain, queue_retain
from lorebank._faults.shapes import usage
from lorebank._faults.state import Banks
from lorebank._faults.storing import Stored, store
from lorebank._faults.text import moment
from lorebank._faults.values import Item
from lorebank._faults.wire import RefusalError

__all__ = ["retain"]

BLOCKS = "list[tagged-union[TextContentBlock,ImageContentBlock,FileContentBlock]]"


def retain(banks: Banks, call: Call) -> dict[str, Any]:
    """Facts are recallable when a synchronous call answers; an asynchronous one tells its operation."""
    checks = Checks()
    given = _checked(checks, call.body)
    queued = checks.flag(call.body, "async", default=False)
    operation_id = checks.text(call.body, "operation_id")
    if operation_id is not None and not _is_uuid(operation_id):
        checks.wrong(("body", "operation_id"), "operation_id must be a valid UUID", operation_id)
    checks.done()
    if any(each.get("update_mode") == "append" and not each.get("document_id") for each in given):
        raise RefusalError(400, "update_mode='append' requires a document_id")
    shared = checks.texts(call.body, "document_tags") or ()
    own_id = banks.new_id()
    items = [_item(banks, each, shared, own_id) for each in given]
    return _queue(banks, call.bank, items, operation_id) if queued else _store(banks, call.bank, items)


def _store(banks: Banks, bank_id: str, items: list[Item]) -> dict[str, Any]:
    bank = banks.open(bank_id)
    stored = store(banks, bank, items) if items else Stored()
    after_retain(banks, bank)
    if stored.failure is not None:
        raise RefusalError(500, stored.failure)
    return {**_answer(bank_id, len(items)), "usage": usage(stored.tokens)}


def _queue(banks: Banks, bank_id: str, items: list[Item], operation_id: str | None) -> dict[str, Any]:
    answer = {**_answer(bank_id, len(items)), "async": True}
    if operation_id is not None:
        owner = banks.owner_of(operation_id)
        if owner is not None and owner.id != bank_id:
            raise RefusalError(409, f"operation_id {operation_id} is already in use")
        if owner is not None:
            return {**answer, "items_count": len(owner.operations[operation_id].items), "operation_id": operation_id}
    named = Counter(item.document_id for item in items if item.named)
    if twice := [name for name, count in named.items() if count > 1]:
        reason = "An async batch holds each document once; send them in separate requests, or with async=false."
        raise RefusalError(400, f"Batch contains duplicate document_ids: {twice}. {reason}")
    if not items:
        return answer
    return {**answer, "operation_id": queue_retain(banks, banks.open(bank_id), items, operation_id).id}


def _answer(bank_id: str, count: int) -> dict[str, Any]:
    return {
        "success": True,
        "bank_id": bank_id,
        "items_count": count,
        "async": False,
        "operation_id": None,
        "operation_ids": None,
        "usage": None,
    }


def _checked(checks: Checks, body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if not checks.required(body, "items"):
        return []
    if body["items"] is None:
        checks.complain("list_type", ("body", "items"), "Input should be a valid list", None)
    given = checks.listed(body, "items") or []
    return [_checked_item(checks, each, ("body", "items", index)) for index, each in enumerate(given)]


def _checked_item(checks: Checks, given: Any, place: Place) -> Mapping[str, Any]:
    item = checks.mapping(given, place)
    if not isinstance(given, dict):
        return item
    if checks.required(item, "content", place):
        _check_content(checks, item["content"], (*place, "content"))
    checks.time(item.get("timestamp"), (*place, "timestamp"))
    checks.text(item, "context", place)
    checks.text_map(item, "metadata", place)
    checks.text(item, "document_id", place)
    _check_entities(checks, item, place)
    if not isinstance(item.get("tags"), str):
        checks.texts(item, "tags", place)
    checks.one_of(item.get("update_mode"), (*place, "update_mode"), ("replace", "append"), "replace")
    return item


def _check_content(checks: Checks, content: Any, place: Place) -> None:
    if isinstance(content, str | list):
        texts = [content] if isinstance(content, str) else _texts(cast("Sequence[Any]", content))
        if not any(text.strip() for text in texts):
            checks.wrong(place, "content cannot be empty", content)
        return
    checks.complain("string_type", (*place, "str"), "Input should be a valid string", content)
    checks.complain("list_type", (*place, BLOCKS), "Input should be a valid list", content)


def _check_entities(checks: Checks, item: Mapping[str, Any], place: Place) -> None:
    for index, entity in enumerate(checks.listed(item, "entities", place) or []):
        here = (*place, "entities", index)
        checks.required(checks.mapping(entity, here), "text", here)


def _texts(blocks: Sequence[Any]) -> list[str]:
    return [str(cast("dict[str, Any]", each).get("text") or "") for each in blocks if isinstance(each, dict)]


def _item(banks: Banks, given: Mapping[str, Any], shared: tuple[str, ...], own_id: str) -> Item:
    content = given["content"]
    text = content if isinstance(content, str) else "\n".join(_texts(content))
    when = given.get("timestamp")
    metadata: Mapping[str, str] = given.get("metadata") or {}
    entities: list[Mapping[str, str]] = given.get("entities") or []
    tags = given.get("tags") or ()
    own = (tags,) if isinstance(tags, str) else tags
    params = {"context": given.get("context"), "metadata": dict(metadata), "event_date": None if when == "unset" else when}
    return Item(
        content=text.replace("\0", ""),
        document_id=given.get("document_id") or own_id,
        named=bool(given.get("document_id")),
        append=given.get("update_mode") == "append",
        tags=tuple(dict.fromkeys((*own, *shared))),
        metadata=metadata,
        timestamp=None if when == "unset" else banks.now() if when is None else moment(when),
        context=given.get("context") or "",
        entities=tuple(each["text"] for each in entities),
        params={name: value for name, value in params.items() if value},
    )


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True
