"""Deadlocks, serialisation failures and embedders that misbehave: tried again, or told as what they are."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lore_retriever import AsyncMemoryStore, EmbeddingFailed, MemoryStore, NewMemory, Scope, StoreUnavailable
from lore_retriever.embeddings import Vector
from lore_retriever.steps import Transact
from lore_retriever.testing import HashEmbedder
from support import Sql, as_application, kept_database, opened

BOTH = pytest.mark.parametrize("kind", ["sync", "async"])
SCOPE = Scope(org="acme", user="ana")


@pytest.fixture(scope="module")
def application(create_database: Callable[..., str], template: str) -> Iterator[str]:
    with kept_database(create_database, template) as conninfo:
        yield as_application(conninfo)


def raising(state: str) -> Sql:
    return Sql("test", {}, f"DO $$ BEGIN RAISE 'on purpose' USING ERRCODE = '{state}'; END $$")


@BOTH
@pytest.mark.parametrize("state", ["deadlock_detected", "serialization_failure"])
@pytest.mark.parametrize("failures", [1, 5, 6])
def test_a_transaction_that_lost_against_others_is_tried_six_times(
    application: str, kind: str, state: str, failures: int
) -> None:
    tries: list[int] = []

    def body() -> Any:
        tries.append(1)
        if len(tries) <= failures:
            yield raising(state)
        return (yield Sql("test", {}, "SELECT 1 AS one"))

    def operation() -> Any:
        return (yield Transact(body))

    with opened(kind, application) as store:
        if failures < 6:
            assert store.perform(operation(), SCOPE) == [{"one": 1}]
        else:
            with pytest.raises(StoreUnavailable, match="on purpose"):
                store.perform(operation(), SCOPE)
    assert len(tries) == min(failures + 1, 6)


@pytest.mark.parametrize("state", ["disk_full", "out_of_memory", "statement_too_complex", "lock_not_available"])
def test_what_would_fail_again_is_not_tried_again(application: str, state: str) -> None:
    tries: list[int] = []

    def body() -> Any:
        tries.append(1)
        yield raising(state)

    def operation() -> Any:
        return (yield Transact(body))

    with (
        MemoryStore.connect(application, embedder=HashEmbedder(32)) as store,
        pytest.raises(Exception, match="purpose"),
    ):
        store.perform(operation(), SCOPE)
    assert len(tries) == 1


def test_two_transactions_that_lock_each_other_out_both_arrive(application: str) -> None:
    both_hold_one = threading.Barrier(2)
    update = "UPDATE memories SET pinned = NOT pinned WHERE org = scope_org() AND id = %(id)s"

    def operation(first: str, second: str) -> Any:
        tries: list[int] = []

        def body() -> Any:
            tries.append(1)
            yield Sql("test", {"id": first}, update)
            if len(tries) == 1:
                both_hold_one.wait(20)
            yield Sql("test", {"id": second}, update)
            return len(tries)

        return (yield Transact(body))

    with MemoryStore.connect(application, embedder=HashEmbedder(32)) as store, ThreadPoolExecutor(2) as threads:
        store.as_user("acme", "ana").remember_many([NewMemory(content=f"memory {i}", id=i) for i in "ab"])
        running = [threads.submit(store.perform, operation(*pair), SCOPE) for pair in ("ab", "ba")]
        assert sorted(one.result(30) for one in running) == [1, 2]
        assert [store.as_user("acme", "ana").get(i).pinned for i in "ab"] == [False, False]


class Misbehaving(HashEmbedder):
    """Makes something of the vectors that it should return."""

    def __init__(self, make: Callable[[list[Vector]], Any]) -> None:
        super().__init__(32)
        self._make = make

    def embed_queries(self, texts: Sequence[str], /) -> list[Vector]:
        made: list[Vector] = self._make(super().embed_queries(texts))
        return made

    def embed_texts(self, texts: Sequence[str], /) -> list[Vector]:
        made: list[Vector] = self._make(super().embed_texts(texts))
        return made


def _raise(_: list[Vector]) -> Any:
    raise MemoryError("the model is too large")


WRONG: dict[str, Callable[[list[Vector]], Any]] = {
    "raises": _raise,
    "none at all": lambda _: None,
    "one too few": lambda made: made[:-1],
    "one too many": lambda made: [*made, made[0]],
    "too short": lambda made: [vector[:-1] for vector in made],
    "too long": lambda made: [[*vector, 0.0] for vector in made],
    "zero": lambda made: [[0.0] * 32 for _ in made],
    "not a number": lambda made: [[math.nan] * 32 for _ in made],
    "infinite": lambda made: [[math.inf] * 32 for _ in made],
    "words": lambda made: [["a"] * 32 for _ in made],
    "a flat list": lambda made: made[0],
}


@BOTH
@pytest.mark.parametrize("wrong", WRONG)
def test_an_embedder_that_misbehaves_costs_the_vectors_and_nothing_else(
    application: str, kind: str, wrong: str
) -> None:
    org = f"{wrong} {kind}"
    with opened(kind, application, embedder=Misbehaving(WRONG[wrong])) as store:
        ana = store.as_user(org, "ana")
        ana.remember("the walrus census", id="m")
        found = ana.recall("walrus")
        assert [hit.id for hit in found.hits] == ["m"]
        assert "vector" not in found.hits[0].legs
        assert found.degraded
        assert "could not be embedded" in found.degraded
    strict = opened(kind, application, embedder=Misbehaving(WRONG[wrong]), on_embedding_error="raise")
    with strict as store, pytest.raises(EmbeddingFailed):
        store.as_user(org, "ana").recall("walrus")


def _slowly(made: list[Vector]) -> list[Vector]:
    time.sleep(2)
    return made


ONE: dict[str, Any] = {"min_size": 1, "max_size": 1, "timeout_s": 1.5}


def test_a_slow_embedder_holds_no_connection(application: str) -> None:
    with (
        MemoryStore.connect(application, embedder=Misbehaving(_slowly), **ONE) as store,
        ThreadPoolExecutor(3) as threads,
    ):
        ana = store.as_user("slow", "ana")
        ana.list()
        asked = [threads.submit(ana.recall, "walrus") for _ in range(3)]
        time.sleep(0.1)
        assert ana.list() == []
        assert not any(one.done() for one in asked)
        assert all(one.result(10).degraded is None for one in asked)


async def test_a_slow_embedder_holds_neither_a_connection_nor_the_loop(application: str) -> None:
    async with AsyncMemoryStore.connect(application, embedder=Misbehaving(_slowly), **ONE) as store:
        ana = store.as_user("slow", "ana")
        await ana.list()
        asked = [asyncio.create_task(ana.recall("walrus")) for _ in range(3)]
        await asyncio.sleep(0.1)
        assert await ana.list() == []
        assert not any(one.done() for one in asked)
        assert all(recall.degraded is None for recall in await asyncio.gather(*asked))
