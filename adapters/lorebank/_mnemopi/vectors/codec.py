"""A vector on its way into the file and back: one byte a dimension with a scale in front, and one bit for the search.

A stored vector is its largest absolute value divided by 127 (a little-endian float32), then each dimension in these
steps. The cosine of two vectors then is off by less than 0.005 on average. The sign bits of all dimensions, padded to
whole words of 64 bits, are compared first: vectors that agree in many signs are near each other. Where all vectors of an
embedder lie around one point (the cosines of unrelated texts are then 0.7 or more), signs are those of what is left without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import cast

import numpy as np
from numpy.typing import NDArray

from lorebank.errors import GarbledError

Matrix = NDArray[np.float32]
"""One vector a row."""
Centre = NDArray[np.float32]
"""One vector."""
Signs = NDArray[np.uint64]
"""Packed sign bits, one vector a row."""

_SCALE = 4
_STEPS = 127
_ONES = np.array([byte.bit_count() for byte in range(256)], np.uint8)


def parse(vectors: object, count: int, dimensions: int) -> Matrix:
    """What an embedder gave, as vectors of length 1; `GarbledError` where it is not `count` finite vectors of this size."""
    try:
        found = np.asarray(vectors, np.float32)
    except (TypeError, ValueError) as error:
        raise GarbledError(f"the embedder gave no vectors of numbers ({error})") from error
    if found.shape != (count, dimensions):
        raise GarbledError(f"the embedder gave {found.shape} for {count} texts in {dimensions} dimensions")
    if not np.isfinite(found).all():
        raise GarbledError("the embedder gave numbers that are not finite")
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    return (found / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def packed(vectors: Matrix) -> list[bytes]:
    """The vectors as they are stored."""
    scales = np.abs(vectors).max(1, keepdims=True) / _STEPS
    steps = np.rint(vectors / np.where(scales > 0, scales, 1)).astype(np.int8)
    return [scale.tobytes() + row.tobytes() for scale, row in zip(scales.astype("<f4"), steps, strict=True)]


def unpacked(blobs: Sequence[bytes], dimensions: int) -> Matrix:
    """The vectors of stored ones, each of this size; `GarbledError` where one is not."""
    if not blobs:
        return np.empty((0, dimensions), np.float32)
    raw = np.frombuffer(b"".join(blobs), np.uint8)
    if raw.size != len(blobs) * (_SCALE + dimensions):
        raise GarbledError(f"the file holds vectors that don't have {dimensions} dimensions")
    rows = raw.reshape(len(blobs), _SCALE + dimensions)
    scales = np.ascontiguousarray(rows[:, :_SCALE]).view("<f4")
    found: Matrix = np.multiply(rows[:, _SCALE:].view(np.int8), scales, dtype=np.float32)
    return found


def signs(vectors: Matrix, centre: Centre | float = 0.0) -> Signs:
    """The packed sign bits, seen from `centre`."""
    bits = np.packbits(vectors > centre, axis=1)
    width = -(-bits.shape[1] // 8) * 8
    padded = np.zeros((len(bits), width), np.uint8)
    padded[:, : bits.shape[1]] = bits
    return padded.view(np.uint64)


def differing(stored: Signs, query: Signs) -> NDArray[np.uint16]:
    """In how many signs each stored vector differs from the query's one row."""
    found = np.zeros(len(stored), np.uint16)
    for column, word in enumerate(query[0]):
        found += ones(stored[:, column] ^ word)
    return found


def ones(words: Signs) -> NDArray[np.uint8]:
    """How many bits of each word are set."""
    if hasattr(np, "bitwise_count"):  # NumPy 2
        return cast("NDArray[np.uint8]", np.bitwise_count(words))
    return ones_by_table(words)


def ones_by_table(words: Signs) -> NDArray[np.uint8]:
    """The same without NumPy 2."""
    found: NDArray[np.uint8] = _ONES[words.view(np.uint8).reshape(-1, 8)].sum(1, dtype=np.uint8)
    return found


@lru_cache(maxsize=8)
def unpacked_all(blob: bytes, dimensions: int) -> Matrix:
    """The vectors that were stored in one piece."""
    size = _SCALE + dimensions
    return unpacked([blob[start : start + size] for start in range(0, len(blob), size)], dimensions)
