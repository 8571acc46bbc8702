"""What tests of code that uses lore-retriever need: an embedder that is deterministic and needs no model."""

from lore_retriever.embeddings.hashing import HashEmbedder

__all__ = ["HashEmbedder"]
