"""Runs operations on psycopg: pools, one transaction per `Transact` step, scope, retries, errors.

The synchronous and the asynchronous driver are twins; what they decide is in the pure functions above them.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import psycopg
from psycopg import errors as pg
from psycopg.adapt import Dumper
from psycopg.pq import Format
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolClosed, PoolTimeout

from lore_retriever.embeddings.base import Embedder, Vector
from lore_retriever.embeddings.checking import checked_vectors
from lore_retriever.errors import (
    EmbeddingFailed,
    EmbeddingSpaceMismatch,
    IdTaken,
    InvalidInput,
    LoreError,
    PermissionDenied,
    SchemaMismatch,
    StoreUnavailable,
)
from lore_retriever.queries import query_in
from lore_retriever.retries import may_retry, pause_s, was_cut
from lore_retriever.steps import Body, Call, Embed, HalfVector, HalfVectors, Operation, Row, Statement, Step, Transact

__all__ = ["Access", "AsyncDriver", "Driver", "translated"]

_log = logging.getLogger("lore_retriever")


@dataclass(frozen=True, slots=True)
class Access:
    """What a transaction sets before it does anything: search path, role and scope.

    Kept in one place, so that another form (SET LOCAL, which Citus forwards to its workers) can stand beside it.
    """

    search_path: str
    role: str
    org: str = ""
    user: str = ""
    space: str = ""
    token: str = ""
    schema: str = ""
    """The store's schema, where the login role itself may use it; else a transaction has to take the user role first."""

    def statement(self) -> Statement:
        """The one statement that sets it all, for the transaction it stands in."""
        params = {
            "search_path": self.search_path,
            "role": self.role,
            "org": self.org,
            "user": self.user,
            "space": self.space,
        }
        if self.token:
            return Statement("enter_signed_scope", params | {"token": self.token})
        return Statement("enter_scope", params)

    def at_once(self, step: Transact) -> tuple[bytes, Mapping[str, Any]] | None:
        """The text and the parameters of what a step may be done with in one statement; None if it may not."""
        if step.at_once is None or not self.schema:
            return None
        scope = {"role": self.role, "org": self.org, "user": self.user, "space": self.space, "token": self.token}
        return query_in(self.schema, step.at_once.name), {**step.at_once.params, **scope}


def translated(error: Exception) -> Exception:
    """A driver error as one of ours where we know more than the driver; else the error itself. Pure."""
    if isinstance(error, LoreError):
        return error
    if isinstance(error, PoolClosed):
        return StoreUnavailable("this store has been closed. Open another one.")
    if isinstance(error, PoolTimeout):
        return StoreUnavailable(
            f"no database connection: {error}. Check the server, or give the pool more connections."
        )
    if isinstance(error, pg.LockNotAvailable):
        return StoreUnavailable(
            "another transaction is writing the same rows, or the store is being migrated"
            f" ({error.diag.message_primary}). Try again."
        )
    if isinstance(error, pg.QueryCanceled):
        return StoreUnavailable("the statement was cancelled or ran into its time-out.")
    if isinstance(error, pg.InvalidParameterValue) and error.diag.message_primary:
        return InvalidInput(error.diag.message_primary + ".")
    if isinstance(error, pg.UniqueViolation) and error.diag.constraint_name == "memories_shared_id":
        return IdTaken("the id already names a shared memory of a colleague.")
    if _tells_of_a_dropped_space(error):
        return EmbeddingSpaceMismatch(
            "the embedding space that this store was opened on has been dropped. Open the store anew, with the model that"
            " is active now."
        )
    if isinstance(error, pg.UndefinedTable | pg.UndefinedFunction | pg.InvalidSchemaName | pg.UndefinedObject):
        return SchemaMismatch(
            f"the store's schema is not there or not current ({error.diag.message_primary}). Run `lore-retriever migrate`."
        )
    if isinstance(error, pg.ProgramLimitExceeded):
        # Each within its own limit, organisation, user and id together can outgrow an index entry.
        return InvalidInput(f"a name or id is too long for the database ({error.diag.message_primary}). Shorten it.")
    if isinstance(error, pg.InvalidSqlStatementName | pg.DuplicatePreparedStatement):
        return StoreUnavailable(
            f"{error.diag.message_primary}: a pooler in transaction mode stands between, and lends each transaction another"
            " connection. Open the store with prepare_threshold=None."
        )
    if isinstance(error, pg.ReadOnlySqlTransaction):
        return StoreUnavailable(
            "this server only reads: it is a standby, or was told so. Write through the primary; with several hosts in the"
            " connection string, target_session_attrs=read-write finds it."
        )
    if isinstance(error, pg.InsufficientPrivilege):
        return PermissionDenied(f"{error.diag.message_primary}. {_way_in(error)}")
    if isinstance(error, psycopg.OperationalError):
        return StoreUnavailable(f"the database did not answer: {str(error).strip()}")
    if isinstance(error, pg.InvalidTextRepresentation | pg.UntranslatableCharacter | pg.NumericValueOutOfRange):
        # What no check of ours foresaw, such as odd numbers in a signed token.
        return InvalidInput(f"the database cannot read a value: {error.diag.message_primary}.")
    return error


