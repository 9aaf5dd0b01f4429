"""What a test may look at: the contents of one bank, at the moment it looks."""

from __future__ import annotations

from collections.abc import Mapping

from lorebank._faults.state import Banks
from lorebank._faults.values import Bank, Operation

__all__ = ["BankView"]


class BankView:
    """A bank of the small Hindsight, read-only; every look gives the present state. An unknown bank is empty."""

    def __init__(self, banks: Banks, name: str) -> None:
        self._banks = banks
        self._name = name

    @property
    def documents(self) -> Mapping[str, str]:
        """The text of each document by its id, in the order of their first arrival."""
        with self._banks.lock:
            return {each.id: each.text for each in self._bank().documents.values()}

    @property
    def facts(self) -> tuple[str, ...]:
        """The texts of the valid facts, in the order of their arrival; observations are none."""
        return self._texts(observations=False)

    @property
    def observations(self) -> tuple[str, ...]:
        """The texts of the observations."""
        return self._texts(observations=True)

    @property
    def tags(self) -> Mapping[str, tuple[str, ...]]:
        """The tags of each document by its id."""
        with self._banks.lock:
            return {each.id: each.tags for each in self._bank().documents.values()}

    @property
    def operations(self) -> tuple[Operation, ...]:
        """Operations in the order of their arrival: `id`, `type`, `status`, `document_id`, `error_message`, `items`."""
        with self._banks.lock:
            return tuple(self._bank().operations.values())

    def _texts(self, *, observations: bool) -> tuple[str, ...]:
        with self._banks.lock:
            facts = self._bank().facts.values()
            wanted = [each for each in facts if each.state == "valid" and (each.type == "observation") == observations]
            return tuple(fact.text for fact in wanted)

    def _bank(self) -> Bank:
        now = self._banks.now()
        return self._banks.all.get(self._name) or Bank(self._name, now, now)
