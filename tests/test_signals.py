"""What the store knows about a memory and what it does with it: age, points in time, a hook on every write, near duplicates."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from lore_retriever import AsyncMemoryStore, InvalidInput, MemoryStore, NewMemory, NotFound
from lore_retriever.admin import StoreAdmin
from lore_retriever.testing import HashEmbedder

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
HALF_LIVES = {
    "decision": 3650,
    "convention": 3650,
    "preference": 1825,
    "reference": 1825,
    "runbook": 1825,
    "gotcha": 1095,
    "fact": 365,
    "episode": 30,
    "task": 14,
    "open-question": 14,
    "a kind of our own": 365,
    "document": None,
}


@pytest.fixture
def ana(either: Any) -> Any:
    return either.as_user("acme", "ana")


@pytest.fixture
def ben(either: Any) -> Any:
    return either.as_user("acme", "ben")


class TestRecency:
    @pytest.mark.parametrize("age_days", [0, 1, 13.7, 400, 20_000])
    def test_each_kind_halves_in_its_own_time_down_to_its_floor(
        self, ana: Any, admin_connection: psycopg.Connection[Any], age_days: float
    ) -> None:
        floors = dict(admin_connection.execute("SELECT kind, recency_floor FROM kinds").fetchall())
        created = NOW - timedelta(days=age_days)
        ana.remember_many(
            [NewMemory(content=f"walrus {kind}", id=kind, kind=kind, created_at=created) for kind in HALF_LIVES]
        )
        hits = {hit.id: hit for hit in ana.recall("walrus", limit=50, as_of=NOW).hits}
        assert set(hits) == set(HALF_LIVES)
        for kind, half_life in HALF_LIVES.items():
            floor = floors.get(kind, floors[""])
            expected = 1.0 if half_life is None else max(floor, 0.5 ** (age_days / half_life))
            assert hits[kind].recency == pytest.approx(expected, abs=1e-9), kind
            assert hits[kind].score == pytest.approx(hits[kind].relevance * expected, abs=1e-9)

    def test_the_floor_is_what_bounds_the_effect_of_age(
        self, ana: Any, admin_connection: psycopg.Connection[Any]
    ) -> None:
        admin_connection.execute("UPDATE kinds SET half_life_days = 30, recency_floor = 0.25 WHERE kind = 'episode'")
        for days in (0, 30, 45, 60, 61, 4000):
            ana.remember("walrus", id=str(days), kind="episode", created_at=NOW - timedelta(days=days))
        found = {hit.id: hit.recency for hit in ana.recall("walrus", as_of=NOW).hits}
        expected = {"0": 1, "30": 0.5, "45": 2**-1.5, "60": 0.25, "61": 0.25, "4000": 0.25}
        assert found == pytest.approx(expected, abs=1e-9)

    def test_a_search_at_a_fixed_time_repeats_to_the_last_digit(self, ana: Any) -> None:
        for n in range(12):
            ana.remember(f"walrus {n % 3}", kind="episode", created_at=NOW - timedelta(days=n * 3.3))
        first = [(hit.id, hit.score) for hit in ana.recall("walrus 1", as_of=NOW).hits]
        assert all([(h.id, h.score) for h in ana.recall("walrus 1", as_of=NOW).hits] == first for _ in range(5))

    def test_a_relevant_memory_of_a_year_ago_beats_one_of_yesterday_that_is_not(self, ana: Any) -> None:
        ana.remember(
            "the walrus feeding schedule is twice a day", id="old", created_at=datetime(2026, 1, 1, tzinfo=UTC)
        )
        ana.remember("lunch was good", id="new", created_at=datetime(2026, 12, 30, tzinfo=UTC))
        found = ana.recall("walrus feeding schedule", as_of=datetime(2026, 12, 31, tzinfo=UTC))
        assert found.hits[0].id == "old"

    def test_of_two_that_fit_alike_the_newer_comes_first(self, ana: Any) -> None:
        ana.remember("the walrus pool is 8 m deep", id="old", created_at=NOW - timedelta(days=300))
        ana.remember("the walrus pool is 9 m deep", id="new", created_at=NOW - timedelta(days=3))
        assert [hit.id for hit in ana.recall("how deep is the walrus pool", as_of=NOW).hits] == ["new", "old"]

    def test_a_time_in_the_future_counts_as_now(self, ana: Any) -> None:
        ana.remember("walrus", created_at=datetime.now(UTC) + timedelta(days=900))
        assert ana.recall("walrus").hits[0].recency == 1.0

    def test_a_time_without_a_zone_is_utc(self, ana: Any) -> None:
        made = ana.remember("walrus", created_at=datetime(2026, 5, 2, 12), kind="episode")
        assert ana.get(made).created_at == datetime(2026, 5, 2, 12, tzinfo=UTC)
        assert ana.recall("walrus", as_of=datetime(2026, 5, 2, 11)).hits == ()


class TestPointInTime:
    def test_what_came_later_or_was_over_is_not_seen(self, ana: Any, admin_connection: psycopg.Connection[Any]) -> None:
        day = timedelta(days=1)
        ana.remember("walrus always", id="always", created_at=NOW - 9 * day)
        ana.remember("walrus later", id="later", created_at=NOW + day)
        ana.remember("walrus expired", id="expired", created_at=NOW - 9 * day, expires_at=NOW - day)
        ana.remember("walrus expires", id="expires", created_at=NOW - 9 * day, expires_at=NOW + day)
        for name in ("invalid", "invalid later"):
            ana.remember(f"walrus {name}", id=name, created_at=NOW - 9 * day)
            ana.invalidate(name)
        admin_connection.execute("UPDATE memories SET invalidated_at = %s WHERE id = 'invalid'", [NOW - day])
        admin_connection.execute("UPDATE memories SET invalidated_at = %s WHERE id = 'invalid later'", [NOW + day])

        assert {hit.id for hit in ana.recall("walrus", as_of=NOW).hits} == {"always", "expires", "invalid later"}
        made = ana.build_context("walrus", as_of=NOW)
        assert {item.id for item in made.items} == {"always", "expires", "invalid later"}
        assert {item.id for item in ana.build_context(as_of=NOW - 8 * day).items} == {
            "always",
            "expired",
            "expires",
            "invalid",
            "invalid later",
        }

    def test_maintain_purges_what_has_expired(self, ana: Any, database: str) -> None:
        ana.remember("walrus gone", id="gone", expires_at=datetime.now(UTC) + timedelta(seconds=0.2))
        ana.remember("walrus", id="stays", expires_at=datetime.now(UTC) + timedelta(days=1))
        import time

        time.sleep(0.3)
        assert [hit.id for hit in ana.recall("walrus").hits] == ["stays"]
        assert StoreAdmin.connect(database).maintain()["expired"] == 1
        with pytest.raises(NotFound):
            ana.get("gone")


class TestInvalidation:
    def test_what_was_invalidated_is_nowhere_until_it_is_restored(self, ana: Any, ben: Any) -> None:
        ana.remember("walrus of old", id="m", visibility="shared", pinned=True, aliases=["tusker"])
        ana.remember("walrus of today", id="next", visibility="shared")
        ana.invalidate("m", superseded_by="next")
        for view in (ana, ben):
            for query in ("walrus of old", "tusker", "m"):
                assert "m" not in {hit.id for hit in view.recall(query).hits}
            assert "m" not in {memory.id for memory in view.list()}
            made = view.build_context("walrus of old")
            assert "m" not in {item.id for item in made.items} | {each.id for each in made.dropped}
        assert (ana.get("m").superseded_by, ana.get("m").invalidated_at is not None) == ("next", True)
        with pytest.raises(NotFound):
            ben.get("m")
        ana.restore("m")
        assert ben.recall("tusker").hits[0].id == "m"


Guard = Callable[[NewMemory], NewMemory | None]


class TestBeforeWrite:
    """One hook stands on every way in, of either store."""

    @pytest.fixture(params=["sync", "async"])
    def guarded(self, request: pytest.FixtureRequest, app_database: str) -> Iterator[Callable[[Guard], Any]]:
        closing: list[Callable[[], Any]] = []
        runner = asyncio.Runner()

        def opened(guard: Guard) -> Any:
            if request.param == "sync":
                store = MemoryStore.connect(app_database, embedder=HashEmbedder(32), before_write=guard)
                closing.append(store.close)
                return store.as_user("acme", "ana")
            made = AsyncMemoryStore.connect(app_database, embedder=HashEmbedder(32), before_write=guard)
            runner.run(made.open())
            closing.append(lambda: runner.run(made.close()))
            view = made.as_user("acme", "ana")

            class Face:
                def __getattr__(self, name: str) -> Any:
                    return lambda *args, **kwargs: runner.run(getattr(view, name)(*args, **kwargs))

            return Face()

        yield opened
        for close in closing:
            close()
        runner.close()

    def test_it_may_change_what_is_stored(self, guarded: Callable[[Guard], Any]) -> None:
        ana = guarded(
            lambda memory: memory.model_copy(
                update={"content": memory.content.replace("hunter2", "[removed]"), "trust": "unreviewed"}
            )
        )
        made = ana.remember("the password is hunter2")
        assert (ana.get(made).content, ana.get(made).trust) == ("the password is [removed]", "unreviewed")
        ana.update(made, content="now it is hunter2 again")
        assert ana.get(made).content == "now it is [removed] again"
        assert [each.content for each in ana.history(made)] == ["the password is [removed]"]

    def test_it_sees_the_whole_memory_as_it_would_become(self, guarded: Callable[[Guard], Any]) -> None:
        seen: list[NewMemory] = []

        def watch(memory: NewMemory) -> NewMemory:
            seen.append(memory)
            return memory

        ana = guarded(watch)
        ana.remember("text", id="m", metadata={"a": 1}, kind="gotcha")
        ana.update("m", pinned=True)
        assert [(m.content, m.id, m.metadata, m.kind, m.pinned) for m in seen] == [
            ("text", "m", {"a": 1}, "gotcha", False),
            ("text", "m", {"a": 1}, "gotcha", True),
        ]
        assert ana.get("m").pinned

    def test_what_it_refuses_is_not_stored_and_neither_is_the_rest(self, guarded: Callable[[Guard], Any]) -> None:
        ana = guarded(lambda memory: None if "secret" in memory.content else memory)
        with pytest.raises(InvalidInput, match="item 1 was refused by the store's before_write"):
            ana.remember_many([NewMemory(content="fine", id="f"), NewMemory(content="secret")])
        assert ana.list() == []
        stored = ana.remember_many([NewMemory(content="fine", id="f"), NewMemory(content="secret")], on_error="skip")
        assert (list(stored), [place for place, _ in stored.refused]) == (["f"], [1])
        with pytest.raises(InvalidInput, match="memory 'f' was refused"):
            ana.update("f", content="secret")
        assert ana.get("f").content == "fine"

    def test_what_it_returns_is_checked_like_everything_else(self, guarded: Callable[[Guard], Any]) -> None:
        ana = guarded(lambda memory: memory.model_copy(update={"content": "a\x00b"}))
        with pytest.raises(InvalidInput, match="what before_write made of item 0 holds a NUL"):
            ana.remember("fine")
        other = guarded(lambda memory: "no memory")  # type: ignore[arg-type,return-value]
        with pytest.raises(InvalidInput, match="give a NewMemory"):
            other.remember("fine")

    def test_a_change_keeps_its_id_and_unknown_ids_stay_unknown(self, guarded: Callable[[Guard], Any]) -> None:
        ana = guarded(lambda memory: memory.model_copy(update={"id": memory.id or "made"}))
        assert ana.remember("text") == "made"
        ana.update("made", pinned=True)
        with pytest.raises(NotFound):
            ana.update("nothing", pinned=True)
        other = guarded(lambda memory: memory.model_copy(update={"id": "else"}))
        with pytest.raises(InvalidInput, match="a change keeps the id"):
            other.update("made", pinned=False)


class TestNearDuplicates:
    TEXT = "the walrus feeding schedule is twice a day, at nine and at five, with fish from the northern depot"

    def test_a_write_warns_of_what_says_nearly_the_same(
        self, ana: Any, ben: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        ben.remember(self.TEXT, id="first", visibility="shared")
        with caplog.at_level(logging.WARNING, "lore_retriever"):
            stored = ana.remember_many([NewMemory(content=self.TEXT.replace("northern", "southern"), id="second")])
        (similar,) = stored.similar
        assert (similar.id, similar.other, similar.owner) == ("second", "first", "ben")
        assert similar.similarity > 0.9
        assert 0.8 < similar.resemblance < 1
        assert "'second' says nearly the same as 'first' of 'ben'" in caplog.text

    def test_it_is_stored_all_the_same(self, ana: Any) -> None:
        ana.remember(self.TEXT, id="a")
        ana.remember(self.TEXT, id="b")
        assert {memory.id for memory in ana.list()} == {"a", "b"}

    def test_other_texts_and_the_memory_itself_raise_no_warning(self, ana: Any) -> None:
        ana.remember(self.TEXT, id="a")
        assert ana.remember_many([NewMemory(content="the seal has no schedule at all, it eats", id="b")]).similar == ()
        assert ana.remember_many([NewMemory(content=self.TEXT + " now", id="a")]).similar == ()

    def test_anothers_private_memory_is_never_named(self, ana: Any, ben: Any, either: Any) -> None:
        ana.remember(self.TEXT, id="private")
        for view in (ben, either.as_user("globex", "eve")):
            assert view.remember_many([NewMemory(content=self.TEXT)]).similar == ()

    def test_both_must_be_alike_vectors_and_words(self) -> None:
        from lore_retriever.evidence import SAME_WORDS, Evidence

        evidence = Evidence(near_duplicate=0.9)
        assert evidence.is_near_duplicate(0.9, SAME_WORDS)
        assert not evidence.is_near_duplicate(0.89, 1.0)
        assert not evidence.is_near_duplicate(1.0, math.nextafter(SAME_WORDS, 0))
