"""Hybrid memory retrieval for agents: one SQL statement on Postgres and pgvector, under row-level security.

Names load on first use: `import lore_retriever` itself imports no driver, framework or model.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lore_retriever.config import FusionConfig
    from lore_retriever.errors import (
        EmbeddingFailed,
        EmbeddingSpaceMismatch,
        InvalidInput,
        LoreError,
        NotFound,
        PermissionDenied,
        SchemaMismatch,
        ScopeMissing,
        StoreUnavailable,
    )
    from lore_retriever.store import AsyncMemoryStore, MemoryStore
    from lore_retriever.types import (
        Briefing,
        BriefingItem,
        Dropped,
        Hit,
        LegMatch,
        Memory,
        NewMemory,
        Recall,
        Reinforcement,
        Scope,
    )
    from lore_retriever.views import AsyncMemories, Memories

_HOMES = {
    "AsyncMemories": "views",
    "AsyncMemoryStore": "store",
    "Briefing": "types",
    "BriefingItem": "types",
    "Change": "types",
    "Dropped": "types",
    "EmbeddingFailed": "errors",
    "EmbeddingSpaceMismatch": "errors",
    "FusionConfig": "config",
    "Hit": "types",
    "InvalidInput": "errors",
    "LegMatch": "types",
    "LoreError": "errors",
    "Memories": "views",
    "Memory": "types",
    "MemoryStore": "store",
    "NewMemory": "types",
    "NotFound": "errors",
    "PermissionDenied": "errors",
    "Recall": "types",
    "Reinforcement": "types",
    "SchemaMismatch": "errors",
    "Scope": "types",
    "ScopeMissing": "errors",
    "StoreUnavailable": "errors",
}

__all__ = [
    "AsyncMemories",
    "AsyncMemoryStore",
    "Briefing",
    "BriefingItem",
    "Change",
    "Dropped",
    "EmbeddingFailed",
    "EmbeddingSpaceMismatch",
    "FusionConfig",
    "Hit",
    "InvalidInput",
    "LegMatch",
    "LoreError",
    "Memories",
    "Memory",
    "MemoryStore",
    "NewMemory",
    "NotFound",
    "PermissionDenied",
    "Recall",
    "Reinforcement",
    "SchemaMismatch",
    "Scope",
    "ScopeMissing",
    "StoreUnavailable",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        home = import_module(f"{__name__}.{_HOMES[name]}")
    except ImportError as error:
        if "libpq" not in str(error) and "pq wrapper" not in str(error):
            raise
        raise ImportError(
            'psycopg finds no libpq: pip install "lore-retriever[binary]", or install your system\'s libpq.',
            name="psycopg",
        ) from error
    return getattr(home, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
