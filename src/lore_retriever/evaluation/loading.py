"""Puts a suite's documents into a store, once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lore_retriever.evaluation.laboratory import Laboratory, rows_of, scope_of
from lore_retriever.evaluation.suites import Document, Suite
from lore_retriever.types import NewMemory, Scope

__all__ = ["Remember", "load_suite", "memory_of"]

Remember = Callable[[Scope, Sequence[NewMemory]], object]
"""Stores memories under a scope, whole or not at all."""

_BATCH = 200


def load_suite(
    suite: Suite,
    laboratory: Laboratory,
    remember: Remember,
    *,
    progress: Callable[[int], object] | None = None,
) -> int:
    """Store the documents that are not there yet; how many were stored.

    A scope that holds as many memories as it should is left alone, so a load that broke off goes on and a
    second one does nothing.

    Args:
        progress: Called with the number of documents done since the last call.
    """
    shelves: dict[Scope, list[Document]] = {}
    for document in suite.documents:
        shelves.setdefault(scope_of(suite, document.scope, document.owner), []).append(document)
    stored = 0
    for scope, documents in shelves.items():
        if _count(laboratory, scope) != len(documents):
            for start in range(0, len(documents), _BATCH):
                batch = documents[start : start + _BATCH]
                remember(scope, [memory_of(document) for document in batch])
                stored += len(batch)
                if progress is not None:
                    progress(len(batch))
        elif progress is not None:
            progress(len(documents))
    return stored


def memory_of(document: Document) -> NewMemory:
    """The memory that a document becomes; without a kind it is a `document`, which never fades."""
    return NewMemory(
        content=document.text,
        id=document.id,
        kind=document.kind or "document",
        metadata=dict(document.metadata),
        created_at=document.created_at,
    )


def _count(laboratory: Laboratory, scope: Scope) -> int:
    place = {"search_path": laboratory.search_path, "role": "lore_user", "space": ""}
    with laboratory.connection.transaction():
        rows_of(laboratory.connection, "enter_scope", {**place, "org": scope.org, "user": scope.user})
        (row,) = rows_of(laboratory.connection, "count_memories")
    return int(row["n"])
