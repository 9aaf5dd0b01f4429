"""What happens to items between the caller and the backend: times, secrets, the user's own gate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import tzinfo

from lorebank._domain.item import Item, parse_item
from lorebank._domain.memory import Outcome
from lorebank._domain.message import substantive
from lorebank._domain.redaction import redact_item
from lorebank._domain.settings import RetainSettings


@dataclass(frozen=True, slots=True)
class Admitted:
    """The items that may be written, what was rejected and why, and how many secrets were taken out."""

    items: tuple[Item, ...]
    rejected: tuple[Outcome, ...]
    redactions: int


def admit_items(items: Sequence[Item], settings: RetainSettings) -> Admitted:
    """Times to UTC, secrets out, then `before_enqueue`, which may amend an item or refuse it (`None`, or by raising)."""
    ready: list[Item] = []
    rejected: list[Outcome] = []
    redactions = 0
    zone, redactor = settings.zone(), settings.redactor
    for item in items:
        located = item.located(zone)
        safe, found = (located, 0) if redactor is None else redact_item(located, redactor)
        redactions += found
        if not substantive(safe.content):
            rejected.append(Outcome(None, "no letter or digit in it", item.document_id))
            continue
        allowed, reason = (safe, "") if settings.before_enqueue is None else _gated(safe, settings.before_enqueue, zone)
        if allowed is None:
            rejected.append(Outcome(None, reason, item.document_id))
        else:
            ready.append(allowed)
    return Admitted(tuple(ready), tuple(rejected), redactions)


def _gated(item: Item, gate: Callable[[Item], Item | None], zone: tzinfo | None) -> tuple[Item | None, str]:
    """The item as the user's gate lets it through, or `None` and why not."""
    try:
        amended = gate(item)
        allowed = None if amended is None else parse_item(amended).located(zone)
    except Exception as error:  # noqa: BLE001 - the user's function: whatever it raises refuses
        return None, f"refused by before_enqueue: {type(error).__name__}"
    if allowed is not None and not substantive(allowed.content):
        return None, "no letter or digit in it"
    return allowed, "refused by before_enqueue"
