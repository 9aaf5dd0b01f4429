"""What can go wrong with an answer, and which requests it happens to."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from lorebank._faults.wire import NO_HEADERS, Answer, Request, as_json
from lorebank.errors import UsageError

__all__ = ["Fault", "Plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One way for a request to go wrong.

    Instead of the answer: `status` (a Hindsight error, or with `body` those bytes as `content_type`; `body` alone is a
    200), `hang` (the request is read and never answered), `drop` (the connection is closed, the request not carried
    out), `endless` (a body without an end). After the request was carried out: `cut` (closed without an answer),
    `delay` (seconds before the answer goes; a client that gives up has had its effect), `drip` (seconds between two
    bytes of the body; with `drip_headers` also of the head), `stall_after` (bytes of the body, then silence on an open
    connection), `cut_after` (bytes of the body, then the connection is closed). `retry_after` (seconds) and `headers`
    are added to whatever is answered.

    A stall or cut comes before the last byte at the latest. A contradiction is a `UsageError`.

    >>> Fault(status=503, retry_after=2).retry_after
    2
    """

    status: int | None = None
    retry_after: float | str | None = None
    delay: float = 0.0
    hang: bool = False
    drip: float = 0.0
    drip_headers: bool = False
    stall_after: int | None = None
    cut_after: int | None = None
    cut: bool = False
    drop: bool = False
    endless: bool = False
    body: bytes | None = None
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=lambda: NO_HEADERS)

    def __post_init__(self) -> None:
        kinds = {
            "hang": self.hang,
            "drop": self.drop,
            "cut": self.cut,
            "endless": self.endless,
            "drip": self.drip > 0,
            "stall_after": self.stall_after is not None,
            "cut_after": self.cut_after is not None,
        }
        chosen = [name for name, on in kinds.items() if on]
        if len(chosen) > 1:
            raise UsageError(f"A `Fault` goes wrong in one way; got {' and '.join(f'`{name}`' for name in chosen)}.")
        if self.drip_headers and not self.drip:
            raise UsageError("`drip_headers` needs `drip`, the seconds between two bytes.")
        if min(self.delay, self.drip, self.stall_after or 0, self.cut_after or 0) < 0:
            raise UsageError("Seconds and byte counts of a `Fault` are 0 or more.")

    def replaces(self) -> bool:
        """Whether the request is not carried out, since the answer is made up."""
        return self.status is not None or self.body is not None or self.endless

    def made_up(self) -> Answer:
        """The answer in place of the real one."""
        status = 200 if self.status is None else self.status
        if self.body is not None:
            return Answer(status, self.body, content_type=self.content_type)
        return as_json({"detail": f"Injected fault: {status} {_phrase(status)}"}, status)

    def extra_headers(self) -> dict[str, str]:
        """Headers that go on top of the answer's own."""
        extra = dict(self.headers)
        if self.retry_after is not None:
            extra["retry-after"] = str(self.retry_after)
        return extra


def _phrase(status: int) -> str:
    return HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "Unknown"


class _Entry:
    def __init__(self, fault: Fault, path: str | None, method: str | None, times: int | None) -> None:
        self.fault = fault
        self.left = times
        self._path = None if path is None else re.compile(path)
        self._method = None if method is None else method.upper()

    def matches(self, request: Request) -> bool:
        return (self._method in {None, request.method}) and (self._path is None or bool(self._path.search(request.path)))


class Plan:
    """The faults to come, oldest first; a request meets the first that fits it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[_Entry] = []

    def add(self, fault: Fault, *, path: str | None, method: str | None, times: int | None) -> None:
        """From now on; `times` requests, or all of them until `clear`."""
        if times is not None and times < 1:
            raise UsageError(f"`times` is 1 or more, or None for every request; got {times}.")
        with self._lock:
            self._entries = [*self._entries, _Entry(fault, path, method, times)]

    def clear(self) -> None:
        """No more faults."""
        with self._lock:
            self._entries = []

    def take(self, request: Request) -> Fault | None:
        """The fault of this request, counted."""
        if not self._entries:
            return None
        with self._lock:
            entry = next((entry for entry in self._entries if entry.matches(request)), None)
            if entry is not None and entry.left is not None:
                entry.left -= 1
                self._entries = [each for each in self._entries if each.left != 0]
            return None if entry is None else entry.fault
