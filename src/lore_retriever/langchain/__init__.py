"""lore-retriever for LangChain: a retriever, a vector store, tools and agent middleware over one search.

langchain-core is enough for all but `LoreMemoryMiddleware`, which needs langchain (extra `agents`).
"""

from typing import TYPE_CHECKING, Any

try:
    import langchain_core as _langchain_core  # noqa: F401
except ImportError as error:
    raise ImportError('this needs langchain-core: pip install "lore-retriever[langchain]".') from error

from lore_retriever.langchain.embeddings import as_langchain_embeddings
from lore_retriever.langchain.retrievers import LoreRetriever, LoreVectorStoreRetriever
from lore_retriever.langchain.tools import create_memory_tools, create_recall_tool
from lore_retriever.langchain.vectorstore import LoreVectorStore
from lore_retriever.moving import import_pgvector, import_pgvectorstore

if TYPE_CHECKING:
    from lore_retriever.langchain.middleware import LoreMemoryMiddleware

__all__ = [
    "LoreMemoryMiddleware",
    "LoreRetriever",
    "LoreVectorStore",
    "LoreVectorStoreRetriever",
    "as_langchain_embeddings",
    "create_memory_tools",
    "create_recall_tool",
    "import_pgvector",
    "import_pgvectorstore",
]


def __getattr__(name: str) -> Any:
    if name == "LoreMemoryMiddleware":
        from lore_retriever.langchain.middleware import LoreMemoryMiddleware

        return LoreMemoryMiddleware
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
