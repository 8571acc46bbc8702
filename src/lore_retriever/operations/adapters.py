"""What the frameworks' interfaces ask for beside recall: many by id, by vector, diverse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypedDict

from lore_retriever.config import FusionConfig
from lore_retriever.diversity import diverse_order
from lore_retriever.embeddings.base import Vector
from lore_retriever.embeddings.checking import checked_vectors
from lore_retriever.errors import EmbeddingFailed, InvalidInput
from lore_retriever.filters.tree import Filter
from lore_retriever.inputs import checked_ids, checked_limit, checked_queries
from lore_retriever.operations.common import OpenSpace, fetch
from lore_retriever.operations.reading import recall
from lore_retriever.results import memory_from_row
from lore_retriever.steps import Embed, HalfVector, Operation
from lore_retriever.types import Memory, Recall

__all__ = [
    "Conditions",
    "checked_ids",
    "diverse",
    "diverse_by_vector",
    "forget_all",
    "fusion_knobs",
    "get_memories",
    "recall_by_vector",
]


class Conditions(TypedDict, total=False):
    """What narrows a search, as `recall` takes it."""

    filter: Mapping[str, Any] | Filter | None
    kinds: list[str] | None
    as_of: datetime | None


def get_memories(ids: Iterable[str]) -> Operation:
    """The visible, live memories of these ids, whole, in the order of the ids; unknown ids are left out."""
    wanted = list(dict.fromkeys(checked_ids(ids)))
    if not wanted:
        return []
    rows = yield from fetch("get_memories", ids=wanted)
    found: dict[str, Memory] = {row["id"]: memory_from_row(row) for row in rows}
    return [found[given] for given in wanted if given in found]


def forget_all() -> Operation:
    """Remove every memory of the caller's own; the ids that were there."""
    rows = yield from fetch("forget_all")
    return [row["id"] for row in rows]


def fusion_knobs() -> Operation:
    """The knobs that searches use now, as far as relevance depends on them."""
    rows = yield from fetch("fusion_knobs")
    return FusionConfig(**rows[0])


def _foreign_vector(space: OpenSpace, vector: Vector) -> list[float]:
    """A vector that a host made, at unit length.

    Raises:
        InvalidInput: If it cannot be one of the store's space.
    """
    identity = space.embedder.space
    try:
        return checked_vectors([vector], count=1, dimensions=identity.dimensions, labels=["the query"])[0]
    except EmbeddingFailed as error:
        raise InvalidInput(f"{error} The store's vectors are those of {identity}.") from error


def recall_by_vector(space: OpenSpace, vector: Vector, *, limit: int, **conditions: Any) -> Operation:
    """Search by the vector leg alone. The vector must be of the store's space, which only its length can show."""
    return (yield from _recall(space, "", [_foreign_vector(space, vector)], limit, conditions))


def _recall(
    space: OpenSpace, query: str, vectors: list[Vector] | None, limit: int, conditions: Mapping[str, Any]
) -> Operation:
    wanted: dict[str, Any] = {"filter": None, "kinds": None, "as_of": None} | dict(conditions)
    return (yield from recall(space, query, limit=limit, vectors=vectors, **wanted))


def diverse(space: OpenSpace, query: str, *, k: int, fetch_k: int, lambda_mult: float, **conditions: Any) -> Operation:
    """The `k` of the best `fetch_k` hits that differ most from each other, in the order of maximal marginal relevance.

    The query is embedded once. Where it cannot be, the answer is the plain ranking, which says so.
    """
    [text], _ = checked_queries([query])
    try:
        [vector] = (
            (yield Embed([text], as_queries=True, labels=[f"the query {text[:40]!r}"])) if text.strip() else [None]
        )
    except EmbeddingFailed:
        vector = None
    if vector is None:
        # Through recall once more, which degrades or raises as the store was told to.
        return (yield from _recall(space, query, None, checked_limit(k), conditions))
    found = yield from _recall(space, query, [vector], _fetched(k, fetch_k), conditions)
    return (yield from _picked(found, vector, k, lambda_mult))


def diverse_by_vector(
    space: OpenSpace, vector: Vector, *, k: int, fetch_k: int, lambda_mult: float, **conditions: Any
) -> Operation:
    """The same by the vector leg alone, for a vector of the store's space."""
    unit = _foreign_vector(space, vector)
    found = yield from _recall(space, "", [unit], _fetched(k, fetch_k), conditions)
    return (yield from _picked(found, unit, k, lambda_mult))


def _fetched(k: int, fetch_k: int) -> int:
    return max(checked_limit(k), checked_limit(fetch_k))


def _picked(found: Recall, vector: Vector, k: int, lambda_mult: float) -> Operation:
    rows = yield from fetch(
        "closest_vectors",
        ids=[hit.id for hit in found.hits],
        owners=[hit.owner for hit in found.hits],
        embedding=HalfVector(vector),
    )
    vectors = {(row["id"], row["owner"]): row["embedding"] for row in rows}
    order = diverse_order(
        vector, [vectors.get((hit.id, hit.owner)) for hit in found.hits], k=k, lambda_mult=lambda_mult
    )
    return found.model_copy(update={"hits": tuple(found.hits[place] for place in order)})
