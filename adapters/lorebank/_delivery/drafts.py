"""From an item to a row: what is sent is fixed when it is said, with the time it was said."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from lorebank._domain.item import Item
from lorebank._domain.scope import Scope
from lorebank._domain.settings import RetainSettings
from lorebank._hindsight.wire import explicit, item_body
from lorebank._ledger.values import Draft


def draft(item: Item, scope: Scope, settings: RetainSettings, now: float, *, dated: bool = False) -> Draft:
    """The row of an item. The same item said again has the same digest, whenever it is said. The text of a `dated` one holds its
    own times: with others of its day it may be appended as one.

    Items without a document of their own share batches; a document's rows are sent by themselves, since a batch that the
    server tries again repeats every append in it.
    """
    body = item_body(item, scope, settings, now=datetime.fromtimestamp(now, UTC))
    append = body["update_mode"] == "append"
    when = None if item.timestamp is not None else body.pop("timestamp")
    said = compact(body)
    return Draft(
        bank=scope.bank,
        document=body["document_id"],
        body=said if when is None else f'{said[:-1]},"timestamp":"{when}"}}',
        digest=_digest(said),
        solo=item.document_id is not None and (append or not explicit(item.document_id)),
        fold=_digest(compact({**body, "content": "", **_day(body, dated)})) if append else None,
        session=item.session,
        repeatable=not append,
    )


def _day(body: Mapping[str, Any], dated: bool) -> dict[str, str]:
    """What stands for a time in what is compared: the time itself, or its day."""
    return {"timestamp": body["timestamp"][:10]} if dated and "timestamp" in body else {}


def digest_of(body: object) -> str:
    """What tells a write from others: the same for the same, said again."""
    return _digest(compact(body))


def compact(value: object) -> str:
    """JSON as it stands in a row."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