def refuses_role(error: Exception) -> bool:
    """Whether the connection's role may not do by itself what it may as `lore_user`: it acts as another role than it logged in
    as, or its rights have changed. Pure."""
    return isinstance(error, pg.InsufficientPrivilege) and error.diag.constraint_name != "lore_identity"


def _way_in(error: pg.InsufficientPrivilege) -> str:
    if error.diag.constraint_name == "lore_identity":
        if "token" in (error.diag.message_primary or ""):
            return "Pass a valid one with every request: store.as_caller(lambda: signed_scope(token)) (docs/howto/roles.md)."
        return "This store takes its callers from their credentials (docs/howto/roles.md): ask for the scope they give."
    if "set role" in (error.diag.message_primary or ""):
        return "The login role must be a member of lore_user: GRANT lore_user TO …;"
    return "An application's connection may not do this; an administrator's may: MemoryStore.admin(…)."


def _tells_of_a_dropped_space(error: Exception) -> bool:
    if not isinstance(error, pg.ObjectNotInPrerequisiteState | pg.ForeignKeyViolation):
        return False
    return error.diag.constraint_name in ("embedding_space_dropped", "windows_space_fkey", "pending_space_fkey")


class HalfVectorsDumper(Dumper):
    """`HalfVectors` as one `halfvec[]` in PostgreSQL's binary form. The statement's cast tells the server the array's type."""

    format = Format.BINARY
    oid = 0

    def dump(self, obj: HalfVectors) -> bytes:
        """The array's bytes; it has one dimension and no nulls."""
        sizes = struct.pack(">ii", len(obj.vectors), 1) if obj.vectors else b""
        elements = [struct.pack(f">ihh{len(v)}e", 4 + 2 * len(v), len(v), 0, *v) for v in obj.vectors]
        return b"".join([struct.pack(">iiI", bool(obj.vectors), 0, obj.oid), sizes, *elements])


psycopg.adapters.register_dumper(HalfVectors, HalfVectorsDumper)


class HalfVectorDumper(Dumper):
    """`HalfVector` in pgvector's binary form: its length, two bytes of no use, its numbers at half precision."""

    format = Format.BINARY
    oid = 0  # another one in every database; the statement says what it is

    def dump(self, obj: HalfVector) -> bytes:
        """The vector's bytes."""
        count = len(obj.vector)
        return struct.pack(f">hh{count}e", count, 0, *obj.vector)


psycopg.adapters.register_dumper(HalfVector, HalfVectorDumper)


def _embedded(vectors: Sequence[Vector], step: Embed, dimensions: int) -> list[list[float]]:
    labels = list(step.labels) or [f"text {n}" for n in range(len(step.texts))]
    return checked_vectors(vectors, count=len(step.texts), dimensions=dimensions, labels=labels)


def _as_embedding_failure(error: Exception, embedder: Embedder) -> EmbeddingFailed:
    return EmbeddingFailed(f"{embedder.space.model} failed: {type(error).__name__}: {error}")


