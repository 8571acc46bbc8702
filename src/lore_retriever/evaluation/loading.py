"""Puts a suite's documents into a store, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lore_retriever.evaluation.laboratory import scope_of
from lore_retriever.evaluation.suites import Document, Suite
from lore_retriever.operations.common import fetch
from lore_retriever.types import NewMemory, Scope

if TYPE_CHECKING:
    from lore_retriever.store import MemoryStore

__all__ = ["load_suite", "memory_of"]

_BATCH = 200


def load_suite(
    suite: Suite,
    store: MemoryStore,
    *,
    progress: Callable[[int], object] | None = None,
) -> int:
    """Store the documents that are not there yet; how many were stored.

    A user who sees as many memories as they should is left alone, so a load that broke off goes on and a
    second one does nothing. Statistics are not recounted: call `store.maintain()` when something was stored.

    Args:
        progress: Called with the number of documents done since the last call.
    """
    shelves: dict[Scope, list[Document]] = {}
    for document in suite.documents:
        shelves.setdefault(scope_of(suite, document.scope, document.owner), []).append(document)
    stored = 0
    for scope, documents in shelves.items():
        (counted,) = store.perform(fetch("count_memories"), scope)
        whole = counted["n"] == len(documents)
        for start in range(0, len(documents), _BATCH):
            batch = documents[start : start + _BATCH]
            if not whole:
                store.as_user(scope.org, scope.user).remember_many([memory_of(each) for each in batch])
                stored += len(batch)
            if progress is not None:
                progress(len(batch))
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
