"""The stores that `peers.py` sets side by side: lorebank, LangGraph's two, mem0 with a local Qdrant, LlamaIndex's two.

Each is filled and asked as its own documentation shows, through what it offers to its users. All look up the same vectors.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from corpus import progress
from speed import BATCH, Text

LIMIT = 8
PLAIN, WORDLLAMA, MINILM = "lorebank, no model", "lorebank, wordllama", "lorebank, minilm"
OURS = (PLAIN, WORDLLAMA, MINILM)
MEMORY_STORE, SQLITE_STORE, MEM0 = "LangGraph InMemoryStore", "LangGraph SqliteStore", "mem0, local Qdrant"
BM25, VECTOR_INDEX = "LlamaIndex BM25Retriever", "LlamaIndex VectorStoreIndex"


class LeftOut(Exception):  # noqa: N818 - no error: a row less
    """A side cannot run here; says why."""


class Known:
    """An embedder that looks its vectors up; what it has not met it asks the real one for, once, and counts."""

    def __init__(self, embedder: Any) -> None:
        self.embedder = embedder
        self.name, self.dimensions = str(embedder.name), int(embedder.dimensions)
        self.trust = float(getattr(embedder, "trust", 1.0))
        self.made = 0
        self._vectors: dict[tuple[str, str], Any] = {}

    def embed(self, texts: Sequence[str], *, kind: Literal["query", "passage"]) -> list[list[float]]:
        """A list of its own for each text, as a model's client gives it."""
        if new := [text for text in dict.fromkeys(texts) if (kind, text) not in self._vectors]:
            self.made += len(new)
            self._vectors.update(zip(((kind, text) for text in new), self.embedder.embed(new, kind=kind), strict=True))
        return [self._vectors[kind, text].tolist() for text in texts]

    def passages(self, texts: Sequence[str]) -> list[list[float]]:
        """The same in the shape of a function of texts: the peers embed queries like passages, and so does MiniLM."""
        return self.embed(texts, kind="passage")

    def learn(self, texts: Sequence[str]) -> None:
        """Makes the vectors of texts, in parts."""
        for start in range(0, len(texts), BATCH):
            self.passages(texts[start : start + BATCH])
            progress(f"{self.name}: {start:,} of {len(texts):,} texts have vectors")


@dataclass(frozen=True, slots=True)
class Side:
    """One store: `keep` takes a batch, `ready` ends the filling, `ask` gives the number of memories found."""

    keep: Callable[[Sequence[Text]], object]
    ask: Callable[[str], int]
    ready: Callable[[], object] = lambda: None


Opener = Callable[[Path, ExitStack], Side]


def lorebank(embedder: Known | None, folder: Path, stack: ExitStack) -> Side:
    from lorebank import Item, open_bank

    path = folder / f"{embedder.name if embedder else 'plain'}.db"
    bank = stack.enter_context(open_bank(f"sqlite:///{path}", bank="peers", embedder=embedder))

    def keep(part: Sequence[Text]) -> None:
        bank.retain([Item(text.content, session=text.session, speaker=text.speaker, timestamp=text.moment) for text in part])

    def ready() -> None:
        if not (report := bank.flush(timeout=3600)).done:
            raise SystemExit(f"not all memories have vectors: {report.reason}")

    return Side(keep, lambda question: len(bank.recall(question, limit=LIMIT).memories), ready)


def beside(text: Text) -> dict[str, str]:
    """What a memory holds beside its text."""
    return {"session": text.session, "speaker": text.speaker, "moment": text.moment.isoformat()}


def langgraph(store: Any) -> Side:
    """Either of LangGraph's stores; the text is indexed, the rest of the value is not."""
    from langgraph.store.base import PutOp

    def keep(part: Sequence[Text]) -> None:
        values = [(f"{text.session}-{text.position}", {"text": text.content, **beside(text)}) for text in part]
        store.batch([PutOp(("memories", "peers"), key, value) for key, value in values])

    return Side(keep, lambda question: len(store.search(("memories", "peers"), query=question, limit=LIMIT)))


def memory_store(known: Known, _folder: Path, _stack: ExitStack) -> Side:
    from langgraph.store.memory import InMemoryStore

    return langgraph(InMemoryStore(index={"dims": known.dimensions, "embed": known.passages, "fields": ["text"]}))


def sqlite_store(known: Known, folder: Path, stack: ExitStack) -> Side:
    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        raise LeftOut("this Python's sqlite3 loads no extensions")
    from langgraph.store.sqlite import SqliteStore

    index: Any = {"dims": known.dimensions, "embed": known.passages, "text_fields": ["text"]}  # `fields` would be ignored
    return langgraph(stack.enter_context(SqliteStore.from_conn_string(str(folder / "store.db"), index=index)))


