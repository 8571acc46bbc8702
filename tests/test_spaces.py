"""A second embedding space beside the first: built, switched to, gone back from, dropped, while others search and write."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg
import pytest

from lore_retriever import EmbeddingSpaceMismatch, InvalidInput, Memories, MemoryStore, NewMemory, NotFound
from lore_retriever.admin import StoreAdmin
from lore_retriever.embeddings import Vector
from lore_retriever.testing import HashEmbedder
from lore_retriever.windows import split_windows

OLD = HashEmbedder(32)
NEW = HashEmbedder(48, model="lore-retriever/other-hash")


class Counting(HashEmbedder):
    """Keeps the texts it embeds; stops the process, as it were, after `limit` of them."""

    def __init__(self, dimensions: int, *, limit: int | None = None, **options: Any) -> None:
        super().__init__(dimensions, **options)
        self.texts: list[str] = []
        self.limit = limit

    def embed_texts(self, texts: Sequence[str], /) -> list[Vector]:
        if self.limit is not None and len(self.texts) + len(texts) > self.limit:
            raise KeyboardInterrupt
        self.texts += texts
        return super().embed_texts(texts)


@pytest.fixture
def admin(database: str) -> StoreAdmin:
    return StoreAdmin.connect(database)


@pytest.fixture
def opened(app_database: str) -> Iterator[Callable[..., Memories]]:
    """`opened(embedder)`: acme's ana through a store of its own, opened at once."""
    stores: list[MemoryStore] = []

    def open_one(embedder: HashEmbedder) -> Memories:
        stores.append(MemoryStore.connect(app_database, embedder=embedder, max_size=2))
        assert stores[-1].space.embedder is embedder
        return stores[-1].as_user("acme", "ana")

    yield open_one
    for store in stores:
        store.close()


def similarity(memories: Memories, text: str) -> float | None:
    """Cosine of the best hit in the vector leg: 1.0 where the text is stored and query and vectors are of one model."""
    hit = memories.recall(text, limit=1).hits[0]
    return round(hit.legs["vector"].value or 0, 2) if "vector" in hit.legs else None


def test_a_switch_changes_what_new_clients_search_and_open_ones_notice_nothing(
    ana: Memories, admin: StoreAdmin, opened: Callable[..., Memories]
) -> None:
    ana.remember_many([NewMemory(content=f"note number {n}") for n in range(40)])
    built = admin.build_space(NEW)
    assert (built.state, built.vectors, built.waiting, similarity(ana, "note number 7")) == ("building", 40, 0, 1.0)
    assert admin.switch_space() == NEW.space
    assert similarity(opened(NEW), "note number 7") == 1.0
    assert similarity(ana, "note number 7") == 1.0
    assert [(space.space, space.state) for space in admin.spaces()] == [(NEW.space, "active"), (OLD.space, "kept")]


def test_a_store_opened_without_an_embedder_takes_the_one_of_the_active_space(
    ana: Memories, admin: StoreAdmin, app_database: str
) -> None:
    ana.remember("a note")
    admin.build_space(HashEmbedder(48))
    admin.switch_space()
    with MemoryStore.connect(app_database) as store:
        assert store.embedder.space.dimensions == 48


def test_what_is_written_while_a_space_is_built_reaches_both(
    ana: Memories, admin: StoreAdmin, opened: Callable[..., Memories]
) -> None:
    ana.remember("an early note", id="early")
    admin.build_space(NEW)
    ana.remember("a late note", id="late")
    ana.update("early", content="an early note, reworded")
    with pytest.raises(InvalidInput, match="2 memories still wait"):
        admin.switch_space()
    assert admin.build_space(NEW).waiting == 0
    admin.switch_space()
    young = opened(NEW)
    for memories in (ana, young):
        assert similarity(memories, "a late note") == similarity(memories, "an early note, reworded") == 1.0


def test_a_forced_switch_leaves_what_waits_to_the_other_legs_until_the_next_write_of_a_new_client(
    ana: Memories, admin: StoreAdmin, opened: Callable[..., Memories]
) -> None:
    admin.build_space(NEW)
    ana.remember("a late note", id="late")
    admin.switch_space(force=True)
    young = opened(NEW)
    assert set(young.recall("late note").hits[0].legs) == {"exact", "relaxed"}
    young.remember("another")
    assert similarity(young, "a late note") == 1.0


