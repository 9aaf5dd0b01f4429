"""What `bank.outbox.reroute` needs to know of writes and of senders: names that go by a bank, and whose work a claim is."""

from __future__ import annotations

import json
from typing import Any

from lorebank._delivery.drafts import compact, digest_of
from lorebank._delivery.owner import is_gone
from lorebank._hindsight.wire import explicit_id
from lorebank._ledger.rerouting import Busy, Renamed


def renaming(bank: str) -> Renamed:
    """Says again, as of another bank, what is named after its bank: an item that nobody has named, so that saying it again
    changes nothing there, either.
    """

    def renamed(origin: str, document: str, body: str, digest: str) -> tuple[str, str, str] | None:
        try:
            item: dict[str, Any] = json.loads(body)
            said = item["content"], item.get("context"), sorted(item["tags"])
        except (ValueError, KeyError, TypeError):
            return None  # a row that can't be read is told by the sender
        if document != explicit_id(origin, *said):
            return None
        moved = {**item, "document_id": explicit_id(bank, *said)}
        undated = digest_of(_without_time(item)) == digest  # an item that tells no time is the same whenever it is said
        return moved["document_id"], compact(moved), digest_of(_without_time(moved) if undated else moved)

    return renamed


def claims(now: float, lease: float) -> Busy:
    """Whether a claim holds: its lease is not over, was made by this clock, and its process is not known to be gone."""

    def busy(owner: str | None, end: float) -> bool:
        return owner is not None and now < end <= now + lease and not is_gone(owner)

    return busy


def _without_time(item: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != "timestamp"}
