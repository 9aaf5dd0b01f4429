"""What `retain` and `recall` cost beside the same work done by hand with `sqlite3` and FTS5, at growing sizes.

    python benchmarks/speed.py [--sizes 1000 10000 100000] [--data FOLDER] [--seed 0] [--json OUT]

One thread; both sides use WAL and synchronous=NORMAL, and take turns operation by operation. CPU time is the measure,
since other work on the machine hardly touches it; wall time is shown beside.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpus import STOPWORDS, content_words, fts_query, load_sets, progress, save, table, versions

if TYPE_CHECKING:
    from lorebank import Bank

BATCH = 256
SINGLES = 200
"""Single writes on each side, once the size is reached."""
BATCHES = 20
"""Batches on each side, once the size is reached."""
QUESTIONS = 150
MESSAGES = 20
"""Messages of a session."""
SPEAKERS = ("Ana", "Ben")
START = datetime(2024, 1, 1, tzinfo=UTC)
RECALL_TARGETS = {1_000: 4, 10_000: 8, 100_000: 30, 1_000_000: 300}
"""Milliseconds of CPU time for the median recall, by size."""
ONE, MANY, RECALL = "retain, one", f"retain, {BATCH} at once", "recall, limit 8"
MEANING, EMBEDDING, RECALL_AGAIN = "recall, limit 8, wordllama", "the query's vector", "recall, limit 8, beside it"
MEANING_TARGETS = {1_000: 5, 10_000: 5, 100_000: 25}
"""Milliseconds that vectors may add to the median recall beside the query's embedding, by size."""
TARGETS = {ONE: 5, MANY: 3}
BYTES_TARGET = 500
OURS, RAW = "lorebank", "sqlite3"

_TABLE = """CREATE TABLE memories (key INTEGER PRIMARY KEY, bank INTEGER NOT NULL, id TEXT NOT NULL, content TEXT NOT NULL,
    terms TEXT NOT NULL, mentioned_at INTEGER NOT NULL, session TEXT, position INTEGER, speaker TEXT);
    CREATE UNIQUE INDEX memories_id ON memories (id);
    CREATE INDEX memories_time ON memories (bank, mentioned_at);
    CREATE VIRTUAL TABLE memory_terms USING fts5 ({column}, content='memories', content_rowid='key'{options});
    CREATE TRIGGER memories_added AFTER INSERT ON memories BEGIN
        INSERT INTO memory_terms (rowid, {column}) VALUES (new.key, new.{column}); END;"""
_LEAN = _TABLE.format(column="terms", options=""", detail=none, columnsize=0, tokenize="porter ascii tokenchars '_'\"""")
_PLAIN = _TABLE.format(column="content", options="")
_INSERT = "INSERT INTO memories VALUES (NULL, 1, ?, ?, ?, ?, ?, ?, ?)"
_SEARCH = """SELECT memories.* FROM (SELECT rowid, rank FROM memory_terms WHERE memory_terms MATCH ? ORDER BY rank LIMIT 8) found
    JOIN memories ON memories.key = found.rowid ORDER BY found.rank"""


@dataclass(frozen=True, slots=True)
class Text:
    """One message to keep."""

    content: str
    session: str
    position: int
    speaker: str
    moment: datetime

    def row(self, number: int) -> tuple[object, ...]:
        """The row that is written by hand: the id and the search terms are there already."""
        terms = " ".join(content_words(self.content))
        ticks = int(self.moment.timestamp() * 1_000_000)
        return f"{number:016x}", self.content, terms, ticks, self.session, self.position, self.speaker


@dataclass(frozen=True, slots=True)
class Words:
    """Where texts and queries come from: `draw` gives so many words that stand together; `questions` may be empty."""

    source: str
    draw: Callable[[random.Random, int], list[str]]
    questions: Sequence[str]


@dataclass(slots=True)
class Timings:
    """What each call of one measure on one side took, in seconds."""

    cpu: list[float] = field(default_factory=list[float])
    wall: list[float] = field(default_factory=list[float])

    def timed(self, call: Callable[[], object]) -> None:
        """Runs a call and notes its time."""
        wall, cpu = time.perf_counter(), time.process_time()
        call()
        self.cpu.append(time.process_time() - cpu)
        self.wall.append(time.perf_counter() - wall)


