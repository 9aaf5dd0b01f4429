"""What goes over the wire: a request as it came, an answer as it will go, a refusal that becomes one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

__all__ = ["Answer", "Answerer", "RefusalError", "Request", "as_json", "query_of"]

NO_HEADERS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Request:
    """A request that reached the server.

    `path` is as sent (percent-encoded, without the query), names in `headers` are lower case, `query` has every value
    of a name in order, `at` is `time.monotonic()` in seconds when the request was complete.

    >>> Request("GET", "/health", {}, {}, b'{"a": 1}', 0.0).json()
    {'a': 1}
    """

    method: str
    path: str
    query: Mapping[str, tuple[str, ...]]
    headers: Mapping[str, str]
    body: bytes
    at: float

    def json(self) -> Any:
        """The body as JSON; `ValueError` where it is none."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, a body and headers; the length is added when it is sent."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=lambda: NO_HEADERS)
    content_type: str = "application/json"


Answerer = Callable[[Request], Answer]
"""What stands behind the socket: the small Hindsight, a proxy or recorded exchanges."""


class RefusalError(Exception):
    """The small Hindsight says no: a status and what stands under `detail`."""

    def __init__(self, status: int, detail: Any, headers: Mapping[str, str] = NO_HEADERS) -> None:
        super().__init__(status, detail)
        self.status = status
        self.detail = detail
        self.headers = headers


def as_json(content: Any, status: int = 200, headers: Mapping[str, str] = NO_HEADERS) -> Answer:
    """An answer with a JSON body."""
    return Answer(status, json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode(), headers)


def query_of(text: str) -> dict[str, tuple[str, ...]]:
    """Every value of each name, in order; blank values count.

    >>> query_of("tags=a&tags=b&q=")
    {'tags': ('a', 'b'), 'q': ('',)}
    """
    return {name: tuple(values) for name, values in parse_qs(text, keep_blank_values=True).items()}
