"""Behind PgBouncer in transaction mode: the same answers, and no scope on anybody else's connection."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from lore_retriever import AsyncMemoryStore, MemoryStore, NewMemory, StoreUnavailable
from lore_retriever.admin import StoreAdmin
from lore_retriever.embedded import EmbeddedPostgres
from lore_retriever.testing import HashEmbedder
from pooler import PgBouncer
from servers import own_server
from support import as_application, opened
from tripwires import COMMON, SCOPES, leaks, plant, shown_to

EMBEDDER = HashEmbedder(32)
BOTH = pytest.mark.parametrize("kind", ["sync", "async"])


@pytest.fixture(scope="module")
def pooled_server() -> Iterator[EmbeddedPostgres]:
    """A server with everybody's memories."""
    with own_server() as server:
        StoreAdmin.connect(server.conninfo()).migrate(EMBEDDER)
        with MemoryStore.connect(as_application(server.conninfo()), embedder=EMBEDDER) as store:
            plant(store)
        yield server


@pytest.fixture(scope="module")
def pooler(pooled_server: EmbeddedPostgres) -> Iterator[PgBouncer]:
    with PgBouncer(pooled_server) as running:
        yield running


@BOTH
def test_every_operation_works_over_fewer_connections_than_clients(pooler: PgBouncer, kind: str) -> None:
    with opened(kind, pooler.conninfo(), min_size=6, max_size=6, prepare_threshold=None) as store:
        ana = store.as_user(f"operations {kind}", "ana")
        for n in range(8):
            ana.remember_many([NewMemory(content=f"the walrus census {n}", id="m", aliases=("tusks",))])
            assert ana.recall("walrus").hits[0].id == ana.recall("tusks").hits[0].id == "m"
            ana.update("m", content=f"the walrus census, again {n}")
            ana.invalidate("m")
            ana.restore("m")
            assert ana.feedback("m", useful=True).useful == 1
            assert ana.build_context("walrus").items
            assert ana.explain("walrus")
            assert ana.list()[0] == ana.get("m")
            ana.add_alias("k8s", "Kubernetes")
            ana.remove_alias("k8s")
            ana.remove_alias("Kubernetes")
        ana.forget("m")
        assert ana.list() == []
    assert pooler.servers() <= 2


def test_scopes_that_share_two_connections_see_nothing_of_each_other(pooler: PgBouncer) -> None:
    """Four users, eight threads, eight tasks, errors and cancellations between them."""

    def ask(view: Any, org: str, user: str, drawn: random.Random) -> set[str]:
        shown: set[str] = set()
        for _ in range(12):
            recall = view.recall(COMMON, limit=drawn.choice((1, 10, 1000)))
            shown |= shown_to(org, user, "".join(hit.model_dump_json() for hit in recall.hits))
            assert recall.hits
            shown |= shown_to(org, user, "".join(memory.model_dump_json() for memory in view.list(limit=1000)))
            shown |= shown_to(org, user, str(view.aliases()))
            with pytest.raises(KeyError):
                view.get("not there")
        return shown

    async def ask_too(store: AsyncMemoryStore, org: str, user: str) -> set[str]:
        view = store.as_user(org, user)
        shown: set[str] = set()
        for n in range(12):
            if n % 3 == 2:
                cancelled = asyncio.create_task(view.recall(COMMON))
                await asyncio.sleep(0.002)
                cancelled.cancel()
                await asyncio.gather(cancelled, return_exceptions=True)
            recall = await view.recall(COMMON, limit=1000)
            shown |= shown_to(org, user, "".join(hit.model_dump_json() for hit in recall.hits))
        return shown

    async def tasks() -> list[set[str]]:
        connect = AsyncMemoryStore.connect(pooler.conninfo(), embedder=EMBEDDER, max_size=8, prepare_threshold=None)
        async with connect as store:
            return await asyncio.gather(*(ask_too(store, *scope) for scope in SCOPES * 2))

    with (
        MemoryStore.connect(pooler.conninfo(), embedder=EMBEDDER, max_size=8, prepare_threshold=None) as store,
        ThreadPoolExecutor(9) as threads,
    ):
        asking = [
            threads.submit(ask, store.as_user(*scope), *scope, random.Random(number))
            for number, scope in enumerate(SCOPES * 2)
        ]
        loop = threads.submit(asyncio.run, tasks())
        assert [thread.result(120) for thread in asking] == [set()] * 8
        assert loop.result(120) == [set()] * 8


