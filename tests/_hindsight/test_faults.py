"""What each answer that is no success means."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from lorebank._hindsight.faults import refusal, rejected_items, retry_after
from lorebank.errors import (
    ForbiddenError,
    GarbledError,
    LorebankError,
    MissingError,
    RateLimitedError,
    RefusedError,
    UnavailableError,
)

NOW = datetime(2026, 3, 4, tzinfo=UTC)
INVALID = [{"type": "value_error", "loc": ["body", "items", 2, "content"], "msg": "empty", "input": "SECRET"}]


def fault(status: int, detail: Any = None, *, body: bytes | None = None, **headers: str) -> LorebankError:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    content = json.dumps({"detail": detail}).encode() if body is None else body
    return refusal("POST /x", status, given, content, now=NOW)


@pytest.mark.parametrize(
    ("status", "detail", "kind"),
    [
        (401, "Authentication failed: Invalid API key", ForbiddenError),
        (403, "no", ForbiddenError),
        (404, "Bank 'x' not found", MissingError),
        (404, "Not Found", GarbledError),
        (405, "Method Not Allowed", GarbledError),
        (400, "bad timestamp", RefusedError),
        (409, "exists", RefusedError),
        (410, "gone", RefusedError),
        (422, INVALID, RefusedError),
        (422, "Invalid fact type(s): x", RefusedError),
        (408, "slow", UnavailableError),
        (429, "slow down", RateLimitedError),
        (500, "Fact extraction failed", UnavailableError),
        (502, "bad gateway", UnavailableError),
        (503, "busy", UnavailableError),
        (504, "late", UnavailableError),
    ],
)
def test_the_class_says_what_the_caller_can_do(status: int, detail: Any, kind: type[LorebankError]) -> None:
    """One class for each remedy."""
    error = fault(status, detail)
    assert type(error) is kind
    assert error.status == status


@pytest.mark.parametrize("body", [b"<html>no</html>", b"", b"[]", b"{}"])
def test_a_refusal_that_is_not_hindsights_is_garbled(body: bytes) -> None:
    """A proxy's page says nothing about the write."""
    assert type(fault(400, body=body)) is GarbledError
    assert type(fault(502, body=body)) is UnavailableError


def test_a_redirect_says_where_it_points() -> None:
    """It is not followed."""
    with pytest.raises(GarbledError, match=r"https://login\.example"):
        raise fault(302, body=b"", location="https://login.example")


def test_a_busy_server_says_how_long() -> None:
    """Seconds or a date."""
    assert type(fault(503, "busy", retry_after="7")) is RateLimitedError
    assert fault(429, "busy", retry_after="Wed, 04 Mar 2026 00:00:09 GMT").retry_after == 9
    assert [retry_after(text, NOW) for text in (None, "soon", "-1", "1.5", "Wed, 04 Mar 2020 00:00:00 GMT")] == [
        None,
        None,
        None,
        1.5,
        0,
    ]


def test_a_validation_error_names_the_items_and_keeps_content_out() -> None:
    """The places are enough to find the bad item."""
    error = fault(422, [*INVALID, {"loc": ["body", "items", 0, "metadata", "n"], "msg": "text", "input": "SECRET"}, "odd"])
    assert rejected_items(error) == (0, 2)
    assert "SECRET" not in f"{error}{error.detail}"
    assert rejected_items(fault(422, "a text")) == rejected_items(fault(422, [{"loc": ["query"]}])) == ()
