"""What is sent: items, batches, searches, as plain data. Pure.

The server ignores what it does not know and reads an empty list of tags as "no filter"; both are why everything that
matters is said explicitly here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from lorebank._domain.item import Item
from lorebank._domain.requests import RecallRequest
from lorebank._domain.scope import Either, Every, Leaf, Neither, Scope, TagRule
from lorebank._domain.settings import RetainSettings
from lorebank.errors import UnsupportedError, UsageError

OWN_DOCUMENT = "lorebank:item:"
MOST_TOKENS = 1_000_000
"""The largest token bound that is sent."""
OLD_QUERY = 1_500
"""Characters of a query that servers before 1.0 take: they refuse more than 500 tokens."""
_UNSUPPORTED = ("type", "importance", "valid_until")


def item_body(item: Item, scope: Scope, settings: RetainSettings, *, now: datetime, project: str | None = None) -> dict[str, Any]:
    """An item as the server takes it, with all that it says of tags and times.

    Without a document of its own it gets one that follows from bank, content, context and tags, so that saying it again
    changes nothing. Raises `UnsupportedError` for what the server has no place for.
    """
    for name in _UNSUPPORTED:
        if getattr(item, name) is not None:
            raise UnsupportedError(f"Hindsight keeps no `{name}` of an item: leave it out, or use Mnemopi")
    own = tuple(dict.fromkeys((*item.tags, *scope.stamp)))
    tags = tuple(dict.fromkeys((*own, *settings.base_tags)))
    body: dict[str, Any] = {
        "content": item.content,
        "document_id": item.document_id or own_document(scope.bank, item, tags),
        "update_mode": item.update_mode or "replace",
        "tags": list(tags),
        "metadata": metadata_body(item),
        "timestamp": (item.timestamp or now).isoformat(),
    }
    if item.context is not None:
        body["context"] = item.context
    if item.entities:
        body["entities"] = [{"text": name} for name in item.entities]
    if scopes := observation_scopes(item, scope, settings, own, project):
        body["observation_scopes"] = scopes
    return body


def own_document(bank: str, item: Item, tags: Sequence[str]) -> str:
    """The document of an item that names none."""
    parts = json.dumps([bank, item.content, item.context, sorted(tags)], ensure_ascii=False)
    return OWN_DOCUMENT + hashlib.sha256(parts.encode()).hexdigest()[:16]


def metadata_body(item: Item) -> dict[str, str]:
    """Metadata as text: the server takes nothing else. The session and the speaker travel with it."""
    given = {key: value if isinstance(value, str) else _compact(value) for key, value in (item.metadata or {}).items()}
    said = {"session_id": item.session, "speaker": item.speaker}
    return {**given, **{key: value for key, value in said.items() if value is not None}}


def observation_scopes(
    item: Item, scope: Scope, settings: RetainSettings, own: Sequence[str], project: str | None
) -> list[list[str]] | None:
    """Which sets of tags observations are made for; `None` leaves it to the server. Base tags are in none."""
    if settings.observation_scopes:
        known = {"{bank}": scope.bank, "{project}": project or "", "{session_id}": item.session or ""}
        return [[_filled(text, known) for text in settings.observation_scopes]]
    return [list(own)] if settings.base_tags else None


def _filled(text: str, known: Mapping[str, str]) -> str:
    for name, value in known.items():
        text = text.replace(name, value)
    return text


def envelope(items: Sequence[Mapping[str, Any]], operation_id: str) -> bytes:
    """The body of an asynchronous retain."""
    return _compact({"items": list(items), "async": True, "operation_id": operation_id}).encode()


def recall_body(request: RecallRequest, rule: TagRule | None, *, old: bool = False) -> dict[str, Any]:
    """A search. Scope and caller's tags go together as tag groups, never beside `tags`."""
    body: dict[str, Any] = {
        "query": request.query[:OLD_QUERY] if old else request.query,
        "types": list(request.types),
        "budget": request.budget,
        "max_tokens": min(request.max_tokens, MOST_TOKENS),
        "query_timestamp": request.moment.isoformat(),
        "prefer_observations": request.prefer_observations,
        "include": {"entities": None, "chunks": None, "source_facts": {} if request.include_source_facts else None},
        "trace": False,
    }
    if rule is not None:
        body["tag_groups"] = [group(rule)]
    if request.min_score is not None:
        body["min_scores"] = {"final": request.min_score}
    return body


def reflect_body(query: str, request: RecallRequest, rule: TagRule | None, schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """A question to answer."""
    body: dict[str, Any] = {"query": query, "budget": request.budget, "include": {"facts": {}, "tool_calls": None}}
    if rule is not None:
        body["tag_groups"] = [group(rule)]
    if schema is not None:
        if schema.get("type") != "object":
            raise UsageError("`response_schema` must be a JSON Schema of an object: {'type': 'object', ...}")
        body["response_schema"] = dict(schema)
    return body


def group(rule: TagRule) -> dict[str, Any]:
    """A tag rule in the server's grammar. A rule without a tag would let everything through, so there is none."""
    if isinstance(rule, Leaf) and rule.tags:
        return {"tags": list(rule.tags), "match": rule.match}
    if isinstance(rule, Every) and rule.rules:
        return {"and": [group(part) for part in rule.rules]}
    if isinstance(rule, Either) and rule.rules:
        return {"or": [group(part) for part in rule.rules]}
    if isinstance(rule, Neither):
        return {"not": group(rule.rule)}
    raise UsageError("a tag rule without tags can't be sent: the server would read it as no filter")


def compact(value: Any) -> bytes:
    """JSON for the wire."""
    return _compact(value).encode()


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
