"""Many processes on one file: writers and readers at once, beside one writer and one reader alone, at growing sizes.

    python benchmarks/processes.py [--sizes 100000 1000000] [--writers 8] [--readers 8] [--seconds 20] [--data FOLDER]

Each writer retains single messages and now and then reads one back; each reader recalls. Afterwards every acknowledged write
must be in the file, once, and the file must pass its check.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path

from corpus import progress, save, table, versions
from lorebank import Bank, Item, open_bank
from speed import BATCH, Text, Words, from_data, made_up, percentile, questions, texts

BANK = "shared"


@dataclass(slots=True)
class Report:
    """What one process did: how long each call took in seconds, the ids that were acknowledged, how many were not there."""

    seconds: list[float] = field(default_factory=list[float])
    ids: list[str] = field(default_factory=list[str])
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """What the processes of one kind did together at one size."""

    size: int
    processes: str
    kind: str
    calls: int
    each_second: float
    p50: float
    p95: float
    longest: float


def items(part: Sequence[Text], process: str = "") -> list[Item]:
    """Messages for `retain`; a process's own sessions are its own."""
    return [Item(text.content, session=f"{process}{text.session}", speaker=text.speaker, timestamp=text.moment) for text in part]


def write(bank: Bank, source: Iterator[Text], name: str, ends: float) -> Report:
    """Single messages until it is time; each tenth is read back at once."""
    report = Report()
    while time.time() < ends:
        item = items([next(source)], f"{name}/")
        start = time.perf_counter()
        receipt = bank.retain(item)
        report.seconds.append(time.perf_counter() - start)
        [identity] = [outcome.id or "" for outcome in (*receipt.stored, *receipt.duplicates)]
        report.ids.append(identity)
        if len(report.ids) % 10 == 0 and bank.get(identity).text != item[0].content:
            report.lost += 1
    return report


def read(bank: Bank, asked: Sequence[str], ends: float) -> Report:
    """Recalls until it is time."""
    report = Report()
    while time.time() < ends:
        start = time.perf_counter()
        bank.recall(asked[len(report.seconds) % len(asked)])
        report.seconds.append(time.perf_counter() - start)
    return report


def words_of(data: str) -> Words:
    return from_data(Path(data)) if data else made_up(0)


def worker(kind: str, url: str, data: str, number: int, seconds: float) -> None:
    """The body of one process: opens the file, waits to be told, works, prints its report."""
    words = words_of(data)
    with open_bank(url, bank=BANK) as bank:
        bank.recall("warm up")
        print("ready", flush=True)
        ends = float(sys.stdin.readline()) + seconds
        if kind == "writer":
            report = write(bank, texts(words, 1_000 + number), f"{kind}-{number}", ends)
        else:
            report = read(bank, questions(words, number), ends)
    print(json.dumps(asdict(report)))


def together(url: str, options: argparse.Namespace, counts: dict[str, int], first: int) -> dict[str, list[Report]]:
    """Starts the processes, numbered from `first`, lets them go at one moment, and collects what they did."""
    command = [sys.executable, __file__, "--data", options.data, "--seconds", str(options.seconds)]
    started = [
        (kind, subprocess.Popen([*command, "--worker", kind, url, str(number)], stdin=-1, stdout=-1, text=True))
        for kind, count in counts.items()
        for number in range(first, first + count)
    ]
    for _, process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    found: dict[str, list[Report]] = {kind: [] for kind in counts}
    begins = f"{time.time() + 0.2}\n"
    for _, process in started:
        assert process.stdin is not None
        process.stdin.write(begins)
        process.stdin.flush()
    for kind, process in started:
        found[kind].append(Report(**json.loads(process.communicate(timeout=options.seconds + 600)[0])))
    return found


def rows(size: int, found: dict[str, list[Report]], seconds: float) -> Iterator[Row]:
    """Writers and readers together, each kind a row."""
    name = " + ".join(f"{len(reports)} {kind}{'s' * (len(reports) > 1)}" for kind, reports in found.items())
    for kind, reports in found.items():
        took = [each for report in reports for each in report.seconds]
        yield Row(
            size,
            name,
            kind,
            len(took),
            len(took) / seconds,
            percentile(took, 0.5),
            percentile(took, 0.95),
            max(took, default=0.0),
        )


def cells(row: Row) -> tuple[str, ...]:
    times = (f"{1000 * each:.1f}" for each in (row.p50, row.p95, row.longest))
    return f"{row.size:,}", row.processes, row.kind, f"{row.calls:,}", f"{row.each_second:,.0f}", *times


def filled(url: str, words: Words, size: int) -> None:
    with open_bank(url, bank=BANK) as bank:
        source = texts(words, 0)
        for begin in range(0, size, BATCH):
            bank.retain(items(list(islice(source, min(BATCH, size - begin)))))
            progress(f"{size:,}: {begin:,} kept")
        progress("")


def checked(url: str, found: Sequence[dict[str, list[Report]]]) -> str:
    """Raises `SystemExit` where an acknowledged write is missing or doubled, or the file is not sound."""
    ids = [identity for each in found for report in each.get("writer", ()) for identity in report.ids]
    lost = sum(report.lost for each in found for reports in each.values() for report in reports)
    with open_bank(url, bank=BANK) as bank:
        missing = sum(bank.get(identity).id != identity for identity in ids)
        if lost or missing or len(set(ids)) != len(ids) or not bank.check().ok:
            raise SystemExit(f"{lost + missing} writes are lost, {len(ids) - len(set(ids))} doubled; {bank.check().problems}")
        return f"{len(ids):,} acknowledged writes, each in the file once; the file is sound."


def measured(size: int, words: Words, options: argparse.Namespace) -> Iterator[Row]:
    """One size: one writer, one reader, then all of both."""
    with tempfile.TemporaryDirectory(prefix="lorebank-bench-") as folder:
        url = f"sqlite:///{Path(folder) / 'memory.db'}"
        filled(url, words, size)
        kinds: list[dict[str, int]] = [{"writer": 1}, {"reader": 1}, {"writer": options.writers, "reader": options.readers}]
        found = [together(url, options, counts, 100 * place) for place, counts in enumerate(kinds)]
        for each in found:
            yield from rows(size, each, options.seconds)
        print(f"{size:,}: {checked(url, found)}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="Many processes on one file; see benchmarks/README.md.")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100_000], help="memories in the file")
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--readers", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--data", default="", metavar="FOLDER", help="conversations to take words and questions from")
    parser.add_argument("--json", type=Path, metavar="OUT", help="save the rows")
    parser.add_argument("--worker", nargs=3, metavar=("KIND", "URL", "NUMBER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        kind, url, number = options.worker
        worker(kind, url, options.data, int(number), options.seconds)
        return
    words = words_of(options.data)
    found = [row for size in options.sizes for row in measured(size, words, options)]
    heads = ("memories", "at work", "each", "calls", "calls a second", "p50, ms", "p95, ms", "longest, ms")
    print(table(heads, map(cells, found)))
    if options.json:
        save(options.json, {"versions": versions(), "texts": words.source, "rows": [asdict(row) for row in found]})


if __name__ == "__main__":
    main()
