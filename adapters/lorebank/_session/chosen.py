"""What a session's user has chosen, as the ledger has it and as it was changed since."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lorebank._domain.session import Choices, merged

OPPOSITE = {"added": "removed", "removed": "added"}


@dataclass(slots=True)
class Chosen:
    """`stored` is what was read last, `None` before that; `changed` is stored with the session's next call."""

    stored: Choices | None = None
    changed: dict[str, Any] = field(default_factory=dict[str, Any])

    def change(self, changed: Mapping[str, Any]) -> None:
        """Notes changes. Tags are added and removed one by one."""
        for name, value in changed.items():
            if name in OPPOSITE:
                other = OPPOSITE[name]
                self.changed[other] = tuple(each for each in self.changed.get(other, ()) if each != value)
                self.changed[name] = (*self.changed.get(name, ()), value)
            else:
                self.changed[name] = value

    def now(self, stored: Choices) -> Choices:
        """What holds."""
        return merged(stored, self.changed)

    def settle(self, choices: Choices) -> None:
        """All changes are stored."""
        self.stored, self.changed = choices, {}