@dataclass(slots=True)
class Result:
    """The measurements at one size: times by measure and side, bytes for each memory by side, the texts' mean bytes."""

    size: int
    times: dict[str, dict[str, Timings]] = field(default_factory=dict[str, dict[str, Timings]])
    disk: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])
    text_bytes: float = 0.0

    def of(self, measure: str, side: str) -> Timings:
        """The timings of a measure on a side."""
        return self.times.setdefault(measure, {}).setdefault(side, Timings())


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def made_up(seed: int) -> Words:
    """A vocabulary of made-up words behind the real function words, with Zipf's frequencies."""
    source = random.Random(seed)
    syllables = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "er", "il")]
    made = {"".join(source.choices(syllables, k=source.randint(1, 4))) for _ in range(30_000)}
    vocabulary = [*sorted(STOPWORDS), *sorted(made - STOPWORDS, key=lambda word: (len(word), word))]
    weights = list(accumulate(1 / (rank + 2.7) for rank in range(len(vocabulary))))
    return Words("made-up words", lambda drawn, count: drawn.choices(vocabulary, cum_weights=weights, k=count), ())


def from_data(folder: Path) -> Words:
    """The words of conversations, in their order, and the questions about them."""
    conversations = [each for found in load_sets(folder).values() for each in found]
    stream = [word for each in conversations for turn in each.turns for word in turn.said.split()]
    questions = [question.text for each in conversations for question in each.questions]

    def draw(source: random.Random, count: int) -> list[str]:
        start = source.randrange(len(stream) - count)
        return stream[start : start + count]

    return Words(f"windows of {len(stream):,} words of {len(conversations)} conversations", draw, questions)


def texts(words: Words, seed: int) -> Iterator[Text]:
    """Messages without end: 8 to 40 words each, two speakers by turns, a session every few hours."""
    source = random.Random(seed)
    number = 0
    while True:
        session, position = divmod(number, MESSAGES)
        moment = START + timedelta(hours=6 * session, minutes=position)
        content = " ".join(words.draw(source, source.randint(8, 40)))
        if content_words(content):
            yield Text(content, f"session-{session:06}", position, SPEAKERS[number % 2], moment)
            number += 1


def questions(words: Words, seed: int) -> list[str]:
    """What is asked: the data's questions, or 3 to 8 words of which two at least are content words."""
    source = random.Random(seed + 1)
    if words.questions:
        return source.sample(list(words.questions), min(QUESTIONS, len(words.questions)))
    found: list[str] = []
    while len(found) < QUESTIONS:
        drawn = words.draw(source, source.randint(3, 8))
        if len(set(drawn) - STOPWORDS) >= 2:
            found.append(" ".join(drawn))
    return found


