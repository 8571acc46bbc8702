"""What every operation knows of its store, and small shared bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from lore_retriever.embeddings.base import Embedder, Vector
from lore_retriever.evidence import Evidence
from lore_retriever.language import Canonicalizer
from lore_retriever.steps import Body, HalfVector, Operation, Statement, Transact
from lore_retriever.types import NewMemory

__all__ = ["BeforeWrite", "OpenSpace", "asked_vectors", "fetch", "halfvec_text", "run"]

BeforeWrite = Callable[[NewMemory], NewMemory | None]
"""Returns the memory to store: the one given, another in its place, or None to refuse it."""


@dataclass(frozen=True, slots=True)
class OpenSpace:
    """The embedding space that a store was opened on.

    Attributes:
        number: Its number in the database.
        embedder: Makes its vectors.
        evidence: How strong evidence is judged in it.
        on_embedding_error: Whether a recall whose query cannot be embedded answers from the lexical legs.
        canonicalizer: Brings texts and queries into one language; None leaves them as they are.
        before_write: Looks at each memory before it is stored; None lets all of them pass.
    """

    number: int
    embedder: Embedder
    evidence: Evidence = field(default_factory=Evidence)
    on_embedding_error: Literal["degrade", "raise"] = "degrade"
    canonicalizer: Canonicalizer | None = None
    before_write: BeforeWrite | None = None


def halfvec_text(vector: Vector) -> str:
    """The text form of a halfvec; 5 digits are more than its 11 bits hold."""
    return "[" + ",".join([f"{number:.5g}" for number in vector]) + "]"


def run(statement: Statement) -> Body:
    """A body of one statement; its result is the rows."""
    return (yield statement)


def fetch(name: str, **params: object) -> Operation:
    """An operation of one statement in one transaction; its result is the rows."""
    return (yield Transact(lambda: run(Statement(name, params))))


def asked_vectors(vectors: Sequence[Vector | None] | None, queries: int) -> dict[str, object]:
    """The parameters `embedding` and `further` of a search: the vector of its first query in binary, and those of further
    queries, of which there are mostly none, as text. None stands for no vector.
    """
    first, *rest = [None] * queries if vectors is None else vectors
    further = ",".join("NULL" if vector is None else f'"{halfvec_text(vector)}"' for vector in rest)
    return {
        "embedding": None if first is None else HalfVector(first),
        "further": f"{{{further}}}" if rest else None,
    }
