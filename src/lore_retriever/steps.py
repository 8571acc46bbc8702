"""How operations speak to the outside: they yield steps, a synchronous or an asynchronous driver takes them.

An operation is a generator. It yields `Embed`, `Call` and `Transact` steps and gets their results sent back, so that it is
written once and runs under both drivers. Embedding never happens inside a transaction.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, LiteralString

from lore_retriever.embeddings.base import Vector
from lore_retriever.queries import query

__all__ = [
    "Body",
    "Call",
    "Embed",
    "HalfVector",
    "HalfVectors",
    "Operation",
    "Row",
    "Statement",
    "Step",
    "Transact",
]

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class HalfVectors:
    """Vectors as a parameter: one `halfvec[]` in binary.

    As text, a vector of 1,024 numbers takes longer to write and to read than to store (1.5 ms); as `real[]`, which the
    server reads number by number, 0.09 ms; so, 0.02 ms.

    Attributes:
        vectors: Any number of them.
        oid: What this database calls the type `halfvec` (which an extension brings, so that it differs).
    """

    vectors: Sequence[Vector]
    oid: int


@dataclass(frozen=True, slots=True)
class HalfVector:
    """One vector as a parameter: a `halfvec` in binary (10 µs instead of 70 in the server, 20 instead of 200 here)."""

    vector: Vector


@dataclass(frozen=True, slots=True)
class Statement:
    """One SQL statement and its parameters. `name` is its name in `sql/queries/`."""

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sql(self) -> LiteralString:
        """Its text in `sql/queries/`."""
        return query(self.name)


Body = Generator[Statement, list[Row], Any]
"""What happens inside one transaction: statements out, rows in, a result at the end."""


@dataclass(frozen=True, slots=True)
class Transact:
    """Run a body in one transaction under the operation's scope. `body` is called anew when it is retried.

    `at_once`: a statement with the same rows that enters the scope itself, so that one round trip does for four. It is run
    instead where the login role may call what it calls.
    """

    body: Callable[[], Body]
    at_once: Statement | None = None


@dataclass(frozen=True, slots=True)
class Embed:
    """Embed texts, or queries, outside any transaction; raises EmbeddingFailed into the operation.

    `labels` names the items in errors.
    """

    texts: Sequence[str]
    as_queries: bool = False
    labels: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """Run something slow that is not ours (a translator) outside any transaction; without `arun`, in a thread off the loop."""

    run: Callable[[], Any]
    arun: Callable[[], Awaitable[Any]] | None = None


Step = Transact | Embed | Call
Operation = Generator[Step, Any, Any]
