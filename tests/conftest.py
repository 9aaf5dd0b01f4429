"""What all tests share: a clean environment and a bank in a file of its own."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from lorebank import Bank, open_bank

pytest_plugins = ["hindsight_fixtures", "postgres_fixtures"]  # real servers: tests/server


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting of the developer's machine reaches a test, and no test its data."""
    for name in ("LOREBANK_URL", "HINDSIGHT_API_URL", "HINDSIGHT_API_KEY", "HINDSIGHT_API_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of the test's bank; it does not exist yet."""
    return tmp_path / "memory.db"


@pytest.fixture
def url(file: Path) -> str:
    return f"sqlite:///{file}"


@pytest.fixture
def bank(url: str) -> Iterator[Bank]:
    """The bank `alice` in an empty file."""
    with open_bank(url, bank="alice") as opened:
        yield opened


SAME = {"kitten": "cat", "feline": "cat", "physician": "doctor", "automobile": "car", "infant": "baby"}


class ToyEmbedder:
    """A deterministic embedder: each word has a direction of its own, words of one meaning share it.

    `asked` are the texts by kind; while `error` is set, it is raised; while `gate` is cleared, passages wait.
    """

    def __init__(self, name: str = "toy-64", dimensions: int = 64) -> None:
        self.name, self.dimensions = name, dimensions
        self.asked: dict[str, list[str]] = {"query": [], "passage": []}
        self.error: Exception | None = None
        self.refused: str | None = None
        self.gate = threading.Event()
        self.gate.set()
        self.begun = threading.Event()

    def embed(self, texts: Sequence[str], *, kind: str) -> list[list[float]]:
        self.asked[kind] += texts
        self.begun.set()
        if kind == "passage":
            self.gate.wait(30)
        if self.error is not None:
            raise self.error
        if self.refused is not None and any(self.refused in text for text in texts):
            raise ValueError("this text is too long")
        return [self._vector(text).tolist() for text in texts]

    def _vector(self, text: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        words = [word.strip(".,?!'").lower() for word in text.split()]
        seeds = [zlib.crc32(f"{SAME.get(word, word)} {self.name}".encode()) for word in words if word]
        return sum((np.random.default_rng(seed).standard_normal(self.dimensions) for seed in seeds), np.zeros(self.dimensions))


@pytest.fixture
def toy() -> Callable[..., ToyEmbedder]:
    """Makes embedders whose vectors a test can foresee."""
    return ToyEmbedder
