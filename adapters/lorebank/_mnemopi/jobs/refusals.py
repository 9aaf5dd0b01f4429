"""A text that a model refuses (a provider's filter, say) is told from a model that fails, by what no model refuses: the first
must not be asked for ever, the second is asked again later.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from lorebank._mnemopi.jobs.metering import Metered
from lorebank._mnemopi.synthesis import Asked, ask
from lorebank.errors import GarbledError, UnavailableError

T = TypeVar("T")
_HARMLESS = Asked('Answer with the JSON object {"facts": []}.', {"type": "object"}, 32)


def unless_refused(completer: Metered, call: Callable[[], T]) -> T | None:
    """What the call gives; `None` where the completer fails at it twice and answers something harmless each time.

    `UnavailableError` where it does not answer that either.
    """
    for _ in range(2):
        try:
            return call()
        except UnavailableError:
            with suppress(GarbledError):
                ask(completer, _HARMLESS, lambda reply: reply)
    return None
