"""Refuses vectors that no store can hold, before anything is written. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from lore_retriever.errors import EmbeddingFailed

__all__ = ["checked_vectors", "unit_or_same"]

_UNIT_TOLERANCE = 1e-6
"""A vector this near to unit length is kept as it is: float32 rounding of 1,024 numbers stays below it."""


def checked_vectors(
    vectors: Iterable[Any], *, count: int, dimensions: int, labels: Sequence[str] | None = None
) -> list[list[float]]:
    """Vectors of unit length, as plain lists, in the given order.

    Args:
        vectors: What an embedder returned: lists, tuples or arrays of numbers, or one array of shape
            `(count, dimensions)`, of any length but zero.
        count: How many texts were embedded.
        dimensions: Numbers that each vector must have.
        labels: A name for each text (a memory's id), for the message; its place from 0 if None.

    Raises:
        EmbeddingFailed: If there are more or fewer vectors than `count`, or one has another length, is zero,
            or holds NaN, infinity or something that is no number; it names the text.
    """
    try:
        found = list(vectors)
    except TypeError:
        raise EmbeddingFailed(
            f"the embedder returned {type(vectors).__name__}: it must return one vector for each text."
        ) from None
    if len(found) != count:
        raise EmbeddingFailed(f"the embedder returned {len(found)} vectors for {count} texts.")
    names = [f"text {place}" for place in range(count)] if labels is None else labels
    return [_unit(vector, dimensions, name) for vector, name in zip(found, names, strict=True)]


def unit_or_same(vector: Any) -> list[float]:
    """A vector as a list of unit length; one that has no direction (zero, NaN, infinite) as it is.

    For embedders: what cannot be stored is refused where the text's name is known, by `checked_vectors`.
    """
    numbers = _numbers(vector, "a text")
    if any(numbers) and all(map(math.isfinite, numbers)):
        return _scaled(numbers)
    return numbers


def _unit(vector: Any, dimensions: int, label: str) -> list[float]:
    """One vector scaled to length 1."""
    numbers = _numbers(vector, label)
    if len(numbers) != dimensions:
        raise EmbeddingFailed(
            f"the vector of {label} has {len(numbers)} numbers, this embedding space has {dimensions}."
        )
    if abs(math.hypot(*numbers) - 1.0) <= _UNIT_TOLERANCE:
        return numbers  # so none is infinite or NaN, and one at least is not zero
    if not all(map(math.isfinite, numbers)):
        place = next(place for place, number in enumerate(numbers) if not math.isfinite(number))
        raise EmbeddingFailed(f"the vector of {label} holds {numbers[place]} at place {place}.")
    if not any(numbers):
        raise EmbeddingFailed(f"the vector of {label} is zero: it has no direction to compare.")
    return _scaled(numbers)


def _scaled(numbers: list[float]) -> list[float]:
    """A vector that is neither zero nor infinite, at unit length."""
    if abs(math.hypot(*numbers) - 1.0) <= _UNIT_TOLERANCE:
        return numbers
    # Dividing by the largest first keeps very long and very short vectors from overflowing.
    largest = max(map(abs, numbers))
    parts = [number / largest for number in numbers]
    norm = math.hypot(*parts)
    return [number / norm for number in parts]


def _numbers(vector: Any, label: str) -> list[float]:
    """The numbers of a list, tuple or array."""
    plain = vector.tolist() if hasattr(vector, "tolist") else vector
    if isinstance(plain, (str, bytes)):
        raise EmbeddingFailed(f"the vector of {label} is {type(plain).__name__}, not a list of numbers.")
    try:
        return list(map(float, plain))
    except (TypeError, ValueError, OverflowError) as error:
        raise EmbeddingFailed(f"the vector of {label} is not a list of numbers: {error}.") from error