def test_what_an_old_client_writes_after_the_switch_waits_for_the_active_space(
    ana: Memories, admin: StoreAdmin, opened: Callable[..., Memories]
) -> None:
    ana.remember("an early note")
    admin.build_space(NEW)
    admin.switch_space()
    young = opened(NEW)
    ana.remember("a late note " * 200, id="late")
    young.remember("a note of the new client")
    assert (admin.waiting()["memories"], similarity(ana, "a late note " * 200)) == (0, 1.0)
    assert [(space.state, space.waiting) for space in admin.spaces()] == [("active", 0), ("kept", 1)]


def test_going_back_needs_the_old_vectors_of_what_was_written_since(
    ana: Memories, admin: StoreAdmin, opened: Callable[..., Memories]
) -> None:
    ana.remember("an early note")
    admin.build_space(NEW)
    admin.switch_space()
    young = opened(NEW)
    young.remember("a late note")
    with pytest.raises(InvalidInput, match="1 memories still wait"):
        admin.undo_switch()
    assert admin.embed(OLD) == 1
    assert admin.undo_switch() == OLD.space
    assert similarity(ana, "a late note") == similarity(young, "a late note") == 1.0
    assert admin.undo_switch() == NEW.space


def test_a_dropped_space_is_gone_and_one_clear_error_for_its_clients(
    ana: Memories, admin: StoreAdmin, opened: Callable[..., Memories], admin_connection: psycopg.Connection[Any]
) -> None:
    ana.remember("an early note", id="early")
    admin.build_space(NEW)
    with pytest.raises(InvalidInput, match="is the space that is searched"):
        admin.drop_space(OLD.space)
    admin.switch_space()
    assert admin.drop_space("lore-retriever/hash") == OLD.space
    for act in (
        lambda: ana.recall("note"),
        lambda: ana.remember("a lost note", id="lost"),
        lambda: ana.update("early", content="reworded"),
    ):
        with pytest.raises(EmbeddingSpaceMismatch, match=r"has been dropped\. Open the store anew"):
            act()
    with pytest.raises(NotFound):
        ana.get("lost")
    assert ana.get("early").content == "an early note"
    spaces = {
        row[0]
        for table in ("windows", "vectors", "codes", "pending", "embedding_space")
        for row in admin_connection.execute(f"SELECT DISTINCT space FROM {table}")  # noqa: S608 (constants)
    }
    assert spaces == {2}
    assert similarity(opened(NEW), "an early note") == 1.0
    with pytest.raises(InvalidInput, match="no space is kept"):
        admin.undo_switch()


def test_an_interrupted_drop_is_finished_by_maintain_or_by_building_that_space_again(
    ana: Memories, admin: StoreAdmin, admin_connection: psycopg.Connection[Any]
) -> None:
    ana.remember("a note")
    admin.build_space(NEW)
    admin_connection.execute("UPDATE embedding_space SET state = 'dropped' WHERE space = 2")
    assert [space.state for space in admin.spaces()] == ["active"]
    assert admin.build_space(NEW).number == 3
    admin_connection.execute("UPDATE embedding_space SET state = 'dropped' WHERE space = 3")
    admin.maintain()
    assert admin_connection.execute("SELECT space FROM windows GROUP BY 1").fetchall() == [(1,)]


def test_an_interrupted_build_goes_on_where_it_stopped(ana: Memories, admin: StoreAdmin) -> None:
    ana.remember_many([NewMemory(content=f"note number {n}") for n in range(300)])
    stopped = Counting(48, limit=200)
    with pytest.raises(KeyboardInterrupt):
        admin.build_space(stopped)
    kept = next(space.vectors for space in admin.spaces() if space.state == "building")
    assert 0 < kept <= len(stopped.texts) < 300
    again = Counting(48)
    seen: list[tuple[int, int]] = []
    admin.build_space(again, progress=lambda done, total: seen.append((done, total)))
    assert len(again.texts) == 300 - kept
    assert (seen[0][0] > kept, seen[-1]) == (True, (300, 300))


def test_each_space_cuts_memories_for_its_own_model(
    ana: Memories, admin: StoreAdmin, opened: Callable[..., Memories], admin_connection: psycopg.Connection[Any]
) -> None:
    text = " ".join(f"Sentence number {n} is here." for n in range(20))
    ana.remember(text, id="long")
    narrow = Counting(32, model="narrow", max_tokens=20)
    admin.build_space(narrow)
    rows = admin_connection.execute("SELECT space, window_start, window_end FROM windows ORDER BY 1, 2").fetchall()
    assert [row for row in rows if row[0] == 1] == [(1, 0, len(text))]
    spans = [row[1:] for row in rows if row[0] == 2]
    assert "".join(text[start:end] for start, end in spans) == text
    assert all(narrow.count_tokens(text[start:end]) <= 20 for start, end in spans)
    assert narrow.texts == [text[start:end] for start, end in spans]
    admin.switch_space()
    assert opened(narrow).recall("Sentence number 13 is here.").hits[0].legs["vector"].rank == 1


