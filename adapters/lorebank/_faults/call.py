"""A request that found its route: the bank, the id, the parameters and the body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from lorebank._faults.checks import Checks
from lorebank._faults.tags import MODES

__all__ = ["Call", "Page"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list."""

    limit: int
    offset: int

    def of(self, items: list[T]) -> list[T]:
        """The items on this page."""
        return items[self.offset : self.offset + self.limit]

    def around(self, items: list[Any], total: int) -> dict[str, Any]:
        """The usual envelope."""
        return {"items": items, "total": total, "limit": self.limit, "offset": self.offset}


@dataclass(frozen=True, slots=True)
class Call:
    """What a handler gets. `body` is an object, empty where none was sent."""

    bank: str
    id: str
    query: Mapping[str, tuple[str, ...]]
    body: Mapping[str, Any]

    def first(self, name: str) -> str | None:
        """One value of a parameter."""
        values = self.query.get(name)
        return values[0] if values else None

    def page(self, checks: Checks, *, default: int = 100, least: int = 0, most: int | None = None) -> Page:
        """`limit` and `offset`."""
        limit = checks.whole(self.first("limit"), ("query", "limit"), default, least=least, most=most)
        return Page(limit, checks.whole(self.first("offset"), ("query", "offset"), 0, least=0))

    def tags(self, checks: Checks, *, default: str = "any", modes: tuple[str, ...] = MODES) -> tuple[tuple[str, ...], str]:
        """`tags` and `tags_match`."""
        mode = checks.one_of(self.first("tags_match"), ("query", "tags_match"), modes, default)
        return self.query.get("tags", ()), mode
