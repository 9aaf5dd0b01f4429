"""What a session adds to a turn: recall before it, retain after it.

    python benchmarks/session.py [--turns 200] [--long 10000] [--json OUT]

Wall time, calls of both sides in turns. `before_turn` stands beside the bare recall of the same query plus one durable commit
of the same text (SQLite, WAL; on Mnemopi `synchronous=NORMAL` as its file has, else FULL). `after_turn` has a bound of its own.
A turn of a long session stands beside one of a short session.
"""

from __future__ import annotations

import argparse
import gc
import sqlite3
import statistics
import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from corpus import progress, save, table, versions
from hindsight import at, server, timed
from lorebank import Bank, Message, Session, open_bank

TEXT = "We decided to move release {} to Thursday, since the review of the migration plan takes longer than Ana had hoped."
ANSWER = "I have moved release {} and told the team about the new date, nobody has objected so far."
KINDS = ("mnemopi", "live", "slow", "dead")
ADDED, AFTER = 1.0, 2.0
DELTA_RATIO, MESSAGE_MICROSECONDS = 1.5, 3.0


@dataclass(frozen=True, slots=True)
class Measured:
    """One measure: seconds of each call, beside a baseline's where there is one, and what is wanted of it."""

    name: str
    ours: list[float]
    theirs: list[float]
    unit: str
    figure: float
    wanted: float

    def row(self) -> tuple[str, ...]:
        cells = [
            f"{at(times, share) * 1000:.2f}" if times else "-" for times in (self.ours, self.theirs) for share in (0.5, 0.95)
        ]
        return (
            self.name,
            *cells,
            f"{self.figure:.2f} {self.unit}",
            f"<= {self.wanted:g}",
            "yes" if self.figure <= self.wanted else "NO",
        )


def place(kind: str, folder: Path, url: str) -> dict[str, Any]:
    """How a bank is opened."""
    if kind == "mnemopi":
        return {"url": f"sqlite:///{folder / 'memory.db'}"}
    return {
        "url": url,
        "ledger": f"sqlite:///{folder / kind}.db",
        "connection": {"close_timeout": 0},
        "recall": {"deadline": 0.2},
    }


def turns(kind: str, count: int, folder: Path) -> list[Measured]:
    """Turns of one growing history, with the bare recall and a bare commit beside each."""
    raw = sqlite3.connect(folder / f"{kind}-raw.db", isolation_level=None)
    raw.execute("PRAGMA journal_mode=WAL")
    raw.execute(f"PRAGMA synchronous={'NORMAL' if kind == 'mnemopi' else 'FULL'}")
    raw.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, body TEXT NOT NULL)")
    before: list[float] = []
    after: list[float] = []
    bare: list[float] = []
    with server("live" if kind == "mnemopi" else kind) as url, open_bank(bank="bench", **place(kind, folder, url)) as bank:
        bank.retain([TEXT.format(number) for number in range(200)])
        with bank.session("bench") as session:
            history: list[Message] = []
            for number in range(count + 20):
                progress(f"turns, {kind}: {number} of {count}")
                history.append(Message("user", TEXT.format(number)))
                begun = timed(lambda: session.before_turn(history))
                trace = session.last_recall()
                query = history[-1].text if trace is None else trace.query
                alone = timed(partial(recall_alone, bank, query, kind)) + timed(lambda: commit(raw, history[-1].text))
                history.append(Message("assistant", ANSWER.format(number)))
                ended = timed(lambda: session.after_turn(history))
                if number >= 20:
                    before.append(begun)
                    bare.append(alone)
                    after.append(ended)
    raw.close()
    added = (statistics.median(before) - statistics.median(bare)) * 1000
    return [
        Measured(f"`before_turn`, {kind}", before, bare, "ms added", added, ADDED),
        Measured(f"`after_turn`, {kind}", after, [], "ms at p95", at(after, 0.95) * 1000, AFTER),
    ]


def recall_alone(bank: Bank, query: str, kind: str) -> None:
    """The recall that the turn makes; a server that is not there is asked for nothing by either side."""
    if kind in ("mnemopi", "live"):
        bank.recall(query, limit=16, explain=True)


def commit(raw: sqlite3.Connection, text: str) -> None:
    raw.execute("BEGIN IMMEDIATE")
    raw.execute("INSERT INTO rows (body) VALUES (?)", (text,))
    raw.execute("COMMIT")


def lengths(long: int, rounds: int, folder: Path, *, full: bool) -> Measured:
    """Turns of a long session beside those of a short one, without recall: deltas, or the whole history each time."""
    name = "full" if full else "delta"
    options = {"recall": {"auto_recall": False}, "mental_models": {"enabled": False}}
    with open_bank(f"sqlite:///{folder / name}.db", bank="bench", **options) as bank:  # type: ignore[arg-type]
        sides = [filled(bank, size, full=full) for size in (10, long)]
        times: tuple[list[float], list[float]] = ([], [])
        gc.collect()
        for number in range(rounds + 10):
            progress(f"{name}, {long} messages: {number} of {rounds}")
            for (session, history), taken in zip(sides, times, strict=True):
                history += [
                    Message("user", f"{number} {TEXT.format(number)}"),
                    Message("assistant", f"{number} {ANSWER.format(number)}"),
                ]
                taken.append(timed(lambda s=session, h=history: turn(s, h, full=full)))  # type: ignore[misc]
    short, more = times[0][10:], times[1][10:]
    if full:
        each = (statistics.median(more) - statistics.median(short)) / long * 1e6 / 2  # two calls hand the history over
        return Measured(
            f"full history of {long:,}, beside one of 10", more, short, "µs for each message", each, MESSAGE_MICROSECONDS
        )
    ratio = statistics.median(more) / statistics.median(short)
    return Measured(f"delta in a session of {long:,}, beside one of 10", more, short, "x", ratio, DELTA_RATIO)


def filled(bank: Bank, size: int, *, full: bool) -> tuple[Session, list[Message]]:
    """A session that has had so many messages, and its history."""
    session = bank.session(f"long-{size}-{full}")
    history = [Message(("user", "assistant")[n % 2], f"{n} {TEXT.format(n)}") for n in range(size)]
    session.after_turn(history, **({} if full else {"history": "delta", "run_id": "filling"}))  # type: ignore[arg-type]
    return session, history


def turn(session: Session, history: Sequence[Message], *, full: bool) -> None:
    """One turn: the user's message, then the answer as well."""
    if full:
        session.before_turn(history[:-1])
        session.after_turn(history)
    else:
        run = uuid.uuid4().hex
        session.before_turn(history[-2:-1], history="delta", run_id=run)
        session.after_turn(history[-2:], history="delta", run_id=run)


def main() -> None:
    parser = argparse.ArgumentParser(description="The cost of a session; see benchmarks/README.md.")
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--long", type=int, default=10_000, help="messages of the long session")
    parser.add_argument("--json", type=Path, metavar="OUT", help="save the raw rows")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lorebank-bench-", dir=Path.cwd()) as name:
        folder = Path(name)
        measured = [each for kind in KINDS for each in turns(kind, arguments.turns, folder)]
        measured += [lengths(arguments.long, arguments.turns, folder, full=full) for full in (False, True)]
    progress("")
    heads = ("measure", "p50, ms", "p95, ms", "baseline p50", "baseline p95", "figure", "target", "met")
    print(table(heads, [each.row() for each in measured]))
    if arguments.json:
        save(arguments.json, {"versions": versions(), "rows": [asdict(each) for each in measured]})


if __name__ == "__main__":
    main()
