"""Recorded answers: each JSON file holds a request and the response it got.

A file is `{"request": {"method", "path", "query", "body"}, "response": {"status", "headers", "body"}}`; `index.json` may
list their names in the order of recording. Where the same request was recorded several times, its answers come one after
the other and the last one stays.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

from lorebank._faults.wire import Answer, Request, as_json
from lorebank.errors import UsageError

__all__ = ["Replay"]

Key = tuple[str, str, tuple[tuple[str, tuple[str, ...]], ...], str]


class Replay:
    """The exchanges below `folder`, looked up by method, path, query and body."""

    def __init__(self, folder: Path) -> None:
        self._lock = threading.Lock()
        self._answers: dict[Key, list[Answer]] = {}
        for exchange in _exchanges(folder):
            self._answers.setdefault(_key_of(exchange["request"]), []).append(_answer_of(exchange["response"]))
        if not self._answers:
            raise UsageError(f"`exchanges` is a folder of recorded exchanges; found none in `{folder}`.")

    def answer(self, request: Request) -> Answer:
        """The recorded answer; 501 when there is none."""
        key = (request.method, unquote(request.path), _sorted(request.query), _body_of(request.body))
        with self._lock:
            answers = self._answers.get(key, [])
            if len(answers) > 1:
                return answers.pop(0)
        if answers:
            return answers[0]
        asked = (
            f"{request.method} {request.path}, query {dict(request.query)}, body {request.body[:200].decode(errors='replace')!r}"
        )
        return as_json({"detail": f"No recorded exchange answers {asked}"}, 501)


def _exchanges(folder: Path) -> list[dict[str, Any]]:
    index = folder / "index.json"
    order: dict[str, int] = {}
    if index.exists():
        listed: list[dict[str, Any]] = json.loads(index.read_text(encoding="utf-8")).get("exchanges", [])
        order = {each["name"]: place for place, each in enumerate(listed)}
    files = sorted(path for path in folder.rglob("*.json") if path != index)
    found: list[dict[str, Any]] = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    whole = [each for each in found if "request" in each and "response" in each]
    return sorted(whole, key=lambda each: order.get(str(each.get("name")), len(order)))


def _key_of(request: Mapping[str, Any]) -> Key:
    query: dict[str, Any] = request.get("query") or {}
    texts = {name: _texts(value) for name, value in query.items()}
    body = request.get("body")
    raw = body if isinstance(body, str) else _canonical(body)
    return request["method"], unquote(request["path"]), _sorted(texts), "" if body is None else raw


def _answer_of(response: Mapping[str, Any]) -> Answer:
    recorded: Mapping[str, str] = response.get("headers") or {}
    headers = {name.lower(): value for name, value in recorded.items()}
    kind = headers.pop("content-type", "application/json")
    body = response.get("body")
    content = body.encode() if isinstance(body, str) else as_json(body).body
    return Answer(response["status"], content, headers, kind)


def _sorted(query: Mapping[str, tuple[str, ...]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple(sorted(query.items()))


def _body_of(body: bytes) -> str:
    text = body.decode(errors="replace")
    try:
        return _canonical(json.loads(text))
    except ValueError:
        return text


def _canonical(body: Any) -> str:
    return json.dumps(body, sort_keys=True)


def _texts(value: Any) -> tuple[str, ...]:
    values = cast("Sequence[Any]", value) if isinstance(value, list) else (value,)
    return tuple(str(each).lower() if isinstance(each, bool) else str(each) for each in values)
