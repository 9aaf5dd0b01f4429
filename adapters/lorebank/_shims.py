"""What the shims for Hindsight's own packages share: their arguments in our terms, and the banks at places that are named."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from typing import Any

from lorebank._bank import Bank
from lorebank._domain.blocks import fence
from lorebank._domain.memory import Memory
from lorebank._open import open_bank
from lorebank.errors import UsageError

HOSTED = "https://api.hindsight.vectorize.io"


class Places:
    """The banks at places, each opened once for all that want the same of it; what they hold back is delivered when the program
    ends.
    """

    def __init__(self) -> None:
        self.banks: dict[tuple[object, ...], Bank] = {}
        self._opening = threading.Lock()

    def opened(self, url: str | None, key: str | None, **settings: Any) -> Bank:
        """The bank at a URL, else where the environment says; a key without a server is a `UsageError`."""
        named = url or os.environ.get("LOREBANK_URL") or os.environ.get("HINDSIGHT_API_URL")
        if not named and (key or os.environ.get("HINDSIGHT_API_KEY")):
            raise UsageError(f"an API key, but no server: pass hindsight_api_url={HOSTED!r} for the hosted service, or yours")
        place = named or None, key, repr(settings)
        with self._opening:
            if place not in self.banks:
                self.banks[place] = open_bank(url, api_key=key, **settings)
            return self.banks[place]


def checked_client(client: object) -> Bank:
    """What is passed as `client`: a bank of ours."""
    if isinstance(client, Bank):
        return client
    raise UsageError(
        f"`client` must be a bank of lorebank's, such as open_bank(url, api_key=...); found {type(client).__name__}. "
        "Or leave it out and pass `hindsight_api_url` and `api_key`"
    )


def refuse_meaningless(*, entities: bool = False, reflect_max_tokens: int | None = None) -> None:
    """Raises for arguments of theirs that have no meaning here, and says what has."""
    if entities:
        raise UsageError("`recall_include_entities` changes nothing that is shown: leave it out; `bank.recall` gives them")
    if reflect_max_tokens is not None:
        raise UsageError(
            "`reflect_max_tokens` is a setting of the bank: leave it out, "
            "and pass client=open_bank(..., recall={'max_tokens': ...}) where the default is not enough"
        )


def numbered(memories: Iterable[Memory]) -> str:
    """Memories as their tools show them, best first; empty where there are none."""
    return "\n".join(f"{place}. {fence(memory.text)}" for place, memory in enumerate(memories, 1))


def given(**values: Any) -> dict[str, Any]:
    """Those of some arguments that were given, by name."""
    return {name: value for name, value in values.items() if value is not None}
