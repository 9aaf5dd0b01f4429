"""Making a bank before its first write, with the missions that it keeps on the server.

Only a bank that is not there is made. What the server's owner has set is never overwritten: missions are sent again only
when our own setting has changed since and the server still holds what was sent.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Protocol

from lorebank._domain.events import BankPrepared
from lorebank._domain.settings import Missions, RetainSettings
from lorebank._forks import Forkable, watch_forks
from lorebank._hindsight.answers import Answer, Banks, Config
from lorebank._hindsight.server import BANKS, Server
from lorebank._hindsight.transport import Call
from lorebank.errors import LorebankError, MissingError, UnavailableError

REMEMBERED = 10_000
"""Banks that a process remembers as prepared."""
BEFORE_MISSING_BANKS = (1, 0)
"""Servers older than this answer for banks that are not there."""


class MissionBook(Protocol):
    """Remembers what missions a bank was told."""

    def sent(self, bank: str) -> Mapping[str, str] | None:
        """What was last sent; `None` if nothing was."""
        ...

    def note(self, bank: str, sent: Mapping[str, str]) -> None:
        """Keeps what has been sent."""
        ...


class Bootstrap(Forkable):
    """Prepares each bank once in a process, as well as it can: a failure is an event, and tried again later."""

    def __init__(self, server: Server, settings: RetainSettings) -> None:
        self._server, self._settings = server, settings
        self.book: MissionBook | None = None
        self.after_fork()
        watch_forks(self)

    def after_fork(self) -> None:
        """The child may find its parent in the midst of it."""
        self._lock = threading.Lock()
        self._done: OrderedDict[str, None] = OrderedDict()

    def prepare(self, bank: str, *, project: bool = False) -> None:
        """Makes the bank where it is not there. Never raises."""
        if self._known(bank):
            return
        try:
            made = self._prepared(bank, project=project or "::" in bank)
        except LorebankError as error:
            self._server.tell(BankPrepared(bank, made=False, reason=type(error).__name__))
            if not isinstance(error, UnavailableError):
                self._remember(bank)
            return
        self._remember(bank)
        self._server.tell(BankPrepared(bank, made=made))

    def _known(self, bank: str) -> bool:
        with self._lock:
            if bank in self._done:
                self._done.move_to_end(bank)
                return True
            return False

    def _remember(self, bank: str) -> None:
        with self._lock:
            self._done[bank] = None
            while len(self._done) > REMEMBERED:
                self._done.popitem(last=False)

    def _prepared(self, bank: str, *, project: bool) -> bool:
        """Whether the bank was made."""
        wanted = wire_missions(self._settings.missions or (Missions.project() if project else Missions.user()))
        held = self._held(bank)
        if held is None:
            self._send(bank, wanted)
            return True
        sent = None if self.book is None else self.book.sent(bank)
        if sent is not None and dict(sent) != wanted and all(held.get(name) == text for name, text in sent.items()):
            self._send(bank, wanted)
        return False

    def _held(self, bank: str) -> dict[str, str] | None:
        """The missions that the server holds; `None` where it has no such bank."""
        if self._server.version() < BEFORE_MISSING_BANKS and not self._listed(bank):
            return None
        try:
            config = self._server.read(Config, bank, "config").config
        except MissingError:
            return None
        return {name: text for name in FIELDS.values() if isinstance(text := config.get(name), str)}

    def _listed(self, bank: str) -> bool:
        everything = self._server.ask(Banks, Call("GET", BANKS, self._server.settings.timeout, bank=bank))
        return any(each.bank_id == bank for each in everything.banks)

    def _send(self, bank: str, missions: Mapping[str, str]) -> None:
        self._server.change(Answer, "PUT", (bank,), missions)
        if self.book is not None:
            self.book.note(bank, missions)


FIELDS = {"retain": "retain_mission", "reflect": "reflect_mission", "observations": "observations_mission"}
"""Our names of the missions, and the server's."""


def wire_missions(missions: Missions) -> dict[str, str]:
    """Missions under the server's names; those that are not set are left to it."""
    return {wire: text for name, wire in FIELDS.items() if (text := getattr(missions, name)) is not None}
