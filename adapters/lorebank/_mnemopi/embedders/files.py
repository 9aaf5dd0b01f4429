"""What the built-in embedders share: the files of the packages that ship them. Nothing is downloaded, ever."""

from __future__ import annotations

import importlib.util
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lorebank.errors import UsageError

Matrix = NDArray[np.float32]


def need(embedder: str, extra: str, packages: Sequence[str]) -> None:
    """`UsageError` that names the extra where one of the packages is not installed."""
    if any(importlib.util.find_spec(each) is None for each in packages):
        raise UsageError(f"embedder={embedder!r} needs the extra `{extra}`: pip install 'lorebank[{extra}]'")


def folder_of(package: str) -> Path:
    """Where a package's files are; the package itself is not run."""
    spec = importlib.util.find_spec(package)
    return Path(next(iter(spec.submodule_search_locations or ()), "")) if spec else Path()


@contextmanager
def as_expected(packages: str, extra: str) -> Generator[None]:
    """Says what to do where a package's files are not what they were."""
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(f"{packages} is not as expected ({error}): pip install -U 'lorebank[{extra}]'") from error


def unit(vectors: Matrix) -> Matrix:
    """The vectors with length 1; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32, copy=False)
