"""LangChain adapters under load, across loops, cancelled, cut off and never closed: no hang, no leak, no warning."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from lore_retriever import AsyncMemories, AsyncMemoryStore, InvalidInput, Memories, MemoryStore, NewMemory
from lore_retriever.langchain import LoreRetriever, LoreVectorStore
from lore_retriever.testing import HashEmbedder

GATEWAYS = [NewMemory(content=f"gateway {n} restarts", id=f"g{n}") for n in range(20)]


def connections(database: str) -> list[str]:
    """The states of the application's connections to this database, but for what is only just ending."""
    with psycopg.connect(database, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT state FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'lore-retriever'"
        ).fetchall()
    return [str(row[0]) for row in rows]


def blocked(database: str) -> int:
    """How many of the application's statements wait for a lock."""
    with psycopg.connect(database, autocommit=True) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name = 'lore-retriever' AND wait_event_type = 'Lock'"
        ).fetchone()
    assert row is not None
    return int(row[0])


def settle(condition: Callable[[], bool], seconds: float = 30) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def is_idle(pool: Any) -> bool:
    stats = pool.get_stats()
    return stats["pool_available"] == stats["pool_size"] and stats.get("requests_waiting", 0) == 0


def pool_of(store: Any) -> Any:
    return store._driver.pool


async def test_200_searches_at_once_share_a_pool_of_4_and_give_it_back(
    async_ana: AsyncMemories, ana: Memories, database: str
) -> None:
    await async_ana.remember_many(GATEWAYS)
    for view in (async_ana, ana):
        retriever = LoreRetriever(memories=view, k=1)
        found = await asyncio.gather(*(retriever.ainvoke(f"gateway {n % 20} restarts") for n in range(200)))
        assert [documents[0].id for documents in found] == [f"g{n % 20}" for n in range(200)]
        pool = pool_of(view.store)
        assert pool.get_stats()["pool_max"] == 4
        assert await asyncio.to_thread(settle, lambda pool=pool: is_idle(pool))
    assert settle(lambda: set(connections(database)) == {"idle"})
    assert len(connections(database)) <= 8


async def test_200_searches_that_find_nothing_or_fail_give_the_pool_back(
    ana: Memories, async_ana: AsyncMemories
) -> None:
    for view in (ana, async_ana):
        retriever = LoreRetriever(memories=view)
        assert await asyncio.gather(*(retriever.ainvoke("nothing here") for _ in range(200))) == [[]] * 200
        failed = await asyncio.gather(
            *(retriever.ainvoke("x", filter={"n": {"$no": 1}}) for _ in range(100)),
            *(retriever.ainvoke("x", k=1001) for _ in range(100)),
            return_exceptions=True,
        )
        assert {type(error) for error in failed} == {InvalidInput}
        assert await asyncio.to_thread(settle, lambda view=view: is_idle(pool_of(view.store)))


@pytest.mark.parametrize("side", ["sync view", "async view"])
async def test_two_loops_share_one_retriever(ana: Memories, async_ana: AsyncMemories, side: str) -> None:
    view: Any = ana if side == "sync view" else async_ana
    ana.remember_many(GATEWAYS)
    retriever = LoreRetriever(memories=view, k=1)

    async def many() -> list[str | None]:
        found = await asyncio.gather(*(retriever.ainvoke(f"gateway {n % 20}") for n in range(40)))
        return [documents[0].id for documents in found]

    with ThreadPoolExecutor(2) as threads:
        elsewhere = [asyncio.wrap_future(threads.submit(asyncio.run, many())) for _ in range(2)]
        here = await many()
        assert [here, *await asyncio.gather(*elsewhere)] == [[f"g{n % 20}" for n in range(40)]] * 3


def test_a_sync_view_outlives_the_loops_it_was_used_on(ana: Memories) -> None:
    ana.remember_many(GATEWAYS)
    retriever = LoreRetriever(memories=ana, k=1)
    for _ in range(3):
        assert [document.id for document in asyncio.run(retriever.ainvoke("gateway 7"))] == ["g7"]
    assert is_idle(pool_of(ana.store))


@pytest.mark.parametrize("side", ["sync view", "async view"])
async def test_a_search_cancelled_in_mid_query_leaves_the_pool_whole(
    ana: Memories, async_ana: AsyncMemories, database: str, side: str
) -> None:
    view: Any = ana if side == "sync view" else async_ana
    ana.remember_many(GATEWAYS)
    retriever = LoreRetriever(memories=view, k=1)
    await retriever.ainvoke("gateway 1")
    with psycopg.connect(database) as blocker:
        blocker.execute("LOCK TABLE lore.memories IN ACCESS EXCLUSIVE MODE")
        searches = [asyncio.create_task(retriever.ainvoke(f"gateway {n}")) for n in range(3)]
        assert await asyncio.to_thread(settle, lambda: blocked(database) == 3)
        for search in searches:
            search.cancel()
        assert all(
            isinstance(error, asyncio.CancelledError)
            for error in await asyncio.gather(*searches, return_exceptions=True)
        )
        blocker.rollback()
    assert [documents.id for documents in await retriever.ainvoke("gateway 5")] == ["g5"]
    assert await asyncio.to_thread(settle, lambda: is_idle(pool_of(view.store)))
    assert settle(lambda: set(connections(database)) == {"idle"})