@pytest.mark.parametrize("scope", SCOPES[:2])
def test_no_way_of_asking_shows_anything_foreign(pooler: PgBouncer, scope: tuple[str, str]) -> None:
    with MemoryStore.connect(pooler.conninfo(), embedder=EMBEDDER, prepare_threshold=None) as store:
        assert leaks(store.as_user(*scope), *scope) == []


def test_nothing_of_a_scope_stays_on_a_connection_of_the_pooler(pooler: PgBouncer) -> None:
    state = (
        "SELECT pg_backend_pid(), current_user::text, coalesce(current_setting('lore.org_id', true), ''),"
        " coalesce(current_setting('lore.user_id', true), ''), current_setting('search_path'), pg_sleep(0.05)::text"
    )

    def look(_: int) -> tuple[Any, ...]:
        with psycopg.connect(pooler.conninfo(), autocommit=True, prepare_threshold=None) as connection:
            row = connection.execute(state).fetchone()
        assert row is not None
        return row

    with MemoryStore.connect(pooler.conninfo(), embedder=EMBEDDER, max_size=4, prepare_threshold=None) as store:
        for number in range(20):
            store.as_user(*SCOPES[number % 4]).recall(COMMON)
        with ThreadPoolExecutor(4) as threads:
            seen = list(threads.map(look, range(8)))
    assert len({row[0] for row in seen}) == 2
    assert {row[1:5] for row in seen} == {("lore_test_app", "", "", '"$user", public')}


@BOTH
def test_prepared_statements_are_refused_with_the_way_out(pooler: PgBouncer, kind: str) -> None:
    with opened(kind, pooler.conninfo(), min_size=4, max_size=4, prepare_threshold=0) as store:
        ana = store.as_user("acme", "ana")
        with pytest.raises(StoreUnavailable, match="prepare_threshold=None"):
            for _ in range(40):
                ana.recall(COMMON)


@BOTH
def test_a_pooler_that_dies_and_comes_back_is_one_pause(pooler: PgBouncer, kind: str) -> None:
    with opened(kind, pooler.conninfo(), min_size=3, max_size=3, prepare_threshold=None) as store:
        ana = store.as_user(f"pause {kind}", "ana")
        ana.remember("the walrus census", id="m")
        pooler.kill()
        with ThreadPoolExecutor(1) as threads:
            asked = threads.submit(lambda: ana.recall("walrus").hits[0].id) if kind == "sync" else None
            pooler.start()
            assert asked is None or asked.result(60) == "m"
        assert ana.recall("walrus").hits[0].id == "m"


def test_options_in_the_connection_string_are_refused_by_the_pooler_in_time(pooler: PgBouncer) -> None:
    asked = pooler.conninfo(options="-c statement_timeout=500")
    refused = pytest.raises(StoreUnavailable, match="no connection within 1 s")
    with refused, MemoryStore.connect(asked, embedder=EMBEDDER, prepare_threshold=None, timeout_s=1):
        pass


def test_a_store_of_the_pooler_and_one_past_it_write_the_same_memories(
    pooled_server: EmbeddedPostgres, pooler: PgBouncer
) -> None:
    straight = as_application(pooled_server.conninfo())
    with (
        MemoryStore.connect(pooler.conninfo(), embedder=EMBEDDER, prepare_threshold=None) as pooled,
        MemoryStore.connect(straight, embedder=EMBEDDER) as direct,
    ):
        pooled.as_user("both", "ana").remember("written through the pooler", id="p")
        direct.as_user("both", "ana").remember("written past it", id="d")
        assert StoreAdmin.connect(pooled_server.conninfo()).maintain()["parts"]
        one, other = (store.as_user("both", "ana").recall("written").hits for store in (pooled, direct))
    assert {hit.id for hit in one} == {"p", "d"}
    assert [(hit.id, hit.relevance) for hit in one] == [(hit.id, hit.relevance) for hit in other]
