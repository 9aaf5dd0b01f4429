"""What all readers of foreign files share: cleaned texts, times in whatever form, ids that follow from what is said. Pure."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from lorebank._domain.archive import Entry
from lorebank._domain.memory import storable
from lorebank.errors import UsageError

Shape = TypeVar("Shape", bound=BaseModel)
_CONTROL = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]")
_IN_MILLISECONDS = 1e11
"""Seconds since 1970 never come so far: a larger number counts milliseconds."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Whose part of a file is meant (`None`: all of it), and which roles of its messages."""

    only: str | None
    roles: frozenset[str]


@dataclass(slots=True)
class Read:
    """What a file holds: entries in the order of the file, and how many messages were left out."""

    entries: list[Entry] = field(default_factory=list[Entry])
    skipped: int = 0


class Tolerant(BaseModel):
    """Fields that are not asked for are passed over."""

    model_config = ConfigDict(extra="ignore", frozen=True)


def shaped(shape: type[Shape], value: object, place: str) -> Shape:
    """A value of a file; `UsageError` names its place and what is wrong, never what it holds."""
    try:
        return shape.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join((place, *map(str, first["loc"])))
        raise UsageError(f"`{where}` is not what it must be ({first['type']}): nothing was imported") from None


def label(value: str | None, fallback: str | None = None) -> str | None:
    """A name as a bank keeps it."""
    return _CONTROL.sub(" ", storable(value or "")).strip()[:512].strip() or fallback


def clean(value: Any) -> Any:
    """What JSON holds, without what no database can store."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {storable(key): clean(each) for key, each in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list):
        return [clean(each) for each in cast("list[object]", value)]
    return value


def moment(value: object) -> datetime | None:
    """A time in UTC, from ISO 8601 (without a zone: UTC) or a number of seconds or milliseconds since 1970; else nothing."""
    try:
        if isinstance(value, str):
            found = datetime.fromisoformat(value.strip())
            return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return datetime.fromtimestamp(value / 1000 if value > _IN_MILLISECONDS else value, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None


class Identities:
    """Names what is said: by what it is, and the how-manieth of its like it is."""

    def __init__(self) -> None:
        self._seen: Counter[bytes] = Counter()

    def digest(self, *said: str) -> bytes:
        """The same for the same thing at the same place among its like."""
        like = hashlib.blake2b("\0".join(said).encode(), digest_size=16).digest()
        self._seen[like] += 1
        return hashlib.blake2b(like + self._seen[like].to_bytes(8, "big"), digest_size=16).digest()
