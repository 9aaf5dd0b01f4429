"""What went wrong, in words for a page, and what to do next."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeVar

from lorebank._off import OFF
from lorebank.errors import (
    ForbiddenError,
    GarbledError,
    LorebankError,
    MissingError,
    UnavailableError,
    UnsupportedError,
    UsageError,
)

T = TypeVar("T")
SWITCH = "Switch it on: unset LOREBANK_URL, and start the inspector again."


@dataclass(frozen=True, slots=True)
class Fault:
    """A failure: what was found, what to do about it, and the status of a page that has nothing else to tell."""

    found: str
    todo: str
    status: int


_KINDS: tuple[tuple[type[LorebankError], str, int], ...] = (
    (MissingError, "It may have been forgotten meanwhile. Search for it, or look at the timeline.", 404),
    (ForbiddenError, "Set HINDSIGHT_API_KEY to a key that may read and write this bank, and start the inspector again.", 403),
    (UnavailableError, "Is the server running? Try again; lorebank doctor finds out what is wrong.", 503),
    (GarbledError, "Is there a Hindsight server at this address, or something else? lorebank doctor finds out.", 502),
    (UnsupportedError, "This is what the backend can't do; everything else works.", 400),
    (UsageError, "Look at what was given, and try again.", 400),
)


def told(error: LorebankError) -> Fault:
    """An error, for a page."""
    todo, status = next(((todo, status) for kind, todo, status in _KINDS if isinstance(error, kind)), ("Look at the log.", 500))
    text = str(error).strip()
    todo = SWITCH if text == OFF else todo
    return Fault(text if text.endswith((".", "!", "?")) else f"{text}.", todo, status)


async def attempt(asked: Awaitable[T]) -> T | Fault:
    """What a bank answers, or why it does not."""
    try:
        return await asked
    except LorebankError as error:
        return told(error)