class Sides:
    """The same memories kept three times: by lorebank, by hand, and by hand with FTS5's defaults (for searching)."""

    def __init__(self, folder: Path, source: Iterator[Text]) -> None:
        self.source = source
        self.files = {OURS: folder / "lorebank.db", RAW: folder / "raw.db"}
        self.count = 0
        self.text_bytes = 0
        self.raw = by_hand(self.files[RAW], _LEAN)
        self.plain = by_hand(folder / "plain.db", _PLAIN)
        self.bank = self.opened()

    def opened(self) -> Bank:
        """The bank, with its file open."""
        from lorebank import open_bank

        bank = open_bank(f"sqlite:///{self.files[OURS]}", bank="speed")
        bank.stats()
        return bank

    def write(self, result: Result, measure: str, count: int, *, plain: bool = False) -> None:
        """Keeps the next `count` messages on both sides, one call each; `plain` also in the table for searching."""
        from lorebank import Item

        part = [next(self.source) for _ in range(count)]
        rows = [text.row(self.count + place) for place, text in enumerate(part)]
        self.count += count
        self.text_bytes += sum(len(text.content.encode()) for text in part)

        def ours() -> None:
            items = [Item(text.content, session=text.session, speaker=text.speaker, timestamp=text.moment) for text in part]
            self.bank.retain(items)

        result.of(measure, OURS).timed(ours)
        result.of(measure, RAW).timed(lambda: insert(self.raw, rows))
        if plain:
            insert(self.plain, rows)

    def ask(self, result: Result, question: str) -> None:
        """One question to both sides."""
        result.of(RECALL, OURS).timed(lambda: self.bank.recall(question))
        query = fts_query(question)
        result.of(RECALL, RAW).timed(lambda: self.plain.execute(_SEARCH, (query,)).fetchall())

    def ask_by_meaning(self, result: Result, asked: Sequence[str]) -> None:
        """The questions once more, to the copy of lorebank's file that `weigh` made, with an embedder."""
        from lorebank import open_bank
        from lorebank._mnemopi.embedders.wordllama import WordLlama

        embedder = WordLlama()
        with open_bank(f"sqlite:///{self.files[OURS].with_name('vectors.db')}", bank="speed", embedder=embedder) as bank:
            if not (report := bank.flush(timeout=3600)).done:
                raise SystemExit(f"not all memories have vectors: {report.reason}")
            bank.recall(asked[0])
            for question in asked:
                result.of(RECALL_AGAIN, OURS).timed(lambda: self.bank.recall(question))  # noqa: B023 - called at once
                result.of(MEANING, OURS).timed(lambda: bank.recall(question))  # noqa: B023
                result.of(EMBEDDING, OURS).timed(lambda: embedder.embed([question], kind="query"))  # noqa: B023

    def weigh(self, result: Result) -> None:
        """Bytes on disk for each memory, with both files closed, then opens them again."""
        self.close()
        result.text_bytes = self.text_bytes / self.count
        for side, path in self.files.items():
            on_disk = sum(part.stat().st_size for part in path.parent.glob(f"{path.name}*"))
            copy = path.with_suffix(".copy")
            with sqlite3.connect(path) as connection:
                connection.execute("VACUUM INTO ?", (str(copy),))
            connection.close()
            result.disk[side] = {"closed": on_disk / self.count, "vacuumed": copy.stat().st_size / self.count}
            copy.unlink()
        shutil.copy(self.files[OURS], self.files[OURS].with_name("vectors.db"))
        self.raw, self.bank = by_hand(self.files[RAW]), self.opened()

    def close(self) -> None:
        self.bank.close()
        self.raw.close()


