"""Opens the store that the settings name: any Postgres, or the built-in one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lore_retriever.cli.settings import Settings
from lore_retriever.errors import InvalidInput, StoreUnavailable

if TYPE_CHECKING:
    from lore_retriever.admin import StoreAdmin
    from lore_retriever.embeddings import Embedder
    from lore_retriever.store import MemoryStore
    from lore_retriever.views import Memories

__all__ = ["Keeper", "named_model", "opened_keeper", "opened_memories", "opened_store", "require_reachable"]

CONNECT_TIMEOUT_S = 10


@dataclass(frozen=True, slots=True)
class Keeper:
    """A store's keeper, and the connection strings by which it and its applications reach the database.

    Attributes:
        home: Folder of the built-in Postgres, if that is what it is.
    """

    admin: StoreAdmin
    conninfo: str
    database: str
    home: Path | None = None


def named_model(settings: Settings) -> Embedder | None:
    """The embedder of `--model`, or None where the database is to say."""
    if settings.model is None:
        return None
    from lore_retriever.evaluation.bench import named_embedder

    return named_embedder(settings.model)


def require_reachable(conninfo: str) -> None:
    """Nothing, if the database answers.

    Raises:
        StoreUnavailable: If it does not, within seconds and with the driver's reason.
        InvalidInput: If this is no connection string.
    """
    import psycopg

    try:
        psycopg.connect(conninfo, connect_timeout=CONNECT_TIMEOUT_S).close()
    except psycopg.OperationalError as error:
        raise StoreUnavailable(
            f"the database cannot be reached: {' '.join(str(error).split()).rstrip('.?')}. Check that the server runs and that --database"
            " is right, or leave it out to use the built-in Postgres."
        ) from error
    except psycopg.ProgrammingError as error:
        # Not the driver's text: it may quote a password.
        raise InvalidInput(
            "--database is no connection string. Give a URL such as postgresql://user@host/database, or host=… dbname=…"
        ) from error


@contextmanager
def opened_store(settings: Settings) -> Iterator[MemoryStore]:
    """The store as an application uses it; the built-in one is started and migrated if need be."""
    from lore_retriever.store import MemoryStore

    schema = settings.schema or "lore"
    if settings.database is None:
        opened = MemoryStore.embedded(settings.folder, embedder=named_model(settings), schema=schema, max_size=2)
    else:
        require_reachable(settings.database)
        opened = MemoryStore.connect(
            settings.database, embedder=named_model(settings), schema=schema, max_size=2, timeout_s=CONNECT_TIMEOUT_S
        )
    with opened as store:
        yield store


@contextmanager
def opened_memories(settings: Settings) -> Iterator[Memories]:
    """The store as the user of the settings sees it."""
    with opened_store(settings) as store:
        yield store.as_user(settings.org, settings.user)


@contextmanager
def opened_keeper(settings: Settings) -> Iterator[Keeper]:
    """The store for its keeper, as it is: nothing is migrated."""
    from lore_retriever.admin import StoreAdmin

    schema = settings.schema or "lore"
    conninfo = settings.admin_database or settings.database
    if conninfo is not None:
        require_reachable(conninfo)
        yield Keeper(StoreAdmin.connect(conninfo, schema=schema), conninfo, settings.database or conninfo)
        return
    from lore_retriever import embedded

    with embedded.start(settings.folder) as server:
        conninfo = server.conninfo()
        yield Keeper(StoreAdmin.connect(conninfo, schema=schema), conninfo, conninfo, server.path)