async def test_a_write_cancelled_in_mid_transaction_stores_nothing(async_ana: AsyncMemories, database: str) -> None:
    documents = LoreVectorStore(memories=async_ana)
    await documents.aadd_texts(["warm"])
    with psycopg.connect(database) as blocker:
        blocker.execute("LOCK TABLE lore.windows IN ACCESS EXCLUSIVE MODE")
        writing = asyncio.create_task(documents.aadd_texts(["half written"], ids=["h"]))
        assert await asyncio.to_thread(settle, lambda: blocked(database) == 1)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        blocker.rollback()
    assert await documents.aget_by_ids(["h"]) == []
    assert await asyncio.to_thread(settle, lambda: is_idle(pool_of(async_ana.store)))


async def test_connections_cut_by_the_server_are_replaced(
    ana: Memories, async_ana: AsyncMemories, database: str
) -> None:
    ana.remember_many(GATEWAYS)
    for view in (ana, async_ana):
        retriever = LoreRetriever(memories=view, k=1)
        assert len(await retriever.ainvoke("gateway 1")) == 1
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND application_name = 'lore-retriever'"
            )
        assert [document.id for document in await retriever.ainvoke("gateway 2")] == ["g2"]


async def test_sync_methods_work_inside_a_running_loop(async_ana: AsyncMemories, ana: Memories) -> None:
    for view in (async_ana, ana):
        documents = LoreVectorStore(memories=view)
        made = documents.add_texts(["notebook cell"])
        assert [document.id for document in documents.similarity_search("notebook", k=1)] == made
        assert [document.id for document in documents.as_retriever().invoke("notebook", k=1)] == made
        assert len(documents.as_retriever().batch(["notebook"] * 8)) == 8
        documents.delete(made)


def test_threads_share_one_retriever_and_never_each_other_s_scope(store: MemoryStore) -> None:
    for user in ("ana", "ben"):
        store.as_user("acme", user).remember_many(NewMemory(content=f"note {n} of {user}") for n in range(5))
    wrong: list[Any] = []

    def look(user: str) -> None:
        retriever = LoreRetriever(memories=store.as_user("acme", user))
        for _ in range(20):
            found = retriever.invoke("note")
            wrong.extend(document for document in found if document.metadata["lore_owner"] != user)
            assert len(found) == 5

    threads = [threading.Thread(target=look, args=(user,)) for user in ("ana", "ben") * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []


@pytest.mark.parametrize(
    "program",
    [
        """
        with MemoryStore.connect(DATABASE, embedder=HashEmbedder(32)) as store:
            print(len(LoreRetriever(memories=store.as_user("acme", "ana")).invoke("gateway")))
        """,
        """
        store = MemoryStore.connect(DATABASE, embedder=HashEmbedder(32))
        print(len(LoreRetriever(memories=store.as_user("acme", "ana")).invoke("gateway")))
        """,
        """
        embeddings = as_langchain_embeddings(HashEmbedder(32))
        made = LoreVectorStore.from_texts([], embeddings, connection=DATABASE, org="acme", user="ana")
        print(len(made.similarity_search("gateway", k=10)))
        """,
        """
        async def main():
            async with AsyncMemoryStore.connect(DATABASE, embedder=HashEmbedder(32)) as store:
                retriever = LoreRetriever(memories=store.as_user("acme", "ana"))
                retriever.invoke("gateway")
                print(len(await retriever.ainvoke("gateway")))
        asyncio.run(main())
        """,
    ],
    ids=["closed", "never closed", "from_texts, never closed", "asynchronous"],
)
def test_a_program_ends_without_a_word_of_complaint(ana: Memories, app_database: str, program: str) -> None:
    ana.remember_many(GATEWAYS)
    head = f"""
        import asyncio
        from lore_retriever import AsyncMemoryStore, MemoryStore
        from lore_retriever.langchain import LoreRetriever, LoreVectorStore, as_langchain_embeddings
        from lore_retriever.testing import HashEmbedder
        DATABASE = {app_database!r}
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(head) + textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "10\n", "")


async def test_a_view_of_a_store_on_its_own_loop_opens_no_second_pool(
    app_database: str, database: str, embedder: HashEmbedder
) -> None:
    async with AsyncMemoryStore.connect(app_database, embedder=embedder, max_size=2) as store:
        documents = LoreVectorStore(memories=store.as_user("acme", "ana"))
        await documents.aadd_texts(["native"])
        await documents.asimilarity_search("native")
        await documents.aget_by_ids(["x"])
        await documents.amax_marginal_relevance_search("native")
        await documents.asimilarity_search_with_relevance_scores("native")
        await documents.adelete(["x"])
        await documents.as_retriever().ainvoke("native")
        assert store._twin is None
        assert len(connections(database)) <= 2
