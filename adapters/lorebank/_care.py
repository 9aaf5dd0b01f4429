"""Care for a bank: consolidating, purging, counting, checking, making valid again. The bodies of `Bank`'s verbs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from lorebank._connections import Opened
from lorebank._domain.entities import Entities
from lorebank._domain.memory import Memory, parse_count, parse_name, parse_number
from lorebank._domain.requests import Consolidation, FlushReport, Health, Integrity, Stats
from lorebank.errors import UsageError


def consolidate(self: Opened) -> Consolidation:
    """Writes observations (memories of the type `observation`) of what is new in the bank that this handle writes to.

    Each links to the memories it was made from; these stay as they are. On Mnemopi it is done on return; a server goes on in
    the background, under `operation_id` in `bank.operations`. `UnavailableError` where the completer or the server fails.
    """
    return self.connections.backend.consolidate(self.scope)


def revalidate(self: Opened, id: str) -> Memory:
    """Takes back an invalidation: the memory is recalled again, and nothing replaces it. One that is valid stays as it is; one
    whose `valid_until` is over stays out of recall. `MissingError` for an unknown id.
    """
    return self.connections.backend.revalidate(self.scope, parse_name(id, "id"))


def entities(self: Opened, *, limit: int = 50) -> Entities:
    """The `limit` most frequent names (people, places, products, tickets) in the valid memories, with how many memories have
    each, and which of them stand together in the same memories.

    A server counts all of its bank. On Mnemopi, and where a scope may read only a part of a server's bank, the newest 2,000
    memories are counted; `counted` says how many were read.
    """
    return self.connections.backend.entities(self.scope, parse_count(limit, "limit"))


def tags(self: Opened) -> Mapping[str, int]:
    """How many memories carry each tag, the most frequent first."""
    return self.connections.backend.tags(self.scope)


def flush(self: Opened, *, timeout: float = 30, until: Literal["accepted", "completed"] = "accepted") -> FlushReport:
    """Waits, at most `timeout` seconds, until background work is done; says what is left."""
    if until not in ("accepted", "completed"):
        raise UsageError(f"`until` must be accepted or completed; found {until!r}")
    seconds = parse_number(timeout, "timeout", 0, 86_400)
    return self.connections.backend.flush(timeout=seconds, until=until)


def purge(self: Opened) -> str | None:
    """Removes every trace of deleted text from the file; gives why it could not, or `None`."""
    return self.connections.backend.purge()


def stats(self: Opened) -> Stats:
    """Counts of the bank that this handle writes to."""
    return self.connections.backend.stats(self.scope)


def health(self: Opened) -> Health:
    """Whether memory answers now; never raises for a backend that is down."""
    return self.connections.backend.health()


def check(self: Opened) -> Integrity:
    """Checks what is stored: the file, its indexes, the counts, the links of what was derived."""
    return self.connections.backend.check(self.scope)
