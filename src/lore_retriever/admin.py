"""What the keeper of a store does: migrate, maintain, embed what waits. Needs more rights than an application has.

Synchronous; the asynchronous store runs it in a thread.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, cast

import psycopg
from psycopg import sql
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from lore_retriever.codes import recode
from lore_retriever.connecting import checked_conninfo
from lore_retriever.draining import drain, translate
from lore_retriever.driver import translated
from lore_retriever.embeddings.base import Embedder, EmbeddingSpace
from lore_retriever.errors import EmbeddingSpaceMismatch, InvalidInput, PermissionDenied
from lore_retriever.files import replacing
from lore_retriever.identity import Identity, IdentityMode, use_identity
from lore_retriever.language import Canonicalizer
from lore_retriever.migrations import SchemaStatus, apply_migrations, checked_schema, schema_status, search_path
from lore_retriever.opening import embedder_of
from lore_retriever.operations.common import BeforeWrite
from lore_retriever.operations.embedding import MOST_ATTEMPTS
from lore_retriever.queries import query
from lore_retriever.retexting import rebuild_text
from lore_retriever.spaces import (
    LEAST_CODE_DIMENSIONS,
    SpaceStatus,
    build,
    clear_dropped,
    drop,
    identity,
    record_space,
    recorded,
    status,
    switch,
    undo,
)
from lore_retriever.steps import Row
from lore_retriever.transfer import OnExisting, export_lines, forget_user, import_lines

__all__ = ["LEAST_CODE_DIMENSIONS", "SpaceStatus", "StoreAdmin", "record_space"]

_log = logging.getLogger("lore_retriever")

Connect = Callable[[], AbstractContextManager["psycopg.Connection[Any]"]]


class StoreAdmin:
    """A store for its keeper. Each call opens what it needs and closes it."""

    def __init__(self, connect: Connect, *, schema: str = "lore") -> None:
        self._connect = connect
        self.schema = checked_schema(schema)

    @classmethod
    def connect(cls, conninfo: str, *, schema: str = "lore") -> StoreAdmin:
        """For a connection string of an administrator.

        Raises:
            InvalidInput: If libpq cannot read it.
        """
        target = checked_conninfo(conninfo)
        return cls(lambda: psycopg.connect(target, autocommit=True), schema=schema)

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
        except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure):
            raise
        except psycopg.Error as error:
            mended = translated(error)
            raise mended from (None if mended is error else error)

    def service(self) -> AbstractContextManager[psycopg.Cursor[Row]]:
        """One transaction as the service role."""
        return self._acting("lore_service")

    def owner(self) -> AbstractContextManager[psycopg.Cursor[Row]]:
        """One transaction as the owner of the tables, who sees no row of any organisation."""
        return self._acting("lore_owner")

    @contextmanager
    def _acting(self, role: str) -> Iterator[psycopg.Cursor[Row]]:
        with self._connection() as connection, connection.transaction():
            schemas = [row[0] for row in connection.execute(query("extension_schemas")).fetchall()]
            connection.execute(query("enter_role"), {"search_path": search_path(self.schema, schemas), "role": role})
            with connection.cursor(row_factory=dict_row) as cursor:
                yield cursor

    def status(self) -> SchemaStatus:
        """How the schema stands to this package."""
        with self._connection() as connection:
            return schema_status(connection, self.schema)

    def migrate(
        self,
        embedder: Embedder | None = None,
        *,
        roles: bool = True,
        identity: Identity | IdentityMode | None = None,
        default_to_offline: bool = False,
    ) -> list[str]:
        """Bring the schema up to date and record the embedder's space, if none is; the names of what was applied.

        Args:
            roles: False where the four roles were created beforehand.
            identity: How callers are known from now on; None leaves it as it is (`settings` in a new store).

        Raises:
            EmbeddingSpaceMismatch: If another space is active here.
            PermissionDenied, SchemaMismatch: As `apply_migrations`.
        """
        with self._connection() as connection:
            done = apply_migrations(connection, self.schema, roles=roles)
        with self.service() as cursor:
            # Two that migrate a new database at once record one space.
            cursor.execute("LOCK TABLE embedding_space IN SHARE ROW EXCLUSIVE MODE")
            rows = cursor.execute(query("spaces")).fetchall()
            if not rows:
                if embedder is None and default_to_offline:
                    from lore_retriever.embeddings import OfflineEmbedder

                    embedder = OfflineEmbedder()
                if embedder is not None:
                    record_space(cursor, embedder)
            elif embedder is not None:
                recorded(rows, embedder.space)
        if identity is not None:
            use_identity(self, identity if isinstance(identity, Identity) else Identity(mode=identity))
        return done

    def maintain(
        self, *, new_centre: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> dict[str, int]:
        """Bring up to date what is derived, in every organisation; what was done, counted.

        Recounts stems, sizes and votes, purges what expired, sees that large organisations have codes (of a space
        whose model ships no centre, one is measured from 1,000 vectors on), finishes an interrupted drop.

        Args:
            new_centre: Measure the centre of the active space anew and write all codes again, beside those in use.
            progress: Called with (done, total) codes while they are written.
        """
        with self.service() as cursor:
            purged = cursor.execute("DELETE FROM memories WHERE expires_at < now()").rowcount
            parts = cursor.execute("SELECT rebuild_statistics() AS n").fetchone()
        with self.service() as cursor:
            votes = cursor.execute("SELECT refresh_reinforcement() AS n").fetchone()
            spaces = cursor.execute(query("spaces")).fetchall()
        clear_dropped(self.service)
        active = [row for row in spaces if row["state"] == "active"]
        codes = sum(recode(self.service, row, anew=new_centre, progress=progress) for row in active)
        self._vacuum()
        return {
            "expired": purged,
            "parts": parts["n"] if parts else 0,
            "reinforced": votes["n"] if votes else 0,
            "codes": codes,
        }

    def _vacuum(self) -> None:
        with self._connection() as connection:
            for table in ("memories", "windows", "vectors", "codes", "terms"):
                try:
                    connection.execute(sql.SQL("VACUUM (ANALYZE) {}").format(sql.Identifier(self.schema, table)))
                except psycopg.errors.InsufficientPrivilege:
                    _log.info("no right to vacuum %s; autovacuum will", table)

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
        return rebuild_text(self.service, config, progress=progress)

    def set_result_budget(self, characters: int) -> None:
        """Bound what one search returns, in characters of its rows as JSON; 50,000 in a new store.

        The lowest rows are left out beyond it and counted in `Recall.omitted`; the first one never is.

        Raises:
            InvalidInput: If it is below 1, or more than the database can count.
        """
        if isinstance(characters, bool) or not isinstance(characters, int) or not 1 <= characters < 2**31:
            raise InvalidInput(
                f"the budget of a result is {characters!r}; give a number of characters from 1 on, such as 50000."
            )
        with self.service() as cursor:
            cursor.execute(query("set_result_budget"), {"characters": characters})

    def export_jsonl(self, path: Path | str, *, org: str | None = None, user: str | None = None) -> dict[str, int]:
        """Write memories to a file of JSON lines with all that belongs to them; how many memories, and names in groups.

        What is there is replaced at the end; until then, and if it fails, it stays.

        Args:
            org, user: Only this organisation's, or this user's.

        Raises:
            InvalidInput: If there is nothing of those.
        """
        with replacing(Path(path), private=True) as file:
            for line in export_lines(self, org=org, user=user):
                file.write(line + "\n")
        counts: dict[str, int] = json.loads(line)["end"]
        return counts

    def import_jsonl(
        self,
        path: Path | str,
        *,
        on_existing: OnExisting = "keep",
        before_write: BeforeWrite | None = None,
        jobs: int = 1,
        progress: Callable[[int], None] | None = None,
    ) -> dict[str, int]:
        """Store what `export_jsonl` wrote, all of it or nothing: see `transfer.import_lines`."""
        with Path(path).open(encoding="utf-8", newline="\n") as file:
            return import_lines(
                self,
                file,
                on_existing=on_existing,
                before_write=before_write,
                jobs=jobs,
                progress=progress,
                name=str(path),
            )

    def forget_user(self, org: str, user: str) -> dict[str, int]:
        """Remove every trace of a user of an organisation; how many rows of each sort that were."""
        return forget_user(self, org, user)

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
        return identity(row) if row is not None and row["state"] == "active" else None

    def spaces(self) -> list[SpaceStatus]:
        """Every embedding space, the active one first: what it holds and what waits in it."""
        return status(self.service)

    def retry(self) -> int:
        """Make everything due that waits after failures, or was given up; how many memories that is."""
        with self.service() as cursor:
            space, _ = _active(cursor)
            return cursor.execute(query("retry_pending"), {"space": space}).rowcount

    def embed(
        self,
        embedder: Embedder | None = None,
        *,
        retry: bool = False,
        workers: int = 1,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Embed every window that waits and is due, in the embedder's space; how many were.

        Several workers may run at once, here or in other processes: none does what another is at. A memory that
        cannot be embedded holds up no other; it waits ever longer, and is given up after 8 failures. Where the
        embedder fails altogether, the run ends after three batches.

        Args:
            embedder: Of any space recorded here; None takes the active one's, where this package knows it.
            retry: Also what waits for its next try, or was given up.
            workers: Threads, each with a connection of its own.
            progress: Called with the number of windows after each slice of them.

        Raises:
            EmbeddingSpaceMismatch: If no such space is recorded here.
        """
        with self.service() as cursor:
            space, active = _active(cursor)
            maker = embedder or embedder_of(active)
            if maker.space != active:
                space = recorded(cursor.execute(query("spaces")).fetchall(), maker.space)["space"]
            if retry:
                cursor.execute(query("retry_pending"), {"space": space})
        return drain(self.service, space, maker, workers=workers, progress=progress)

    def translate_pending(
        self,
        canonicalizer: Canonicalizer,
        *,
        retry: bool = False,
        embedder: Embedder | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Translate every memory whose translation failed and is due; how many were.

        A translation that fails again waits ever longer, and is given up after 8 failures. Two failures in a row end the
        run.

        Args:
            retry: Also what waits for its next try, or was given up.
            embedder: Embeds the translations at once; else they wait for `embed`.
            progress: Called with 1 for each memory translated.
        """
        if retry:
            with self.service() as cursor:
                cursor.execute(query("retry_untranslated"))
        done = translate(self.service, canonicalizer, progress=progress)
        if done and embedder is not None:
            self.embed(embedder)
        return done

    def languages(self) -> list[Row]:
        """One row per language that memories were given in (None: unknown): see `language_counts`."""
        with self.service() as cursor:
            return cursor.execute(query("language_counts")).fetchall()

    def build_space(
        self, embedder: Embedder, *, workers: int = 1, progress: Callable[[int, int], None] | None = None
    ) -> SpaceStatus:
        """Build the space of another model beside the one that is searched; how it stands.

        Nothing that searches notices. Run it again after an interruption: it goes on where it stopped. Memories
        written meanwhile are queued for it; `switch_space` makes it the one that new clients search.

        Args:
            workers: As for `embed`.
            progress: Called with (done, total) windows, those of earlier runs included; the total is an estimate
                until the last memory is split for this model.

        Raises:
            InvalidInput: If it is the active space already, or another one is being built.
        """
        number = build(self.service, embedder, workers=workers, progress=progress)
        with self.service() as cursor:
            row = next(row for row in cursor.execute(query("spaces")).fetchall() if row["space"] == number)
        recode(self.service, row)
        return next(space for space in self.spaces() if space.number == number)

    def switch_space(self, to: EmbeddingSpace | str | None = None, *, force: bool = False) -> EmbeddingSpace:
        """Make the space that was built the active one, in one transaction; the space.

        New clients open on it. Those that are open go on searching the space they were opened on, until it is
        dropped. The space before is kept: `undo_switch` goes back to it.

        Args:
            to: Another space than the one being built, or its model's name.
            force: Switch although memories wait in it: only the other legs find those.

        Raises:
            InvalidInput: If there is no such space, or memories wait in it.
        """
        return switch(self.service, to, force=force)

    def undo_switch(self, *, force: bool = False) -> EmbeddingSpace:
        """Make the space active that was so before; the space.

        Memories written since the switch wait in it: run `embed` with its model first.

        Raises:
            InvalidInput: If none is kept, or memories wait in it (unless `force`).
        """
        return undo(self.service, force=force)

    def drop_space(self, space: EmbeddingSpace | str) -> EmbeddingSpace:
        """Remove a space that is not active, with its windows, vectors and codes; clients opened on it get an error.

        Args:
            space: The space, or its model's name.

        Raises:
            InvalidInput: If it is active, or there is none of that name.
        """
        return drop(self.service, space)


def _active(cursor: psycopg.Cursor[Row]) -> tuple[int, EmbeddingSpace]:
    row = cursor.execute(query("spaces")).fetchone()
    if row is None or row["state"] != "active":
        raise EmbeddingSpaceMismatch("this store has no embedding space yet. Run migrate with an embedder.")
    return row["space"], identity(row)
