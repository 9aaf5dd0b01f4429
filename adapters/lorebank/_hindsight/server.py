"""The server as values: a call's path and body in, a parsed answer out. Every other file of this folder asks through it."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

from lorebank._domain.events import Event, IgnoredParameters, Listener
from lorebank._domain.operations import Operation
from lorebank._domain.settings import ConnectionSettings
from lorebank._hindsight import answers
from lorebank._hindsight.answers import Answer, read
from lorebank._hindsight.transport import Call, Transport
from lorebank._hindsight.wire import encoded
from lorebank.errors import LorebankError, MissingError, UnavailableError

BANKS = "/v1/default/banks"
PAGE = 500
NEWEST = (1, 1)
FIRST_LOOK, LONGEST_LOOK = 0.05, 1.0
"""Seconds between two looks at an operation that is awaited."""
Kind = TypeVar("Kind", bound=Answer)
Value = TypeVar("Value")
_UUID = re.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class Page(Protocol):
    """What all lists share; `total` is `None` where a server gives everything at once."""

    @property
    def items(self) -> Sequence[Any]: ...
    @property
    def total(self) -> int | None: ...


class Server:
    """One Hindsight server, as one key sees it."""

    def __init__(self, url: str, settings: ConnectionSettings, *, version: str) -> None:
        self.settings = settings
        self.transport = Transport(url, settings, version=version)
        self.transport.ignored = self._ignored
        self.tell: Listener = _nobody
        self._version: tuple[int, int] | None = None

    def read(
        self, kind: type[Kind], bank: str, *parts: str, query: Mapping[str, object] | None = None, urgent: bool = False
    ) -> Kind:
        """What a path of a bank holds; `MissingError` where there is none."""
        return self.ask(kind, Call("GET", at(bank, *parts), self.settings.timeout, query, urgent=urgent, bank=bank))

    def change(
        self,
        kind: type[Kind],
        method: str,
        place: Sequence[str],
        body: Mapping[str, Any] | None = None,
        *,
        urgent: bool = False,
    ) -> Kind:
        """Changes what stands at a place, a bank and a path in it."""
        content = None if body is None else encoded(body)
        timeout = self.settings.timeout
        return self.ask(kind, Call(method, at(*place), timeout, body=content, read=False, urgent=urgent, bank=place[0]))

    def ask(self, kind: type[Kind], call: Call) -> Kind:
        """The answer to any call."""
        return read(kind, self.transport.call(call))

    def pages(self, kind: type[Kind], bank: str, *parts: str, query: Mapping[str, object], size: int = PAGE) -> Iterator[Any]:
        """Everything a list of a bank holds, page by page as it is needed; nothing where the bank is unknown."""
        offset = 0
        while True:
            try:
                page: Any = self.read(kind, bank, *parts, query={**query, "limit": size, "offset": offset})
            except MissingError:
                return
            yield from page.items
            offset += len(page.items)
            if not page.items or page.total is None or offset >= page.total:
                return

    def await_operation(self, bank: str, operation_id: str, deadline: float) -> Operation:
        """The operation once it is over, or as it is when the time is; `deadline` in seconds."""
        until, pause = time.monotonic() + deadline, FIRST_LOOK
        while True:
            operation = self.operation(bank, operation_id)
            left = until - time.monotonic()
            if not operation.running or left <= 0:
                return operation
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, LONGEST_LOOK)

    def operation(self, bank: str, operation_id: str, *, urgent: bool = False) -> Operation:
        """One operation; its state is `not_found` where there is none."""
        if not is_uuid(operation_id):
            return Operation(operation_id, "not_found")
        call = Call("GET", at(bank, "operations", operation_id), self.settings.timeout, urgent=urgent, bank=bank)
        try:
            return self.ask(answers.Work, call).operation()
        except MissingError:
            return Operation(operation_id, "not_found")

    def version(self) -> tuple[int, int]:
        """Major and minor, asked once; a server that doesn't say counts as the newest."""
        if self._version is None:
            with suppress(MissingError):
                self._version = self.ask(answers.Version, Call("GET", "/version", self.settings.timeout)).number()
        return self._version or NEWEST

    def _ignored(self, bank: str, names: Sequence[str]) -> None:
        self.tell(IgnoredParameters(bank, tuple(names)))


def at(bank: str, *parts: str) -> str:
    """The path of a bank, or of something in it; ids are encoded, since they may hold anything."""
    return "/".join([BANKS, *map(encoded_id, (bank, *parts))])


def encoded_id(text: str) -> str:
    """One segment of a path. Dots alone would be taken for a way up."""
    return text.replace(".", "%2E") if text in (".", "..") else quote(text, safe="")


def is_uuid(text: str) -> bool:
    """Whether the server could have made this id: it answers others with errors that don't say "unknown"."""
    return _UUID.fullmatch(text) is not None


def at_once(jobs: Sequence[Callable[[], Value]]) -> list[Value | LorebankError]:
    """Runs the jobs side by side; each one's value, or why the server gave none."""
    results: list[Any] = [None] * len(jobs)

    def run(place: int) -> None:
        try:
            results[place] = jobs[place]()
        except BaseException as error:  # noqa: BLE001 - raised below, in the caller's thread
            results[place] = error

    threads = [threading.Thread(target=run, args=(place,), name="lorebank-read", daemon=True) for place in range(1, len(jobs))]
    for thread in threads:
        thread.start()
    run(0)
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, LorebankError):
            raise result
    return results


def down(error: LorebankError) -> bool:
    """Whether a failure is the server's state, rather than an answer."""
    return isinstance(error, UnavailableError)


def _nobody(_event: Event) -> None:
    """Nobody listens yet."""
