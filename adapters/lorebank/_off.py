"""The kill switch: a backend that does no I/O at all and says that memory is off."""

from __future__ import annotations

from lorebank._domain.requests import Health
from lorebank._partial import PartialBackend
from lorebank.errors import UnavailableError

OFF = "memory is off (LOREBANK_URL=off)"


class OffBackend(PartialBackend):
    """Memory that is switched off."""

    def refusal(self, verb: str) -> UnavailableError:
        del verb
        return UnavailableError(OFF)

    def health(self) -> Health:
        return Health(False, self.name, OFF)
