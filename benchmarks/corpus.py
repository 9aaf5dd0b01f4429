"""What the benchmark scripts share: conversations, words, retrieval metrics, Markdown tables."""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

STOPWORDS = frozenset(
    """
    a about above after again against all am an and any are as at be because been before being below between both but by
    can could d did do does doing don down during each few for from further had has have having he her here hers herself
    him himself his how i if in into is it its itself just ll m me more most my myself no nor not now of off on once only
    or other our ours ourselves out over own re s same she should so some such t than that the their theirs them
    themselves then there these they this those through to too under until up ve very was we were what when where which
    while who whom why will with would you your yours yourself yourselves
    """.split()  # noqa: SIM905 - a word list reads better as one text
)
"""English function words, which the SQLite baselines leave out of their queries."""

CUTOFFS = (1, 5, 8, 10, 20)
METRICS = (*(f"recall@{cutoff}" for cutoff in CUTOFFS), "hit@8", "MRR@10", "nDCG@10")
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation. `key` is unique in a data set, `session` too."""

    key: str
    session: str
    moment: datetime
    speaker: str
    said: str
    caption: str

    @property
    def text(self) -> str:
        """The text that a memory of this turn has."""
        return f"{self.speaker}: {self.said}" + (f" [photo: {self.caption}]" if self.caption else "")


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the keys of the turns that answer it. `key` is its conversation and its place there."""

    key: str
    text: str
    category: str
    evidence: frozenset[str]


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation with its questions."""

    name: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]


def load_sets(folder: Path) -> dict[str, list[Conversation]]:
    """The data sets of a folder by name: each subfolder with JSON files is one, and so are the folder's own files."""
    places = [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]
    found = {place.name: [load(path) for path in sorted(place.glob("*.json"))] for place in places}
    sets = {name: conversations for name, conversations in found.items() if conversations}
    if not sets:
        raise SystemExit(f"no JSON file in {folder} or a folder in it")
    return sets


def load(path: Path) -> Conversation:
    """One conversation file. Times are read as UTC, so that a run does not depend on the machine's zone."""
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    name = path.stem
    turns = tuple(
        Turn(
            key=f"{name}/{turn['id']}",
            session=f"{name}/{turn['session']}",
            moment=datetime.fromisoformat(turn["date"]).replace(tzinfo=UTC),
            speaker=turn["speaker"],
            said=turn["text"],
            caption=turn["caption"],
        )
        for turn in data["turns"]
    )
    questions = tuple(
        Question(f"{name}#{number}", each["question"], each["category"], frozenset(f"{name}/{turn}" for turn in each["evidence"]))
        for number, each in enumerate(data["qa"])
    )
    return Conversation(name, turns, questions)


def content_words(text: str) -> list[str]:
    """The words of a text in lower case without function words; all of them where there are no others."""
    words = _WORD.findall(text.lower())
    return [word for word in words if word not in STOPWORDS] or words


def fts_query(text: str) -> str:
    """The FTS5 query for any of the text's content words."""
    return " OR ".join(f'"{word}"' for word in dict.fromkeys(content_words(text)))


def scored(ranked: Sequence[str], evidence: frozenset[str]) -> dict[str, float]:
    """The metrics of one ranking."""
    places = [place for place, key in enumerate(ranked, 1) if key in evidence]
    ideal = sum(1 / math.log2(place + 1) for place in range(1, min(len(evidence), 10) + 1))
    scores = {f"recall@{cutoff}": sum(place <= cutoff for place in places) / len(evidence) for cutoff in CUTOFFS}
    scores["hit@8"] = float(any(place <= 8 for place in places))
    scores["MRR@10"] = 1 / places[0] if places and places[0] <= 10 else 0.0
    scores["nDCG@10"] = sum(1 / math.log2(place + 1) for place in places if place <= 10) / ideal
    return scores


def averaged(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each metric; nothing for no scores."""
    return {name: sum(each[name] for each in scores) / len(scores) for name in scores[0]} if scores else {}


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """An aligned Markdown table: the first column to the left, the others to the right."""
    lines = [list(heads), *(list(row) for row in rows)]
    widths = [max(3, *(len(line[column]) for line in lines)) for column in range(len(heads))]

    def drawn(line: Sequence[str]) -> str:
        cells = (
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        return f"| {' | '.join(cells)} |"

    rule = [("-" * (width - 1) + ":") if column else "-" * width for column, width in enumerate(widths)]
    return "\n".join([drawn(lines[0]), drawn(rule), *map(drawn, lines[1:])])


_shown = 0.0


def progress(text: str) -> None:
    """A progress line on stderr: replaced in place on a terminal, now and then a line elsewhere; an empty text clears it."""
    global _shown  # noqa: PLW0603 - there is one stderr
    terminal, now = sys.stderr.isatty(), time.monotonic()
    if text and now - _shown < (0.1 if terminal else 10):
        return
    if terminal:
        sys.stderr.write(f"\r\x1b[K{text}")
    elif text:
        sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
    _shown = now if text else 0.0


def save(path: Path, data: object) -> None:
    """Writes JSON."""
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    print(f"Raw rows: {path}", file=sys.stderr)


def versions() -> dict[str, str]:
    """What a run depends on."""
    import platform
    import sqlite3
    from importlib.metadata import version

    packages = {name: version(name) for name in ("lorebank", "numpy", "PyStemmer", "SQLAlchemy")}
    return {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version, "machine": platform.machine(), **packages}
