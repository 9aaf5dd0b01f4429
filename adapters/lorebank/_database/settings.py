"""How a database is opened."""

from __future__ import annotations

from dataclasses import dataclass, field

POOL = 8
"""Connections that stay open; more are opened while more threads are at work."""


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """`busy_timeout` is in seconds; `synchronous` is SQLite's. The URL may hold a password, so it is not shown."""

    url: str = field(repr=False)
    synchronous: str = "normal"
    busy_timeout: float = 30.0
