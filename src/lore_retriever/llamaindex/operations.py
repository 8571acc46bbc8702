"""What LlamaIndex's interfaces ask for, as operations: nodes in and out, searches by chosen legs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from lore_retriever import limits
from lore_retriever.diversity import diverse_order
from lore_retriever.embeddings.base import Vector
from lore_retriever.embeddings.checking import checked_vectors
from lore_retriever.errors import EmbeddingFailed, EmbeddingSpaceMismatch, InvalidInput
from lore_retriever.filters.tree import Filter
from lore_retriever.inputs import checked_id, checked_queries
from lore_retriever.llamaindex.nodes import REF_DOC_KEY
from lore_retriever.operations.adapters import checked_ids
from lore_retriever.operations.common import OpenSpace, fetch
from lore_retriever.operations.reading import filter_json, recall
from lore_retriever.operations.writing import remember_many
from lore_retriever.results import memory_from_row
from lore_retriever.steps import Embed, HalfVector, Operation
from lore_retriever.types import NewMemory, Recall

__all__ = [
    "Legs",
    "checked_vector",
    "diverse",
    "fits",
    "forget_document",
    "forget_nodes",
    "pick_memories",
    "query_vector",
    "remember_nodes",
    "search",
]

Legs: TypeAlias = Literal["all", "vector", "text"]


def remember_nodes(space: OpenSpace, memories: Iterable[NewMemory], known: Mapping[str, Vector]) -> Operation:
    """Store memories; a window whose text is in `known` takes that vector instead of being embedded."""
    operation = remember_many(space, memories)
    result, failure = None, None
    while True:
        try:
            step = operation.send(result) if failure is None else operation.throw(failure)
        except StopIteration as end:
            return end.value
        result, failure = None, None
        try:
            result = (yield from _embed_rest(step, known)) if isinstance(step, Embed) else (yield step)
        except Exception as error:
            failure = error


def _embed_rest(step: Embed, known: Mapping[str, Vector]) -> Operation:
    places = [place for place, text in enumerate(step.texts) if text not in known]
    made = [known.get(text) for text in step.texts]
    if places:
        labels = [step.labels[place] for place in places] if step.labels else ()
        vectors = yield Embed([step.texts[place] for place in places], labels=labels)
        for place, vector in zip(places, vectors, strict=True):
            made[place] = vector
    return made


def pick_memories(ids: Sequence[str] | None, filter: Filter | None) -> Operation:  # noqa: A002 (the hosts' own name)
    """The visible, live memories that have one of the ids (any if None) and pass the filter, whole."""
    rows = yield from fetch("pick_memories", ids=None if ids is None else checked_ids(ids), filter=filter_json(filter))
    return [memory_from_row(row) for row in rows]


def forget_nodes(ids: Sequence[str] | None, filter: Filter | None) -> Operation:  # noqa: A002
    """Remove the caller's own memories that have one of the ids (any if None) and pass the filter; their ids."""
    rows = yield from fetch("forget_picked", ids=None if ids is None else checked_ids(ids), filter=filter_json(filter))
    return [row["id"] for row in rows]


def forget_document(ref_doc_id: str) -> Operation:
    """Remove the caller's own memories that were cut from this document; their ids."""
    rows = yield from fetch("forget_document", key=REF_DOC_KEY, ref_doc_id=checked_id(ref_doc_id))
    return [row["id"] for row in rows]


def fits(space: OpenSpace, vector: Sequence[float]) -> bool:
    """Whether a vector has as many numbers as the store's have; nothing else can be seen from a vector alone."""
    return len(vector) == space.embedder.space.dimensions


