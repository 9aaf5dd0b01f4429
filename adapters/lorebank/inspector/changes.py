"""What was changed from the pages of one run, so that it can be taken back."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from lorebank._bank import Bank
from lorebank._domain.memory import Memory
from lorebank.errors import UsageError

Kind = Literal["corrected", "invalidated", "made valid again"]
UNDOING: Mapping[Kind, Kind] = {
    "corrected": "corrected",
    "invalidated": "made valid again",
    "made valid again": "invalidated",
}
"""What a change is that takes another back."""
KEPT = 500
"""Changes that can be taken back: the newest of a run."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change: the memory as it was before and as it was left."""

    number: int
    kind: Kind
    before: Memory
    after: Memory
    at: datetime

    def stands(self, now: Memory) -> bool:
        """Whether the memory is still as this change left it. Somebody else's change is never overwritten."""
        return _state(now) == _state(self.after)


def _state(memory: Memory) -> tuple[object, ...]:
    return memory.text, memory.invalidated_at, memory.superseded_by


class Changes:
    """The changes of one run, one at a time."""

    def __init__(self) -> None:
        self._kept: deque[Change] = deque(maxlen=KEPT)
        self._number = 0
        self.turn = asyncio.Lock()

    def add(self, kind: Kind, before: Memory, after: Memory, at: datetime) -> int:
        """Keeps a change; gives its number."""
        self._number += 1
        self._kept.append(Change(self._number, kind, before, after, at))
        return self._number

    def of(self, memory_id: str) -> list[Change]:
        """The changes of one memory, newest first."""
        return [change for change in reversed(self._kept) if change.after.id == memory_id]

    def get(self, number: int) -> Change | None:
        return next((change for change in self._kept if change.number == number), None)

    def drop(self, *memory_ids: str) -> None:
        """Forgets what was said of memories that are forgotten."""
        self._kept = deque((change for change in self._kept if change.after.id not in memory_ids), KEPT)

    async def undo(self, bank: Bank, change: Change) -> Memory:
        """Takes a change back; `UsageError` where the memory was changed since."""
        now = await bank.aget(change.after.id)
        if not change.stands(now):
            raise UsageError("the memory was changed again since then: it stays as it is now")
        if change.kind == "corrected":
            return await bank.aupdate(now.id, content=change.before.text)
        if change.kind == "invalidated":
            return await bank.arevalidate(now.id)
        return await bank.ainvalidate(now.id, replacement=change.before.superseded_by)
