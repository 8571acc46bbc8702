"""Connections that break amid a transaction: what was asked for happens once, or is one clear error."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from faulty_wire import FaultyWire, Where
from lore_retriever import AsyncMemoryStore, InvalidInput, MemoryStore, NewMemory, NotFound, StoreUnavailable
from lore_retriever.testing import HashEmbedder
from support import as_application, kept_database, opened


@pytest.fixture(scope="module")
def application(create_database: Callable[..., str], template: str) -> Iterator[str]:
    with kept_database(create_database, template) as conninfo:
        yield as_application(conninfo)


@pytest.fixture
def wire(application: str) -> Iterator[FaultyWire]:
    with FaultyWire(application) as opened_wire:
        yield opened_wire


@pytest.fixture(params=["sync", "async"])
def ana(request: pytest.FixtureRequest, wire: FaultyWire) -> Iterator[Any]:
    """A user of an organisation of its own, by way of the wire; the store is open already."""
    with opened(request.param, wire.conninfo, min_size=1, max_size=3) as store:
        user = store.as_user(request.node.name, "ana")
        assert user.list() == []
        yield user


@pytest.fixture
def direct(request: pytest.FixtureRequest, application: str) -> Iterator[Any]:
    """The same user past the wire."""
    with MemoryStore.connect(application, embedder=HashEmbedder(32)) as store:
        yield store.as_user(request.node.name, "ana")


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("memory_id", [None, "m"])
def test_a_memory_whose_commit_was_cut_off_is_there_once(
    ana: Any, wire: FaultyWire, where: Where, memory_id: str | None
) -> None:
    wire.cut(b"COMMIT", where, times=2)
    stored = ana.remember("the walrus census", id=memory_id, aliases=("tusks",))
    assert wire.cuts == 2
    assert [memory.id for memory in ana.list()] == [stored]
    assert [hit.id for hit in ana.recall("tusks").hits] == [stored]
    assert ana.history(stored) == []


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_batch_whose_commit_was_cut_off_is_there_whole(ana: Any, wire: FaultyWire, where: Where) -> None:
    wire.cut(b"COMMIT", where, times=2)
    ids = ana.remember_many([NewMemory(content=f"memory {n}") for n in range(20)])
    assert wire.cuts == 2
    assert sorted(memory.id for memory in ana.list()) == sorted(ids)


CHANGES: dict[str, tuple[Callable[[Any], object], list[str]]] = {
    "update": (lambda ana: ana.update("m", content="a new text"), ["updated"]),
    "update of a version": (lambda ana: ana.update("m", version=1, content="a new text", pinned=True), ["updated"]),
    "remember again": (lambda ana: ana.remember("a new text", id="m"), ["updated"]),
    "invalidate": (lambda ana: ana.invalidate("m"), ["invalidated"]),
    "invalidate with a successor": (lambda ana: ana.invalidate("m", superseded_by="n"), ["invalidated"]),
    "feedback": (lambda ana: ana.feedback("m", useful=True), []),
}


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_whose_commit_was_cut_off_happens_once(
    ana: Any, direct: Any, wire: FaultyWire, change: str, where: Where
) -> None:
    direct.remember("an old text", id="m")
    direct.remember("its successor", id="n")
    call, events = CHANGES[change]
    # The last transaction of each is the one that changes; `remember` reads first.
    for _ in range(2 if change == "remember again" else 1):
        wire.cut(b"COMMIT", where)
    call(ana)
    assert wire.cuts
    assert [entry.event for entry in direct.history("m")] == events
    assert direct.feedback("m", useful=True).useful == 1
    if "a new text" in [entry.content for entry in direct.list()]:
        assert direct.recall("new text", limit=1).hits[0].text == "a new text"


def test_a_restoration_whose_commit_was_cut_off_happens_once(ana: Any, direct: Any, wire: FaultyWire) -> None:
    direct.remember("an old text", id="m")
    direct.invalidate("m")
    wire.cut(b"COMMIT", "after")
    ana.restore("m")
    assert [entry.event for entry in direct.history("m")] == ["invalidated", "restored"]


def test_what_was_removed_by_a_commit_that_was_cut_off_is_reported_as_removed(
    ana: Any, direct: Any, wire: FaultyWire
) -> None:
    direct.remember_many([NewMemory(content=f"memory {n}", id=f"m{n}") for n in range(4)])
    direct.add_alias("k8s", "Kubernetes", "kube")
    wire.cut(b"COMMIT", "after")
    ana.forget("m0")
    wire.cut(b"COMMIT", "after")
    assert ana.forget_many(["m1", "m2", "unknown"]) == ["m1", "m2"]
    wire.cut(b"COMMIT", "after")
    ana.remove_alias("kube")
    assert wire.cuts == 3
    assert [memory.id for memory in ana.list()] == ["m3"]
    assert ana.aliases() == [("k8s", "Kubernetes")]
    with pytest.raises(NotFound):
        ana.forget("m0")


def test_a_version_that_another_writer_took_amid_the_cut_is_not_overwritten(
    ana: Any, direct: Any, wire: FaultyWire
) -> None:
    direct.remember("an old text", id="m")
    wire.cut(b"COMMIT", "before", then=lambda: (time.sleep(0.3), direct.update("m", version=1, content="another's")))
    with pytest.raises(InvalidInput, match="at version 2, not 1"):
        ana.update("m", version=1, content="mine")
    assert direct.get("m").content == "another's"


@pytest.mark.parametrize("where", ["before", "after", "amid"])
@pytest.mark.parametrize("words", [b"recall(", b"set_config", b"COMMIT"])
def test_a_search_that_is_cut_off_is_answered_by_another_connection(
    ana: Any, direct: Any, wire: FaultyWire, words: bytes, where: Where
) -> None:
    direct.remember("the walrus census", id="m")
    wire.cut(words, where)
    assert [hit.id for hit in ana.recall("walrus").hits] == ["m"]
    assert wire.cuts == 1


def test_a_wire_that_breaks_at_every_try_is_one_clear_error_and_leaves_the_pool_whole(
    ana: Any, direct: Any, wire: FaultyWire
) -> None:
    direct.remember("the walrus census", id="m")
    wire.cut(b"COMMIT", "after", times=3)
    with pytest.raises(StoreUnavailable, match="did not answer"):
        ana.invalidate("m")
    assert wire.cuts == 3
    assert ana.get("m").invalidated_at is not None
    ana.restore("m")
    assert [hit.id for hit in ana.recall("walrus").hits] == ["m"]


def test_a_server_that_only_reads_says_where_writes_go(application: str) -> None:
    reading = {"options": "-c default_transaction_read_only=on"}
    with MemoryStore.connect(application, embedder=HashEmbedder(32), connect_options=reading) as store:
        ana = store.as_user("acme", "ana")
        assert ana.recall("walrus").hits == ()
        assert ana.list() == []
        for write in (lambda: ana.remember("x"), lambda: ana.forget_many(["x"]), lambda: ana.add_alias("a", "b")):
            with pytest.raises(StoreUnavailable, match="target_session_attrs=read-write"):
                write()


async def test_a_server_that_hangs_holds_no_task_beyond_its_time_out(application: str, wire: FaultyWire) -> None:
    goes_on = threading.Event()
    async with AsyncMemoryStore.connect(wire.conninfo, embedder=HashEmbedder(32), max_size=2) as store:
        ana = store.as_user("hanging", "ana")
        await ana.remember("the walrus census", id="m")
        wire.cut(b"recall(", "after", then=lambda: goes_on.wait(60))
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await ana.recall("walrus")
        assert time.monotonic() - began < 20
        assert (await ana.recall("walrus")).hits[0].id == "m"
        goes_on.set()