def embed_now(embedder: Embedder, step: Embed) -> list[list[float]]:
    """Take one `Embed` step: unit vectors, one for each text.

    Raises:
        EmbeddingFailed: If the embedder raised, or its vectors cannot be stored.
    """
    try:
        made = embedder.embed_queries(step.texts) if step.as_queries else embedder.embed_texts(step.texts)
    except EmbeddingFailed:
        raise
    except Exception as error:
        raise _as_embedding_failure(error, embedder) from error
    return _embedded(made, step, embedder.space.dimensions)


async def embed_soon(embedder: Embedder, step: Embed) -> list[list[float]]:
    """Take one `Embed` step without holding up the event loop."""
    native = getattr(embedder, "aembed_queries" if step.as_queries else "aembed_texts", None)
    if native is None:
        return await asyncio.to_thread(embed_now, embedder, step)
    try:
        made = await native(step.texts)
    except EmbeddingFailed:
        raise
    except Exception as error:
        raise _as_embedding_failure(error, embedder) from error
    return _embedded(made, step, embedder.space.dimensions)


def _first(body: Body) -> tuple[Statement | None, Any]:
    try:
        return next(body), None
    except StopIteration as end:
        return None, end.value


def _after(body: Body, rows: list[Row]) -> tuple[Statement | None, Any]:
    try:
        return body.send(rows), None
    except StopIteration as end:
        return None, end.value


def _advance(operation: Operation, result: Any, error: Exception | None) -> tuple[Step | None, Any]:
    try:
        return (operation.throw(error) if error is not None else operation.send(result)), None
    except StopIteration as end:
        return None, end.value


class Driver:
    """Takes the steps of operations on a pool of synchronous connections."""

    def __init__(self, pool: ConnectionPool[Any]) -> None:
        self.pool = pool
        self.revive: Callable[[], None] | None = None
        """Starts the server again where this package started it: called when a connection was cut."""
        self._by_steps = False  # a connection's role was refused what is done at once

    def perform(self, operation: Operation, access: Access, embedder: Embedder | None) -> Any:
        """Run an operation to its result; errors of a step are thrown into it first."""
        step, value = _advance(operation, None, None)
        while step is not None:
            result: Any = None
            failure: Exception | None = None
            try:
                if isinstance(step, Embed):
                    result = embed_now(cast(Embedder, embedder), step)
                elif isinstance(step, Call):
                    result = step.run()
                else:
                    result = self.transact(step, access)
            except Exception as error:
                failure = error
            step, value = _advance(operation, result, failure)
        return value

    def transact(self, step: Transact, access: Access) -> Any:
        """Run a body in one transaction under `access`, again where that is safe and can help."""
        at_once = None if self._by_steps else access.at_once(step)
        tries = 0
        while True:
            tries += 1
            try:
                with self.pool.connection() as connection:
                    if at_once is not None:
                        with connection.cursor(row_factory=dict_row, binary=True) as cursor:
                            return cursor.execute(*at_once).fetchall()
                    with connection.transaction():
                        return _run(connection, step.body(), access)
            except Exception as error:
                if at_once is not None and refuses_role(error):
                    at_once, self._by_steps = None, True
                    continue
                if not may_retry(error, tries):
                    mended = translated(error)
                    raise mended from (None if mended is error else error)
                _log.info("transaction tried again after %s", type(error).__name__)
                time.sleep(pause_s(error, tries))
                if was_cut(error):
                    if self.revive is not None:
                        self.revive()
                    self.pool.check()  # a restarted server has cut the others, too


def _run(connection: psycopg.Connection[Any], body: Body, access: Access) -> Any:
    entering = access.statement()
    with connection.cursor(row_factory=dict_row, binary=True) as cursor:
        cursor.execute(entering.sql, entering.params)
        statement, value = _first(body)
        while statement is not None:
            cursor.execute(statement.sql, statement.params)
            statement, value = _after(body, cursor.fetchall() if cursor.description else [])
    return value


