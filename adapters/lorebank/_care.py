"""Care for a bank: consolidating, purging, counting, checking it. The bodies of `Bank`'s verbs of these names."""

from __future__ import annotations

from lorebank._connections import Opened
from lorebank._domain.requests import Consolidation, Health, Integrity, Stats


def consolidate(self: Opened) -> Consolidation:
    """Writes observations (memories of the type `observation`) of what is new in the bank that this handle writes to.

    Each links to the memories it was made from; these stay as they are. On Mnemopi it is done on return; a server goes on in
    the background, under `operation_id` in `bank.operations`. `UnavailableError` where the completer or the server fails.
    """
    return self.connections.backend.consolidate(self.scope)


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
