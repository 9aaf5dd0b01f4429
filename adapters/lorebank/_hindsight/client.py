"""The server's calls by name: paths, methods, deadlines, and answers read."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

from lorebank._domain.settings import ConnectionSettings
from lorebank._hindsight import wire
from lorebank._hindsight.answers import Answer, OperationAnswer, Page, VersionAnswer, read
from lorebank._hindsight.transport import Call, Transport
from lorebank.errors import LorebankError, MissingError

M = TypeVar("M", bound=Answer)
PAGE = 500
"""Entries asked for at once."""
FIRST_LOOK, LONGEST_LOOK = 0.05, 1.0
"""Seconds between two looks at an operation that is waited for, doubling."""


class Client:
    """Calls about banks. Safe for threads."""

    def __init__(self, url: str, settings: ConnectionSettings, *, version: str) -> None:
        self.settings = settings
        self.transport = Transport(url, settings, version=version)
        self._version: tuple[int, ...] | None = None
        self._asking = threading.Lock()

    def get(self, kind: type[M], path: str, *, query: Mapping[str, object] | None = None, urgent: bool = False) -> M:
        """Reads something."""
        call = Call("GET", path, self.settings.timeout, query=query, urgent=urgent)
        return read(kind, str(call), self.transport.call(call))

    def send(self, method: str, path: str, body: Mapping[str, Any] | bytes | None = None, **options: Any) -> Any:
        """Changes something, or asks something that needs a body; gives the answer's JSON."""
        content = wire.compact(body) if isinstance(body, Mapping) else body
        given = {"timeout": self.settings.timeout, "read": False, **options}
        return self.transport.call(Call(method, path, body=content, **given))

    def ask(self, kind: type[M], path: str, body: Mapping[str, Any], *, timeout: float, read_only: bool = True) -> M:
        """A question with a body."""
        return read(kind, f"POST {path}", self.send("POST", path, body, timeout=timeout, read=read_only))

    def pages(self, path: str, query: Mapping[str, object], *, skip: int = 0) -> Iterator[Page]:
        """Pages of memories, until one is not full; a bank that nobody has written to has none."""
        while True:
            try:
                page = self.get(Page, path, query={**query, "limit": PAGE, "offset": skip})
            except MissingError:
                return
            yield page
            skip += len(page.items)
            if len(page.items) < PAGE or (page.total is not None and skip >= page.total):
                return

    def operation(self, bank: str, operation_id: str, *, urgent: bool = False) -> OperationAnswer:
        """An operation as it is now."""
        return self.get(OperationAnswer, f"{root(bank)}/operations/{quote(operation_id, safe='')}", urgent=urgent)

    def awaited(self, bank: str, operation_id: str | None, seconds: float) -> OperationAnswer | None:
        """An operation once it is over; `None` where it is not within so many seconds."""
        until, pause = time.monotonic() + seconds, FIRST_LOOK
        while operation_id is not None and time.monotonic() < until:
            found = self.operation(bank, operation_id)
            if not found.operation().running:
                return found
            time.sleep(pause)
            pause = min(pause * 2, LONGEST_LOOK)
        return None

    @property
    def version(self) -> tuple[int, ...]:
        """The server's version; what can't be told is taken for a new one."""
        if self._version is None:
            with self._asking:
                try:
                    answer = self.get(VersionAnswer, "/version")
                    self._version = tuple(int(part) for part in answer.api_version.split(".")[:3])
                except (LorebankError, ValueError):
                    return (1, 1)
        return self._version

    @property
    def old(self) -> bool:
        """Whether the server is older than 1.0."""
        return self.version < (1,)


def root(bank: str) -> str:
    """The path of a bank."""
    return f"/v1/default/banks/{quote(bank, safe='')}"
