"""An embedder of lore-retriever as LangChain's own embedding class."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from lore_retriever.embeddings.base import Embedder, Vector

try:
    from langchain_core.embeddings import Embeddings
except ImportError as error:
    raise ImportError('this needs langchain-core: pip install "lore-retriever[langchain]".') from error

__all__ = ["as_langchain_embeddings"]


def as_langchain_embeddings(embedder: Embedder) -> Embeddings:
    """A LangChain `Embeddings` that embeds queries and documents as the store does.

    Its vectors have unit length and lie in `embedder.space`; asynchronous methods are the embedder's own
    where it has them, else run in a thread.
    """
    return _LoreEmbeddings(embedder)


class _LoreEmbeddings(Embeddings):
    """See `as_langchain_embeddings`."""

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        self.model = embedder.space.model

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return _lists(self.embedder.embed_texts(texts))

    def embed_query(self, text: str) -> list[float]:
        return _lists(self.embedder.embed_queries([text]))[0]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        own = getattr(self.embedder, "aembed_texts", None)
        return _lists(await (own(texts) if own else asyncio.to_thread(self.embedder.embed_texts, texts)))

    async def aembed_query(self, text: str) -> list[float]:
        own = getattr(self.embedder, "aembed_queries", None)
        return _lists(await (own([text]) if own else asyncio.to_thread(self.embedder.embed_queries, [text])))[0]


def _lists(vectors: Sequence[Vector]) -> list[list[float]]:
    return [list(vector) for vector in vectors]
