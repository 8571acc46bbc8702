"""A store on the built-in Postgres outlives the death of its server."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import psycopg

from lore_retriever import AsyncMemoryStore, MemoryStore
from lore_retriever.testing import HashEmbedder


def kill_server(folder: Path) -> None:
    """As kill -9 of the postmaster does; waits until its socket answers no more."""
    (pid_file,) = folder.rglob("postmaster.pid")
    pid = int(pid_file.read_text().splitlines()[0])
    os.kill(pid, signal.SIGKILL)
    time.sleep(0.5)


def test_an_open_store_goes_on_after_its_server_was_killed(tmp_path: Path) -> None:
    with MemoryStore.embedded(tmp_path / "data", embedder=HashEmbedder(32)) as store:
        ana = store.as_user("acme", "ana")
        ana.remember("the gateway restarts at two", id="kept")
        kill_server(tmp_path / "data")
        began = time.monotonic()
        assert ana.recall("gateway").hits[0].id == "kept"
        assert time.monotonic() - began < 20
        ana.remember("written afterwards", id="later")
        assert {memory.id for memory in ana.list()} == {"kept", "later"}


def test_an_open_asynchronous_store_does_so_too(tmp_path: Path) -> None:
    async def scenario() -> list[str]:
        async with AsyncMemoryStore.embedded(tmp_path / "data", embedder=HashEmbedder(32)) as store:
            ana = store.as_user("acme", "ana")
            await ana.remember("the gateway restarts at two", id="kept")
            await asyncio.to_thread(kill_server, tmp_path / "data")
            return [hit.id for hit in (await ana.recall("gateway")).hits]

    assert asyncio.run(scenario()) == ["kept"]


def test_reviving_a_server_that_runs_changes_nothing(tmp_path: Path) -> None:
    from lore_retriever import embedded

    with embedded.start(tmp_path / "data") as server:
        server.revive()
        with psycopg.connect(server.conninfo()) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
