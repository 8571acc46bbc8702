"""Opens the store that the settings name: any Postgres, or the built-in one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from lore_retriever.cli.output import status_line
from lore_retriever.cli.settings import Settings
from lore_retriever.errors import InvalidInput, PermissionDenied, SchemaMismatch, ScopeMissing, StoreUnavailable

if TYPE_CHECKING:
    from lore_retriever.admin import StoreAdmin
    from lore_retriever.embeddings import Embedder
    from lore_retriever.store import MemoryStore
    from lore_retriever.types import Scope
    from lore_retriever.views import Memories

__all__ = [
    "Keeper",
    "named_model",
    "opened_keeper",
    "opened_memories",
    "opened_server",
    "opened_store",
    "require_reachable",
]

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
        _require_named_store(settings)
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
    """The store as the caller of the settings sees it, who is asked for when something is done."""
    with opened_store(settings) as store:
        try:
            yield store.as_caller(cache(lambda: caller_of(settings, store)))
        except PermissionDenied as error:
            told = getattr(getattr(error.__cause__, "diag", None), "message_primary", None)
            if settings.token is None or told is None or "token" not in told:
                raise
            raise PermissionDenied(f"{told}. Give another one by --token or LORE_TOKEN.") from error


def caller_of(settings: Settings, store: MemoryStore) -> Scope:
    """On whose behalf to act: whom the settings name, and for the rest, whom the database takes the caller for.

    Raises:
        ScopeMissing: If the database knows its callers by a token and there is none, or takes this login for nobody.
    """
    from lore_retriever.operations.common import fetch
    from lore_retriever.types import Scope

    # How callers are known is for every caller to read: any scope reads the same.
    [known] = store.perform(fetch("recorded_identity"), Scope(org="none", user="none"))
    if known["identity"] == "claims":
        return _proved(settings, tuple(known["org_claim"]), tuple(known["user_claim"]))
    if settings.token is not None:
        status_line(f"identity is {known['identity']}: the token counts for nothing.")
    if known["identity"] == "role" and not (settings.org and settings.user):
        mapped = store.whoami()
        return Scope(org=settings.org or mapped.org, user=settings.user or mapped.user)
    return Scope(org=settings.org or "default", user=settings.user or settings.login)


def _proved(settings: Settings, org_claim: tuple[str, ...], user_claim: tuple[str, ...]) -> Scope:
    from lore_retriever.identity import SignedScope, signed_scope

    if settings.token is None:
        raise ScopeMissing(
            "this store knows its callers by a signed token (identity claims), and there is none: give --token, or set"
            " LORE_TOKEN."
        )
    named = signed_scope(settings.token, org_claim=org_claim, user_claim=user_claim)
    return SignedScope(org=settings.org or named.org, user=settings.user or named.user, token=settings.token)


def _require_named_store(settings: Settings) -> None:
    """Nothing, unless a schema was named and the built-in Postgres has no store there: it would be made of a typo."""
    if settings.schema in (None, "lore"):
        return
    with opened_server(replace(settings, admin_database=None)) as keeper:
        if keeper.admin.status().state != "missing":
            return
        there = ", ".join(repr(name) for name in _stores(keeper.conninfo)) or "none"
    raise SchemaMismatch(
        f"schema {settings.schema!r} holds no store; those of the built-in Postgres: {there}. Check --schema, or make it"
        " with `lore-retriever migrate --schema …`."
    )


def _stores(conninfo: str) -> list[str]:
    """Schemas that hold a store."""
    import psycopg

    with psycopg.connect(conninfo) as connection:
        rows = connection.execute(
            "SELECT n.nspname FROM pg_namespace AS n WHERE 2 = (SELECT count(*) FROM pg_class AS c WHERE c.relnamespace = n.oid"
            " AND c.relname IN ('migrations', 'memories') AND c.relkind = 'r') ORDER BY n.nspname"
        ).fetchall()
    return [row[0] for row in rows]


@contextmanager
def opened_keeper(settings: Settings) -> Iterator[Keeper]:
    """The store for its keeper, as it is; nothing is made or migrated.

    Raises:
        SchemaMismatch: If there is no store, or none that fits this program.
    """
    if settings.admin_database is None and settings.database is None:
        from lore_retriever import embedded

        if not embedded.holds_cluster(settings.folder):
            place = settings.folder or embedded.default_path()
            raise SchemaMismatch(f"{place} holds no store. Check --folder, or make one with `lore-retriever migrate`.")
    with opened_server(settings) as keeper:
        keeper.admin.status().require_current()
        yield keeper


@contextmanager
def opened_server(settings: Settings) -> Iterator[Keeper]:
    """The database for its keeper, whatever it holds; the built-in server is made if need be."""
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
