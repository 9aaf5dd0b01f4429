"""What is sent when something is retained: an item's body and the envelope of a batch. Pure.

A body is made when the item is said and never changes afterwards, so whatever decides on it is fixed here: its
document, the full set of its tags, the time at which it was said.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from lorebank._domain.item import Item
from lorebank._domain.scope import PROJECT, Scope
from lorebank._domain.settings import RetainSettings
from lorebank.errors import UnsupportedError

SESSION, SPEAKER = "session_id", "speaker"
"""The metadata keys under which a server keeps an item's session and speaker."""
_EXPLICIT = re.compile("lorebank:item:[0-9a-f]{16}")
_LACKING = ("type", "importance", "valid_until")


def item_body(item: Item, scope: Scope, settings: RetainSettings, *, now: datetime, project: str | None = None) -> dict[str, Any]:
    """One item of a retain. `now` is when it was said, where the item doesn't tell."""
    if lacking := [name for name in _LACKING if getattr(item, name) is not None]:
        raise UnsupportedError(f"Hindsight has no `{lacking[0]}` of an item: leave it out, or use Mnemopi")
    tags = list(dict.fromkeys((*item.tags, *scope.stamp, *settings.base_tags)))
    body: dict[str, Any] = {
        "content": item.content,
        "document_id": item.document_id or _own_id(item, scope.bank, tags),
        "update_mode": item.update_mode or "replace",
        "tags": tags,
        "metadata": _metadata(item),
        "timestamp": (item.timestamp or now).isoformat(),
    }
    if item.context is not None:
        body["context"] = item.context
    if item.entities:
        body["entities"] = [{"text": entity} for entity in item.entities]
    if scopes := _scopes(item, scope, settings, tags, project):
        body["observation_scopes"] = scopes
    return body


def envelope(items: Sequence[Mapping[str, Any]], operation_id: str) -> bytes:
    """The body of a retain that the server acknowledges at once; the same operation id never has effect twice."""
    return encoded({"items": [dict(item) for item in items], "async": True, "operation_id": operation_id})


def encoded(body: Mapping[str, Any]) -> bytes:
    """A request's body as JSON."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def explicit(document_id: str) -> bool:
    """Whether the document was named here, for an item that names none."""
    return _EXPLICIT.fullmatch(document_id) is not None


def explicit_id(*said: object) -> str:
    """The name of a document that nobody has named, from what is said: the same for the same."""
    text = json.dumps(said, ensure_ascii=False)
    return f"lorebank:item:{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _own_id(item: Item, bank: str, tags: Sequence[str]) -> str:
    """The same for the same thing said again, so that it changes nothing."""
    return explicit_id(bank, item.content, item.context, sorted(tags))


def _metadata(item: Item) -> dict[str, str]:
    """The server takes text only: other values are sent as JSON."""
    metadata = {key: value if isinstance(value, str) else _json(value) for key, value in (item.metadata or {}).items()}
    metadata |= {SESSION: item.session} if item.session else {}
    return metadata | ({SPEAKER: item.speaker} if item.speaker else {})


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _scopes(
    item: Item, scope: Scope, settings: RetainSettings, tags: Sequence[str], project: str | None
) -> list[list[str]] | str | None:
    """Where observations are concluded: the settings' scopes, filled in, or else the tags without those of the settings.

    A scope with a placeholder for which there is nothing is left out.
    """
    if not settings.observation_scopes:
        own = [tag for tag in tags if tag not in settings.base_tags]
        return None if len(own) == len(tags) else [own] if own else "shared"
    known = {"bank": scope.bank, "project": project or project_of(scope), "session_id": item.session}
    filled = dict.fromkeys(filter(None, (_filled(text, known) for text in settings.observation_scopes)))
    return [[tag] for tag in filled] or None


def _filled(text: str, known: Mapping[str, str | None]) -> str | None:
    for name, value in known.items():
        if f"{{{name}}}" in text:
            if value is None:
                return None
            text = text.replace(f"{{{name}}}", value)
    return text


def project_of(scope: Scope) -> str | None:
    """The project's label, as the scope's tags or its bank name it."""
    stamped = [tag.removeprefix(PROJECT) for tag in scope.stamp if tag.startswith(PROJECT)]
    return stamped[0] if stamped else scope.bank.partition("::")[2] or None