def checked_vector(space: OpenSpace, vector: Sequence[float], *, label: str) -> list[float]:
    """A vector that a host made, at unit length.

    Raises:
        EmbeddingSpaceMismatch: If it has another number of dimensions than the store's.
        InvalidInput: If it is zero, or holds what is no finite number.
    """
    identity = space.embedder.space
    if len(vector) != identity.dimensions:
        raise EmbeddingSpaceMismatch(
            f"the vector of {label} has {len(vector)} numbers, the store's are those of {identity}."
            " Give the host the store's own model: as_llamaindex_embedding(store.embedder)."
        )
    try:
        return checked_vectors([vector], count=1, dimensions=identity.dimensions, labels=[label])[0]
    except EmbeddingFailed as error:
        raise InvalidInput(str(error)) from error


def search(
    space: OpenSpace,
    text: str,
    *,
    limit: int,
    filter: Filter | None,  # noqa: A002 (the hosts' own name)
    legs: Legs = "all",
    vector: Sequence[float] | None = None,
    instead: Sequence[str] = (),
) -> Operation:
    """One search by the legs asked for; with all legs and no more, the one that `Memories.recall` runs.

    Args:
        vector: The query's vector, where a host made it.
        instead: Texts whose mean vector stands for the query, where a host rewrote it (HyDE).
    """
    if legs == "text":
        return (yield from _recalled(space, text, [None], limit, filter))
    if vector is None and (legs == "vector" or instead):
        vector = yield from query_vector(space, instead or [text])
        if vector is None:
            # Through recall once more, which degrades or raises as the store was told to.
            return (yield from _recalled(space, text, None, limit, filter))
    vectors = None if vector is None else [checked_vector(space, vector, label="the query")]
    found: Recall = yield from _recalled(space, "" if legs == "vector" else text, vectors, limit, filter)
    return found.model_copy(update={"queries": (text,)})


def _recalled(
    space: OpenSpace,
    text: str,
    vectors: Sequence[Vector | None] | None,
    limit: int,
    filter: Filter | None,  # noqa: A002
) -> Operation:
    return recall(space, text, limit=limit, filter=filter, kinds=None, as_of=None, vectors=vectors)


def query_vector(space: OpenSpace, texts: Sequence[str]) -> Operation:
    """The mean of the texts' vectors as queries, as LlamaIndex takes it; None where there is none, or it failed."""
    wanted = [part for part in texts if part.strip()][: limits.MAX_QUERIES]
    if not wanted:
        return None
    cut, _ = checked_queries(wanted)
    try:
        vectors = yield Embed(cut, as_queries=True, labels=[f"the query {part[:40]!r}" for part in cut])
    except EmbeddingFailed:
        return None
    return [sum(numbers) / len(vectors) for numbers in zip(*vectors, strict=True)]


def diverse(
    space: OpenSpace,
    text: str,
    *,
    keep: int,
    fetch: int,
    threshold: float,
    filter: Filter | None,  # noqa: A002
    legs: Legs,
    vector: Sequence[float] | None,
) -> Operation:
    """The `keep` of the best `fetch` hits that differ most from each other, in the order of maximal marginal relevance.

    Where the query cannot be embedded, the answer is the plain ranking, which says so.
    """
    if vector is None:
        vector = yield from query_vector(space, [text])
    if vector is None:
        return (yield from search(space, text, limit=keep, filter=filter, legs=legs))
    unit = checked_vector(space, vector, label="the query")
    found: Recall = yield from search(space, text, limit=fetch, filter=filter, legs=legs, vector=unit)
    vectors = yield from _closest_vectors(found, unit)
    order = diverse_order(unit, vectors, k=keep, lambda_mult=threshold)
    return found.model_copy(update={"hits": tuple(found.hits[place] for place in order)})


def _closest_vectors(found: Recall, vector: Sequence[float]) -> Operation:
    """For each hit, in order, the vector of its window closest to `vector`; None where it has none yet."""
    rows = yield from fetch(
        "closest_vectors",
        ids=[hit.id for hit in found.hits],
        owners=[hit.owner for hit in found.hits],
        embedding=HalfVector(vector),
    )
    vectors = {(row["id"], row["owner"]): row["embedding"] for row in rows}
    return [vectors.get((hit.id, hit.owner)) for hit in found.hits]