def by_hand(path: Path, schema: str = "") -> sqlite3.Connection:
    """A plain connection in autocommit, set as lorebank sets its own; a new file gets its tables."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript(f"PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; {schema}")
    return connection


def insert(connection: sqlite3.Connection, rows: Sequence[tuple[object, ...]]) -> None:
    """One transaction with all the rows."""
    connection.execute("BEGIN IMMEDIATE")
    if len(rows) == 1:
        connection.execute(_INSERT, rows[0])
    else:
        connection.executemany(_INSERT, rows)
    connection.execute("COMMIT")


def measured(size: int, words: Words, seed: int, folder: Path) -> Result:
    """Everything at one size: fill, ask, weigh, then write on."""
    result = Result(size)
    sides = Sides(folder, texts(words, seed))
    while sides.count < size:
        sides.write(result, "fill", min(BATCH, size - sides.count), plain=True)
        progress(f"{size:,}: {sides.count:,} kept")
    if (kept := sides.bank.stats().memories) != size:
        raise SystemExit(f"the bank holds {kept:,} memories instead of {size:,}: the sides would not compare")
    asked = questions(words, seed)
    sides.ask(Result(size), asked[0])
    for number, question in enumerate(asked, 1):
        sides.ask(result, question)
        progress(f"{size:,}: {number}/{len(asked)} questions")
    sides.weigh(result)
    if find_spec("wordllama") is not None:
        sides.ask_by_meaning(result, asked)
    sides.write(Result(size), ONE, 1)
    for number in range(SINGLES):
        sides.write(result, ONE, 1)
        if number % (SINGLES // BATCHES) == 0:
            sides.write(result, MANY, BATCH)
            progress(f"{size:,}: {number}/{SINGLES} single writes")
    sides.close()
    sides.plain.close()
    progress("")
    return result


def milliseconds(value: float) -> str:
    return f"{1000 * value:.2f}"


def ratios(results: Sequence[Result]) -> Iterator[tuple[str, ...]]:
    """By size and measure: median CPU time on both sides, the ratio, the target, whether it is met."""
    for result in results:
        for measure in (ONE, MANY, RECALL):
            ours, raw = (percentile(result.of(measure, side).cpu, 0.5) for side in (OURS, RAW))
            target, met = "-", "-"
            if measure in TARGETS:
                target, met = f"<= {TARGETS[measure]}x", "yes" if ours <= TARGETS[measure] * raw else "NO"
            elif result.size in RECALL_TARGETS:
                limit = RECALL_TARGETS[result.size]
                target, met = f"<= {limit} ms", "yes" if 1000 * ours <= limit else "NO"
            yield f"{result.size:,}", measure, milliseconds(ours), milliseconds(raw), f"{ours / raw:.1f}x", target, met
        if MEANING in result.times:
            ours, plain, vector = (percentile(result.of(each, OURS).cpu, 0.5) for each in (MEANING, RECALL_AGAIN, EMBEDDING))
            limit = MEANING_TARGETS.get(result.size)
            target, met = ("-", "-") if limit is None else (f"<= recall + vector + {limit} ms", "")
            if limit is not None:
                met = "yes" if 1000 * (ours - plain - vector) <= limit else "NO"
            yield f"{result.size:,}", MEANING, milliseconds(ours), "-", f"{ours / plain:.1f}x recall", target, met


def raw_numbers(results: Sequence[Result]) -> Iterator[tuple[str, ...]]:
    """By size, measure and side: how often, CPU and wall time."""
    for result in results:
        for measure in ("fill", ONE, MANY, RECALL, RECALL_AGAIN, MEANING, EMBEDDING):
            for side in result.times.get(measure, ()):
                times = result.of(measure, side)
                figures = [*(percentile(times.cpu, share) for share in (0.5, 0.95)), sum(times.cpu) / len(times.cpu)]
                figures += [percentile(times.wall, share) for share in (0.5, 0.95)]
                yield f"{result.size:,}", measure, side, str(len(times.cpu)), *map(milliseconds, figures)


def sizes_on_disk(results: Sequence[Result]) -> Iterator[tuple[str, ...]]:
    """By size and side: bytes for each memory, in all and beside its text."""
    for result in results:
        for side, disk in result.disk.items():
            beside = disk["closed"] - result.text_bytes
            met = ("yes" if beside <= BYTES_TARGET else "NO") if side == OURS else "-"
            figures = (disk["closed"], result.text_bytes, beside, disk["vacuumed"] - result.text_bytes)
            yield (
                f"{result.size:,}",
                side,
                *(f"{figure:.0f}" for figure in figures),
                f"<= {BYTES_TARGET}" if side == OURS else "-",
                met,
            )


def report(results: Sequence[Result]) -> str:
    """All tables."""
    first = table(("memories", "measure", "lorebank", "sqlite3", "ratio", "target", "met"), ratios(results))
    second = table(
        ("memories", "measure", "side", "calls", "CPU p50", "CPU p95", "CPU mean", "wall p50", "wall p95"), raw_numbers(results)
    )
    third = table(
        ("memories", "side", "bytes a memory", "its text", "beside text", "beside text, vacuumed", "target", "met"),
        sizes_on_disk(results),
    )
    parts = (
        ("Median CPU time, ms", first),
        (f"Raw numbers, ms (`fill`: batches of {BATCH} from empty)", second),
        ("On disk", third),
    )
    return "\n\n".join(f"{title}\n\n{drawn}" for title, drawn in parts)


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed and size beside sqlite3 with FTS5; see benchmarks/README.md.")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000], help="memories in the bank")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="conversations to take words and questions from")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="OUT", help="save the raw rows")
    arguments = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # read when numpy is imported, with the first bank
    words = from_data(arguments.data) if arguments.data else made_up(arguments.seed)
    results: list[Result] = []
    for size in arguments.sizes:
        with tempfile.TemporaryDirectory(prefix="lorebank-bench-") as folder:
            results.append(measured(size, words, arguments.seed, Path(folder)))
        print(f"{size:,} done", file=sys.stderr)
    print(f"Texts: {words.source}; seed {arguments.seed}.\n\n{report(results)}")
    if arguments.json:
        rows: list[dict[str, Any]] = [asdict(result) for result in results]
        save(arguments.json, {"versions": versions(), "seed": arguments.seed, "texts": words.source, "rows": rows})


if __name__ == "__main__":
    main()
