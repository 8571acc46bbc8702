"""Embedders: what turns texts into vectors. Importing this package loads no model and no framework."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lore_retriever.embeddings.adapters import CallableEmbedder, LangChainEmbedder, LlamaIndexEmbedder
    from lore_retriever.embeddings.base import Embedder, EmbeddingSpace, Vector
    from lore_retriever.embeddings.cached import CachedEmbedder
    from lore_retriever.embeddings.hashing import HashEmbedder
    from lore_retriever.embeddings.offline import OfflineEmbedder
    from lore_retriever.embeddings.transformer import E5Embedder, SentenceTransformerEmbedder

__all__ = [
    "CachedEmbedder",
    "CallableEmbedder",
    "E5Embedder",
    "Embedder",
    "EmbeddingSpace",
    "HashEmbedder",
    "LangChainEmbedder",
    "LlamaIndexEmbedder",
    "OfflineEmbedder",
    "SentenceTransformerEmbedder",
    "Vector",
]

_MODULES = {
    "CachedEmbedder": "cached",
    "CallableEmbedder": "adapters",
    "E5Embedder": "transformer",
    "Embedder": "base",
    "EmbeddingSpace": "base",
    "HashEmbedder": "hashing",
    "LangChainEmbedder": "adapters",
    "LlamaIndexEmbedder": "adapters",
    "OfflineEmbedder": "offline",
    "SentenceTransformerEmbedder": "transformer",
    "Vector": "base",
}


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
