"""The batches that a job is done in: read, thought about with nothing locked, written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from lorebank._database.driver import Source
from lorebank._domain.events import Event
from lorebank._mnemopi.jobs.marks import Job, Kind
from lorebank._mnemopi.jobs.metering import Metered

Thought = TypeVar("Thought")


@dataclass(frozen=True, slots=True)
class Written:
    """What a batch has written: how many memories, from how many, and which of its keys must be done again since they changed
    meanwhile. `event` tells of it, where there is something to tell.
    """

    count: int = 0
    sources: int = 0
    changed: Sequence[int] = ()
    event: Event | None = None


class Work(Protocol):
    """One kind of job. `size` is how many memories make a batch."""

    @property
    def kind(self) -> Kind: ...
    @property
    def size(self) -> int: ...
    def read(self, connection: Source, job: Job, keys: Sequence[int], now: int) -> Any:
        """What these memories give to think about."""
        ...

    def think(self, material: Any, completer: Metered | None) -> Any:
        """What is made of it. `UnavailableError` where the completer fails."""
        ...

    def write(self, connection: Source, job: Job, thought: Any, now: int) -> Written:
        """Writes what still holds."""
        ...
