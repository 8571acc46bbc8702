"""Opening a store: is the schema current, which embedding space does it live in, and who makes its vectors. Pure,
but for the operation that reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from lore_retriever.embeddings.base import Embedder, EmbeddingSpace
from lore_retriever.errors import EmbeddingSpaceMismatch, ScopeMissing
from lore_retriever.evidence import Evidence
from lore_retriever.language import Canonicalizer
from lore_retriever.operations.common import BeforeWrite, OpenSpace
from lore_retriever.steps import Body, Row, Statement
from lore_retriever.types import Scope

__all__ = ["Facts", "embedder_of", "facts_body", "open_space", "whoami_body"]


@dataclass(frozen=True, slots=True)
class Facts:
    """What a database says of itself: rows of `extension_schemas`, `applied_migrations` and `spaces`, and `may_enter`."""

    extension_schemas: tuple[str, ...]
    migrations: tuple[tuple[int, str, str], ...]
    spaces: tuple[Row, ...]
    may_enter: bool


def facts_body() -> Body:
    """A body whose result is `Facts`; raises through the driver where there is no store."""
    extensions = yield Statement("extension_schemas")
    migrations = yield Statement("applied_migrations")
    spaces = yield Statement("spaces")
    entering = yield Statement("may_enter")
    return Facts(
        tuple(row["name"] for row in extensions),
        tuple((row["number"], row["name"], row["hash"]) for row in migrations),
        tuple(spaces),
        any(row["may_enter"] for row in entering),
    )


def whoami_body() -> Body:
    """A body whose result is the scope that the database takes from the connection; raises ScopeMissing without one."""
    [row] = yield Statement("whoami")
    if not (row["org"] and row["user"]):
        raise ScopeMissing(
            "the database takes this connection for nobody. Where identity is `role`, an administrator maps its login"
            " role: docs/howto/roles.md; where it is `claims`, each request brings its token:"
            " store.as_caller(lambda: signed_scope(token)); else name the scope: store.as_user(org, user)."
        )
    return Scope(org=row["org"], user=row["user"])


def _identity(row: Row) -> EmbeddingSpace:
    return EmbeddingSpace(row["model"], row["revision"], row["dimensions"])


def embedder_of(space: EmbeddingSpace) -> Embedder:
    """The embedder that makes vectors of a recorded space, where this package knows one.

    Raises:
        EmbeddingSpaceMismatch: If it knows none; the caller has to pass one.
        ImportError: If it needs an extra that is not installed.
    """
    from lore_retriever import embeddings

    makers: dict[str, Callable[[], Embedder]] = {
        "lore-retriever/hash": lambda: embeddings.HashEmbedder(space.dimensions),
        "intfloat/multilingual-e5-small": embeddings.OfflineEmbedder,
        "intfloat/e5-large-v2": embeddings.E5Embedder,
    }
    if space.model in makers:
        made = makers[space.model]()
        if made.space == space:
            return made
    raise EmbeddingSpaceMismatch(
        f"this store's vectors were made by {space}. Pass embedder=… with that model when opening it."
    )


def open_space(
    spaces: Sequence[Row],
    embedder: Embedder | None,
    on_embedding_error: Literal["degrade", "raise"],
    canonicalizer: Canonicalizer | None = None,
    before_write: BeforeWrite | None = None,
) -> OpenSpace:
    """The space to search and write: the embedder's, or the active one with the embedder that belongs to it.

    Raises:
        EmbeddingSpaceMismatch: If the embedder's space is not recorded here; names both.
    """
    active = next((row for row in spaces if row["state"] == "active"), None)
    if active is None:
        raise EmbeddingSpaceMismatch(
            "this store has no embedding space yet. Run migrate with an embedder: MemoryStore.connect(…,"
            " embedder=…).migrate(), or `lore-retriever migrate --model …`."
        )
    row = active if embedder is None else _row_of(spaces, embedder.space, _identity(active))
    return OpenSpace(
        row["space"],
        embedder or embedder_of(_identity(row)),
        Evidence.of_space(row["evidence"], model=row["model"]),
        on_embedding_error,
        canonicalizer,
        before_write,
    )


def _row_of(spaces: Sequence[Row], wanted: EmbeddingSpace, active: EmbeddingSpace) -> Row:
    row = next((row for row in spaces if _identity(row) == wanted), None)
    if row is None:
        raise EmbeddingSpaceMismatch(
            f"the embedder makes vectors of {wanted}; this store holds those of {active}."
            " Open it with that model, or build a second space with `lore-retriever embed --model …`."
        )
    if row["state"] == "building":
        raise EmbeddingSpaceMismatch(
            f"the space of {wanted} is still being built; this store searches {active}. Finish it"
            " with `lore-retriever embed --model …` and switch, or open the store with the active model."
        )
    return row
