"""The vector leg: failing and odd embedders, pending work, other spaces, codes; and recall without any of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
import pytest

from lore_retriever import EmbeddingFailed, EmbeddingSpaceMismatch, MemoryStore, NewMemory, Recall
from lore_retriever.admin import StoreAdmin
from lore_retriever.embeddings import Vector
from lore_retriever.testing import HashEmbedder
from support import as_application, as_service, opened, scoped


def by_leg(recall: Recall, leg: str) -> list[str]:
    """Ids in the order of one leg."""
    ranked = {hit.legs[leg].rank: hit.id for hit in recall.hits if leg in hit.legs}  # type: ignore[index]
    return [ranked[rank] for rank in sorted(ranked)]


class FlakyEmbedder(HashEmbedder):
    """Fails while `broken`; counts what it embedded."""

    broken = False

    def embed_texts(self, texts: Sequence[str], /) -> list[Vector]:
        if self.broken:
            raise TimeoutError("the model is asleep")
        return super().embed_texts(texts)

    def embed_queries(self, texts: Sequence[str], /) -> list[Vector]:
        return self.embed_texts(texts)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_query_that_cannot_be_embedded_is_answered_by_the_lexical_legs(app_database: str, kind: str) -> None:
    embedder = FlakyEmbedder(32)
    with opened(kind, app_database, embedder=embedder) as store:
        ana = store.as_user("acme", "ana")
        ana.remember("walrus census", id="m")
        embedder.broken = True
        recall = ana.recall("walrus census")
        assert [(hit.id, set(hit.legs)) for hit in recall.hits] == [("m", {"exact", "relaxed"})]
        assert "asleep" in recall.degraded
        embedder.broken = False
        assert ana.recall("walrus census").degraded is None


def test_a_store_may_be_told_to_raise_instead(app_database: str) -> None:
    embedder = FlakyEmbedder(32)
    with MemoryStore.connect(app_database, embedder=embedder, on_embedding_error="raise") as store:
        ana = store.as_user("acme", "ana")
        ana.remember("walrus census", id="m")
        embedder.broken = True
        with pytest.raises(EmbeddingFailed, match=r"hash failed: TimeoutError: the model is asleep"):
            ana.recall("walrus")
        assert ana.recall("").degraded is None


class OddEmbedder(HashEmbedder):
    """Returns what no store can hold for texts that say so."""

    def embed_texts(self, texts: Sequence[str], /) -> list[Vector]:
        odd = {"zero": [0.0] * 32, "nan": [math.nan] * 32, "infinite": [math.inf] + [0.0] * 31, "short": [1.0] * 31}
        return [odd.get(text) or vector for text, vector in zip(texts, super().embed_texts(texts), strict=True)]

    def embed_queries(self, texts: Sequence[str], /) -> list[Vector]:
        return self.embed_texts(texts)


@pytest.mark.parametrize(
    ("text", "said"),
    [("zero", "is zero"), ("nan", "nan at place 0"), ("infinite", "inf at place 0"), ("short", "31 numbers")],
)
def test_a_vector_that_cannot_be_stored_is_refused_with_its_memory_s_id(
    app_database: str, database: str, text: str, said: str
) -> None:
    with MemoryStore.connect(app_database, embedder=OddEmbedder(32)) as store:
        ana = store.as_user("acme", "ana")
        ana.remember_many([NewMemory(content="walrus", id="good"), NewMemory(content=text, id="odd")])
        # Nothing is lost: both are found by their words, and the reason is recorded with what waits.
        assert by_leg(ana.recall(text), "exact") == ["odd"]
        recall = ana.recall(text)
        assert recall.degraded is not None
        assert said in recall.degraded
        with as_service(database) as connection:
            errors = {error for (error,) in connection.execute("SELECT error FROM pending").fetchall() if error}
            vectors = connection.execute(
                "SELECT count(*) FROM vectors WHERE vector_norm(embedding::vector) < 0.9"
            ).fetchone()
        assert any("'odd'" in error and said in error for error in errors)
        assert vectors == (0,)


def waiting(conninfo: str) -> int:
    return int(StoreAdmin.connect(conninfo).waiting()["memories"])


def test_what_could_not_be_embedded_waits_for_the_next_write(app_database: str, database: str) -> None:
    embedder = FlakyEmbedder(32)
    with MemoryStore.connect(app_database, embedder=embedder) as store:
        ana = store.as_user("acme", "ana")
        embedder.broken = True
        ana.remember_many([NewMemory(content=f"walrus {n}", id=f"m{n}") for n in range(3)])
        assert waiting(database) == 3
        assert by_leg(ana.recall("walrus"), "exact") == ["m2", "m1", "m0"]
        embedder.broken = False
        assert by_leg(ana.recall("walrus"), "vector") == []
        ana.remember("penguin", id="p")
        assert waiting(database) == 0
        assert set(by_leg(ana.recall("walrus"), "vector")) == {"m0", "m1", "m2", "p"}


def test_what_waits_is_embedded_by_the_keeper(app_database: str, database: str) -> None:
    embedder = FlakyEmbedder(32)
    keeper = StoreAdmin.connect(database)
    with MemoryStore.connect(app_database, embedder=embedder) as store:
        ana = store.as_user("acme", "ana")
        ana.remember_many([NewMemory(content=f"walrus {n}", id=f"m{n}") for n in range(40)], embed=False)
        assert waiting(database) == 40
        assert by_leg(ana.recall("walrus"), "vector") == []
        seen: list[int] = []
        assert keeper.embed(embedder) == 40
        assert keeper.embed(embedder, progress=lambda *counts: seen.append(counts[0])) == 0
        assert waiting(database) == 0
        assert len(by_leg(ana.recall("walrus", limit=50), "vector")) == 40


def test_a_failing_embedder_does_not_keep_a_write_from_being_stored(app_database: str, database: str) -> None:
    embedder = FlakyEmbedder(32)
    with MemoryStore.connect(app_database, embedder=embedder, on_embedding_error="raise") as store:
        ana = store.as_user("acme", "ana")
        embedder.broken = True
        ana.remember("walrus", id="m")
        ana.update("m", content="penguin")
        assert ana.get("m").content == "penguin"
        assert waiting(database) == 1
    assert StoreAdmin.connect(database).embed(HashEmbedder(32)) == 1


@pytest.mark.parametrize(
    "other", [HashEmbedder(64), HashEmbedder(32, model="another/model")], ids=["other dimensions", "other model"]
)
def test_another_embedder_s_space_is_refused_by_one_error_that_names_both(
    app_database: str, database: str, other: HashEmbedder
) -> None:
    own = HashEmbedder(32)
    with MemoryStore.connect(app_database, embedder=own) as store:
        store.as_user("acme", "ana").remember("walrus", id="m")

    def named(error: pytest.ExceptionInfo[BaseException]) -> bool:
        return str(own.space) in str(error.value) and str(other.space) in str(error.value)

    with MemoryStore.connect(app_database, embedder=other) as store:
        ana = store.as_user("acme", "ana")
        attempts: list[Callable[[], Any]] = [
            lambda: store.space,
            lambda: ana.recall("walrus"),
            lambda: ana.remember("penguin", id="p"),
            lambda: ana.update("m", content="penguin"),
        ]
        for attempt in attempts:
            with pytest.raises(EmbeddingSpaceMismatch) as caught:
                attempt()
            assert named(caught)
    for keeper_attempt in (
        lambda: StoreAdmin.connect(database).migrate(other),
        lambda: StoreAdmin.connect(database).embed(other),
    ):
        with pytest.raises(EmbeddingSpaceMismatch) as caught:
            keeper_attempt()
        assert named(caught)
    with MemoryStore.connect(app_database) as store:
        assert store.embedder.space == own.space
        assert [memory.content for memory in store.as_user("acme", "ana").list()] == ["walrus"]


def test_a_vector_of_another_length_is_refused_in_sql(database: str) -> None:
    with (
        scoped(database, "acme", "ana") as connection,
        pytest.raises(psycopg.errors.InvalidParameterValue, match=r"has 3 numbers.*has 32"),
    ):
        connection.execute("SELECT * FROM recall(ARRAY['x'], ARRAY['[1,2,3]']::halfvec[])")


class CentredEmbedder(HashEmbedder):
    """A space wide enough for codes, with a centre away from the origin as real models have one."""

    @property
    def centre(self) -> Vector:
        return [0.5] * 4 + [0.0] * (self.space.dimensions - 4)

    def embed_texts(self, texts: Sequence[str], /) -> list[Vector]:
        moved = [[a + b for a, b in zip(vector, self.centre, strict=True)] for vector in super().embed_texts(texts)]
        return [[number / math.hypot(*vector) for number in vector] for vector in moved]

    def embed_queries(self, texts: Sequence[str], /) -> list[Vector]:
        return self.embed_texts(texts)


def test_codes_propose_what_an_exact_scan_finds(empty_database: str) -> None:
    embedder = CentredEmbedder(256)
    StoreAdmin.connect(empty_database).migrate(embedder)
    words = [
        "walrus",
        "penguin",
        "gateway",
        "restart",
        "nightly",
        "census",
        "harbour",
        "tide",
        "deploy",
        "walnut",
        "fjord",
        "quartz",
    ]
    with MemoryStore.connect(as_application(empty_database), embedder=embedder) as store:
        ana, ben = store.as_user("acme", "ana"), store.as_user("acme", "ben")
        texts = [f"{words[n % 12]} {words[n * 5 % 11]} {words[n * 7 % 9]} number {n}" for n in range(240)]
        ana.remember_many([NewMemory(content=text, id=f"m{n}", kind="document") for n, text in enumerate(texts)])
        ana.remember("\n\n".join(f"{words[n % 12]} paragraph. " * 40 for n in range(20)), id="long", kind="document")
        ben.remember_many([NewMemory(content=text, kind="document") for text in texts[:40]])
        ana.invalidate("m7")
        StoreAdmin.connect(empty_database).maintain()

        def ranked(query: str) -> list[tuple[str, float]]:
            hits = [hit for hit in ana.recall(query, limit=60).hits if "vector" in hit.legs]
            return [
                (hit.id, hit.legs["vector"].value or 0) for hit in sorted(hits, key=lambda hit: hit.legs["vector"].rank)
            ]

        queries = ["walrus census", "nightly gateway restart", "quartz fjord", "tide of the harbour"]
        scanned = [ranked(query) for query in queries]
        with as_service(empty_database) as connection:
            assert connection.execute("SELECT count(*) > 250 FROM codes").fetchone() == (True,)
            connection.execute("INSERT INTO fusion_config (scan_numbers) VALUES (0)")
        assert [ranked(query) for query in queries] == scanned
        with as_service(empty_database) as connection:
            # Proof that codes were read: without them there is nothing to propose.
            connection.execute("DELETE FROM codes")
        assert [ranked(query) for query in queries] == [[]] * 4
