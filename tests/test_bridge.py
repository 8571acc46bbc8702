"""Views of either store, called from synchronous code, from their own loop and from other loops."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lore_retriever import AsyncMemories, AsyncMemoryStore, InvalidInput, Memories, MemoryStore, StoreUnavailable
from lore_retriever.bridge import acall, aperform, blocking, call, checked_view, perform
from lore_retriever.operations import reading
from lore_retriever.testing import HashEmbedder


def look(view: Any) -> Any:
    return view.recall("gateway restarts")


def found(recall: Any) -> list[str]:
    return [hit.id for hit in recall.hits]


async def test_an_async_view_serves_sync_code_and_its_own_loop_alike(async_ana: AsyncMemories) -> None:
    await async_ana.remember("The gateway restarts at two.", id="g")
    assert found(await acall(async_ana, look)) == ["g"]
    assert found(call(async_ana, look)) == ["g"]  # inside a running loop, as in a notebook
    assert found(await asyncio.to_thread(call, async_ana, look)) == ["g"]


async def test_an_async_view_serves_another_loop(async_ana: AsyncMemories) -> None:
    await async_ana.remember("The gateway restarts at two.", id="g")

    def elsewhere() -> list[list[str]]:
        return [found(asyncio.run(acall(async_ana, look))) for _ in range(3)]

    assert await asyncio.to_thread(elsewhere) == [["g"]] * 3


def test_a_sync_view_serves_every_loop(ana: Memories) -> None:
    ana.remember("The gateway restarts at two.", id="g")
    assert [found(asyncio.run(acall(ana, look))) for _ in range(2)] == [["g"]] * 2


async def test_an_operation_runs_on_either_side(async_ana: AsyncMemories, ana: Memories) -> None:
    await async_ana.remember("text", id="m")
    for view in (ana, async_ana):
        assert (await aperform(view, lambda space: reading.get_memory("m"))).content == "text"
        assert perform(view, lambda space: reading.get_memory("m")).content == "text"


async def test_the_scope_of_a_caller_reaches_the_thread(async_store: AsyncMemoryStore, store: MemoryStore) -> None:
    from contextvars import ContextVar

    from lore_retriever import Scope

    caller: ContextVar[Scope] = ContextVar("caller")
    views = (store.as_caller(caller.get), async_store.as_caller(caller.get))
    for user in ("ana", "ben"):
        caller.set(Scope(org="acme", user=user))
        for view in views:
            await acall(view, lambda v, user=user: v.remember(f"note of {user}", id=user))
            assert found(await acall(view, lambda v: v.recall("note"))) == [user]


async def test_closing_an_async_store_closes_its_blocking_connections(app_database: str) -> None:
    async with AsyncMemoryStore.connect(app_database, embedder=HashEmbedder(32)) as store:
        view = store.as_user("acme", "ana")
        call(view, look)
        twin = blocking(view)
    with pytest.raises(StoreUnavailable):
        twin.recall("x")
    with pytest.raises(StoreUnavailable):
        call(view, look)


def test_a_store_that_was_never_opened_says_so(app_database: str) -> None:
    view = AsyncMemoryStore.connect(app_database, embedder=HashEmbedder(32)).as_user("acme", "ana")
    with pytest.raises(StoreUnavailable, match="not open"):
        call(view, look)


def test_a_store_in_place_of_a_view_is_refused(store: MemoryStore) -> None:
    with pytest.raises(InvalidInput, match="as_user"):
        checked_view(store)
