"""What else can stand behind the faults: a real server, and recorded answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from lorebank.errors import UsageError
from lorebank.testing import Fault, FaultServer

B = "/v1/default/banks/test"
MEMORIES = f"{B}/memories"
ITEM = {"items": [{"content": "Ana likes tea.", "document_id": "a/b"}]}


@pytest.fixture
def proxy(server: FaultServer) -> Iterator[httpx.Client]:
    """A client of a proxy in front of `server`."""
    with FaultServer(upstream=server.url) as between, httpx.Client(base_url=between.url, timeout=5) as client:
        client.headers["x-through"] = "proxy"
        yield client


def record(folder: Path, name: str, request: dict[str, Any], response: dict[str, Any]) -> None:
    path = folder / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"name": name, "request": request, "response": response}), encoding="utf-8")


def test_a_proxy_passes_everything_on(server: FaultServer, proxy: httpx.Client) -> None:
    """Paths as sent, queries, headers, bodies, and the answer with its headers."""
    assert proxy.post(MEMORIES, json=ITEM).status_code == 200
    assert proxy.get(f"{B}/documents/a%2Fb").json()["original_text"] == "Ana likes tea."
    answer = proxy.get(f"{MEMORIES}/list", params={"tags": ["x", "y"], "foo": "a b&c"})
    assert answer.headers["x-ignored-params"] == "foo"
    seen = server.requests[-1]
    assert seen.query == {"tags": ("x", "y"), "foo": ("a b&c",)}
    assert seen.headers["x-through"] == "proxy"
    assert seen.headers["host"] == server.url.removeprefix("http://")
    assert proxy.delete(B).json()["success"] is True
    assert proxy.get(f"{B}/stats").status_code == 404


def test_a_proxy_has_the_same_faults(server: FaultServer) -> None:
    """Cut: carried out by the real server; dropped and refused: not."""
    with FaultServer(upstream=server.url) as between, httpx.Client(base_url=between.url) as client:
        between.fault(Fault(status=503), times=1)
        assert client.post(MEMORIES, json=ITEM).status_code == 503
        assert server.requests == ()
        between.fault(Fault(cut=True), times=1)
        with pytest.raises(httpx.TransportError):
            client.post(MEMORIES, json=ITEM)
        assert server.bank("test").documents == {"a/b": "Ana likes tea."}
        assert [request.path for request in between.requests] == [MEMORIES, MEMORIES]


def test_a_proxy_says_when_nothing_is_behind_it(server: FaultServer, proxy: httpx.Client) -> None:
    """502; and it works again when the real server does."""
    server.stop()
    assert proxy.get("/version").status_code == 502
    server.start()
    assert proxy.get("/version").status_code == 200


def test_a_proxy_stops_in_the_middle_of_a_request(server: FaultServer) -> None:
    """It does not wait for a real server that hangs."""
    server.fault(Fault(hang=True))
    with FaultServer(upstream=server.url) as between:
        with httpx.Client(base_url=between.url) as client, pytest.raises(httpx.ReadTimeout):
            client.get("/version", timeout=0.05)
        while not server.requests:
            pass


def test_a_replay_answers_what_was_recorded(tmp_path: Path) -> None:
    """By method, path, query and body, whatever their order and spelling."""
    asked = {"method": "GET", "path": f"{B}/documents/a b", "query": {"limit": 2, "tags": ["x", "y"], "all": True}, "body": None}
    record(tmp_path, "documents/list", asked, {"status": 200, "headers": {"x-ignored-params": "all"}, "body": {"items": []}})
    recalled = {"method": "POST", "path": f"{MEMORIES}/recall", "query": {}, "body": {"query": "tea", "budget": "low"}}
    record(tmp_path, "recall/plain", recalled, {"status": 404, "headers": {}, "body": {"detail": "Bank 'test' not found"}})
    record(tmp_path, "errors/not-json", {**recalled, "body": "{not json"}, {"status": 422, "body": {"detail": []}})
    with FaultServer(exchanges=tmp_path) as server, httpx.Client(base_url=server.url) as client:
        listed = client.get(f"{B}/documents/a%20b?tags=x&tags=y&all=true&limit=2")
        assert (listed.json(), listed.headers["x-ignored-params"]) == ({"items": []}, "all")
        assert client.post(f"{MEMORIES}/recall", json={"budget": "low", "query": "tea"}).status_code == 404
        assert client.post(f"{MEMORIES}/recall", content=b"{not json").status_code == 422
        missed = client.post(f"{MEMORIES}/recall", json={"query": "coffee"})
        assert missed.status_code == 501
        assert "coffee" in missed.json()["detail"]
        server.fault(Fault(status=503), times=1)
        assert client.post(f"{MEMORIES}/recall", json={"budget": "low", "query": "tea"}).status_code == 503


def test_a_replay_tells_answers_in_the_order_of_recording(tmp_path: Path) -> None:
    """Where the same was asked twice; the last one stays."""
    asked: dict[str, Any] = {"method": "GET", "path": "/op", "query": {}, "body": None}
    for name in ("b-pending", "a-completed"):
        record(tmp_path, name, asked, {"status": 200, "headers": {}, "body": {"status": name}})
    index = {"exchanges": [{"name": "b-pending"}, {"name": "a-completed"}]}
    (tmp_path / "index.json").write_text(json.dumps(index), encoding="utf-8")
    with FaultServer(exchanges=tmp_path) as server, httpx.Client(base_url=server.url) as client:
        assert [client.get("/op").json()["status"] for _ in range(3)] == ["b-pending", "a-completed", "a-completed"]


def test_a_folder_without_exchanges_is_refused(tmp_path: Path) -> None:
    """Not answered with 501 for ever."""
    with pytest.raises(UsageError, match="exchanges"):
        FaultServer(exchanges=tmp_path)