class AsyncDriver:
    """Takes the steps of operations on a pool of asynchronous connections, on the loop that opened it."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self.pool = pool
        self.revive: Callable[[], None] | None = None
        self._by_steps = False
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def is_on_its_loop(self) -> bool:
        """Whether the running loop is the one that the pool was opened on."""
        return self._loop is asyncio.get_running_loop()

    def claim_loop(self) -> None:
        """Remember the running loop as the pool's own."""
        self._loop = asyncio.get_running_loop()

    def _require_own_loop(self) -> None:
        if not self.is_on_its_loop:
            raise StoreUnavailable(
                "this store's connections belong to another event loop. Open an AsyncMemoryStore on the running loop, or use"
                " a MemoryStore, which works from every loop and thread."
            )

    async def perform(self, operation: Operation, access: Access, embedder: Embedder | None) -> Any:
        """Run an operation to its result; errors of a step are thrown into it first."""
        step, value = _advance(operation, None, None)
        while step is not None:
            result: Any = None
            failure: Exception | None = None
            try:
                if isinstance(step, Embed):
                    result = await embed_soon(cast(Embedder, embedder), step)
                elif isinstance(step, Call):
                    result = await (asyncio.to_thread(step.run) if step.arun is None else step.arun())
                else:
                    result = await self.transact(step, access)
            except Exception as error:
                failure = error
            step, value = _advance(operation, result, failure)
        return value

    async def transact(self, step: Transact, access: Access) -> Any:
        """Run a body in one transaction under `access`, again where that is safe and can help."""
        self._require_own_loop()
        at_once = None if self._by_steps else access.at_once(step)
        tries = 0
        while True:
            tries += 1
            try:
                async with self.pool.connection() as connection:
                    if at_once is not None:
                        async with connection.cursor(row_factory=dict_row, binary=True) as cursor:
                            return await (await cursor.execute(*at_once)).fetchall()
                    async with connection.transaction():
                        return await _arun(connection, step.body(), access)
            except Exception as error:
                if at_once is not None and refuses_role(error):
                    at_once, self._by_steps = None, True
                    continue
                if not may_retry(error, tries):
                    mended = translated(error)
                    raise mended from (None if mended is error else error)
                _log.info("transaction tried again after %s", type(error).__name__)
                await asyncio.sleep(pause_s(error, tries))
                if was_cut(error):
                    if self.revive is not None:
                        await asyncio.to_thread(self.revive)
                    await self.pool.check()


async def _arun(connection: psycopg.AsyncConnection[Any], body: Body, access: Access) -> Any:
    entering = access.statement()
    async with connection.cursor(row_factory=dict_row, binary=True) as cursor:
        await cursor.execute(entering.sql, entering.params)
        statement, value = _first(body)
        while statement is not None:
            await cursor.execute(statement.sql, statement.params)
            statement, value = _after(body, await cursor.fetchall() if cursor.description else [])
    return value


def pool_options(
    *, prepare_threshold: int | None, password: Callable[[], str] | None, connect: Mapping[str, Any]
) -> dict[str, Any] | Callable[[], dict[str, Any]]:
    """Keyword arguments of each new connection; a callable where the password is asked for anew each time."""
    fixed = {
        "autocommit": True,
        "prepare_threshold": prepare_threshold,
        "application_name": "lore-retriever",
    } | dict(connect)
    if password is None:
        return fixed
    return lambda: fixed | {"password": password()}


def blocking_pool(pool: AsyncConnectionPool[Any]) -> ConnectionPool[Any]:
    """A pool of synchronous connections, made as an asynchronous pool makes its own; none until one is asked for.

    Raises:
        StoreUnavailable: If the pool is closed, or only an event loop can make its connections.
    """
    if pool.closed:
        raise StoreUnavailable("this store is closed. Open a new one.")
    conninfo, kwargs = pool.conninfo, pool.kwargs
    if inspect.iscoroutinefunction(conninfo) or inspect.iscoroutinefunction(kwargs):
        raise StoreUnavailable(
            "this store's pool asks a coroutine for its connection string, so it serves its own event loop only."
            " Use a MemoryStore where synchronous code or another loop reads."
        )
    return ConnectionPool(
        cast(str, conninfo),
        kwargs=cast("dict[str, Any]", kwargs),
        min_size=0,
        max_size=pool.max_size,
        timeout=pool.timeout,
        open=True,
        name="lore-retriever-blocking",
    )
