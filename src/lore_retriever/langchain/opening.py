"""Stores that `from_texts` opens: found as they are, or made on the spot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.embeddings import Embeddings

from lore_retriever.embeddings import LangChainEmbedder
from lore_retriever.embeddings.base import Embedder
from lore_retriever.errors import LoreError, PermissionDenied
from lore_retriever.moving import plain_conninfo
from lore_retriever.store import AsyncMemoryStore, MemoryStore

__all__ = ["aopened", "embedder_for", "opened"]


def embedder_for(embedding: Embeddings) -> Embedder:
    """The embedder behind LangChain embeddings: our own where it is one of ours, else an adapter."""
    own = getattr(embedding, "embedder", None)
    return own if isinstance(own, Embedder) else LangChainEmbedder(embedding)


def opened(connection: str | None, embedder: Embedder, schema: str, options: Mapping[str, Any]) -> MemoryStore:
    """A store whose schema is current; migrated if it was not."""
    if connection is None:
        return MemoryStore.embedded(embedder=embedder, schema=schema, **options)
    store = MemoryStore.connect(plain_conninfo(connection), embedder=embedder, schema=schema, **options)
    try:
        _make_current(store)
    except BaseException:
        store.close()
        raise
    return store


def _make_current(store: MemoryStore) -> None:
    try:
        _ = store.space
    except LoreError as why:
        # Whatever is missing, migrating adds it or says what is wrong; an application's login may do neither.
        try:
            store.migrate()
        except PermissionDenied:
            raise why from None
        _ = store.space


async def aopened(
    connection: str | None, embedder: Embedder, schema: str, options: Mapping[str, Any]
) -> AsyncMemoryStore:
    """As `opened`."""
    if connection is None:
        return await AsyncMemoryStore.embedded(embedder=embedder, schema=schema, **options)
    store = await AsyncMemoryStore.connect(plain_conninfo(connection), embedder=embedder, schema=schema, **options)
    try:
        await _amake_current(store)
    except BaseException:
        await store.close()
        raise
    return store


async def _amake_current(store: AsyncMemoryStore) -> None:
    try:
        await store.open_space()
    except LoreError as why:
        try:
            await store.migrate()
        except PermissionDenied:
            raise why from None
        await store.open_space()
