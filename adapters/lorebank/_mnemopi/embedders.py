"""Which objects are embedders, and the one that is built in: `wordllama`, static vectors from a package that ships them.

Nothing is downloaded, ever: the built-in embedder reads the files of the installed package.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from lorebank._domain.ports import Embedder
from lorebank._mnemopi.search.terms import content_words
from lorebank.errors import UsageError

MAX_DIMENSIONS = 8192
WORDLLAMA = "wordllama"
Matrix = NDArray[np.float32]


class WordLlama:
    """The static word vectors of the package `wordllama` (256 dimensions, 16 MB, 0.2 ms a query), averaged over a text.

    The files are read with the first text. Safe from several threads.
    """

    name = "wordllama-256"
    dimensions = 256

    def __init__(self) -> None:
        if importlib.util.find_spec(WORDLLAMA) is None or importlib.util.find_spec("tokenizers") is None:
            raise UsageError("embedder='wordllama' needs the extra `embeddings`: pip install 'lorebank[embeddings]'")
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
                self._read = _wordllama_files()
            return self._read

    def __reduce__(self) -> tuple[type[WordLlama], tuple[()]]:
        return WordLlama, ()


def _wordllama_files() -> tuple[Any, Matrix]:
    """The tokenizer and the table of vectors, from the package's folder; the package itself is not run."""
    spec = importlib.util.find_spec(WORDLLAMA)
    folder = Path(next(iter(spec.submodule_search_locations or ()), "")) if spec else Path()
    tokenizers: Any = importlib.import_module("tokenizers")
    safetensors: Any = importlib.import_module("safetensors.numpy")
    try:
        [weights] = (folder / "weights").glob("*_256.safetensors")
        [rules] = (folder / "tokenizers").glob("*.json")
        tables: dict[str, Any] = safetensors.load_file(str(weights))
        tokenizer = tokenizers.Tokenizer.from_file(str(rules))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"`wordllama` in `{folder}` is not as expected ({error}): pip install -U 'lorebank[embeddings]'"
        ) from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer, np.asarray(next(iter(tables.values())))


def unit(vectors: Matrix) -> Matrix:
    """The vectors with length 1; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32, copy=False)


def checked(embedder: object) -> Embedder | None:
    """The embedder, or the built-in one of this name; `UsageError` for anything else."""
    if embedder is None:
        return None
    if isinstance(embedder, str):
        if embedder != WORDLLAMA:
            raise UsageError(f"`embedder` by name must be {WORDLLAMA!r}; found {embedder!r}")
        return WordLlama()
    embed = getattr(embedder, "embed", None)
    if isinstance(embedder, type) or not callable(embed) or not _takes(embed):
        raise UsageError(
            "`embedder` must be 'wordllama' or an object with `name`, `dimensions` and `embed(texts, *, kind)` "
            f"(lorebank.seams.Embedder); found {_named(embedder)}"
        )
    if inspect.iscoroutinefunction(embed):
        raise UsageError("`embedder.embed` must be a plain function, not an async one: lorebank calls it in a thread of its own")
    _check_identity(embedder)
    return cast("Embedder", embedder)


def _check_identity(embedder: object) -> None:
    name, dimensions = getattr(embedder, "name", None), getattr(embedder, "dimensions", None)
    if not isinstance(name, str) or not 0 < len(name) <= 200:
        raise UsageError(f"`embedder.name` must be text of 1 to 200 characters that names its model; found {name!r}")
    if not isinstance(dimensions, int) or isinstance(dimensions, bool) or not 0 < dimensions <= MAX_DIMENSIONS:
        raise UsageError(f"`embedder.dimensions` must be a number from 1 to {MAX_DIMENSIONS}; found {dimensions!r}")


def _named(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def _takes(embed: Callable[..., object]) -> bool:
    """Whether it can be called as an embedder; one that does not tell is believed."""
    try:
        inspect.signature(embed).bind([""], kind="query")
    except TypeError:
        return False
    except ValueError:
        return True
    return True
