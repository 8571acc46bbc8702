"""What an embedder must offer, and the identity of the space its vectors live in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

__all__ = ["Embedder", "EmbeddingSpace", "Vector"]

Vector = Sequence[float]
"""One embedding: `dimensions` numbers of unit length (the store normalises what is not)."""


@dataclass(frozen=True, slots=True)
class EmbeddingSpace:
    """Which model made a vector. Vectors of two spaces are never compared.

    Attributes:
        model: Name of the model, for example `intfloat/multilingual-e5-small`.
        revision: Version of its weights and of the recipe (prefixes, pooling, quantisation).
        dimensions: Numbers in one vector.
    """

    model: str
    revision: str
    dimensions: int

    def __str__(self) -> str:
        return f"{self.model}@{self.revision} ({self.dimensions} dimensions)"


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into unit vectors. Prefixes and instructions are its own affair; callers pass plain text.

    An embedder may also offer `async aembed_texts(texts)` and `async aembed_queries(texts)`;
    where it does not, asynchronous callers run the synchronous methods in a thread.
    """

    @property
    def space(self) -> EmbeddingSpace:
        """The space of every vector this embedder returns."""

    @property
    def max_tokens(self) -> int | None:
        """Tokens the model reads of one text, prefix and special tokens included; None if unbounded."""

    @property
    def centre(self) -> Vector | None:
        """Mean vector of the space (shape `(dimensions,)`), which binary codes are taken against; None if unknown."""

    def count_tokens(self, text: str) -> int:
        """How many tokens `text` costs as a stored text, prefix and special tokens included (never too few)."""

    def embed_texts(self, texts: Sequence[str], /) -> list[Vector]:
        """One unit vector for each stored text, in order. Shape `(len(texts), dimensions)`."""

    def embed_queries(self, texts: Sequence[str], /) -> list[Vector]:
        """One unit vector for each query, in order. Shape `(len(texts), dimensions)`."""
