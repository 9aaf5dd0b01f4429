"""What is stored of a vector is near enough to it, and what is no vector is refused."""

from __future__ import annotations

import numpy as np
import pytest

from lorebank import GarbledError
from lorebank._mnemopi.vectors import codec

CHANCE = np.random.default_rng(7)


@pytest.mark.parametrize("dimensions", [1, 7, 64, 256, 384, 1000])
def test_a_stored_vector_has_nearly_the_same_cosines(dimensions: int) -> None:
    """The mean error of a cosine is below 0.005."""
    made = codec.parse(CHANCE.standard_normal((200, dimensions)), 200, dimensions)
    kept = codec.unpacked(codec.packed(made), dimensions)
    assert np.abs(kept @ made.T - made @ made.T).mean() < 0.005


def test_vectors_get_length_one_and_zeros_stay() -> None:
    """Whatever an embedder's lengths, cosines are what counts."""
    made = codec.parse([[3.0, 4.0], [0.0, 0.0]], 2, 2)
    assert made.tolist() == pytest.approx(np.array([[0.6, 0.8], [0.0, 0.0]]))
    assert codec.unpacked(codec.packed(made), 2)[1].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("dimensions", "size"), [(64, 8), (256, 32), (384, 48), (5, 8), (65, 16)])
def test_sign_bits_take_an_eighth_of_a_byte_each(dimensions: int, size: int) -> None:
    """Padded to whole words of eight bytes."""
    signs = codec.signs(codec.parse(CHANCE.standard_normal((3, dimensions)), 3, dimensions))
    assert signs.nbytes == 3 * size


def test_differing_counts_signs() -> None:
    """Opposite vectors differ in all dimensions, equal ones in none."""
    made = codec.parse([[1.0] * 70, [-1.0] * 70, [1.0] * 35 + [-1.0] * 35], 3, 70)
    assert codec.differing(codec.signs(made), codec.signs(made[:1])).tolist() == [0, 70, 35]


def test_signs_are_counted_without_numpy_2() -> None:
    """By a table of bytes."""
    words = np.ascontiguousarray(codec.signs(codec.parse(CHANCE.standard_normal((9, 100)), 9, 100))[:, 0])
    assert codec.ones_by_table(words).tolist() == [int(word).bit_count() for word in words] == codec.ones(words).tolist()


@pytest.mark.parametrize(
    "vectors",
    [
        [[1.0, 2.0]],
        [[1.0], [2.0]],
        [[1.0, float("nan")], [1.0, 2.0]],
        [[1.0, float("inf")], [0.0, 1.0]],
        ["a", "b"],
        None,
        [[1], [1, 2]],
    ],
    ids=["few", "short", "nan", "inf", "text", "none", "ragged"],
)
def test_what_is_no_vector_is_garbled(vectors: object) -> None:
    """Two finite vectors of two dimensions are wanted."""
    with pytest.raises(GarbledError, match="the embedder gave"):
        codec.parse(vectors, 2, 2)


def test_a_stored_vector_of_another_length_is_garbled() -> None:
    """A file that was tampered with is not guessed at."""
    with pytest.raises(GarbledError, match="3 dimensions"):
        codec.unpacked(codec.packed(codec.parse([[1.0, 0.0]], 1, 2)), 3)
