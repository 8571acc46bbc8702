"""Opens what an evaluation needs: a database, the model, and the vectors that were made before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lore_retriever.admin import StoreAdmin
from lore_retriever.embeddings.base import Embedder
from lore_retriever.errors import InvalidInput
from lore_retriever.evaluation.laboratory import Laboratory
from lore_retriever.store import MemoryStore

__all__ = ["Bench", "named_embedder", "open_bench", "open_keeper"]

MINILM = "sentence-transformers/all-MiniLM-L6-v2"


@dataclass(frozen=True)
class Bench:
    """A migrated database, as an application sees it and as its keeper does."""

    store: MemoryStore
    laboratory: Laboratory


@contextmanager
def open_bench(admin: StoreAdmin, database: str, embedder: Embedder | None = None) -> Iterator[Bench]:
    """The database, migrated.

    Args:
        admin: Its keeper.
        database: Connection string of an application.
        embedder: Makes the vectors; None takes the one that the database records.

    Raises:
        EmbeddingSpaceMismatch: If the database holds vectors of another model.
        StoreUnavailable: If it cannot be reached.
    """
    admin.migrate(embedder)
    with MemoryStore.connect(database, schema=admin.schema, embedder=embedder) as store:
        yield Bench(store, Laboratory(admin, store.embedder))


@contextmanager
def open_keeper(
    database: str | None, admin_database: str | None, *, folder: Path | None, schema: str = "lore"
) -> Iterator[tuple[StoreAdmin, str]]:
    """The keeper of a database, and the connection string of its applications.

    Args:
        database: Connection string; None starts the built-in Postgres in `folder`.
        admin_database: Connection string of the keeper; `database` if None.
        folder: Where the built-in Postgres keeps a database for evaluation, apart from anybody's memories.
    """
    if database is not None:
        yield MemoryStore.admin(admin_database or database, schema=schema), database
        return
    from lore_retriever import embedded

    home = folder or embedded.default_path().with_name("postgres-evaluation")
    with embedded.start(home) as server:
        yield MemoryStore.admin(server.conninfo(), schema=schema), server.conninfo()


def named_embedder(name: str, cache: Path | None = None) -> Embedder:
    """The embedder of that name, its vectors kept in the file `cache` if one is given.

    Args:
        name: `offline`, `e5`, `minilm`, `hash`, a folder that holds a SentenceTransformers model, or its name on the hub,
            organisation included: a single word is one of ours, or a slip of the pen.

    Raises:
        InvalidInput: If it is none of these.
        ImportError: If the model needs an extra that is not installed.
    """
    from lore_retriever import embeddings

    made: Embedder
    match name:
        case "offline":
            made = embeddings.OfflineEmbedder()
        case "e5":
            made = embeddings.E5Embedder()
        case "hash":
            made = embeddings.HashEmbedder()
        case "minilm":
            made = embeddings.SentenceTransformerEmbedder(MINILM)
        case _ if "/" in name or (name and Path(name).exists()):
            made = embeddings.SentenceTransformerEmbedder(name)
        case _:
            raise InvalidInput(
                f"there is no model {name!r}. Give offline, e5, minilm or hash; for any other, a folder that holds a"
                f" SentenceTransformers model, or its name with the organisation, such as {MINILM}."
            )
    return made if cache is None else embeddings.CachedEmbedder(made, cache)
