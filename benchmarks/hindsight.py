"""What a Hindsight server costs through lorebank: queued writes beside bare commits, recall beside the official client.

    python benchmarks/hindsight.py [--rounds 300] [--rows 10000] [--json OUT]

Needs `hindsight-client` for the recall part; without it that part is left out, and says so. Servers are `FaultServer`s
in processes of their own: one answers at once, one late, one not at all. Both sides take turns; wall time, since waiting is
what is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from corpus import progress, save, table, versions
from lorebank import Bank, Item, open_bank

WRITES = {
    "dead": "retain, dead server",
    "slow": "retain, slow server",
    "live": "retain, live server",
    "busy": "retain, live server, without a pause",
}
RETAIN_RATIO, RETAIN_P95 = 2.5, 2.0
IDLE = 0.03
"""Seconds without work before a retain to a live server."""
RECALL_RATIOS = {"one async call": 0.5, "one blocking call": 0.75, "20 concurrent": 1.2}
FACTS = tuple(f"Ana owns cello number {number}, made in {1700 + number}." for number in range(8))
TEXT = "The project decided on {} to ship the second version of the import after the review of the migration plan, see minutes."


@dataclass(frozen=True, slots=True)
class Measured:
    """One measure of both sides: wall seconds of each call."""

    name: str
    ours: list[float]
    theirs: list[float]
    ratio_target: float | None = None
    p95_target: float | None = None

    def row(self) -> tuple[str, ...]:
        """Medians and 95th percentiles in milliseconds, their ratio, and whether it is low enough."""
        ratio = statistics.median(self.ours) / statistics.median(self.theirs)
        met = self.ratio_target is None or ratio <= self.ratio_target
        met = met and (self.p95_target is None or at(self.ours, 0.95) * 1000 < self.p95_target)
        wanted = ("-", "-") if self.ratio_target is None else (f"<= {self.ratio_target:g}", "yes" if met else "NO")
        sides = [f"{at(times, share) * 1000:.2f}" for times in (self.ours, self.theirs) for share in (0.5, 0.95)]
        return (self.name, *sides, f"{ratio:.2f}", *wanted)


def at(times: Sequence[float], share: float) -> float:
    """A percentile."""
    return sorted(times)[min(int(len(times) * share), len(times) - 1)]


def timed(body: Callable[[], object]) -> float:
    started = time.perf_counter()
    body()
    return time.perf_counter() - started


@contextmanager
def server(kind: str) -> Iterator[str]:
    """A server of its own process: `live` or `busy`, `slow` (half a second an answer), or `dead` (nobody listens)."""
    if kind == "dead":
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        yield f"http://127.0.0.1:{port}"
        return
    with subprocess.Popen(
        [sys.executable, __file__, "--serve", kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


def serve(kind: str) -> None:
    """Serves until stdin is closed. A recall is answered with bytes that are ready."""
    from lorebank.testing import Fault, FaultServer

    results = [answer(number, text) for number, text in enumerate(FACTS)]
    with FaultServer() as running:
        if kind == "slow":
            running.fault(Fault(delay=0.5))
        running.fault(Fault(status=200, body=json.dumps({"results": results}).encode()), path="/recall$")
        print(running.url, flush=True)
        sys.stdin.read()


def answer(number: int, text: str) -> dict[str, object]:
    """One result of a recall, as the server says it."""
    return {
        "id": f"00000000-0000-4000-8000-{number:012d}",
        "text": text,
        "type": "world",
        "tags": [],
        "metadata": {},
        "document_id": f"d{number}",
        "mentioned_at": "2026-03-04T09:00:00+00:00",
        "entities": ["Ana"],
        "scores": {"final": 1 - number / 10, "semantic": 0.5},
    }


def writes(kind: str, rounds: int, folder: Path) -> Measured:
    """Single retains beside single commits of the same bytes, call by call. To a `live` server each is delivered before
    the next; a `busy` one is fed in an endless loop, while the sender delivers in the same process.
    """
    raw = sqlite3.connect(folder / f"{kind}-raw.db", isolation_level=None)
    raw.execute("PRAGMA journal_mode=WAL")
    raw.execute("PRAGMA synchronous=FULL")
    raw.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, body TEXT NOT NULL)")
    ours: list[float] = []
    theirs: list[float] = []
    with (
        server(kind) as url,
        open_bank(url, bank="bench", ledger=f"sqlite:///{folder / kind}.db", connection={"close_timeout": 0}) as bank,
    ):
        bank.retain("warm up")
        for number in range(rounds):
            progress(f"retain, {kind} server: {number} of {rounds}")
            text = TEXT.format(number)
            ours.append(timed(lambda text=text: bank.retain(text)))  # type: ignore[misc]
            if kind == "live":
                bank.flush(timeout=10, until="completed")
                time.sleep(IDLE)
            theirs.append(timed(lambda text=text: commit(raw, text)))  # type: ignore[misc]
    raw.close()
    if kind == "busy":
        return Measured(WRITES[kind], ours, theirs)
    return Measured(WRITES[kind], ours, theirs, RETAIN_RATIO, RETAIN_P95)


def commit(raw: sqlite3.Connection, text: str) -> None:
    """One row by hand: the same JSON, durable when it returns."""
    body = {
        "content": text,
        "document_id": "lorebank:item:0123456789abcdef",
        "update_mode": "replace",
        "tags": [],
        "metadata": {},
    }
    raw.execute("BEGIN IMMEDIATE")
    raw.execute("INSERT INTO rows (body) VALUES (?)", (json.dumps({**body, "timestamp": "2026-03-04T09:00:00.000000+00:00"}),))
    raw.execute("COMMIT")


def recalls(rounds: int, folder: Path) -> list[Measured]:
    """Recall against an instant server, beside hindsight-client: awaited, blocking, and 20 at once."""
    from hindsight_client import Hindsight

    query = "Which cello does Ana own?"
    results: list[Measured] = []
    with server("live") as url, open_bank(url, bank="bench", ledger=f"sqlite:///{folder / 'r.db'}") as bank:

        async def awaited() -> None:
            client = Hindsight(base_url=url)
            one = await pairs(rounds, lambda: bank.arecall(query), lambda: client.arecall("bench", query))
            results.append(Measured("one async call", *one, RECALL_RATIOS["one async call"]))
            many = await pairs(
                max(rounds // 10, 10),
                lambda: asyncio.gather(*(bank.arecall(query) for _ in range(20))),
                lambda: asyncio.gather(*(client.arecall("bench", query) for _ in range(20))),
            )
            results.append(Measured("20 concurrent", *many, RECALL_RATIOS["20 concurrent"]))
            await client.aclose()

        asyncio.run(awaited())
        results.append(blocking(rounds, url, bank, query))
    return results


def blocking(rounds: int, url: str, bank: Bank, query: str) -> Measured:
    """Blocking calls in one thread."""
    from hindsight_client import Hindsight

    client = Hindsight(base_url=url)
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(rounds + 20):
        progress(f"blocking recalls: {number} of {rounds}")
        ours.append(timed(lambda: bank.recall(query)))
        theirs.append(timed(lambda: client.recall("bench", query)))
    client.close()
    return Measured("one blocking call", ours[20:], theirs[20:], RECALL_RATIOS["one blocking call"])


async def pairs(
    rounds: int, ours: Callable[[], Awaitable[object]], theirs: Callable[[], Awaitable[object]]
) -> tuple[list[float], list[float]]:
    """Both sides in turns; the first rounds are not counted."""
    found: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 5):
        progress(f"recalls: {number} of {rounds}")
        for side, call in zip(found, (ours, theirs), strict=True):
            started = time.perf_counter()
            await call()
            if number >= 5:
                side.append(time.perf_counter() - started)
    return found


def drain(rows: int, folder: Path) -> dict[str, float]:
    """A backlog of so many rows, half of them appends to ten documents, told to a dead server and then delivered."""
    from lorebank.testing import FaultServer

    with FaultServer() as running:
        running.stop()
        with open_bank(running.url, bank="bench", ledger=f"sqlite:///{folder / 'drain.db'}") as bank:
            for start in range(0, rows, 500):
                progress(f"queueing: {start} of {rows}")
                bank.retain([backlog(number) for number in range(start, min(start + 500, rows))])
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            running.start()
            seconds = timed(lambda: bank.flush(timeout=1800, until="completed"))
            after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            left = bank.outbox.status().waiting
        documents = running.bank("bench").documents
        wrong = sum(documents[f"log-{n}"].split("\n") != lines(n, rows) for n in range(10))
    return {"rows": rows, "seconds": seconds, "left": left, "out of order": wrong, "peak grew by MB": (after - before) / 1024}


def backlog(number: int) -> Item:
    if number % 2:
        return Item(f"Line {number} is noted.", document_id=f"log-{number // 2 % 10}", update_mode="append")
    return Item(f"Fact {number} is known.")


def lines(document: int, rows: int) -> list[str]:
    """What a document must hold, in order."""
    return [f"Line {number} is noted." for number in range(1, rows, 2) if number // 2 % 10 == document]


def main() -> None:
    parser = argparse.ArgumentParser(description="The cost of a server; see benchmarks/README.md.")
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--rows", type=int, default=10_000, help="size of the backlog that is drained")
    parser.add_argument("--json", type=Path, metavar="OUT", help="save the raw rows")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lorebank-bench-", dir=Path.cwd())))
        measured = [writes(kind, arguments.rounds, folder) for kind in WRITES]
        try:
            measured += recalls(arguments.rounds, folder)
        except ImportError:
            print("hindsight-client is not installed: recall is not compared", file=sys.stderr)
        drained = drain(arguments.rows, folder) if arguments.rows else {}
    progress("")
    heads = ("measure", "p50, ms", "p95, ms", "baseline p50", "baseline p95", "ratio", "target", "met")
    print(table(heads, [each.row() for each in measured]))
    print("\n" + ", ".join(f"{name}: {value:.1f}" for name, value in drained.items()))
    if arguments.json:
        rows: list[dict[str, Any]] = [asdict(each) for each in measured]
        save(arguments.json, {"versions": versions(), "rows": rows, "drain": drained})


if __name__ == "__main__":
    main()
