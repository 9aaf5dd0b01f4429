"""Sends requests to a running server and keeps request and answer as one JSON file each."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
KEPT_HEADERS = ("content-type", "x-ignored-params", "retry-after", "www-authenticate")
OPEN_STATES = ("pending", "processing")
ENDED_STATES = ("failed", "cancelled", "not_found")
SECONDS = 60.0

Json = Any
Headers = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said."""

    status: int
    headers: dict[str, str]
    body: Json


class Recorder:
    """The files of one run, and their index."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.index: list[dict[str, Json]] = []

    def store(self, exchange: dict[str, Json]) -> None:
        """Writes `<out>/<name>.json`."""
        target = self.out / f"{exchange['name']}.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(exchange, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        row = {"name": exchange["name"], "method": exchange["request"]["method"], "path": exchange["request"]["path"]}
        row["status"] = exchange["response"]["status"]
        self.index.append(row | ({"note": exchange["note"]} if "note" in exchange else {}))

    def save_index(self, version: str) -> None:
        """Writes `<out>/index.json`."""
        text = json.dumps({"server_version": version, "exchanges": self.index}, indent=2, ensure_ascii=False)
        (self.out / "index.json").write_text(text + "\n", encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Client:
    """Requests below one address; `at` is a bank's path, or empty for the server itself."""

    recorder: Recorder
    url: str
    at: str = ""

    def bank(self, bank: str) -> Client:
        """The same server, below a bank."""
        return Client(self.recorder, self.url, f"/v1/default/banks/{bank}")

    def send(
        self, call: str, body: Json = None, *, query: Json = None, headers: Headers | None = None, raw: bytes | None = None
    ) -> Answer:
        """Sends, e.g. `POST /memories`; an error status is an answer like any other."""
        method, path = f"{call} ".split(" ", 1)
        url = self.url + self.at + path.strip() + ("?" + urllib.parse.urlencode(query, doseq=True) if query else "")
        content = raw if raw is not None else (None if body is None else json.dumps(body).encode())
        sent = dict(headers or {}) | ({} if content is None else {"Content-Type": "application/json"})
        request = urllib.request.Request(url, data=content, method=method, headers=sent)  # noqa: S310 - loopback
        try:
            with OPENER.open(request, timeout=120) as reply:
                status, got, payload = reply.status, reply.headers, reply.read()
        except urllib.error.HTTPError as error:
            status, got, payload = error.code, error.headers, error.read()
        kept = {name: got[name] for name in KEPT_HEADERS if got.get(name)}
        try:
            return Answer(status, kept, json.loads(payload))
        except ValueError:
            return Answer(status, kept, payload.decode("utf-8", "replace"))

    def take(
        self,
        name: str,
        call: str,
        body: Json = None,
        *,
        query: Json = None,
        headers: Headers | None = None,
        raw: bytes | None = None,
        note: str | None = None,
        expect: int = 200,
    ) -> Json:
        """Sends, stores the exchange under `name`, and gives back the body of the answer."""
        answer = self.send(call, body, query=query, headers=headers, raw=raw)
        if answer.status != expect:
            raise SystemExit(f"{name}: {call} answered {answer.status}, not {expect}: {answer.body}")
        method, path = f"{call} ".split(" ", 1)
        shown = {k: "Bearer <key>" if v.startswith("Bearer") else v for k, v in (headers or {}).items()}
        shown |= {"Content-Type": "application/json"} if body is not None or raw is not None else {}
        request = {"method": method, "path": self.at + path.strip(), "query": query or {}, "headers": shown}
        request["body"] = body if raw is None else raw.decode()
        response = {"status": answer.status, "headers": answer.headers, "body": answer.body}
        told = {"note": note} if note else {}
        self.recorder.store({"name": name, **told, "request": request, "response": response})
        return answer.body

    def quiet(self) -> None:
        """Waits until the bank has no operation left to do."""
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            body = self.send("GET /operations", query={"limit": 100}).body
            if not any(operation["status"] in OPEN_STATES for operation in body["operations"]):
                return
            time.sleep(0.1)
        raise SystemExit(f"{self.at} still has work to do after {SECONDS} s")

    def finished(self, operation: str) -> None:
        """Waits for the end of one operation."""
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            body = self.send(f"GET /operations/{operation}").body
            # The parent's own completed_at follows its derived status by a moment.
            if body["status"] in ENDED_STATES or body["completed_at"]:
                return
            time.sleep(0.1)
        raise SystemExit(f"operation {operation} is not finished after {SECONDS} s")


def items(*given: Json, **request: Json) -> Json:
    """The body of a retain."""
    return {**request, "items": list(given)}


def item(content: Json, document: str | None = None, **fields: Json) -> Json:
    """One thing to retain."""
    return {"content": content, **({"document_id": document} if document else {}), **fields}
