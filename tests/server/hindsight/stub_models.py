#!/usr/bin/env python3
"""Deterministic stand-in for an OpenAI-compatible model server (chat and embeddings).

It lets a real Hindsight server run its whole pipeline (fact extraction, consolidation, reflect, mental-model refresh,
structured output) with no model and no network. Standard library only. Binds to 127.0.0.1. Every answer is a pure
function of the request; `stub_chat.py` tells which.

    python3 stub_models.py --port 8971 [--dim 384] [--calls-file calls.jsonl]

OpenAI surface
    GET  /v1/models
    POST /v1/embeddings          hashed bag of words, L2-normalised, float or base64
    POST /v1/chat/completions    plain, json_schema / json_object, and tool calls

Test controls
    GET  /stub/health            {"status": "ok", ...}
    GET  /stub/calls?since=N     what was asked, newest last (kind + sizes, capped history)
    POST /stub/behaviour         {"chat": {"status": 503, "times": 2}, "embeddings": {...}}
                                 also "delay_s": 1.5 (applied to every matching request) and
                                 "kind": "facts" to hit only one kind of chat request
    POST /stub/reset             forget behaviour and history
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import struct
import sys
import threading
import time
from collections import deque
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from stub_chat import MODEL, chat, kind_of
from stub_extraction import text_of
from stub_text import embed

Json = Any

EMBED_MODEL = "stub-embed"
TOLD = "asked to fail by /stub/behaviour"


class State:
    """What was asked so far, and how to misbehave."""

    def __init__(self, dim: int, calls_file: Path | None) -> None:
        self.dim = dim
        self.lock = threading.Lock()
        self.calls: deque[dict[str, Json]] = deque(maxlen=2000)
        self.count = 0
        self.behaviour: dict[str, Json] = {}
        self.calls_file = calls_file

    def record(self, body: Json, **call: Json) -> None:
        """Keeps one call for `/stub/calls`, and with its body in the file."""
        with self.lock:
            self.count += 1
            self.calls.append({"n": self.count, **call})
            if self.calls_file:
                with self.calls_file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"n": self.count, **call, "body": body}, ensure_ascii=False) + "\n")

    def fault(self, endpoint: str, kind: str) -> tuple[float, int | None]:
        """(delay, status) to apply to this request."""
        with self.lock:
            rule = self.behaviour.get(endpoint)
            if not rule or rule.get("kind") not in (None, kind):
                return 0.0, None
            delay = float(rule.get("delay_s", 0))
            times = rule.get("times")
            if "status" not in rule or times == 0:
                return delay, None
            if times is not None:
                rule["times"] = times - 1
            return delay, int(rule["status"])

    def behave(self, body: Json) -> Json:
        """Takes new rules; gives all."""
        with self.lock:
            self.behaviour.update(body)
            return dict(self.behaviour)

    def reset(self) -> None:
        """Behaves well again, and remembers no call."""
        with self.lock:
            self.behaviour.clear()
            self.calls.clear()

    def since(self, number: int) -> Json:
        """The calls after one number."""
        with self.lock:
            return {"total": self.count, "calls": [call for call in self.calls if call["n"] > number]}


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server_version = "stub-models/1"

    def __init__(self, state: State, *args: Any) -> None:
        self.state = state
        super().__init__(*args)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""

    def reply(self, status: int, payload: Json) -> None:
        content = json.dumps(payload, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def fail(self, status: int, message: str) -> None:
        self.reply(status, {"error": {"message": message, "type": "stub_error", "code": str(status)}})

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path in ("/v1/models", "/models"):
            models = [{"id": model, "object": "model", "owned_by": "stub"} for model in (MODEL, EMBED_MODEL)]
            self.reply(200, {"object": "list", "data": models})
        elif url.path in ("/stub/health", "/health"):
            self.reply(200, {"status": "ok", "dim": self.state.dim, "calls": self.state.count})
        elif url.path == "/stub/calls":
            self.reply(200, self.state.since(int(parse_qs(url.query).get("since", ["0"])[0])))
        else:
            self.fail(404, f"no such path: {url.path}")

    def do_POST(self) -> None:
        path = urlsplit(self.path).path
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            self.fail(400, "the body is not JSON")
            return
        try:
            self.answer(path, body)
        except Exception as error:  # noqa: BLE001 - the caller gets it as an HTTP 500
            self.state.record(body, path=path, kind="error", error=str(error))
            self.fail(500, str(error))

    def answer(self, path: str, body: Json) -> None:
        if path.endswith("/embeddings"):
            self.embeddings(body)
        elif path.endswith("/chat/completions"):
            self.completions(body)
        elif path == "/stub/behaviour":
            self.reply(200, self.state.behave(body))
        elif path == "/stub/reset":
            self.state.reset()
            self.reply(200, {"status": "reset"})
        else:
            self.fail(404, f"no such path: {path}")

    def embeddings(self, body: Json) -> None:
        inputs = body.get("input")
        inputs = inputs if isinstance(inputs, list) else [inputs]
        delay, status = self.state.fault("embeddings", "embeddings")
        time.sleep(delay)
        self.state.record(body, path="embeddings", kind="embeddings", inputs=len(inputs))
        if status:
            self.fail(status, TOLD)
            return
        dim = int(body.get("dimensions") or self.state.dim)
        vectors = [embed(text if isinstance(text, str) else json.dumps(text), dim) for text in inputs]
        packed = body.get("encoding_format") == "base64"
        rows = [
            {"object": "embedding", "index": index, "embedding": pack(vector) if packed else vector}
            for index, vector in enumerate(vectors)
        ]
        used = sum(len(str(text)) // 4 + 1 for text in inputs)
        usage = {"prompt_tokens": used, "total_tokens": used}
        self.reply(200, {"object": "list", "model": body.get("model") or EMBED_MODEL, "data": rows, "usage": usage})

    def completions(self, body: Json) -> None:
        size = sum(len(text_of(message)) for message in body["messages"])
        delay, status = self.state.fault("chat", kind_of(body))
        time.sleep(delay)
        if status:
            self.state.record(body, path="chat", kind="fault", status=status, chars=size)
            self.fail(status, TOLD)
            return
        kind, message, finish = chat(body)
        self.state.record(body, path="chat", kind=kind, chars=size, answer=message)
        used, made = size // 4 + 1, len(json.dumps(message)) // 4 + 1
        self.reply(
            200,
            {
                "id": f"chatcmpl-{self.state.count}",
                "object": "chat.completion",
                "created": int(time.time()),
                "model": body.get("model") or MODEL,
                "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
                "usage": {"prompt_tokens": used, "completion_tokens": made, "total_tokens": used + made},
            },
        )


def pack(vector: list[float]) -> str:
    """A vector as base64, as the OpenAI client asks for it."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


class Server(ThreadingHTTPServer):
    """Takes many connections at once."""

    daemon_threads = True
    request_queue_size = 64


def main() -> None:
    parser = argparse.ArgumentParser(description="OpenAI-compatible stub: deterministic chat and embeddings")
    parser.add_argument("--port", type=int, required=True, help="0 picks a free one; the port is printed")
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--calls-file", type=Path, help="append every request and answer here, as JSON lines")
    args = parser.parse_args()
    server = Server(("127.0.0.1", args.port), partial(Handler, State(args.dim, args.calls_file)))
    sys.stdout.write(f"http://127.0.0.1:{server.server_address[1]}/v1\n")
    sys.stdout.flush()
    with contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()


if __name__ == "__main__":
    main()
