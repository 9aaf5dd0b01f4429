"""Making sure that a bank is there, with its missions, before it is first written to. Best effort: the server makes unknown
banks by itself, so that a failure costs the missions only.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Protocol

from lorebank._domain.events import BankPrepared
from lorebank._domain.settings import Missions
from lorebank._hindsight.answers import BankList, ConfigAnswer
from lorebank._hindsight.client import Client, root
from lorebank.errors import LorebankError, MissingError

KNOWN = 10_000
"""How many banks are remembered as prepared."""


class MissionBook(Protocol):
    """What was last sent to each bank, kept beyond this process."""

    def sent(self, bank: str) -> Mapping[str, str] | None: ...
    def note(self, bank: str, sent: Mapping[str, str]) -> None: ...


class Preparing:
    """Prepares each bank once for this process."""

    def __init__(self, client: Client, missions: Missions | None, tell: Callable[[BankPrepared], None]) -> None:
        self._client, self._missions, self._tell = client, missions, tell
        self._known: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()
        self.book: MissionBook | None = None

    def prepare(self, bank: str) -> None:
        """Makes the bank where there is none; never raises."""
        with self._lock:
            if bank in self._known:
                self._known.move_to_end(bank)
                return
        try:
            made = self._prepared(bank)
        except LorebankError as error:
            self._tell(BankPrepared(bank, False, type(error).__name__))
            return
        with self._lock:
            self._known[bank] = None
            while len(self._known) > KNOWN:
                self._known.popitem(last=False)
        if made:
            self._tell(BankPrepared(bank, True))

    def _prepared(self, bank: str) -> bool:
        wanted = fields(self._missions or (Missions.project() if "::" in bank else Missions.user()))
        held = self._held(bank)
        if held is None:
            self._client.send("PUT", root(bank), wanted, urgent=True)
            self._note(bank, wanted)
            return True
        before = None if self.book is None else self.book.sent(bank)
        if before is not None and before != wanted and all(held.get(name) == value for name, value in before.items()):
            self._client.send("PATCH", root(bank), wanted, urgent=True)
            self._note(bank, wanted)
        return False

    def _held(self, bank: str) -> Mapping[str, object] | None:
        """The bank's own settings; `None` where there is no such bank."""
        if self._client.old:  # servers before 1.0 answer for unknown banks, too
            known = self._client.get(BankList, "/v1/default/banks", urgent=True).banks
            if all(row.bank_id != bank for row in known):
                return None
        try:
            return self._client.get(ConfigAnswer, f"{root(bank)}/config", urgent=True).overrides
        except MissingError:
            return None

    def _note(self, bank: str, sent: Mapping[str, str]) -> None:
        if self.book is not None:
            self.book.note(bank, sent)


def fields(missions: Missions) -> dict[str, str]:
    """Missions by the server's names; those that are not set are left to it."""
    named = {
        "retain_mission": missions.retain,
        "reflect_mission": missions.reflect,
        "observations_mission": missions.observations,
    }
    return {name: text for name, text in named.items() if text is not None}
