"""The banks of the small Hindsight, their clock and their ids."""

from __future__ import annotations

import threading
import uuid
from datetime import UTC, datetime

from lorebank._faults.values import Bank
from lorebank._faults.wire import RefusalError

__all__ = ["Banks"]

LONGEST_BANK_ID = 192


class Banks:
    """Every bank by its id. Hold `lock` around what belongs together."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.held = False
        self.all: dict[str, Bank] = {}
        self._ids = 0

    def new_id(self) -> str:
        """A UUID; a new server gives the same ones in the same order."""
        self._ids += 1
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"lorebank-fault-server-{self._ids}"))

    def now(self) -> datetime:
        """The time, with its zone."""
        return datetime.now(UTC)

    def open(self, bank_id: str) -> Bank:
        """The bank, made where it is unknown."""
        if len(bank_id.encode()) > LONGEST_BANK_ID:
            raise RefusalError(400, f"Bank id is too long: at most {LONGEST_BANK_ID} bytes of UTF-8 are allowed")
        if any(ord(character) < 32 for character in bank_id):
            raise RefusalError(400, "Bank id must not contain control characters")
        if bank_id not in self.all:
            now = self.now()
            self.all[bank_id] = Bank(bank_id, now, now)
        return self.all[bank_id]

    def known(self, bank_id: str) -> Bank:
        """The bank; 404 where it is unknown."""
        bank = self.all.get(bank_id)
        if bank is None:
            raise RefusalError(404, f"Bank '{bank_id}' not found")
        return bank

    def owner_of(self, operation_id: str) -> Bank | None:
        """The bank that has this operation."""
        return next((bank for bank in self.all.values() if operation_id in bank.operations), None)
