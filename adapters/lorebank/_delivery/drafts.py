"""From an item to a row: what is sent is fixed when it is said, with the time it was said."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime

from lorebank._domain.item import Item
from lorebank._domain.scope import Scope
from lorebank._domain.settings import RetainSettings
from lorebank._hindsight.wire import item_body
from lorebank._ledger.values import Draft


def draft(item: Item, scope: Scope, settings: RetainSettings, now: float) -> Draft:
    """The row of an item. The same item said again has the same digest, whenever it is said.

    Items without a document of their own share batches; a document's rows are sent by themselves, since a batch that the
    server tries again repeats every append in it.
    """
    body = item_body(item, scope, settings, now=datetime.fromtimestamp(now, UTC))
    append = body["update_mode"] == "append"
    told = {name: value for name, value in body.items() if name != "timestamp" or item.timestamp is not None}
    alike = {name: value for name, value in told.items() if name != "content"}
    return Draft(
        bank=scope.bank,
        document=body["document_id"],
        body=json.dumps(body, ensure_ascii=False, separators=(",", ":")),
        digest=_digest(told),
        solo=item.document_id is not None,
        fold=_digest(alike) if append else None,
        session=item.session,
        repeatable=not append,
    )


def _digest(value: object) -> str:
    return hashlib.blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=12).hexdigest()
