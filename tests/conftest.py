"""A real Postgres, a template database migrated once, a clone of it for each test.

`LORE_TEST_DATABASE` (a libpq connection string of an administrator) uses that server; without it the built-in
Postgres is started in a temporary folder.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from lore_retriever import AsyncMemories, AsyncMemoryStore, Memories, MemoryStore
from lore_retriever.admin import StoreAdmin
from lore_retriever.testing import HashEmbedder
from pooler import installed_program

_numbers = itertools.count()


# What a newcomer may lack, CI has: there the tests are collected, and fail without it.
_LACKS_POOLER = "CI" not in os.environ and installed_program() is None
collect_ignore = ["test_pgbouncer.py"] if _LACKS_POOLER else []


def pytest_report_header() -> str:
    """What is left out on this machine."""
    return "without PgBouncer, and so without test_pgbouncer.py" if _LACKS_POOLER else "all tests"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Connection string of an administrator of a running server."""
    if given := os.environ.get("LORE_TEST_DATABASE"):
        yield given
        return
    from lore_retriever import embedded

    running = embedded.start(
        tmp_path_factory.mktemp("server") / "data", settings={"fsync": "off", "max_connections": "200"}
    )
    try:
        yield running.conninfo(dbname="postgres")
    finally:
        running.release()


@pytest.fixture(scope="session")
def create_database(server: str) -> Callable[..., str]:
    """Makes a database, a copy of `template` if given; its connection string."""

    def create(template: str | None = None) -> str:
        name = f"lore_test_{os.getpid()}_{next(_numbers)}"
        with psycopg.connect(server, autocommit=True) as connection:
            source = sql.Identifier(template or "template0")
            connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), source))
        return make_conninfo(server, dbname=name)

    return create


def _drop(conninfo: str) -> None:
    name = psycopg.conninfo.conninfo_to_dict(conninfo)["dbname"]
    with psycopg.connect(conninfo, dbname="postgres", autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(str(name))))


@pytest.fixture(scope="session")
def template(create_database: Callable[..., str]) -> Iterator[str]:
    """Name of a migrated database whose space is HashEmbedder(32)'s."""
    conninfo = create_database()
    StoreAdmin.connect(conninfo).migrate(HashEmbedder(32))
    yield str(psycopg.conninfo.conninfo_to_dict(conninfo)["dbname"])
    _drop(conninfo)


@pytest.fixture
def database(create_database: Callable[..., str], template: str) -> Iterator[str]:
    """Connection string of a fresh, migrated database, as its administrator."""
    conninfo = create_database(template)
    yield conninfo
    _drop(conninfo)


@pytest.fixture
def empty_database(create_database: Callable[..., str]) -> Iterator[str]:
    """Connection string of a database with nothing in it."""
    conninfo = create_database()
    yield conninfo
    _drop(conninfo)


@pytest.fixture
def app_database(database: str) -> str:
    """The fresh database as an application reaches it: a login role that is a member of lore_user and nothing else."""
    with psycopg.connect(database, autocommit=True) as connection:
        if connection.execute("SELECT FROM pg_roles WHERE rolname = 'lore_test_app'").fetchone() is None:
            connection.execute("CREATE ROLE lore_test_app LOGIN PASSWORD 'app' IN ROLE lore_user")
    return make_conninfo(database, user="lore_test_app", password="app")


@pytest.fixture
def embedder() -> HashEmbedder:
    return HashEmbedder(32)


@pytest.fixture
def store(app_database: str) -> Iterator[MemoryStore]:
    """A store as the application role."""
    with MemoryStore.connect(app_database, embedder=HashEmbedder(32), max_size=4) as opened:
        yield opened


@pytest.fixture
async def async_store(app_database: str) -> AsyncIterator[AsyncMemoryStore]:
    """The same, asynchronous, on the test's loop."""
    async with AsyncMemoryStore.connect(app_database, embedder=HashEmbedder(32), max_size=4) as opened:
        yield opened


@pytest.fixture
def ana(store: MemoryStore) -> Memories:
    """acme's ana."""
    return store.as_user("acme", "ana")


@pytest.fixture
def async_ana(async_store: AsyncMemoryStore) -> AsyncMemories:
    """acme's ana, asynchronous."""
    return async_store.as_user("acme", "ana")


@pytest.fixture
def admin_connection(database: str) -> Iterator[psycopg.Connection[Any]]:
    """An administrator's connection in autocommit, the store's schema on its search_path."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("SET search_path = lore, public, pg_temp")
        yield connection


@pytest.fixture
def scope_connection(
    app_database: str,
) -> Callable[[str, str], AbstractContextManager[psycopg.Connection[Any]]]:
    """`with scope_connection(org, user) as connection`: one transaction as the user role with that scope set."""

    @contextmanager
    def open_scope(org: str, user: str) -> Iterator[psycopg.Connection[Any]]:
        with psycopg.connect(app_database) as connection:
            connection.execute(
                "SELECT set_config('search_path', 'lore, public, pg_temp', true), set_config('role', 'lore_user', true),"
                " set_config('lore.org_id', %s, true), set_config('lore.user_id', %s, true)",
                [org, user],
            )
            yield connection
            connection.rollback()

    return open_scope


class Sides:
    """A synchronous face on either store, so that one behaviour suite runs over both."""

    def __init__(self, run: Callable[[Any], Any], store: MemoryStore | AsyncMemoryStore) -> None:
        self._run_any = run
        self.store = store

    def _run(self, result: Any) -> Any:
        return self._run_any(result)

    def as_user(self, org: str, user: str) -> Any:
        return _Face(self._run_any, self.store.as_user(org, user))


class _Face:
    def __init__(self, run: Callable[[Any], Any], target: Any) -> None:
        self._run = run
        self._target = target

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._target, name)
        if not callable(attribute):
            return attribute
        return lambda *args, **kwargs: self._run(attribute(*args, **kwargs))


@pytest.fixture(params=["sync", "async"])
def either(request: pytest.FixtureRequest, app_database: str) -> Iterator[Sides]:
    """Either store behind one synchronous face."""
    if request.param == "sync":
        with MemoryStore.connect(app_database, embedder=HashEmbedder(32), max_size=4) as store:
            yield Sides(lambda result: result, store)
        return
    with asyncio.Runner() as runner:
        async_store = AsyncMemoryStore.connect(app_database, embedder=HashEmbedder(32), max_size=4)
        runner.run(async_store.open())
        yield Sides(runner.run, async_store)
        runner.run(async_store.close())


@pytest.fixture
def repository() -> Path:
    """The root of the checkout."""
    return Path(__file__).parents[1]
