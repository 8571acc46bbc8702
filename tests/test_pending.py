"""Memories that wait for vectors: nothing is lost, nothing is done twice, one bad text holds up no other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg
import pytest

from lore_retriever import EmbeddingFailed, EmbeddingSpaceMismatch, InvalidInput, NewMemory
from lore_retriever.admin import StoreAdmin
from lore_retriever.draining import embedded
from lore_retriever.embeddings import Vector
from lore_retriever.operations import embedding
from lore_retriever.operations.embedding import EmbedderDown, embed_apart
from lore_retriever.testing import HashEmbedder
from support import Face, opened


class Moody(HashEmbedder):
    """Fails as told: altogether while `is_down`, and for every batch that holds a text with `bad` in it."""

    def __init__(self, dimensions: int = 32, *, bad: str = "POISON", pause_s: float = 0) -> None:
        super().__init__(dimensions)
        self.is_down = False
        self.bad = bad
        self.pause_s = pause_s
        self.batches: list[list[str]] = []
        self._lock = threading.Lock()

    @property
    def embedded_texts(self) -> list[str]:
        return [text for batch in self.batches for text in batch]

    def embed_texts(self, texts: Sequence[str], /) -> list[Vector]:
        if self.is_down:
            raise ConnectionError("no route to the model")
        vectors = super().embed_texts(texts)
        if any(self.bad in text for text in texts):
            # Models fail in many ways; a vector too few is one.
            return vectors[1:] if len(texts) > 1 else [[float("nan")] * 32]
        time.sleep(self.pause_s)
        with self._lock:
            self.batches.append([*texts])
        return vectors


@pytest.fixture
def admin(database: str) -> StoreAdmin:
    return StoreAdmin.connect(database)


@pytest.fixture
def moody() -> Moody:
    return Moody()


@pytest.fixture(params=["sync", "async"])
def ana(request: pytest.FixtureRequest, app_database: str, moody: Moody) -> Iterator[Face]:
    with opened(request.param, app_database, embedder=moody) as store:
        yield store.as_user("acme", "ana")


@pytest.fixture
def queue(admin_connection: psycopg.Connection[Any]) -> Callable[[], dict[str, tuple[int, str | None]]]:
    """What waits in the active space: attempts and error by id."""

    def read() -> dict[str, tuple[int, str | None]]:
        rows = admin_connection.execute(
            "SELECT m.id, p.attempts, p.error FROM pending p JOIN memories m USING (org, key)"
        )
        return {row[0]: (row[1], row[2]) for row in rows}

    return read


def legs(ana: Face, text: str) -> set[str]:
    return set(ana.recall(text).hits[0].legs)


def due(connection: psycopg.Connection[Any]) -> None:
    """Let the time pass that postponed memories wait."""
    connection.execute("UPDATE pending SET next_at = now()")


def not_due(connection: psycopg.Connection[Any]) -> None:
    """Make what was postponed wait, however slow the machine is."""
    connection.execute("UPDATE pending SET next_at = now() + interval '1 hour' WHERE attempts > 0")


def test_what_was_postponed_is_left_alone_until_it_is_due(
    ana: Face, admin: StoreAdmin, moody: Moody, queue: Any, admin_connection: psycopg.Connection[Any]
) -> None:
    moody.is_down = True
    ana.remember_many([NewMemory(content="walrus note", id="m")], embed=False)
    admin.embed(moody)
    moody.is_down = False
    not_due(admin_connection)
    ana.remember("another note")
    assert (admin.embed(moody), set(queue())) == (0, {"m"})
    due(admin_connection)
    assert (admin.embed(moody), queue()) == (1, {})


def test_a_write_while_the_embedder_is_down_is_kept_found_by_its_words_and_embedded_at_the_next_write(
    ana: Face, moody: Moody, queue: Any
) -> None:
    moody.is_down = True
    ana.remember_many([NewMemory(content=f"walrus note {n}", id=f"m{n}") for n in range(3)])
    assert legs(ana, "walrus note 2") == {"exact", "relaxed"}
    assert set(queue()) == {"m0", "m1", "m2"}
    assert all("no route to the model" in (error or "") for _, error in queue().values())
    moody.is_down = False
    ana.remember("another note")
    assert queue() == {}
    assert "vector" in legs(ana, "walrus note 2")


def test_one_bad_text_of_a_batch_waits_alone_and_its_error_names_it(ana: Face, moody: Moody, queue: Any) -> None:
    texts = [f"note {n}" for n in range(16)]
    texts[5] = "POISON"
    ana.remember_many([NewMemory(content=text, id=f"m{n}") for n, text in enumerate(texts)])
    assert {name: attempts for name, (attempts, _) in queue().items()} == {"m5": 1}
    assert "memory 'm5', window 0" in (queue()["m5"][1] or "")
    assert sorted(moody.embedded_texts) == sorted(["a word", *(text for text in texts if text != "POISON")])


def test_what_was_embedded_before_an_outage_is_kept(ana: Face, moody: Moody, queue: Any) -> None:
    def go_down(done: int, total: int) -> None:
        moody.is_down = True

    ana.remember_many([NewMemory(content=f"note {n}", id=f"m{n}") for n in range(100)], progress=go_down)
    assert (len(moody.embedded_texts), len(queue())) == (64, 36)


def test_draining_isolates_bad_texts_of_any_organisation_and_keeps_each_error_with_its_own_memory(
    app_database: str, admin: StoreAdmin, moody: Moody, queue: Any
) -> None:
    with opened("sync", app_database) as store:
        for org in ("acme", "globex"):
            texts = [*(f"note {n}" for n in range(20)), "POISON of " + org]
            memories = [NewMemory(content=text, id=f"{org}-{n}") for n, text in enumerate(texts)]
            store.as_user(org, "ana").remember_many(memories, embed=False)
    assert admin.embed(moody) == 40
    assert {name: attempts for name, (attempts, _) in queue().items()} == {"acme-20": 1, "globex-20": 1}
    for name, (_, error) in queue().items():
        assert f"memory {name!r}" in (error or "")
    assert all(len(batch) <= 16 for batch in moody.batches)


def test_an_embedder_that_is_down_ends_the_run_after_three_batches(
    ana: Face, admin: StoreAdmin, moody: Moody, queue: Any, admin_connection: psycopg.Connection[Any]
) -> None:
    ana.remember_many([NewMemory(content=f"note {n}", id=f"m{n}") for n in range(300)], embed=False)
    moody.is_down = True
    assert admin.embed(moody) == 0
    tried = [error for attempts, error in queue().values() if attempts]
    assert len(tried) == 3 * 64
    assert all("no route to the model" in (error or "") and "memory" not in (error or "") for error in tried)
    moody.is_down = False
    not_due(admin_connection)
    assert admin.embed(moody) == 300 - len(tried)
    assert admin.embed(moody, retry=True) == len(tried)


def test_a_memory_waits_ever_longer_and_is_given_up_for_all_to_see(
    ana: Face, admin: StoreAdmin, moody: Moody, queue: Any, admin_connection: psycopg.Connection[Any]
) -> None:
    ana.remember("POISON", id="bad")
    waits = []
    for _ in range(7):
        due(admin_connection)
        assert admin.embed(moody) == 0
        [wait] = admin_connection.execute("SELECT extract(epoch FROM next_at - now())::float FROM pending").fetchall()
        waits.append(wait[0])
    assert all(most - 3 < wait <= most for wait, most in zip(waits, [4, 16, 64, 256, 1024, 3600, 3600], strict=True))
    due(admin_connection)
    failures = len(moody.batches)
    assert (admin.embed(moody), len(moody.batches)) == (0, failures)
    counts = admin.waiting()
    assert (counts["memories"], counts["given_up"]) == (1, 1)
    assert "memory 'bad', window 0" in counts["error"]
    moody.bad = "something else"
    assert admin.embed(moody, retry=True) == 1
    assert queue() == {}


def test_a_new_text_is_tried_at_once_although_the_old_one_was_given_up(
    ana: Face, moody: Moody, queue: Any, admin_connection: psycopg.Connection[Any]
) -> None:
    ana.remember("POISON", id="m")
    admin_connection.execute("UPDATE pending SET attempts = 8")
    ana.update("m", content="POISON in other words")
    assert queue()["m"][0] == 1
    ana.update("m", content="harmless words")
    assert queue() == {}
    assert "vector" in legs(ana, "harmless words")


def test_a_memory_that_shrinks_keeps_one_window_and_the_old_wording_is_not_found(
    ana: Face, admin_connection: psycopg.Connection[Any]
) -> None:
    ana.remember("\n\n".join(f"Paragraph {n} is about walruses. " + "More of it. " * 80 for n in range(10)), id="m")
    ana.remember("another note", id="other")
    assert admin_connection.execute("SELECT count(*) > 5 FROM windows").fetchone() == (True,)
    ana.update("m", content="now about penguins")
    counts = "SELECT (SELECT count(*) FROM windows), (SELECT count(*) FROM vectors), (SELECT count(*) FROM pending)"
    assert admin_connection.execute(counts).fetchone() == (2, 2, 0)
    assert "exact" not in {leg for hit in ana.recall("walruses").hits for leg in hit.legs}
    assert ana.recall("now about penguins").hits[0].legs["vector"].value == pytest.approx(1, abs=0.001)


@pytest.mark.parametrize("at_once", [True, False])
def test_a_memory_of_more_windows_than_one_may_have_is_marked_and_shrinks_back(
    ana: Face,
    admin: StoreAdmin,
    moody: Moody,
    admin_connection: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
    at_once: bool,
) -> None:
    monkeypatch.setattr(embedding, "MAX_WINDOWS", 3)  # 32,768 take a minute

    def stored() -> Any:
        query = (
            "SELECT m.partly_embedded, count(v.ordinal) FROM memories AS m LEFT JOIN vectors AS v USING (org, key)"
            " WHERE m.id = 'm' GROUP BY 1"
        )
        return admin_connection.execute(query).fetchall()

    ana.remember_many([NewMemory(content="walrus note. " * 500 + "the okapi at the end", id="m")], embed=at_once)
    admin.embed(moody)
    assert stored() == [(True, 3)]
    assert ana.recall("okapi").hits[0].id == "m"  # by its words
    assert "exact" in legs(ana, "okapi")
    ana.update("m", content="walrus note, short")
    assert stored() == [(False, 1)]


def test_several_workers_embed_every_window_once(app_database: str, admin: StoreAdmin, queue: Any) -> None:
    slow = Moody(pause_s=0.02)
    texts = [f"note {n}" for n in range(150)] + ["\n\n".join(f"part {n} " + "x " * 300 for n in range(100))]
    with opened("sync", app_database) as store:
        store.as_user("acme", "ana").remember_many([NewMemory(content=text) for text in texts], embed=False)
        others = [threading.Thread(target=admin.embed, args=[slow]) for _ in range(2)]
        for other in others:
            other.start()
        admin.embed(slow, workers=3)
        for other in others:
            other.join(30)
        assert queue() == {}
        assert len(slow.embedded_texts) == len(set(slow.embedded_texts)) == admin.spaces()[0].vectors > 200


def test_a_worker_holds_up_nobody_who_rewrites_or_forgets_what_it_is_at(
    ana: Face, admin: StoreAdmin, queue: Any
) -> None:
    ana.remember_many([NewMemory(content=f"note {n}", id=f"m{n}") for n in range(3)], embed=False)
    at_work, go_on = threading.Event(), threading.Event()

    class Waiting(HashEmbedder):
        def embed_texts(self, texts: Sequence[str], /) -> list[Vector]:
            at_work.set()
            assert go_on.wait(30)
            return super().embed_texts(texts)

    worker = threading.Thread(target=admin.embed, args=[Waiting(32)])
    worker.start()
    assert at_work.wait(30)
    began = time.monotonic()
    ana.forget("m0")
    ana.update("m1", content="fresh words " * 300)
    ana.update("m2", visibility="shared")
    took = time.monotonic() - began
    go_on.set()
    worker.join(30)
    assert took < 5
    assert queue() == {}
    assert ana.recall("note 1").hits[0].id == "m2"
    assert ana.recall("fresh words").hits[0].legs["vector"].rank == 1


def test_a_client_leaves_alone_what_a_worker_is_at(
    ana: Face, admin: StoreAdmin, moody: Moody, admin_connection: psycopg.Connection[Any]
) -> None:
    ana.remember_many([NewMemory(content="a waiting note", id="w")], embed=False)
    with admin.service() as cursor:
        cursor.execute("SELECT 1")
        from lore_retriever.draining import take
        from lore_retriever.operations.embedding import claim_body

        rows, claimed = take(cursor, claim_body(1, 10))
        assert ([row["id"] for row in rows], claimed) == (["w"], 1)
        moody.batches.clear()
        ana.remember("another")
        assert moody.embedded_texts == ["another"]
    ana.remember("a third")
    assert moody.embedded_texts == ["another", "a third", "a waiting note"]


def test_an_embedder_of_another_space_is_refused_before_anything_happens(ana: Face, admin: StoreAdmin) -> None:
    ana.remember_many([NewMemory(content="note")], embed=False)
    with pytest.raises(EmbeddingSpaceMismatch, match=r"48 dimensions.*32 dimensions"):
        admin.embed(HashEmbedder(48))
    with pytest.raises(InvalidInput, match="workers is 0"):
        admin.embed(HashEmbedder(32), workers=0)
    assert admin.waiting()["memories"] == 1


def test_a_text_whose_characters_do_not_fit_the_model_waits_with_that_error(
    ana: Face, admin: StoreAdmin, queue: Any
) -> None:
    ana.remember_many([NewMemory(content="note", id="m")], embed=False)

    class Blind(HashEmbedder):
        def count_tokens(self, text: str) -> int:
            return 1000 * len(text)

    admin.build_space(Blind(48, max_tokens=10))
    [space] = [space for space in admin.spaces() if space.state == "building"]
    assert (space.vectors, space.waiting) == (0, 1)
    assert "the embedder reads 10" in (space.error or "")


@pytest.mark.parametrize("bad", [[], [0], [15], [3, 4], list(range(16))])
def test_halving_finds_exactly_the_texts_at_fault(bad: list[int]) -> None:
    texts = ["POISON" if n in bad else f"text {n}" for n in range(16)]
    vectors, errors = embedded(embed_apart(texts, [f"t{n}" for n in range(16)]), Moody())
    assert [n for n, vector in enumerate(vectors) if vector is None] == sorted(errors) == bad
    assert all(f"t{n} " in errors[n] for n in bad)


def test_an_embedder_that_fails_on_a_plain_word_is_down() -> None:
    moody = Moody()
    moody.is_down = True
    with pytest.raises(EmbedderDown, match="no route to the model"):
        embedded(embed_apart(["a", "b"], ["a", "b"]), moody)
    assert issubclass(EmbedderDown, EmbeddingFailed)