def mem0(known: Known, folder: Path, stack: ExitStack) -> Side:
    """mem0 with nothing beyond its own requirements (no spaCy, no fastembed): it searches by vectors alone, its fastest way."""
    os.environ.update(MEM0_TELEMETRY="False", MEM0_DIR=str(folder / "mem0"))  # read when it is imported
    from mem0 import Memory
    from mem0.embeddings.base import EmbeddingBase

    class Embedder(EmbeddingBase):
        def embed(self, text: str, memory_action: str | None = None) -> list[float]:
            del memory_action
            return known.passages([text])[0]

    place = {"path": str(folder / "qdrant"), "embedding_model_dims": known.dimensions, "on_disk": True}
    unused = {"provider": "openai", "config": {"api_key": "none"}}  # clients are made, and asked for nothing
    config = {"vector_store": {"provider": "qdrant", "config": place}, "llm": unused, "embedder": unused}
    memory = Memory.from_config({**config, "history_db_path": str(folder / "history.db")})
    memory.embedding_model = Embedder()
    stack.callback(memory.close)

    def keep(part: Sequence[Text]) -> None:
        for text in part:
            memory.add(text.content, user_id="peers", metadata=beside(text), infer=False)

    return Side(keep, lambda question: len(memory.search(question, top_k=LIMIT, filters={"user_id": "peers"})["results"]))


def nodes(part: Sequence[Text]) -> list[Any]:
    """LlamaIndex's nodes, whose metadata is kept and not searched."""
    from llama_index.core.schema import TextNode

    apart = [*beside(part[0])]
    return [
        TextNode(text=each.content, metadata=beside(each), excluded_embed_metadata_keys=apart, excluded_llm_metadata_keys=apart)
        for each in part
    ]


def bm25(_folder: Path, _stack: ExitStack) -> Side:
    from llama_index.retrievers.bm25 import BM25Retriever

    kept: list[Any] = []
    made: list[Any] = []

    def ready() -> None:
        made.append(BM25Retriever.from_defaults(nodes=kept, similarity_top_k=LIMIT))

    return Side(lambda part: kept.extend(nodes(part)), lambda question: len(made[0].retrieve(question)), ready)


def vector_index(known: Known, _folder: Path, _stack: ExitStack) -> Side:
    from llama_index.core import VectorStoreIndex
    from llama_index.core.embeddings import BaseEmbedding

    class Embedder(BaseEmbedding):
        def _get_query_embedding(self, query: str) -> list[float]:
            return known.passages([query])[0]

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_query_embedding(query)

        def _get_text_embedding(self, text: str) -> list[float]:
            return known.passages([text])[0]

    index = VectorStoreIndex([], embed_model=Embedder())
    made: list[Any] = []

    def ready() -> None:
        made.append(index.as_retriever(similarity_top_k=LIMIT))  # it searches the nodes that were there when it was made

    return Side(lambda part: index.insert_nodes(nodes(part)), lambda question: len(made[0].retrieve(question)), ready)


def models() -> dict[str, Known]:
    """The embedders that are installed, by the side that is theirs. Without MiniLM, no peer that needs vectors runs."""
    from lorebank import LorebankError
    from lorebank._mnemopi.embedders.minilm import MiniLM
    from lorebank._mnemopi.embedders.wordllama import WordLlama

    found: dict[str, Known] = {}
    for name, make in ((WORDLLAMA, WordLlama), (MINILM, MiniLM)):
        try:
            found[name] = Known(make())
        except LorebankError as error:
            lost = f"{name}, and the peers that need its vectors, are" if name == MINILM else f"{name} is"
            print(f"{lost} left out: {error}\n")
    return found


def openers(known: Mapping[str, Known]) -> dict[str, Opener]:
    """How each side is opened in a folder. The peers' vectors are MiniLM's."""
    found: dict[str, Opener] = {PLAIN: partial(lorebank, None), BM25: bm25}
    found |= {name: partial(lorebank, embedder) for name, embedder in known.items()}
    if dense := known.get(MINILM):
        peers = {MEMORY_STORE: memory_store, SQLITE_STORE: sqlite_store, MEM0: mem0, VECTOR_INDEX: vector_index}
        found |= {name: partial(each, dense) for name, each in peers.items()}
    return {name: found[name] for name in (*OURS, MEMORY_STORE, SQLITE_STORE, MEM0, BM25, VECTOR_INDEX) if name in found}
