"""What was last said to a server's bank about its missions, so that only our own changes are said again."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sqlalchemy import Connection, insert, select, update

from lorebank._ledger.ledger import Ledger
from lorebank._ledger.schema import missions
from lorebank._ledger.values import Route


class LedgerMissions:
    """The missions of one server's banks, as last sent."""

    def __init__(self, ledger: Ledger, route: Route) -> None:
        self._ledger, self._route = ledger, route

    def sent(self, bank: str) -> Mapping[str, str] | None:
        """What was last sent; `None` if nothing was."""
        chosen = (missions.c.route == self._route.url) & (missions.c.bank == bank)
        found = self._ledger.read(lambda c: c.scalar(select(missions.c.sent).where(chosen)))
        return None if found is None else dict(json.loads(found))

    def note(self, bank: str, sent: Mapping[str, str]) -> None:
        """Keeps what has been sent."""
        chosen = (missions.c.route == self._route.url) & (missions.c.bank == bank)
        text = json.dumps(dict(sent))

        def write(connection: Connection) -> None:
            if not connection.execute(update(missions).where(chosen).values(sent=text)).rowcount:
                connection.execute(insert(missions).values(route=self._route.url, bank=bank, sent=text))

        self._ledger.write(write)
