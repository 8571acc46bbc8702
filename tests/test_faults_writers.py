"""Several writers of one memory at once: what stands in the end fits together, whoever came last."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from lore_retriever import MemoryStore, NewMemory, NotFound
from lore_retriever.embeddings import Vector
from lore_retriever.operations.writing import update
from lore_retriever.testing import HashEmbedder

X = "the walrus census of the northern shore"
Y = "zebra crossings of the southern town"


class Interrupting(HashEmbedder):
    """Does something else the first time that it is asked for vectors."""

    def __init__(self, what: Callable[[], object]) -> None:
        super().__init__(32)
        self._what: list[Callable[[], object]] = [what]

    def embed_texts(self, texts: Sequence[str], /) -> list[Vector]:
        if self._what:
            self._what.pop()()
        return super().embed_texts(texts)


def vectors_fit(connection: psycopg.Connection[Any], memory_id: str) -> bool:
    """Whether the memory has windows to its end, and each has the vector of its text."""
    rows = connection.execute(
        "SELECT m.full_length, w.window_end, substr(m.content, w.window_start + 1, w.window_end - w.window_start), v.embedding::text"
        " FROM memories AS m LEFT JOIN windows AS w USING (org, key) LEFT JOIN vectors AS v USING (org, space, key, ordinal)"
        " WHERE m.id = %s ORDER BY w.ordinal",
        [memory_id],
    ).fetchall()
    if any(row[3] is None for row in rows) or rows[-1][1] != rows[-1][0]:
        return False
    made = HashEmbedder(32).embed_texts([row[2] for row in rows])
    stored = [[float(number) for number in row[3].strip("[]").split(",")] for row in rows]
    pairs = zip(made, stored, strict=True)
    return all(abs(a - b) < 0.002 for one, other in pairs for a, b in zip(one, other, strict=True))


def test_a_text_stored_again_while_another_writer_replaces_it_gets_its_vectors_back(
    store: MemoryStore, app_database: str, admin_connection: psycopg.Connection[Any]
) -> None:
    other = store.as_user("acme", "ana")
    other.remember(X, id="m")
    interrupting = Interrupting(lambda: other.update("m", content=Y))
    with MemoryStore.connect(app_database, embedder=interrupting) as late:
        late.as_user("acme", "ana").remember_many([NewMemory(content=X, id="m"), NewMemory(content="new", id="n")])
    assert other.get("m").content == X
    assert vectors_fit(admin_connection, "m")
    assert [entry.content for entry in other.history("m")] == [X, Y]


def test_a_writer_who_waits_for_another_sees_what_that_one_left(
    store: MemoryStore, database: str, admin_connection: psycopg.Connection[Any]
) -> None:
    ana = store.as_user("acme", "ana")
    ana.remember(X, id="m")
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with ThreadPoolExecutor(1) as threads, psycopg.connect(database) as first:
        first.execute("UPDATE lore.memories SET content = %s", [Y])
        first.execute("DELETE FROM lore.windows")  # as a writer does whose vectors are made later
        second = threads.submit(ana.remember, X, id="m")
        while admin_connection.execute(waiting).fetchone() == (0,):
            pass
        first.commit()
        second.result(20)
    assert ana.get("m").content == X
    assert vectors_fit(admin_connection, "m")
    assert [entry.content for entry in ana.history("m")] == [Y]


@pytest.mark.parametrize("seed", range(2))
def test_many_writers_of_three_memories_leave_each_with_its_own_windows_and_vectors(
    app_database: str, admin_connection: psycopg.Connection[Any], seed: int
) -> None:
    texts = (X, Y, "one more. " * 300)

    def work(number: int) -> None:
        drawn = random.Random(seed * 100 + number)
        for _ in range(25):
            memory_id = drawn.choice("abc")
            calls: list[Callable[[], object]] = [
                lambda m=memory_id: ana.remember(drawn.choice(texts), id=m),  # type: ignore[misc]
                lambda m=memory_id: ana.update(m, content=drawn.choice(texts)),  # type: ignore[misc]
                lambda: ana.remember_many(
                    [NewMemory(content=drawn.choice(texts), id=m) for m in drawn.sample("abc", 3)]
                ),
                lambda m=memory_id: ana.forget(m),  # type: ignore[misc]
                lambda m=memory_id: ana.invalidate(m),  # type: ignore[misc]
            ]
            try:
                drawn.choices(calls, weights=(6, 4, 4, 1, 1))[0]()
            except NotFound:
                continue

    with MemoryStore.connect(app_database, embedder=HashEmbedder(32), max_size=4) as store:
        ana = store.as_user("acme", "ana")
        with ThreadPoolExecutor(4) as threads:
            for running in [threads.submit(work, number) for number in range(4)]:
                running.result(60)
        ana.remember("the last write picks up what waits", id="last")
    ids = [row[0] for row in admin_connection.execute("SELECT id FROM memories").fetchall()]
    assert "last" in ids
    assert all(vectors_fit(admin_connection, memory_id) for memory_id in ids)
    assert admin_connection.execute("SELECT count(*) FROM pending").fetchone() == (0,)


def test_a_memory_that_appears_amid_an_update_without_a_version_was_not_there(store: MemoryStore) -> None:
    ana = store.as_user("acme", "ana")
    operation = update(store.space, "m", {"pinned": True}, version=None)
    body = next(operation).body()
    assert next(body).name == "update_memory"
    ana.remember("written meanwhile", id="m")
    with pytest.raises(NotFound):
        body.send([])


def test_a_memory_that_appears_and_is_forgotten_amid_its_writing_is_written_all_the_same(
    app_database: str, admin_connection: psycopg.Connection[Any]
) -> None:
    forgotten = threading.Timer(0.5, lambda: admin_connection.execute("COMMIT"))
    with MemoryStore.connect(app_database, embedder=HashEmbedder(32)) as other:

        def meanwhile() -> None:
            """Another one remembers a memory of that id, and is about to forget it."""
            other.as_user("acme", "ana").remember(Y, id="m")
            admin_connection.execute("BEGIN")
            admin_connection.execute("DELETE FROM memories WHERE id = 'm'")
            forgotten.start()

        with MemoryStore.connect(app_database, embedder=Interrupting(meanwhile)) as store:
            ana = store.as_user("acme", "ana")
            ana.remember_many([NewMemory(content=X, id="m")])
            forgotten.join()
            assert ana.get("m").content == X
            assert ana.history("m") == []
