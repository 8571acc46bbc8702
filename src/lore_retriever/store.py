"""`MemoryStore` and `AsyncMemoryStore`: a pool of connections, the schema, the embedding space.

Both are application stores: every transaction drops to `lore_user` and sets its scope, so that a superuser's
connection is as bounded as any other.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from psycopg_pool import AsyncConnectionPool, ConnectionPool

from lore_retriever.admin import StoreAdmin
from lore_retriever.connecting import AsyncTries, Tries, checked_conninfo
from lore_retriever.driver import Access, AsyncDriver, Driver, blocking_pool, pool_options
from lore_retriever.embeddings.base import Embedder, EmbeddingSpace
from lore_retriever.errors import InvalidInput, StoreUnavailable
from lore_retriever.identity import SignedScope
from lore_retriever.inputs import checked_scope, new_scope
from lore_retriever.language import Canonicalizer
from lore_retriever.migrations import checked_schema, compared, known_migrations, search_path
from lore_retriever.opening import Facts, facts_body, open_space, whoami_body
from lore_retriever.operations.common import BeforeWrite, OpenSpace
from lore_retriever.steps import Operation, Transact
from lore_retriever.types import Scope
from lore_retriever.views import AsyncMemories, Memories

__all__ = ["AsyncMemoryStore", "MemoryStore"]

OnEmbeddingError = Literal["degrade", "raise"]


class _Store:
    """What both stores know; no I/O."""

    def __init__(
        self,
        schema: str,
        embedder: Embedder | None,
        on_embedding_error: OnEmbeddingError,
        canonicalizer: Canonicalizer | None,
        before_write: BeforeWrite | None,
    ) -> None:
        self.schema = checked_schema(schema)
        if isinstance(embedder, str):  # as command lines and other libraries name models
            raise InvalidInput(
                f"embedder is {embedder!r}, a name; give an embedder: OfflineEmbedder(), E5Embedder(),"
                " SentenceTransformerEmbedder('organisation/name'), … (lore_retriever.embeddings), or leave it out."
            )
        self._given_embedder = embedder
        self._on_embedding_error: OnEmbeddingError = on_embedding_error
        self._canonicalizer = canonicalizer
        self._before_write = before_write
        self._path = search_path(schema, [])
        self._may_enter = False  # whether the login role itself may call what searches in one round trip
        self._space: OpenSpace | None = None
        self._server: Any = None  # the built-in Postgres, where this store started it

    @property
    def known_embedder(self) -> Embedder | None:
        """The embedder as far as it is known without asking the database."""
        return self._given_embedder if self._space is None else self._space.embedder

    @property
    def known_space(self) -> EmbeddingSpace | None:
        """The embedding space, once the store has been used."""
        return None if self._space is None else self._space.embedder.space

    def _unscoped(self) -> Access:
        return Access(self._path, "lore_user")

    def _access(self, scope: Scope) -> Access:
        checked_scope(scope)
        number = "" if self._space is None else str(self._space.number)
        token = scope.token if isinstance(scope, SignedScope) else ""
        # A name beyond ASCII would have to be written in each connection's own encoding.
        schema = self.schema if self._may_enter and self.schema.isascii() else ""
        return Access(self._path, "lore_user", scope.org, scope.user, number, token, schema)

    def _learn(self, facts: Facts) -> None:
        """Take in what the database says of itself, or raise what is wrong with it."""
        compared(self.schema, facts.migrations, known_migrations()).require_current()
        self._path = search_path(self.schema, facts.extension_schemas)
        self._may_enter = facts.may_enter
        self._space = open_space(
            facts.spaces, self._given_embedder, self._on_embedding_error, self._canonicalizer, self._before_write
        )

    def _release_server(self) -> None:
        if self._server is not None:
            self._server.release()
            self._server = None


class MemoryStore(_Store):
    """Memories in one schema of one database, over a pool of connections; safe to share between threads.

    Made by `connect` or `embedded`; a context manager.
    """

    def __init__(
        self,
        pool: ConnectionPool[Any],
        *,
        owns_pool: bool,
        schema: str = "lore",
        embedder: Embedder | None = None,
        on_embedding_error: OnEmbeddingError = "degrade",
        canonicalizer: Canonicalizer | None = None,
        before_write: BeforeWrite | None = None,
    ) -> None:
        super().__init__(schema, embedder, on_embedding_error, canonicalizer, before_write)
        self._driver = Driver(pool)
        self._owns_pool = owns_pool
        self._opening = threading.Lock()

    @classmethod
    def connect(
        cls,
        conninfo: str | ConnectionPool[Any],
        *,
        embedder: Embedder | None = None,
        schema: str = "lore",
        password: Callable[[], str] | None = None,
        min_size: int = 1,
        max_size: int = 8,
        timeout_s: float = 30,
        prepare_threshold: int | None = 5,
        on_embedding_error: OnEmbeddingError = "degrade",
        canonicalizer: Canonicalizer | None = None,
        before_write: BeforeWrite | None = None,
        connect_options: Mapping[str, Any] | None = None,
    ) -> Self:
        """Open a store on any Postgres with pgvector 0.8 or newer. Never migrates.

        Args:
            conninfo: A libpq connection string or URL, or an open pool of one's own (left open on close).
            embedder: Makes the vectors; None takes the one that the database records.
            schema: Where the store lives; any name.
            password: Asked anew for each connection, for tokens that expire.
            min_size, max_size: Connections kept and allowed.
            timeout_s: Longest wait for a connection.
            prepare_threshold: None where a pooler in transaction mode stands between (PgBouncer).
            on_embedding_error: `degrade` answers from the lexical legs, `raise` raises EmbeddingFailed.
            canonicalizer: Brings texts and queries into one language (`lore_retriever.language`); none if None.
            before_write: Looks at each memory before it is stored, on every way in; returns the memory to store, or None
                to refuse it. Called where the caller runs (on the event loop, for an asynchronous store): be quick.

        Raises:
            StoreUnavailable: If no connection can be had in time; at once where the server refuses the login.
            InvalidInput: If libpq cannot read the connection string.
        """
        options: dict[str, Any] = {
            "schema": schema,
            "embedder": embedder,
            "on_embedding_error": on_embedding_error,
            "canonicalizer": canonicalizer,
            "before_write": before_write,
        }
        if isinstance(conninfo, ConnectionPool):
            return cls(conninfo, owns_pool=False, **options)
        tries = Tries()
        pool: ConnectionPool[Any] = ConnectionPool(
            checked_conninfo(conninfo),
            connection_class=tries.connection_class(),
            kwargs=pool_options(prepare_threshold=prepare_threshold, password=password, connect=connect_options or {}),
            min_size=min_size,
            max_size=max_size,
            timeout=timeout_s,
            open=False,
            name="lore-retriever",
        )
        store = cls(pool, owns_pool=True, **options)
        tries.open(pool, timeout_s)
        return store

    @classmethod
    def embedded(
        cls,
        path: Path | str | None = None,
        *,
        embedder: Embedder | None = None,
        schema: str = "lore",
        **options: Any,
    ) -> Self:
        """Open a store on the built-in Postgres, started if need be, and bring its schema up to date.

        Args:
            path: The database's folder; the user's data folder if None.
            embedder: As for `connect`; a new store without one uses `OfflineEmbedder`.

        Raises:
            ImportError: If the `embedded` extra is not installed.
            StoreUnavailable: If the server does not start.
        """
        from lore_retriever import embedded

        server = embedded.start(path)
        try:
            admin = StoreAdmin.connect(server.conninfo(), schema=schema)
            admin.migrate(embedder, default_to_offline=True)
            store = cls.connect(server.conninfo(), embedder=embedder, schema=schema, **options)
        except BaseException:
            server.release()
            raise
        store._server = server
        store._driver.revive = server.revive
        return store

    @staticmethod
    def admin(conninfo: str, *, schema: str = "lore") -> StoreAdmin:
        """The store for whoever looks after it: migrations, maintenance, embedding, configuration."""
        return StoreAdmin.connect(conninfo, schema=schema)

    @property
    def space(self) -> OpenSpace:
        """The embedding space this store searches and writes; opens the store on first use.

        Raises:
            SchemaMismatch: If the schema is missing, behind, ahead or edited.
            EmbeddingSpaceMismatch: If the embedder is not the one that the vectors were made with.
        """
        if self._space is None:
            with self._opening:
                if self._space is None:
                    self._learn(self._driver.transact(Transact(facts_body), self._unscoped()))
        assert self._space is not None
        return self._space

    @property
    def embedder(self) -> Embedder:
        """The embedder of this store's space."""
        return self.space.embedder

    def as_user(self, org: str, user: str) -> Memories:
        """The store as this user of this organisation sees it.

        Raises:
            ScopeMissing: If either is empty.
        """
        scope = new_scope(org, user)
        return Memories(self, lambda: scope)

    def as_caller(self, scope: Callable[[], Scope]) -> Memories:
        """The store as whoever calls: `scope` is asked anew for each operation (a context variable, a request)."""
        return Memories(self, scope)

    def whoami(self) -> Scope:
        """Whom the database takes this store's connections for: the login role's scope, where identity is `role`.

        Raises:
            ScopeMissing: If that is nobody.
        """
        scope: Scope = self._driver.transact(Transact(whoami_body), self._unscoped())
        return scope

    def perform(self, operation: Operation, scope: Scope) -> Any:
        """Run one operation under a scope."""
        space = self.space
        return self._driver.perform(operation, self._access(scope), space.embedder)

    def migrate(self) -> list[str]:
        """Bring the schema up to date and record the embedder's space; the names of what was applied.

        Raises:
            PermissionDenied: If this connection may not; names what to run.
        """
        done = StoreAdmin.of_pool(self._driver.pool, schema=self.schema).migrate(self._given_embedder)
        self._space = None
        return done

    def maintain(self) -> dict[str, int]:
        """Recount frequencies and refresh what is derived; what was done, counted.

        Raises:
            PermissionDenied: If this connection may not; names what to run.
        """
        return StoreAdmin.of_pool(self._driver.pool, schema=self.schema).maintain()

    def close(self) -> None:
        """Close the pool that this store opened, and let go of the built-in Postgres."""
        if self._owns_pool:
            self._driver.pool.close()
        self._release_server()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncMemoryStore(_Store):
    """`MemoryStore`, awaited: `async with AsyncMemoryStore.connect(…) as store`, or `store = await …connect(…)`.

    It belongs to the event loop that opened it.
    """

    def __init__(
        self,
        pool: AsyncConnectionPool[Any] | None,
        *,
        schema: str = "lore",
        embedder: Embedder | None = None,
        on_embedding_error: OnEmbeddingError = "degrade",
        canonicalizer: Canonicalizer | None = None,
        before_write: BeforeWrite | None = None,
        make_pool: Callable[[str, AsyncTries], AsyncConnectionPool[Any]] | None = None,
        conninfo: Callable[[], str] = lambda: "",
    ) -> None:
        super().__init__(schema, embedder, on_embedding_error, canonicalizer, before_write)
        self._pool = pool
        self._make_pool = make_pool
        self._conninfo = conninfo
        self._driver: AsyncDriver | None = None
        self._opening: asyncio.Lock | None = None
        self._twin: MemoryStore | None = None
        self._pairing = threading.Lock()

    @classmethod
    def connect(
        cls,
        conninfo: str | AsyncConnectionPool[Any],
        *,
        embedder: Embedder | None = None,
        schema: str = "lore",
        password: Callable[[], str] | None = None,
        min_size: int = 1,
        max_size: int = 8,
        timeout_s: float = 30,
        prepare_threshold: int | None = 5,
        on_embedding_error: OnEmbeddingError = "degrade",
        canonicalizer: Canonicalizer | None = None,
        before_write: BeforeWrite | None = None,
        connect_options: Mapping[str, Any] | None = None,
    ) -> Self:
        """As `MemoryStore.connect`; opens when awaited or entered."""

        def make_pool(target: str, tries: AsyncTries) -> AsyncConnectionPool[Any]:
            return AsyncConnectionPool(
                target,
                connection_class=tries.connection_class(),
                kwargs=pool_options(
                    prepare_threshold=prepare_threshold, password=password, connect=connect_options or {}
                ),
                min_size=min_size,
                max_size=max_size,
                timeout=timeout_s,
                open=False,
                name="lore-retriever",
            )

        options: dict[str, Any] = {
            "schema": schema,
            "embedder": embedder,
            "on_embedding_error": on_embedding_error,
            "canonicalizer": canonicalizer,
            "before_write": before_write,
        }
        if isinstance(conninfo, AsyncConnectionPool):
            return cls(conninfo, **options)
        target = checked_conninfo(conninfo)
        return cls(None, make_pool=make_pool, conninfo=lambda: target, **options)

    @classmethod
    def embedded(
        cls,
        path: Path | str | None = None,
        *,
        embedder: Embedder | None = None,
        schema: str = "lore",
        **options: Any,
    ) -> Self:
        """As `MemoryStore.embedded`; starts the server when awaited or entered."""
        store = cls.connect("", embedder=embedder, schema=schema, **options)

        def start() -> str:
            from lore_retriever import embedded

            server = embedded.start(path)
            try:
                StoreAdmin.connect(server.conninfo(), schema=schema).migrate(embedder, default_to_offline=True)
            except BaseException:
                server.release()
                raise
            store._server = server
            return server.conninfo()

        store._conninfo = start
        return store

    @staticmethod
    def admin(conninfo: str, *, schema: str = "lore") -> StoreAdmin:
        """As `MemoryStore.admin`."""
        return StoreAdmin.connect(conninfo, schema=schema)

    async def open(self) -> Self:
        """Open the pool, once; the store itself."""
        if self._driver is not None:
            return self
        if self._pool is None:
            assert self._make_pool is not None
            target = await asyncio.to_thread(self._conninfo)
            tries = AsyncTries()
            pool = self._make_pool(target, tries)
            try:
                await tries.open(pool, pool.timeout)
            except BaseException:
                self._release_server()
                raise
            self._pool = pool
        self._driver = AsyncDriver(self._pool)
        self._driver.revive = None if self._server is None else self._server.revive
        self._driver.claim_loop()
        self._opening = asyncio.Lock()
        return self

    @property
    def is_on_its_loop(self) -> bool:
        """Whether the running event loop is the one this store was opened on."""
        return self._driver is not None and self._driver.is_on_its_loop

    def blocking(self) -> MemoryStore:
        """The same store for synchronous code and for other event loops, on connections of its own.

        They are opened when first needed, by the same connection string, and closed with this store.

        Raises:
            StoreUnavailable: If this store is not open, or its pool makes connections in a way that only an event loop can.
        """
        with self._pairing:
            if self._twin is None:
                self._twin = MemoryStore(
                    blocking_pool(self._opened().pool),
                    owns_pool=True,
                    schema=self.schema,
                    embedder=self.known_embedder,
                    on_embedding_error=self._on_embedding_error,
                    canonicalizer=self._canonicalizer,
                    before_write=self._before_write,
                )
            return self._twin

    def _opened(self) -> AsyncDriver:
        if self._driver is None:
            raise StoreUnavailable(
                "this store is not open yet. Use `async with AsyncMemoryStore.connect(…)` or await it."
            )
        return self._driver

    async def open_space(self) -> OpenSpace:
        """As `MemoryStore.space`."""
        if self._space is None:
            driver = self._opened()
            assert self._opening is not None
            async with self._opening:
                if self._space is None:
                    self._learn(await driver.transact(Transact(facts_body), self._unscoped()))
        assert self._space is not None
        return self._space

    def as_user(self, org: str, user: str) -> AsyncMemories:
        """As `MemoryStore.as_user`."""
        scope = new_scope(org, user)
        return AsyncMemories(self, lambda: scope)

    def as_caller(self, scope: Callable[[], Scope]) -> AsyncMemories:
        """As `MemoryStore.as_caller`."""
        return AsyncMemories(self, scope)

    async def whoami(self) -> Scope:
        """As `MemoryStore.whoami`. Await it once and hand the names to `as_user`: `as_caller` takes no coroutine."""
        scope: Scope = await self._opened().transact(Transact(whoami_body), self._unscoped())
        return scope

    async def perform(self, operation: Operation, scope: Scope) -> Any:
        """Run one operation under a scope."""
        space = await self.open_space()
        return await self._opened().perform(operation, self._access(scope), space.embedder)

    async def migrate(self) -> list[str]:
        """As `MemoryStore.migrate`."""
        pool = self._opened().pool
        done = await asyncio.to_thread(StoreAdmin.like_pool(pool, schema=self.schema).migrate, self._given_embedder)
        self._space = None
        return done

    async def maintain(self) -> dict[str, int]:
        """As `MemoryStore.maintain`."""
        return await asyncio.to_thread(StoreAdmin.like_pool(self._opened().pool, schema=self.schema).maintain)

    async def close(self) -> None:
        """Close the pool that this store opened, and let go of the built-in Postgres."""
        if self._twin is not None:
            await asyncio.to_thread(self._twin.close)
        if self._make_pool is not None and self._pool is not None:
            await self._pool.close()
        if self._server is not None:
            await asyncio.to_thread(self._release_server)

    def __await__(self) -> Generator[Any, None, Self]:
        return self.open().__await__()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
