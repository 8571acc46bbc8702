"""lore-retriever for LlamaIndex: a retriever, a vector store, a memory block and tools over one search."""

from lore_retriever.llamaindex.embeddings import as_llamaindex_embedding
from lore_retriever.llamaindex.nodes import LoreNode
from lore_retriever.llamaindex.retriever import LoreRetriever
from lore_retriever.llamaindex.vectorstore import LoreVectorStore

__all__ = [
    "LoreNode",
    "LoreRetriever",
    "LoreVectorStore",
    "as_llamaindex_embedding",
]
