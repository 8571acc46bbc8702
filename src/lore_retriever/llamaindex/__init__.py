"""lore-retriever for LlamaIndex: a retriever, a vector store, a memory block and tools over one search."""

from lore_retriever.llamaindex.embeddings import as_llamaindex_embedding
from lore_retriever.llamaindex.memory import LoreMemoryBlock, conversation_as_episode
from lore_retriever.llamaindex.moving import import_pgvectorstore
from lore_retriever.llamaindex.nodes import LoreNode
from lore_retriever.llamaindex.retriever import LoreRetriever
from lore_retriever.llamaindex.tools import create_memory_tools, create_recall_tool
from lore_retriever.llamaindex.vectorstore import LoreVectorStore

__all__ = [
    "LoreMemoryBlock",
    "LoreNode",
    "LoreRetriever",
    "LoreVectorStore",
    "as_llamaindex_embedding",
    "conversation_as_episode",
    "create_memory_tools",
    "create_recall_tool",
    "import_pgvectorstore",
]
