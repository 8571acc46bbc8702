"""A store in threads, in one event loop after another, and in programs that end without closing it."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lore_retriever import (
    AsyncMemoryStore,
    MemoryStore,
    Scope,
    StoreUnavailable,
)
from lore_retriever.steps import Transact
from lore_retriever.testing import HashEmbedder
from support import Sql, as_application, kept_database, operation

EMBEDDER = HashEmbedder(32)
BOTH = pytest.mark.parametrize("kind", ["sync", "async"])


@pytest.fixture(scope="module")
def admin(create_database: Callable[..., str], template: str) -> Iterator[str]:
    with kept_database(create_database, template) as conninfo:
        with MemoryStore.connect(as_application(conninfo), embedder=EMBEDDER) as store:
            store.as_user("acme", "ana").remember("the walrus census", id="m")
        yield conninfo


@pytest.fixture(scope="module")
def application(admin: str) -> str:
    return as_application(admin)


SCOPE = Scope(org="acme", user="ana")


def test_threads_share_a_store(application: str) -> None:
    with MemoryStore.connect(application, embedder=EMBEDDER, max_size=3) as store, ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: store.as_user("acme", "ana").recall("walrus").hits[0].id, range(40)))
    assert found == ["m"] * 40


def test_a_synchronous_store_works_inside_a_running_loop(application: str) -> None:
    async def notebook() -> str:
        with MemoryStore.connect(application, embedder=EMBEDDER) as store:
            return store.as_user("acme", "ana").recall("walrus").hits[0].id

    assert asyncio.run(notebook()) == "m"


def test_a_synchronous_store_serves_one_loop_after_another(application: str) -> None:
    with MemoryStore.connect(application, embedder=EMBEDDER) as store:

        async def main() -> str:
            return (await asyncio.to_thread(store.as_user("acme", "ana").recall, "walrus")).hits[0].id

        assert [asyncio.run(main()) for _ in range(2)] == ["m", "m"]


def test_an_asynchronous_store_can_be_opened_in_one_loop_after_another(application: str) -> None:
    async def main() -> str:
        async with AsyncMemoryStore.connect(application, embedder=EMBEDDER) as store:
            return (await store.as_user("acme", "ana").recall("walrus")).hits[0].id

    assert [asyncio.run(main()) for _ in range(2)] == ["m", "m"]


def test_another_loop_is_told_so_and_does_not_hang(application: str) -> None:
    with asyncio.Runner() as home:
        store = home.run(AsyncMemoryStore.connect(application, embedder=EMBEDDER).open())
        ana = store.as_user("acme", "ana")
        assert home.run(ana.recall("walrus")).hits
        outcome: list[Any] = []

        def elsewhere() -> None:
            try:
                asyncio.run(asyncio.wait_for(ana.recall("walrus"), 5))
            except Exception as error:
                outcome.append(error)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join(10)
        assert not thread.is_alive()
        assert isinstance(outcome[0], StoreUnavailable)
        assert "another event loop" in str(outcome[0])
        assert home.run(ana.recall("walrus")).hits
        assert store.blocking().as_user("acme", "ana").recall("walrus").hits
        home.run(store.close())


async def test_twenty_searches_at_once_share_three_connections(application: str) -> None:
    async with AsyncMemoryStore.connect(application, embedder=EMBEDDER, max_size=3) as store:
        ana = store.as_user("acme", "ana")
        recalls = await asyncio.gather(*(ana.recall("walrus") for _ in range(20)))
    assert [recall.hits[0].id for recall in recalls] == ["m"] * 20


async def test_a_search_cancelled_in_mid_query_leaves_the_pool_whole(application: str) -> None:
    async with AsyncMemoryStore.connect(application, embedder=EMBEDDER, min_size=2, max_size=2, timeout_s=5) as store:
        ana = store.as_user("acme", "ana")
        await ana.recall("walrus")
        for wait in (0.05, 0.0, 0.01, 0.1):
            began = time.monotonic()
            tasks = [asyncio.create_task(store.perform(operation("SELECT pg_sleep(30)"), SCOPE)) for _ in range(2)]
            tasks += [asyncio.create_task(ana.recall("walrus")) for _ in range(3)]
            await asyncio.sleep(wait)
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(result, asyncio.CancelledError) for result in results[:2])
            assert (await ana.recall("walrus")).hits
            assert time.monotonic() - began < 5


async def test_a_write_cancelled_in_mid_transaction_stores_nothing(application: str) -> None:
    def writing() -> Any:
        def body() -> Any:
            insert = "INSERT INTO memories (org, owner, id, content) VALUES (scope_org(), scope_user(), 'half', 'x')"
            yield Sql("test", {}, insert)
            yield Sql("test", {}, "SELECT pg_sleep(30)")

        yield Transact(body)

    async with AsyncMemoryStore.connect(application, embedder=EMBEDDER, max_size=1) as store:
        task = asyncio.create_task(store.perform(writing(), SCOPE))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert "half" not in [memory.id for memory in await store.as_user("acme", "ana").list()]


@pytest.mark.filterwarnings("default::ResourceWarning")
def test_a_program_may_end_without_closing(application: str) -> None:
    """Forgetting to close costs a warning of the pool's at most; nothing hangs, no coroutine is left unawaited."""
    import subprocess
    import sys

    program = f"""
import asyncio, sys
from lore_retriever import AsyncMemoryStore, MemoryStore
from lore_retriever.testing import HashEmbedder
async def main():
    store = await AsyncMemoryStore.connect({application!r}, embedder=HashEmbedder(32))
    assert (await store.as_user("acme", "ana").recall("walrus")).hits
if sys.argv[1] == "async":
    asyncio.run(main())
else:
    store = MemoryStore.connect({application!r}, embedder=HashEmbedder(32))
    assert store.as_user("acme", "ana").recall("walrus").hits
print("done")
"""
    for kind in ("sync", "async"):
        done = subprocess.run(
            [sys.executable, "-c", program, kind], capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
        assert "never awaited" not in done.stderr
        assert "Traceback" not in done.stderr
    gc.collect()
