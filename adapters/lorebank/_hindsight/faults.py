"""What a server's answer means when it is no success. Pure: status, headers and body in, an error of ours out.

Who decides on an error looks at its class: `UnavailableError` and `GarbledError` may pass by themselves, a `RefusedError`
won't. Hindsight's refusals are JSON with a `detail`; a 4xx without one comes from something else on the way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, cast

from lorebank.errors import (
    ForbiddenError,
    GarbledError,
    LorebankError,
    MissingError,
    RateLimitedError,
    RefusedError,
    UnavailableError,
)

SHOWN = 300
"""Characters of a server's words that an error shows."""
_NOT_HINDSIGHT = ("Not Found", "Method Not Allowed")
"""What a web framework answers by itself where there is no such path."""


def refusal(call: str, status: int, headers: Mapping[str, str], body: bytes, *, now: datetime) -> LorebankError:
    """The error for an answer that is no success. `call` says what was asked, such as `POST /v1/...`."""
    detail = _detail(body)
    words = _words(detail)
    wait = retry_after(headers.get("retry-after"), now)
    known: dict[str, Any] = {"status": status, "detail": None if detail is None else _text(detail), "retry_after": wait}
    if status == 429 or (status == 503 and wait is not None):
        return RateLimitedError(f"the server asks for a pause ({status}{words}): try again later", **known)
    if status >= 500 or status == 408:
        return UnavailableError(f"the server could not answer `{call}` ({status}{words}): try again later", **known)
    if status in (401, 403):
        return ForbiddenError(f"the server does not accept the API key ({status}{words}): check `api_key`", **known)
    if status < 400 or detail is None or detail in _NOT_HINDSIGHT:
        return GarbledError(_elsewhere(call, status, headers), **known)
    if status == 404:
        return MissingError(f"the server does not know it ({words.removeprefix(': ')})", **known)
    return RefusedError(f"the server refused `{call}` ({status}{words})", **known)


def _elsewhere(call: str, status: int, headers: Mapping[str, str]) -> str:
    """Says that something other than Hindsight has answered."""
    if status < 400:
        place = headers.get("location", "nowhere")[:SHOWN]
        return f"`{call}` was redirected ({status}) to {place!r}: use the server's own address"
    return f"`{call}` was answered with {status}, not by a Hindsight server: check the URL"


def garbled(call: str, found: str) -> GarbledError:
    """The error for an answer that is a success by its status only."""
    return GarbledError(f"`{call}` was answered with {found}, where Hindsight's JSON was expected: check the URL and any proxy")


def retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds to wait, from a header that holds seconds or a date; `None` where it says neither."""
    if value is None:
        return None
    try:
        return max(float(value), 0.0) if value.strip().replace(".", "", 1).isdigit() else _until(value, now)
    except (ValueError, OverflowError):
        return None


def ahead(value: str | None, now: datetime) -> float | None:
    """By how many seconds a `Date` header is ahead of a moment; `None` where it says no time."""
    try:
        return None if value is None else round(_ahead(value, now))
    except (ValueError, OverflowError):
        return None


def _until(value: str, now: datetime) -> float:
    return max(_ahead(value, now), 0.0)


def _ahead(value: str, now: datetime) -> float:
    moment = parsedate_to_datetime(value)
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - now).total_seconds()


def rejected_items(error: LorebankError) -> tuple[int, ...]:
    """The places of the items that a refused retain names, in order."""
    try:
        parts = _parts(json.loads(error.detail or ""))
    except ValueError:
        return ()
    found: set[int] = set()
    for part in parts:
        where: Any = part.get("loc", [])
        if where[:2] == ["body", "items"] and len(where) > 2 and isinstance(where[2], int):
            found.add(where[2])
    return tuple(sorted(found))


def _detail(body: bytes) -> Any:
    """The `detail` of an error body; `None` where it has none."""
    try:
        parsed: Any = json.loads(body)
    except ValueError:
        return None
    return cast("dict[str, Any]", parsed).get("detail") if isinstance(parsed, dict) else None


def _parts(detail: Any) -> list[dict[str, Any]]:
    """What a validation error complains of, part by part."""
    return [part for part in _list(detail) if isinstance(part, dict)]


def _list(value: Any) -> list[Any]:
    return list[Any](value) if isinstance(value, list) else []  # pyright: ignore[reportUnknownArgumentType]


def _text(detail: Any) -> str:
    """The detail as text; of a validation error without what it was sent, since that is content."""
    if isinstance(detail, str):
        return detail
    bare = [{name: value for name, value in part.items() if name in ("type", "loc", "msg")} for part in _parts(detail)]
    return json.dumps(bare or detail, ensure_ascii=False)


def _words(detail: Any) -> str:
    """What the server said, without what it was sent: a validation error names the place and the rule only."""
    if isinstance(detail, str):
        return f": {detail[:SHOWN]}"
    rules = [f"{'.'.join(map(str, part.get('loc', [])))}: {part.get('msg', '')}" for part in _parts(detail)]
    return f": {'; '.join(rules)[:SHOWN]}" if rules else ""
