"""Processes killed at random while they write and embed: nothing is lost, nothing half done, nothing done twice."""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psycopg

from lore_retriever import MemoryStore, NewMemory
from lore_retriever.admin import StoreAdmin
from lore_retriever.embeddings import Vector
from lore_retriever.testing import HashEmbedder

KILLS = 20
BATCHES = 100
BATCH = 6

# Children are forked from a small server that has imported the package once: they start in milliseconds.
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["__main__", "lore_retriever.store", "lore_retriever.testing"])


class Counting(HashEmbedder):
    """Keeps the texts it embeds; takes a little time for each, so that a kill can fall in between."""

    def __init__(self, *, pause_s: float = 0) -> None:
        super().__init__(32, max_tokens=60)
        self.pause_s = pause_s
        self.texts: list[str] = []

    def embed_texts(self, texts: Sequence[str], /) -> list[Vector]:
        time.sleep(self.pause_s * len(texts))
        self.texts += texts
        return super().embed_texts(texts)


def batch_of(number: int) -> list[NewMemory]:
    """Memories of one write, short and long; every third has its vectors made later."""
    return [
        NewMemory(content=f"memory {number}-{n} " + "and so on. " * (150 * (n == 2)), id=f"{number}-{n}")
        for n in range(BATCH)
    ]


def write(conninfo: str, log: str, begun: Connection) -> None:
    """Write every batch that no write was acknowledged for, and acknowledge it."""
    known = set(Path(log).read_text(encoding="utf-8").split())
    with MemoryStore.connect(conninfo, embedder=Counting(pause_s=0.0005), max_size=1) as store:
        ana = store.as_user("acme", "ana")
        begun.send("begun")
        for number in range(BATCHES):
            if str(number) in known:
                continue
            ana.remember_many(batch_of(number), embed=number % 3 > 0)
            line = os.open(log, os.O_WRONLY | os.O_APPEND)
            os.write(line, f"{number}\n".encode())
            os.close(line)


def embed(conninfo: str, begun: Connection) -> None:
    """Embed what waits."""
    begun.send("begun")
    StoreAdmin.connect(conninfo).embed(Counting(pause_s=0.0005))


def killed_at_random(target: Callable[..., None], args: Sequence[Any], drawn: random.Random) -> bool:
    """Start a process, kill it some time after it has begun; whether it was still at work."""
    begun, told = processes.Pipe(duplex=False)
    process: BaseProcess = processes.Process(target=target, args=[*args, told])
    process.start()
    told.close()
    try:
        assert begun.poll(60)
        assert begun.recv() == "begun"  # EOFError: it died before
        time.sleep(drawn.uniform(0, 0.12))
        return process.is_alive()
    finally:
        begun.close()
        process.kill()
        process.join(30)
        process.close()


def inspected(connection: psycopg.Connection[Any]) -> dict[str, int]:
    """Windows that neither have a vector nor wait for one, vectors and codes without a memory, and what there is."""
    row = connection.execute(
        """
        SELECT (SELECT count(*) FROM memories), (SELECT count(*) FROM windows), (SELECT count(*) FROM vectors),
               (SELECT count(*) FROM windows AS w
                WHERE NOT EXISTS (SELECT FROM vectors AS v WHERE (v.org, v.space, v.key, v.ordinal) = (w.org, w.space, w.key, w.ordinal))
                  AND NOT EXISTS (SELECT FROM pending AS p WHERE (p.org, p.space, p.key) = (w.org, w.space, w.key))),
               (SELECT count(*) FROM vectors AS v WHERE NOT EXISTS (SELECT FROM memories AS m WHERE (m.org, m.key) = (v.org, v.key))),
               (SELECT count(*) FROM memories AS m WHERE NOT EXISTS (SELECT FROM windows AS w WHERE (w.org, w.key) = (m.org, m.key)))
        """
    ).fetchone()
    assert row is not None
    names = ("memories", "windows", "vectors", "orphan_windows", "orphan_vectors", "unsplit_memories")
    return dict(zip(names, row, strict=True))


def test_twenty_kills_while_writing_and_embedding_lose_nothing_and_the_rerun_does_only_what_was_missing(
    app_database: str, database: str, admin_connection: psycopg.Connection[Any], tmp_path: Path
) -> None:
    drawn = random.Random(20)
    log = tmp_path / "acknowledged"
    log.touch()
    at_work = 0
    for kill in range(KILLS):
        if kill % 2:
            at_work += killed_at_random(embed, [database], drawn)
        else:
            at_work += killed_at_random(write, [app_database, str(log)], drawn)
        found = inspected(admin_connection)
        assert (found["orphan_windows"], found["orphan_vectors"], found["unsplit_memories"]) == (0, 0, 0)
        sizes = admin_connection.execute("SELECT split_part(id, '-', 1), count(*) FROM memories GROUP BY 1").fetchall()
        assert all(size == BATCH for _, size in sizes)
        assert set(log.read_text(encoding="utf-8").split()) <= {number for number, _ in sizes}
    assert at_work >= KILLS // 2

    before = inspected(admin_connection)
    again = Counting()
    with MemoryStore.connect(app_database, embedder=again) as store:
        for number in range(BATCHES):
            store.as_user("acme", "ana").remember_many(batch_of(number))
    StoreAdmin.connect(database).embed(again)
    after = inspected(admin_connection)
    assert (after["memories"], after["windows"]) == (BATCHES * BATCH, after["vectors"])
    assert len(again.texts) == after["vectors"] - before["vectors"]
    assert admin_connection.execute("SELECT count(*) FROM pending").fetchone() == (0,)
    assert 0 < before["memories"] < after["memories"]
