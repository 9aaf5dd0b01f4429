"""What both frameworks' retrievers do: one recall, its failure as the host wants it, and how a memory is described."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lorebank._bank import Bank
from lorebank._domain.events import Recalled, Skipped
from lorebank._domain.memory import Memory, RecallResult, parse_count, parse_types
from lorebank._domain.scope import TagsMatch, parse_filter
from lorebank._tools import plain
from lorebank.errors import UnavailableError, UsageError

logger = logging.getLogger("lorebank")
UNBOUNDED = 2**31
"""A token bound that no result reaches: a retriever is bound by its number of results."""


@dataclass(frozen=True, slots=True)
class Retrieval:
    """A retriever's settings; bad ones raise `UsageError` here."""

    limit: int
    max_tokens: int | None = None
    types: Sequence[str] | None = None
    tags: Sequence[str] | None = None
    tags_match: TagsMatch = "any_strict"
    on_failure: str = "raise"

    def __post_init__(self) -> None:
        parse_count(self.limit, "limit")
        if self.max_tokens is not None:
            parse_count(self.max_tokens, "max_tokens")
        if self.types is not None:
            parse_types(self.types)
        parse_filter(self.tags, self.tags_match)
        if self.on_failure not in ("raise", "skip"):
            raise UsageError(f"`on_failure` must be raise or skip; found {self.on_failure!r}")

    def recall(self, bank: Bank, query: str) -> RecallResult:
        """The memories for a query. Where memory is down: raises, or gives an `unavailable` result and tells an event."""
        started = time.perf_counter()
        try:
            return _told(bank, bank.recall(query, **self._options()), started)
        except UnavailableError as error:
            return self._failed(bank, query, error)

    async def arecall(self, bank: Bank, query: str) -> RecallResult:
        """Awaitable form of `recall`."""
        started = time.perf_counter()
        try:
            return _told(bank, await bank.arecall(query, **self._options()), started)
        except UnavailableError as error:
            return self._failed(bank, query, error)

    def _options(self) -> dict[str, Any]:
        return {
            "limit": self.limit,
            "max_tokens": self.max_tokens or UNBOUNDED,
            "types": self.types,
            "tags": self.tags,
            "tags_match": self.tags_match,
        }

    def _failed(self, bank: Bank, query: str, error: UnavailableError) -> RecallResult:
        connections = bank.connections
        if self.on_failure == "raise" and not connections.off:
            raise error
        connections.tell(Skipped(bank.scope.bank, "retrieve", type(error).__name__))
        logger.warning("retriever got nothing from bank %s: %s", bank.name, type(error).__name__)
        return RecallResult("unavailable", query, unavailable=(bank.name,))


def _told(bank: Bank, result: RecallResult, started: float) -> RecallResult:
    bank.connections.tell(Recalled(bank.scope.bank, len(result), time.perf_counter() - started))
    return result


def described(memory: Memory) -> dict[str, Any]:
    """A memory's plain data without its text: id, type, tags, times, score, and what the user put in."""
    return {name: value for name, value in plain(memory).items() if name not in ("text", "signals")}
