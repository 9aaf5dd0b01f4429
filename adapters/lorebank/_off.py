"""The kill switch: a backend that does no I/O at all and says that memory is off."""

from __future__ import annotations

from typing import Any, Literal, NoReturn

from lorebank._domain.events import Listener
from lorebank._domain.requests import FlushReport, Health
from lorebank._domain.scope import Scope, Scoping, scope_by_bank
from lorebank.errors import UnavailableError

OFF = "memory is off (LOREBANK_URL=off)"


class _Off:
    """Every call raises."""

    def _refuse(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise UnavailableError(OFF)

    list = get = create = update = refresh = history = delete = _refuse
    retain = recall = reflect = invalidate = forget = clear = purge = consolidate = stats = check = tags = _refuse
    retry = cancel = status = requeue = write = read = drain = dump = load = _refuse


class OffBackend(_Off):
    """Memory that is switched off."""

    name: Literal["mnemopi"] = "mnemopi"
    models = documents = operations = directives = outbox = sessions = archive = _Off()

    def announce(self, tell: Listener) -> None:
        """Nothing happens."""

    def scope(self, base: str, scoping: Scoping, label: str | None) -> Scope:
        return scope_by_bank(base, scoping, label)

    def health(self) -> Health:
        return Health(False, self.name, OFF)

    def flush(self, *, timeout: float, until: Literal["accepted", "completed"]) -> FlushReport:
        del timeout, until
        return FlushReport()

    def close(self, timeout: float) -> None:
        """Nothing is open."""
