"""Maximal marginal relevance: near the query, far from what was already picked. Pure; needs numpy when called."""

from __future__ import annotations

from collections.abc import Sequence

from lore_retriever.embeddings.base import Vector
from lore_retriever.errors import InvalidInput

__all__ = ["diverse_order"]


def diverse_order(query: Vector, vectors: Sequence[Vector | None], *, k: int, lambda_mult: float) -> list[int]:
    """Which vectors to pick, in the order in which they are picked.

    Args:
        query: Unit vector, shape `(d,)`.
        vectors: Unit vectors of the candidates, best first; None where a candidate has none, which counts as
            unlike the query and unlike every other candidate.
        k: How many to pick; all if there are fewer.
        lambda_mult: Weight of likeness to the query against unlikeness to what was picked, from 0 to 1.

    Returns:
        Places in `vectors`. The first is the candidate nearest to the query; ties go to the earlier one.

    Raises:
        InvalidInput: If `lambda_mult` is no number from 0 to 1.

    Source: Carbonell and Goldstein, SIGIR 1998.
    """
    if isinstance(lambda_mult, bool) or not isinstance(lambda_mult, int | float) or not 0 <= lambda_mult <= 1:
        raise InvalidInput(f"lambda_mult is {lambda_mult!r}; give a number from 0 (most diverse) to 1 (most similar).")
    if not vectors:
        return []
    import numpy as np

    matrix = np.array([[0.0] * len(query) if vector is None else vector for vector in vectors], dtype=float)
    likeness = matrix @ np.array(query, dtype=float)
    redundancy = np.full(len(vectors), -np.inf)
    open_places = np.ones(len(vectors), dtype=bool)
    picked: list[int] = []
    while len(picked) < min(k, len(vectors)):
        gain = likeness if not picked else lambda_mult * likeness - (1 - lambda_mult) * redundancy
        best = int(np.argmax(np.where(open_places, gain, -np.inf)))
        picked.append(best)
        open_places[best] = False
        redundancy = np.maximum(redundancy, matrix @ matrix[best])
    return picked
