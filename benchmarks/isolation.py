"""Whether one owner's memory ever reaches another: mixed recalls of many threads in one process, counted.

    python benchmarks/isolation.py [--recalls 1000000] [--threads 64] [--json OUT]

Users and their projects share one file. All speak of the same things in the same words, in sessions of the same names; only
the owner's name differs. Every thread asks at random through the verb (with and without filters), its awaitable form, and
sessions of three modes with their mental models, and looks at each text that comes back for another owner's name.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpus import progress, save, versions
from lorebank import Bank, Message, Seed, open_bank

USERS = ("ana", "ben", "ana-atlas", "cleo")
PROJECTS = ("atlas", "zeus")
FACTS, CHUNK = 12, 50
MODES: Any = ("normal", "read-only", "ignored")
SEED = Seed("secrets", "Secrets", "Which secret colour is it?", 400)
FILTERS: tuple[dict[str, Any], ...] = ({}, {"tags": ["common"]}, {"types": ["world"]}, {"tags": ["common"], "tags_match": "all"})


@dataclass(frozen=True, slots=True)
class Home:
    """One owner's bank; `name` stands in everything that belongs to it."""

    bank: Bank
    name: str


def homes(folder: Path, stack: ExitStack) -> list[Home]:
    """Banks of users and of their projects on one file, each with facts, a mental model and sessions in every mode."""
    options: dict[str, Any] = {"mental_models": {"seeds": (SEED,), "first_wait": 30.0}, "recall": {"deadline": 600.0}}
    url = f"sqlite:///{folder / 'memory.db'}"
    opened = [stack.enter_context(open_bank(url, bank=USERS[0], **options))]
    opened += [
        stack.enter_context(open_bank(url, bank=USERS[0], project=project, scoping="per-project", **options))
        for project in PROJECTS
    ]
    found: list[Home] = []
    for bank, project in zip(opened, ("", *PROJECTS), strict=True):
        found += [Home(bank.named(user), f"{user}+{project}") for user in USERS]
    for home in found:
        home.bank.retain([f"The secret colour of owner-{home.name} on day {n} is blue." for n in range(FACTS)], tags=["common"])
        for mode in MODES:
            with home.bank.session(mode) as session:
                session.before_turn([Message("user", f"The secret of owner-{home.name} is asked in {mode}.")])
                session.mode = mode
                session.save()
    return found


def foreign(home: Home, texts: list[str]) -> int:
    """How many of the texts name another owner."""
    words = (word.strip(".,;:?!\"'") for text in texts for word in text.split() if word.startswith("owner-"))
    return sum(word != f"owner-{home.name}" for word in words)


def asked(home: Home, chance: random.Random) -> tuple[str, int, int]:
    """One recall: by which way, how many texts came back, and how many of them were another's."""
    question, way = f"Which secret colour is it on day {chance.randrange(FACTS)}?", chance.random()
    if way < 0.6:
        result = home.bank.recall(question, **chance.choice(FILTERS))
        return "recall", len(result), foreign(home, [memory.text for memory in result])
    if way < 0.65:
        result = asyncio.run(home.bank.arecall(question))
        return "arecall", len(result), foreign(home, [memory.text for memory in result])
    mode = chance.choice(MODES)
    with home.bank.session(mode) as session:
        if session.mode != mode:
            return mode, 0, 1
        given = session.prefetch([Message("user", question)], history="delta", run_id=str(chance.random()))
    told = given.result or ()
    texts = [given.memories, given.system_prefix, *(memory.text for memory in told)]
    return mode, len(told), foreign(home, texts) + (mode == "ignored" and bool(told))


def run(recalls: int, threads: int) -> dict[str, Any]:
    """Makes the recalls and counts them by way."""
    ways, texts, wrong = Counter[str](), Counter[str](), Counter[str]()
    lock = threading.Lock()
    chunks = list(range(-(-recalls // CHUNK)))
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        there = homes(Path(folder), stack)

        def live(seed: int) -> None:
            chance = random.Random(seed)
            found = [asked(chance.choice(there), chance) for _ in range(CHUNK)]
            with lock:
                for way, count, bad in found:
                    ways[way] += 1
                    texts[way] += count
                    wrong[way] += bad

        began = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            for _ in shown(pool.map(live, chunks), len(chunks)):
                pass
        took = time.perf_counter() - began
    return {"recalls": dict(ways), "memories": dict(texts), "foreign": dict(wrong), "threads": threads, "seconds": round(took, 1)}


def shown(steps: Iterator[None], total: int) -> Iterator[None]:
    """The steps, with a line of progress for every hundredth of them."""
    for done, step in enumerate(steps, 1):
        if done % max(1, total // 100) == 0:
            progress(f"{done * CHUNK:,} of {total * CHUNK:,} recalls")
        yield step


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recalls", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=64)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = run(options.recalls, options.threads)
    if options.json:
        save(options.json, {"versions": versions(), **found})
    print(f"{sum(found['recalls'].values()):,} recalls in {found['seconds']:,} s: {found}")
    return int(any(found["foreign"].values()))


if __name__ == "__main__":
    sys.exit(main())