def test_a_memory_of_a_writer_that_began_before_the_build_is_not_forgotten(
    ana: Memories, admin: StoreAdmin, app_database: str
) -> None:
    ana.remember("an early note")
    with psycopg.connect(app_database) as writer:
        writer.execute("SELECT set_config('search_path', 'lore, public', true), set_config('role', 'lore_user', true)")
        writer.execute("SELECT set_config('lore.org_id', 'acme', true), set_config('lore.user_id', 'ben', true)")
        writer.execute("INSERT INTO memories (org, owner, id, content) VALUES ('acme', 'ben', 'slow', 'a slow note')")
        building = threading.Thread(target=admin.build_space, args=[NEW])
        building.start()
        building.join(0.3)
        assert building.is_alive()
        writer.commit()
    building.join(30)
    assert [(space.state, space.vectors) for space in admin.spaces()] == [("active", 1), ("building", 2)]


def test_a_space_that_is_being_built_cannot_be_searched_and_is_the_only_one(
    admin: StoreAdmin, app_database: str
) -> None:
    admin.build_space(NEW)
    with (
        MemoryStore.connect(app_database, embedder=NEW) as store,
        pytest.raises(EmbeddingSpaceMismatch, match="is still being built"),
    ):
        store.as_user("acme", "ana").recall("anything")
    with pytest.raises(InvalidInput, match="is being built here"):
        admin.build_space(HashEmbedder(64))
    with pytest.raises(InvalidInput, match="already searches"):
        admin.build_space(OLD)
    with pytest.raises(InvalidInput, match="there is no space nonsense here"):
        admin.switch_space("nonsense")
    with pytest.raises(EmbeddingSpaceMismatch, match="64 dimensions"):
        admin.embed(HashEmbedder(64))


class Searching(threading.Thread):
    """Asks for stored sentences until it is stopped; keeps every answer that is not the sentence itself, at cosine 1."""

    def __init__(self, memories: Memories, sentences: Sequence[str]) -> None:
        super().__init__()
        self.memories, self.sentences = memories, sentences
        self.searches = 0
        self.wrong: list[object] = []
        self.stopped = threading.Event()

    def run(self) -> None:
        while not self.stopped.is_set():
            sentence = self.sentences[self.searches * 37 % len(self.sentences)]
            try:
                found = self.memories.recall(sentence, limit=3)
                best = found.hits[0]
                vector = best.legs.get("vector")
                is_right = vector is not None and vector.rank == 1 and (vector.value or 0) > 0.995
                if not is_right or sentence not in best.text or found.degraded is not None:
                    self.wrong.append((sentence, found))
            except Exception as error:
                self.wrong.append(error)
            self.searches += 1

    def finish(self) -> None:
        self.stopped.set()
        self.join(30)


def test_a_client_that_searches_throughout_a_switch_of_5000_windows_sees_no_error_and_no_other_space(
    admin: StoreAdmin, opened: Callable[..., Memories]
) -> None:
    narrow_old, narrow_new = HashEmbedder(32, max_tokens=14), HashEmbedder(48, model="other", max_tokens=14)
    texts = [
        " ".join(f"Alpha{n} beta{n * s} gamma{n + s} delta epsilon{s} of {n} and {s}." for s in range(10))
        for n in range(500)
    ]
    sentences = [
        text[window.start : window.end].strip()
        for text in texts[::7]
        for window in split_windows(text, max_tokens=14, count_tokens=narrow_old.count_tokens)[3:6]
    ]
    old = opened(narrow_old)
    old.remember_many([NewMemory(content=text, id=f"m{n}") for n, text in enumerate(texts)])
    assert admin.spaces()[0].vectors >= 5000

    searching = Searching(old, sentences)
    searching.start()
    admin.build_space(narrow_new)
    old.remember("A note that was written meanwhile.", id="meanwhile")
    assert admin.build_space(narrow_new).vectors == admin.spaces()[0].vectors
    before = searching.searches
    admin.switch_space()
    young = Searching(opened(narrow_new), sentences)
    young.start()
    admin.embed(narrow_old)
    admin.undo_switch()
    admin.switch_space(narrow_new.space)
    while min(searching.searches - before, young.searches) < 20 and searching.is_alive() and young.is_alive():
        young.stopped.wait(0.05)
    young.finish()
    searching.finish()
    assert (searching.wrong, young.wrong) == ([], [])
    assert before > 20
