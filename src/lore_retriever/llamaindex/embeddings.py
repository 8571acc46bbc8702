"""An embedder of lore-retriever as LlamaIndex's own embedding class."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from lore_retriever.embeddings.base import Embedder, Vector

try:
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.bridge.pydantic import PrivateAttr
except ImportError as error:
    raise ImportError('this needs llama-index-core: pip install "lore-retriever[llamaindex]".') from error

__all__ = ["as_llamaindex_embedding"]


def as_llamaindex_embedding(embedder: Embedder, *, embed_batch_size: int = 32) -> BaseEmbedding:
    """A LlamaIndex `BaseEmbedding` that embeds queries and texts as the store does.

    Its vectors have unit length and lie in `embedder.space`; asynchronous methods are the embedder's own
    where it has them, else run in a thread.

    Args:
        embedder: The embedder.
        embed_batch_size: Texts that LlamaIndex hands over at once.
    """
    return _LoreEmbedding(embedder, embed_batch_size=embed_batch_size)


class _LoreEmbedding(BaseEmbedding):
    """See `as_llamaindex_embedding`."""

    _embedder: Embedder = PrivateAttr()

    def __init__(self, embedder: Embedder, **settings: Any) -> None:
        super().__init__(model_name=embedder.space.model, **settings)
        self._embedder = embedder

    @property
    def embedder(self) -> Embedder:
        """The embedder inside, by which its space is recognised."""
        return self._embedder

    @classmethod
    def class_name(cls) -> str:
        return "LoreEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        return _lists(self._embedder.embed_queries([query]))[0]

    async def _aget_query_embedding(self, query: str) -> list[float]:
        own = getattr(self._embedder, "aembed_queries", None)
        return _lists(await (own([query]) if own else asyncio.to_thread(self._embedder.embed_queries, [query])))[0]

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return _lists(self._embedder.embed_texts(texts))

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return (await self._aget_text_embeddings([text]))[0]

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        own = getattr(self._embedder, "aembed_texts", None)
        return _lists(await (own(texts) if own else asyncio.to_thread(self._embedder.embed_texts, texts)))


def _lists(vectors: Sequence[Vector]) -> list[list[float]]:
    return [list(vector) for vector in vectors]
