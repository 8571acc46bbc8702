"""The server dies amid migrations, re-embedding and maintenance: doing it again finishes the work."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from lore_retriever import AsyncMemoryStore, MemoryStore, NewMemory, StoreUnavailable, embedded
from lore_retriever.admin import StoreAdmin
from lore_retriever.embedded import EmbeddedPostgres
from lore_retriever.embeddings import Vector
from lore_retriever.testing import HashEmbedder
from servers import own_server
from support import as_application

EMBEDDER = HashEmbedder(32)


class Slow(HashEmbedder):
    """Takes a millisecond for each text, so that a kill falls in between."""

    def embed_texts(self, texts: Sequence[str], /) -> list[Vector]:
        time.sleep(0.001 * len(texts))
        return super().embed_texts(texts)


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPostgres]:
    with own_server() as running:
        yield running


@pytest.fixture
def conninfo(server: EmbeddedPostgres, request: pytest.FixtureRequest) -> str:
    """A database of the test's own."""
    name = f"test_{abs(hash(request.node.name)) % 10**8}"
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
    return server.conninfo(dbname=name)


def kill(server: EmbeddedPostgres) -> None:
    """kill -9 of the server, and a new start."""
    os.kill(int((server.path / "data" / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
    server.revive()


def killed_in(server: EmbeddedPostgres, work: Callable[[], Any], after_s: Sequence[float]) -> list[Any]:
    """Run something, kill the server so many seconds after it began; again for each; what came of it each time."""
    came: list[Any] = []
    for seconds in after_s:
        with ThreadPoolExecutor(1) as threads:
            working = threads.submit(work)
            time.sleep(seconds)
            kill(server)
            came.append(working.exception(60) or working.result())
    return came


def test_a_migration_during_which_the_server_dies_is_finished_by_the_next_one(
    server: EmbeddedPostgres, conninfo: str
) -> None:
    admin = StoreAdmin.connect(conninfo)
    came = killed_in(server, lambda: admin.migrate(EMBEDDER), [0.02, 0.1, 0.2])
    assert all(isinstance(one, StoreUnavailable | list) for one in came), came
    assert any(isinstance(one, StoreUnavailable) for one in came)
    admin.migrate(EMBEDDER)
    assert admin.status().state == "current"
    with psycopg.connect(conninfo) as connection:
        unforced = "SELECT relname FROM pg_class WHERE relrowsecurity AND NOT relforcerowsecurity"
        assert connection.execute(unforced).fetchall() == []
    with MemoryStore.connect(as_application(conninfo), embedder=EMBEDDER) as store:
        store.as_user("acme", "ana").remember("the walrus census", id="m")
        assert store.as_user("acme", "ana").recall("walrus").hits[0].id == "m"


def test_a_new_space_during_whose_building_the_server_dies_is_finished_by_the_next_run(
    server: EmbeddedPostgres, conninfo: str
) -> None:
    admin = StoreAdmin.connect(conninfo)
    admin.migrate(EMBEDDER)
    other = Slow(48, model="another")
    with MemoryStore.connect(as_application(conninfo), embedder=EMBEDDER) as store:
        ana = store.as_user("acme", "ana")
        ana.remember_many([NewMemory(content=f"walrus {n} " + "and so on. " * 200, id=f"m{n}") for n in range(60)])
        before = [(hit.id, hit.relevance) for hit in ana.recall("walrus 7").hits]
        drawn = random.Random(5)
        came = killed_in(server, lambda: admin.build_space(other), [drawn.uniform(0.05, 0.3) for _ in range(3)])
        assert any(isinstance(one, StoreUnavailable) for one in came)
        assert [(hit.id, hit.relevance) for hit in ana.recall("walrus 7").hits] == before
        built = admin.build_space(other)
        assert (built.waiting, built.vectors) == (0, _windows(conninfo, "another"))
        came = killed_in(server, lambda: admin.switch_space(), [0.01])
        if admin.space() != other.space:
            admin.switch_space()
        assert [(hit.id, hit.relevance) for hit in ana.recall("walrus 7").hits] == before
    with MemoryStore.connect(as_application(conninfo), embedder=other) as store:
        assert store.as_user("acme", "ana").recall("walrus 7").hits


def _windows(conninfo: str, model: str) -> int:
    with psycopg.connect(conninfo) as connection:
        row = connection.execute(
            "SELECT count(*) FROM lore.windows AS w JOIN lore.embedding_space AS s USING (space) WHERE s.model = %s",
            [model],
        ).fetchone()
    assert row is not None
    return int(row[0])


def test_maintenance_and_embedding_during_which_the_server_dies_are_done_by_the_next_run(
    server: EmbeddedPostgres, conninfo: str
) -> None:
    admin = StoreAdmin.connect(conninfo)
    admin.migrate(EMBEDDER)
    with MemoryStore.connect(as_application(conninfo), embedder=EMBEDDER) as store:
        ana = store.as_user("acme", "ana")
        ana.remember_many([NewMemory(content=f"walrus {n}", id=f"m{n}") for n in range(300)], embed=False)
        came = killed_in(server, lambda: admin.embed(Slow(32)), [0.05, 0.15])
        came += killed_in(server, admin.maintain, [0.02, 0.1])
        assert all(isinstance(one, StoreUnavailable | int | dict) for one in came), came
        admin.embed(EMBEDDER)
        admin.maintain()
        waiting = admin.waiting()
        assert (waiting["memories"], waiting["windows"]) == (0, 0)
        assert len(ana.list(limit=1000)) == 300
        assert ana.recall("walrus 299").hits[0].id == "m299"


def test_a_store_goes_on_after_an_outage_longer_than_its_pool_tries(server: EmbeddedPostgres, conninfo: str) -> None:
    StoreAdmin.connect(conninfo).migrate(EMBEDDER)
    pool: ConnectionPool[Any] = ConnectionPool(
        as_application(conninfo),
        min_size=2,
        max_size=3,
        timeout=0.5,
        reconnect_timeout=0.5,
        open=True,
        kwargs={"autocommit": True},
    )
    with pool, MemoryStore.connect(pool, embedder=EMBEDDER) as store:
        ana = store.as_user("acme", "ana")
        ana.remember("the walrus census", id="m")
        embedded.stop(server.path)
        for _ in range(4):
            with pytest.raises(StoreUnavailable):
                ana.recall("walrus")
            time.sleep(0.5)
        server.revive()
        assert _soon(lambda: ana.recall("walrus").hits[0].id) == "m"


async def test_an_asynchronous_store_goes_on_after_a_long_outage_too(server: EmbeddedPostgres, conninfo: str) -> None:
    await asyncio.to_thread(StoreAdmin.connect(conninfo).migrate, EMBEDDER)
    options: dict[str, Any] = {"min_size": 2, "max_size": 3, "timeout": 0.5, "reconnect_timeout": 0.5}
    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(as_application(conninfo), open=False, **options)
    async with pool, AsyncMemoryStore.connect(pool, embedder=EMBEDDER) as store:
        ana = store.as_user("acme", "ana")
        await ana.remember("the walrus census", id="m")
        await asyncio.to_thread(embedded.stop, server.path)
        for _ in range(4):
            with pytest.raises(StoreUnavailable):
                await ana.recall("walrus")
            await asyncio.sleep(0.5)
        await asyncio.to_thread(server.revive)
        for _ in range(20):
            try:
                assert (await ana.recall("walrus")).hits[0].id == "m"
                break
            except StoreUnavailable:
                continue
        else:
            pytest.fail("the store never came back")


def _soon(ask: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 20
    while True:
        try:
            return ask()
        except StoreUnavailable:
            assert time.monotonic() < deadline, "the store never came back"
