"""Static word vectors of the package `wordllama`: small and fast, no model to run."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Sequence
from typing import Any, Literal, cast

import numpy as np

from lorebank._mnemopi.embedders.files import Matrix, as_expected, folder_of, need, unit
from lorebank._mnemopi.search.terms import content_words

NAME = "wordllama"


class WordLlama:
    """The static word vectors of the package `wordllama` (256 dimensions, 16 MB, 0.2 ms a query), averaged over a text.

    The files are read with the first text. Safe from several threads.
    """

    name = "wordllama-256"
    dimensions = 256
    trust = 0.5  # half of what a model that reads whole sentences gets (measured)

    def __init__(self) -> None:
        need(NAME, "embeddings", (NAME, "tokenizers", "safetensors"))
        self._lock = threading.Lock()
        self._read: tuple[Any, Matrix] | None = None

    def embed(self, texts: Sequence[str], *, kind: Literal["query", "passage"]) -> Sequence[Sequence[float]]:
        """One vector of length 1 for each text; zeros for a text without a known piece.

        Of a query only the words that carry meaning: in a mean of few words, the others would drown them (measured).
        """
        tokenizer, table = self._files()
        if kind == "query":
            texts = [" ".join(content_words(text)) or text for text in texts]
        found = np.zeros((len(texts), self.dimensions), np.float32)
        for row, encoded in enumerate(tokenizer.encode_batch(list(texts), add_special_tokens=False)):
            if ids := encoded.ids:
                found[row] = table[ids].mean(0, dtype=np.float32)
        return cast("Sequence[Sequence[float]]", unit(found))

    def _files(self) -> tuple[Any, Matrix]:
        with self._lock:
            if self._read is None:
                self._read = _files()
            return self._read

    def __reduce__(self) -> tuple[type[WordLlama], tuple[()]]:
        return WordLlama, ()


def _files() -> tuple[Any, Matrix]:
    """The tokenizer and the table of vectors, from the package's folder."""
    folder = folder_of(NAME)
    tokenizers: Any = importlib.import_module("tokenizers")
    safetensors: Any = importlib.import_module("safetensors.numpy")
    with as_expected(f"`wordllama` in `{folder}`", "embeddings"):
        [weights] = (folder / "weights").glob("*_256.safetensors")
        [rules] = (folder / "tokenizers").glob("*.json")
        tables: dict[str, Any] = safetensors.load_file(str(weights))
        tokenizer = tokenizers.Tokenizer.from_file(str(rules))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer, np.asarray(next(iter(tables.values())))
