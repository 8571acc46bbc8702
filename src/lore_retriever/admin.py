"""What the keeper of a store does: migrate, maintain, embed what waits. Needs more rights than an application has.

Synchronous; the asynchronous store runs it in a thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast

import psycopg
from psycopg import sql
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from lore_retriever.draining import drain
from lore_retriever.driver import translated
from lore_retriever.embeddings.base import Embedder, EmbeddingSpace
from lore_retriever.errors import (
    EmbeddingSpaceMismatch,
    InvalidInput,
    PermissionDenied,
    StoreUnavailable,
)
from lore_retriever.migrations import (
    SchemaStatus,
    apply_migrations,
    checked_schema,
    schema_status,
    search_path,
)
from lore_retriever.opening import embedder_of
from lore_retriever.operations.common import halfvec_text
from lore_retriever.operations.embedding import MOST_ATTEMPTS
from lore_retriever.queries import query
from lore_retriever.steps import Row

__all__ = ["LEAST_CODE_DIMENSIONS", "StoreAdmin"]

_log = logging.getLogger("lore_retriever")

LEAST_CODE_DIMENSIONS = 256
"""Below, codes have too few bits to propose with; such spaces are always scanned."""

RETEXTED_AT_ONCE = 500
"""Memories indexed anew in one transaction of `rebuild_text`."""

Connect = Callable[[], AbstractContextManager["psycopg.Connection[Any]"]]


class StoreAdmin:
    """A store for its keeper. Each call opens what it needs and closes it."""

    def __init__(self, connect: Connect, *, schema: str = "lore") -> None:
        self._connect = connect
        self.schema = checked_schema(schema)

    @classmethod
    def connect(cls, conninfo: str, *, schema: str = "lore") -> StoreAdmin:
        """For a connection string of an administrator."""
        return cls(lambda: psycopg.connect(conninfo, autocommit=True), schema=schema)

    @classmethod
    def of_pool(cls, pool: ConnectionPool[Any], *, schema: str) -> StoreAdmin:
        """On connections of a pool, whatever their rights."""

        @contextmanager
        def borrow() -> Iterator[psycopg.Connection[Any]]:
            with pool.connection() as connection:
                was = connection.autocommit
                connection.autocommit = True
                try:
                    yield connection
                finally:
                    if not connection.closed:
                        connection.autocommit = was

        return cls(borrow, schema=schema)

    @classmethod
    def like_pool(cls, pool: AsyncConnectionPool[Any], *, schema: str) -> StoreAdmin:
        """On synchronous connections made as an asynchronous pool makes its own."""
        conninfo, kwargs = pool.conninfo, pool.kwargs

        def connect() -> psycopg.Connection[Any]:
            target = conninfo if isinstance(conninfo, str) else conninfo()
            options: dict[str, Any] = cast("dict[str, Any]", (kwargs() if callable(kwargs) else kwargs) or {})
            return psycopg.connect(str(target), **(options | {"autocommit": True}))

        return cls(connect, schema=schema)

    @contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[Any]]:
        try:
            with self._connect() as connection:
                yield connection
        except psycopg.errors.InsufficientPrivilege as error:
            raise PermissionDenied(
                f"{error.diag.message_primary}. This needs an administrator's connection: MemoryStore.admin(…), or"
                " `lore-retriever … --admin-database`."
            ) from error
        except psycopg.OperationalError as error:
            raise StoreUnavailable(f"the database did not answer: {str(error).strip()}") from error
        except psycopg.Error as error:
            mended = translated(error)
            raise mended from (None if mended is error else error)

    @contextmanager
    def service(self) -> Iterator[psycopg.Cursor[Row]]:
        """One transaction as the service role."""
        with self._connection() as connection, connection.transaction():
            schemas = [row[0] for row in connection.execute(query("extension_schemas")).fetchall()]
            connection.execute(query("enter_service"), {"search_path": search_path(self.schema, schemas)})
            with connection.cursor(row_factory=dict_row) as cursor:
                yield cursor

    def status(self) -> SchemaStatus:
        """How the schema stands to this package."""
        with self._connection() as connection:
            return schema_status(connection, self.schema)

    def migrate(
        self, embedder: Embedder | None = None, *, roles: bool = True, default_to_offline: bool = False
    ) -> list[str]:
        """Bring the schema up to date and record the embedder's space, if none is; the names of what was applied.

        Raises:
            EmbeddingSpaceMismatch: If another space is active here.
            PermissionDenied, SchemaMismatch: As `apply_migrations`.
        """
        with self._connection() as connection:
            done = apply_migrations(connection, self.schema, roles=roles)
        with self.service() as cursor:
            # Two that migrate a new database at once record one space.
            cursor.execute("LOCK TABLE embedding_space IN SHARE ROW EXCLUSIVE MODE")
            recorded = cursor.execute(query("spaces")).fetchall()
            if not recorded:
                if embedder is None and default_to_offline:
                    from lore_retriever.embeddings import OfflineEmbedder

                    embedder = OfflineEmbedder()
                if embedder is not None:
                    record_space(cursor, embedder)
            elif embedder is not None and embedder.space not in [_identity(row) for row in recorded]:
                raise EmbeddingSpaceMismatch(
                    f"the embedder makes vectors of {embedder.space}; this store holds those of {_identity(recorded[0])}."
                    " Build a second space with `lore-retriever embed --model …`."
                )
        return done

    def maintain(self) -> dict[str, int]:
        """Recount stems, sizes and votes of every organisation, purge what expired; what was done, counted."""
        with self.service() as cursor:
            purged = cursor.execute("DELETE FROM memories WHERE expires_at < now()").rowcount
            parts = cursor.execute("SELECT rebuild_statistics() AS n").fetchone()
        with self.service() as cursor:
            votes = cursor.execute("SELECT refresh_reinforcement() AS n").fetchone()
        with self._connection() as connection:
            for table in ("memories", "windows", "vectors", "codes", "terms"):
                try:
                    connection.execute(sql.SQL("VACUUM (ANALYZE) {}").format(sql.Identifier(self.schema, table)))
                except psycopg.errors.InsufficientPrivilege:
                    _log.info("no right to vacuum %s; autovacuum will", table)
        return {
            "expired": purged,
            "parts": parts["n"] if parts else 0,
            "reinforced": votes["n"] if votes else 0,
        }

    def rebuild_text(self, config: str, *, progress: Callable[[int, int], None] | None = None) -> int:
        """Index every text anew under another text-search configuration; how many memories were.

        Searchable throughout: searches read both configurations until the last batch is done. Resumes where an
        interrupted run stopped.

        Args:
            config: Name of any text-search configuration, with `+unaccent` behind it where accents are to be folded.
            progress: Called with (done, total) memories.

        Raises:
            InvalidInput: If the server has no configuration of that name.
        """
        with self.service() as cursor:
            _check_text_config(cursor, config)
            cursor.execute("UPDATE settings SET next_text_config = %s", [config])
            row = cursor.execute("SELECT count(*) AS n FROM memories WHERE text_config <> %s", [config]).fetchone()
        total = row["n"] if row else 0
        done = 0
        while True:
            with self.service() as cursor:
                changed = cursor.execute(query("retext_some"), {"config": config, "limit": RETEXTED_AT_ONCE}).rowcount
            if not changed:
                break
            done += changed
            if progress is not None:
                progress(done, total)
        with self.service() as cursor:
            cursor.execute("UPDATE settings SET text_config = %s, next_text_config = NULL", [config])
            cursor.execute("SELECT rebuild_statistics()")
        return done

    def waiting(self) -> Row:
        """Counts of memories and windows that wait for vectors in the active space: see `pending_counts`."""
        with self.service() as cursor:
            space, _ = _active(cursor)
            row = cursor.execute(query("pending_counts"), {"space": space, "most_attempts": MOST_ATTEMPTS}).fetchone()
            assert row is not None
            return row

    def space(self) -> EmbeddingSpace | None:
        """The active embedding space, or None where none is recorded yet."""
        with self.service() as cursor:
            row = cursor.execute(query("spaces")).fetchone()
        return _identity(row) if row is not None and row["state"] == "active" else None

    def retry(self) -> int:
        """Make everything due that waits after failures, or was given up; how many memories that is."""
        with self.service() as cursor:
            space, _ = _active(cursor)
            return cursor.execute(query("retry_pending"), {"space": space}).rowcount

    def embed(self, embedder: Embedder | None = None, *, progress: Callable[[int], None] | None = None) -> int:
        """Embed every window that waits, a few memories a transaction; how many were.

        Several workers may run at once: each takes memories that no other has locked.
        """
        with self.service() as cursor:
            space, identity = _active(cursor)
        maker = embedder or embedder_of(identity)
        if maker.space != identity:
            raise EmbeddingSpaceMismatch(
                f"the embedder makes vectors of {maker.space}; the active space is {identity}."
            )
        return drain(self.service, space, maker, progress=progress)


def _check_text_config(cursor: psycopg.Cursor[Row], config: str) -> None:
    try:
        cursor.execute("SAVEPOINT probe")
        cursor.execute("SELECT text_vector(%s, 'probe', true)", [config])
    except psycopg.errors.UndefinedObject as error:
        cursor.execute("ROLLBACK TO SAVEPOINT probe")
        names = cursor.execute("SELECT cfgname AS name FROM pg_ts_config ORDER BY 1").fetchall()
        known = ", ".join(row["name"] for row in names)
        raise InvalidInput(f"the server has no text-search configuration {config!r}. It has: {known}.") from error


def _identity(row: Row) -> EmbeddingSpace:
    return EmbeddingSpace(row["model"], row["revision"], row["dimensions"])


def _active(cursor: psycopg.Cursor[Row]) -> tuple[int, EmbeddingSpace]:
    row = cursor.execute(query("spaces")).fetchone()
    if row is None or row["state"] != "active":
        raise EmbeddingSpaceMismatch("this store has no embedding space yet. Run migrate with an embedder.")
    return row["space"], _identity(row)


def record_space(cursor: psycopg.Cursor[Row], embedder: Embedder) -> int:
    """Record an embedder's space as the active one, with its centre where it ships one; its number."""
    space = embedder.space
    row = cursor.execute(
        "INSERT INTO embedding_space (model, revision, dimensions, state) VALUES (%s, %s, %s, 'active') RETURNING space",
        [space.model, space.revision, space.dimensions],
    ).fetchone()
    assert row is not None
    number: int = row["space"]
    if embedder.centre is not None and space.dimensions >= LEAST_CODE_DIMENSIONS:
        cursor.execute(
            "INSERT INTO centres (space, centre, embedding) VALUES (%s, 1, %s::halfvec)",
            [number, halfvec_text(embedder.centre)],
        )
        cursor.execute("UPDATE embedding_space SET centre = 1 WHERE space = %s", [number])
    return number
