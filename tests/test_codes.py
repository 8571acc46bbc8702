"""Generations of codes: a centre measured from real vectors, a new one built beside the old, searched throughout."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest

from lore_retriever import Memories, MemoryStore, NewMemory
from lore_retriever.admin import StoreAdmin
from lore_retriever.codes import recode
from lore_retriever.embeddings import Vector
from lore_retriever.queries import query
from lore_retriever.testing import HashEmbedder
from support import as_application

MEMORIES, WINDOWS_EACH = 110, 10


class Skewed(HashEmbedder):
    """Vectors in a narrow cone, as those of e5 models: signs of the raw vectors are all alike."""

    def embed_texts(self, texts: Sequence[str], /) -> list[Vector]:
        return [self._skewed(vector) for vector in super().embed_texts(texts)]

    def embed_queries(self, texts: Sequence[str], /) -> list[Vector]:
        return self.embed_texts(texts)

    def _skewed(self, vector: Vector) -> Vector:
        moved = [number + 0.2 for number in vector]
        norm = math.hypot(*moved)
        return [number / norm for number in moved]


EMBEDDER = Skewed(256, model="unknown-model", max_tokens=14)


def text_of(n: int) -> str:
    return " ".join(f"Alpha{n} beta{n * s} gamma{n + s} of {n} and {s} omega." for s in range(WINDOWS_EACH))


@pytest.fixture(scope="module")
def filled(create_database: Any) -> Iterator[str]:
    """Name of a database of 1,100 windows whose model ships no centre, forced to search by codes where there are any."""
    conninfo = create_database()
    StoreAdmin.connect(conninfo).migrate(EMBEDDER)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("INSERT INTO lore.fusion_config (scan_numbers, code_candidates) VALUES (0, 40)")
    with MemoryStore.connect(as_application(conninfo), embedder=EMBEDDER) as store:
        memories = [NewMemory(content=text_of(n), id=f"m{n}", visibility="shared") for n in range(MEMORIES)]
        store.as_user("acme", "ana").remember_many(memories)
    name = str(psycopg.conninfo.conninfo_to_dict(conninfo)["dbname"])
    yield name
    with psycopg.connect(conninfo, dbname="postgres", autocommit=True) as connection:
        connection.execute(psycopg.sql.SQL("DROP DATABASE {} WITH (FORCE)").format(psycopg.sql.Identifier(name)))


@pytest.fixture(scope="module")
def template(filled: str) -> str:
    """In place of the empty store that other tests clone."""
    return filled


@pytest.fixture
def admin(database: str) -> StoreAdmin:
    return StoreAdmin.connect(database)


@pytest.fixture
def ana(app_database: str) -> Iterator[Memories]:
    with MemoryStore.connect(app_database, embedder=EMBEDDER, max_size=4) as store:
        yield store.as_user("acme", "ana")


def sentence(n: int, s: int) -> str:
    return f"Alpha{n} beta{n * s} gamma{n + s} of {n} and {s} omega."


def found_by_vector(ana: Memories, n: int, s: int) -> bool:
    best = next(
        hit for hit in ana.recall(sentence(n, s)).hits if hit.legs.get("vector") and hit.legs["vector"].rank == 1
    )
    return best.id == f"m{n}" and (best.legs["vector"].value or 0) > 0.99


def state_of_codes(connection: psycopg.Connection[Any]) -> dict[str, Any]:
    """Generations in use and recorded, codes, and how many of them are missing or say something else than their vector."""
    row = connection.execute(
        """
        SELECT (SELECT array_agg(centre) FROM embedding_space), (SELECT array_agg(centre ORDER BY 1) FROM centres),
               (SELECT count(*) FROM codes), count(*) FILTER (WHERE c.key IS NULL),
               count(*) FILTER (WHERE (c.owner, c.shared, c.live, c.created_at) <> (v.owner, v.shared, v.live, v.created_at))
        FROM vectors AS v LEFT JOIN codes AS c USING (org, space, key, ordinal)
        """
    ).fetchone()
    assert row is not None
    return dict(zip(("used", "known", "codes", "missing", "stale"), row, strict=True))


def test_maintain_measures_the_centre_of_a_model_that_ships_none_and_searches_go_by_codes(
    ana: Memories, admin: StoreAdmin, admin_connection: psycopg.Connection[Any]
) -> None:
    assert state_of_codes(admin_connection)["used"] == [None]
    vectors = admin.spaces()[0].vectors
    assert admin.maintain()["codes"] == vectors >= 1000
    assert state_of_codes(admin_connection) == {
        "used": [1], "known": [1], "codes": vectors, "missing": 0, "stale": 0
    }  # fmt: skip
    far = admin_connection.execute(
        "SELECT c.embedding <-> (SELECT avg(v.embedding) FROM vectors AS v) FROM centres AS c"
    ).fetchone()
    assert far is not None and far[0] < 0.01
    assert all(found_by_vector(ana, n, n % 10) for n in range(0, MEMORIES, 7))
    ana.remember("a single new memory", id="new")
    assert state_of_codes(admin_connection)["codes"] == vectors + 1
    assert admin.maintain()["codes"] == 0


def test_without_a_centre_or_with_few_dimensions_every_vector_is_scanned(
    ana: Memories, admin: StoreAdmin, admin_connection: psycopg.Connection[Any]
) -> None:
    assert found_by_vector(ana, 5, 5)
    narrow = HashEmbedder(255, max_tokens=14)
    assert admin.build_space(narrow).has_codes is False
    assert admin_connection.execute("SELECT count(*) FROM codes").fetchone() == (0,)


def test_a_space_of_many_dimensions_that_is_built_beside_gets_its_codes_before_the_switch(admin: StoreAdmin) -> None:
    assert admin.build_space(HashEmbedder(257, max_tokens=14)).has_codes is True


def test_a_new_generation_is_built_while_memories_change_and_searches_stay_right(
    ana: Memories, admin: StoreAdmin, admin_connection: psycopg.Connection[Any]
) -> None:
    admin.maintain()
    stopped = threading.Event()
    wrong: list[object] = []
    turns = 0

    def change_and_search() -> None:
        nonlocal turns
        while not stopped.is_set():
            n = turns * 37 % MEMORIES
            try:
                ana.update(f"m{n}", visibility=("private", "shared")[turns % 2])
                ana.invalidate(f"m{(n + 1) % MEMORIES}")
                if any(hit.id == f"m{(n + 1) % MEMORIES}" for hit in ana.recall(sentence((n + 1) % MEMORIES, 3)).hits):
                    wrong.append(f"m{(n + 1) % MEMORIES} is found though it was invalidated")
                ana.restore(f"m{(n + 1) % MEMORIES}")
                if not found_by_vector(ana, n, turns % 10):
                    wrong.append(f"m{n} is not found")
            except Exception as error:
                wrong.append(error)
            turns += 1

    changing = threading.Thread(target=change_and_search)
    changing.start()
    for _ in range(3):
        assert admin.maintain(new_centre=True)["codes"] > 0
    stopped.set()
    changing.join(30)
    assert wrong == []
    assert turns > 3
    vectors = admin.spaces()[0].vectors
    assert state_of_codes(admin_connection) == {
        "used": [4], "known": [4], "codes": vectors, "missing": 0, "stale": 0
    }  # fmt: skip


def test_an_interrupted_generation_is_finished_by_the_next_run_and_searches_never_read_it_before(
    ana: Memories, admin: StoreAdmin, admin_connection: psycopg.Connection[Any]
) -> None:
    admin.maintain()

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        admin.maintain(new_centre=True, progress=stop)
    half = admin_connection.execute("SELECT count(*) FROM codes WHERE centre = 2").fetchone()
    vectors = admin.spaces()[0].vectors
    assert half is not None and 0 < half[0] < vectors
    assert admin_connection.execute("SELECT centre FROM embedding_space").fetchone() == (1,)
    assert found_by_vector(ana, 40, 4)
    assert admin.maintain()["codes"] == vectors - half[0]
    assert state_of_codes(admin_connection)["known"] == [2]
    assert found_by_vector(ana, 40, 4)


def test_of_two_runs_at_once_one_generation_is_left_and_searched(
    ana: Memories, admin: StoreAdmin, admin_connection: psycopg.Connection[Any]
) -> None:
    admin.maintain()
    with admin.service() as cursor:
        row = cursor.execute(query("spaces")).fetchone()
    assert row is not None
    runs = [threading.Thread(target=recode, args=[admin.service, row], kwargs={"anew": True}) for _ in range(2)]
    for run in runs:
        run.start()
    for run in runs:
        run.join(60)
    after = state_of_codes(admin_connection)
    assert (after["used"], after["missing"], after["stale"]) == (after["known"], 0, 0)
    assert len(after["known"]) == 1
    assert found_by_vector(ana, 40, 4)


def test_a_writer_that_began_before_a_new_generation_is_waited_for(
    admin: StoreAdmin, app_database: str, admin_connection: psycopg.Connection[Any]
) -> None:
    admin.maintain()
    with admin.service() as cursor:
        row = cursor.execute(query("spaces")).fetchone()
    assert row is not None
    with psycopg.connect(app_database) as writer:
        writer.execute("SELECT set_config('search_path', 'lore, public', true), set_config('role', 'lore_user', true)")
        writer.execute("SELECT set_config('lore.org_id', 'acme', true), set_config('lore.user_id', 'ana', true)")
        writer.execute(
            "INSERT INTO windows (org, space, key, ordinal, window_start, window_end)"
            " SELECT org, 1, key, 99, 0, 1 FROM memories WHERE id = 'm0'"
        )
        writer.execute(
            "INSERT INTO vectors (org, space, key, ordinal, owner, shared, live, created_at, embedding)"
            " SELECT org, space, key, 99, owner, shared, live, created_at, embedding FROM vectors"
            " WHERE ordinal = 0 AND key = (SELECT key FROM memories WHERE id = 'm0')"
        )
        recoding = threading.Thread(target=recode, args=[admin.service, row], kwargs={"anew": True})
        recoding.start()
        recoding.join(0.3)
        assert recoding.is_alive()
        writer.commit()
    recoding.join(30)
    found = admin_connection.execute("SELECT centre FROM codes WHERE ordinal = 99").fetchall()
    assert found == [(2,)]


def test_fewer_than_a_thousand_vectors_make_no_centre(
    ana: Memories, admin: StoreAdmin, admin_connection: psycopg.Connection[Any]
) -> None:
    ana.forget_many(f"m{n}" for n in range(20, MEMORIES))
    assert admin.maintain()["codes"] == 0
    assert state_of_codes(admin_connection)["used"] == [None]
    assert found_by_vector(ana, 5, 5)
