#!/usr/bin/env python3
"""Records exchanges with a running server again (the files of `exchanges/`), and stops at the first unexpected status.

    python3 capture.py --base-url URL [--stub-url URL] [--auth-url URL --api-key KEY] [--no-llm-url URL] [--out exchanges]

Standard library only. Every bank it makes begins with `x-` and is deleted again. The content is made up; times, ids,
hashes and token counts are those of the run.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import scenario_failing as failing
import scenario_reading as reading
import scenario_writing as writing
from recorder import Client, Recorder

HERE = Path(__file__).resolve().parent


def scenario(root: Client, stub: Client | None) -> str:
    """The whole life of one bank; gives the server's version."""
    b = root.bank("x-tea")
    version = writing.server(root)
    writing.banks(root, b)
    writing.retain(b)
    writing.retain_later(b, root.bank("x-other"))
    writing.operations(b)
    reading.recall(b)
    reading.recall_filtered(b)
    reading.reflect(b)
    writing.directives(b)
    reading.mental_models(b)
    reading.memories(b)
    reading.documents(b)
    writing.webhooks(b)
    failing.unknown(root, root.bank("x-nope"))
    failing.refused_reads(b)
    failing.refused_writes(root, b)
    failing.failing_content(b)
    failing.failing_batch(b)
    if stub is not None:
        failing.failing_models(b, stub)
    failing.the_end(b, root.bank("x-auto"))
    return version


def hide_ports(out: Path) -> None:
    """An address of this run is no part of the contract."""
    for file in out.rglob("*.json"):
        text = file.read_text(encoding="utf-8")
        plain = re.sub(r"http://127\.0\.0\.1:\d+", "http://127.0.0.1:PORT", text)
        if plain != text:
            file.write_text(plain, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="record exchanges with a running server")
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--stub-url")
    parser.add_argument("--auth-url")
    parser.add_argument("--api-key", default="")
    parser.add_argument("--no-llm-url")
    parser.add_argument("--out", type=Path, default=HERE / "exchanges")
    args = parser.parse_args()
    recorder = Recorder(args.out)
    stub = Client(recorder, args.stub_url.rstrip("/")) if args.stub_url else None
    version = scenario(Client(recorder, args.base_url.rstrip("/")), stub)
    if args.auth_url:
        failing.auth(Client(recorder, args.auth_url.rstrip("/")), args.api_key)
    if args.no_llm_url:
        failing.no_llm(Client(recorder, args.no_llm_url.rstrip("/")))
    recorder.save_index(version)
    hide_ports(args.out)
    sys.stdout.write(f"{len(recorder.index)} exchanges in {args.out}\n")


if __name__ == "__main__":
    main()
