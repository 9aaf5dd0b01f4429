"""A session's tags, as a set that users change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSet
from typing import Any, Protocol, TypeVar

from lorebank._domain.session import Choices, parse_session_tag

T = TypeVar("T")


class Tagged(Protocol):
    """What has tags: a session."""

    @property
    def choices(self) -> Choices: ...
    def change(self, **changed: Any) -> None: ...


class SessionTags(MutableSet[str]):
    """A session's tags. Each is trimmed and checked; changes are stored with the session's next call, or by its `save()`."""

    def __init__(self, session: Tagged) -> None:
        self._session = session

    def add(self, value: str) -> None:
        self._session.change(added=parse_session_tag(value))

    def discard(self, value: str) -> None:
        self._session.change(removed=parse_session_tag(value))

    def become(self, values: Iterable[str]) -> None:
        """Takes these tags in place of those that are there."""
        now, wanted = set(self._now), {parse_session_tag(value) for value in tuple(values)}
        for tag in sorted(now - wanted):
            self._session.change(removed=tag)
        for tag in sorted(wanted - now):
            self._session.change(added=tag)

    @classmethod
    def _from_iterable(cls, it: Iterable[T]) -> set[T]:
        """What is calculated from tags is a plain set."""
        return set(it)

    def __contains__(self, value: object) -> bool:
        return value in self._now

    def __iter__(self) -> Iterator[str]:
        return iter(self._now)

    def __len__(self) -> int:
        return len(self._now)

    def __repr__(self) -> str:
        return f"SessionTags({list(self._now)})"

    @property
    def _now(self) -> tuple[str, ...]:
        return self._session.choices.tags
