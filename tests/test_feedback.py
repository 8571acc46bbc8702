"""Votes on memories: what they count for, and that nothing else counts."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from lore_retriever import InvalidInput, Memories, MemoryStore, NotFound
from lore_retriever.admin import StoreAdmin
from lore_retriever.testing import HashEmbedder


@pytest.fixture
def ana(either: Any) -> Any:
    return either.as_user("acme", "ana")


@pytest.fixture
def ben(either: Any) -> Any:
    return either.as_user("acme", "ben")


def multiplier(useful: int, misleading: int) -> float:
    return min(1.4, max(0.5, 1 + 0.15 * math.log(1 + useful) - 0.25 * math.log(1 + misleading)))


def test_one_useful_vote_gives_1_104_and_one_misleading_vote_0_827(ana: Any) -> None:
    good, bad = ana.remember("the useful one"), ana.remember("the misleading one")
    assert ana.feedback(good, useful=True).multiplier == pytest.approx(1 + 0.15 * math.log(2), abs=1e-9)
    assert ana.feedback(bad, useful=False).multiplier == pytest.approx(1 - 0.25 * math.log(2), abs=1e-9)
    assert round(multiplier(1, 0), 3) == 1.104
    assert round(multiplier(0, 1), 3) == 0.827


def test_the_next_search_multiplies_by_it(ana: Any) -> None:
    made = ana.remember("gateway timeouts come from the pool")
    before = ana.recall("gateway timeouts").hits[0]
    ana.feedback(made, useful=False)
    after = ana.recall("gateway timeouts").hits[0]
    assert before.reinforcement == 1.0
    assert after.reinforcement == pytest.approx(1 - 0.25 * math.log(2), abs=1e-9)
    assert after.score == pytest.approx(after.relevance * after.recency * after.reinforcement, abs=1e-9)
    assert after.relevance == pytest.approx(before.relevance, abs=1e-12)


def test_a_misleading_vote_lets_an_equal_memory_pass(ana: Any) -> None:
    ana.remember("the gateway listens on its port", id="a")
    ana.remember("the gateway listens on its port", id="b")
    first = ana.recall("gateway port").hits[0].id
    other = "b" if first == "a" else "a"
    ana.feedback(first, useful=False)
    assert [hit.id for hit in ana.recall("gateway port").hits] == [other, first]


def test_a_user_votes_once_for_each_recall(ana: Any) -> None:
    made = ana.remember("gateway")
    recall = ana.recall("gateway")
    for _ in range(3):
        stands = ana.feedback(made, useful=True, recall_id=recall.id)
    assert (stands.useful, stands.misleading) == (1, 0)
    assert ana.feedback(made, useful=True, recall_id=ana.recall("gateway").id).useful == 2
    assert ana.feedback(made, useful=True).useful == 3


def test_a_second_vote_for_the_same_recall_replaces_the_first(ana: Any) -> None:
    made = ana.remember("gateway")
    ana.feedback(made, useful=True, recall_id="r")
    stands = ana.feedback(made, useful=False, recall_id="r")
    assert (stands.useful, stands.misleading) == (0, 1)


def test_the_multiplier_stays_between_a_half_and_1_4(ana: Any) -> None:
    made = ana.remember("gateway")
    for n in range(14):
        stands = ana.feedback(made, useful=True, recall_id=f"u{n}")
        assert stands.multiplier == pytest.approx(multiplier(n + 1, 0), abs=1e-9)
    assert stands.multiplier == 1.4
    other = ana.remember("proxy")
    for n in range(7):
        stands = ana.feedback(other, useful=False, recall_id=f"m{n}")
    assert stands.multiplier == 0.5


def test_anyone_votes_on_a_shared_memory_and_everyone_sees_the_result(ana: Any, ben: Any) -> None:
    made = ana.remember("gateway", visibility="shared")
    ben.feedback(made, useful=True)
    ana.feedback(made, useful=True)
    expected = pytest.approx(multiplier(2, 0), abs=1e-9)
    assert ana.recall("gateway").hits[0].reinforcement == expected
    assert ben.recall("gateway").hits[0].reinforcement == expected


def test_votes_on_what_one_cannot_see_are_refused_as_unknown(either: Any, ana: Any, ben: Any) -> None:
    ana.remember("private", id="p")
    ana.remember("shared, then invalidated", id="s", visibility="shared")
    ana.invalidate("s")
    stranger = either.as_user("globex", "ana")
    for voter, name in ((ben, "p"), (ben, "s"), (stranger, "p"), (ana, "nothing")):
        with pytest.raises(NotFound, match=f"no memory '{name}' is visible here"):
            voter.feedback(name, useful=True)


def test_the_own_memory_of_an_id_gets_the_vote_not_the_shared_one(ana: Any, ben: Any) -> None:
    ana.remember("shared", id="x", visibility="shared")
    ben.remember("private", id="x")
    ben.feedback("x", useful=False)
    assert ana.feedback("x", useful=True).misleading == 0


@pytest.mark.parametrize("value", [None, 1, "yes"])
def test_a_vote_is_true_or_false(ana: Any, value: Any) -> None:
    made = ana.remember("gateway")
    with pytest.raises(InvalidInput, match=r"useful is .* give True"):
        ana.feedback(made, useful=value)


def test_a_changed_text_keeps_its_votes_and_a_forgotten_memory_none(
    ana: Any, admin_connection: psycopg.Connection[Any]
) -> None:
    ana.remember("gateway", id="m")
    ana.feedback("m", useful=True)
    ana.remember("gateway, reworded", id="m")
    assert ana.recall("gateway").hits[0].reinforcement == pytest.approx(multiplier(1, 0), abs=1e-9)
    ana.forget("m")
    (rows,) = admin_connection.execute(
        "SELECT (SELECT count(*) FROM feedback) + (SELECT count(*) FROM reinforcement)"
    ).fetchall()
    assert rows == (0,)


def test_memories_that_misled_more_than_they_helped_ask_for_a_review(ana: Any, ben: Any) -> None:
    bad = ana.remember("the port is 80", visibility="shared")
    fine = ana.remember("the host is gw-1", visibility="shared")
    assert not ana.feedback(bad, useful=False).needs_review
    assert ben.feedback(bad, useful=False).needs_review
    ana.feedback(fine, useful=False)
    for n in range(3):
        ben.feedback(fine, useful=True, recall_id=str(n))
    found = ben.misled()
    assert [(one.id, one.owner, one.useful, one.misleading) for one in found] == [(bad, "ana", 0, 2)]
    ana.invalidate(bad)
    assert ben.misled() == []


def test_maintain_lets_votes_leave_after_ninety_days(
    ana: Any, database: str, admin_connection: psycopg.Connection[Any]
) -> None:
    old, mixed = ana.remember("gateway one"), ana.remember("gateway two")
    ana.feedback(old, useful=True)
    for n in range(3):
        ana.feedback(mixed, useful=False, recall_id=str(n))
    admin_connection.execute(
        "UPDATE feedback SET created_at = now() - interval '90 days 1 minute' WHERE recall_id IN ('', '0', '1')"
    )
    assert StoreAdmin.connect(database).maintain()["reinforced"] == 2
    by_id = {hit.id: hit.reinforcement for hit in ana.recall("gateway").hits}
    assert by_id[old] == 1.0
    assert by_id[mixed] == pytest.approx(multiplier(0, 1), abs=1e-9)
    assert admin_connection.execute("SELECT count(*) FROM reinforcement").fetchall() == [(1,)]
    assert StoreAdmin.connect(database).maintain()["reinforced"] == 0


def test_a_hundred_briefings_and_searches_change_no_ranking(ana: Any) -> None:
    for n in range(12):
        ana.remember(f"gateway note number {n}", id=f"n{n}", pinned=n == 3)
    before = [(hit.id, hit.relevance, hit.reinforcement) for hit in ana.recall("gateway note").hits]
    for _ in range(100):
        ana.build_context("gateway note number 3", max_tokens=300)
    assert [(hit.id, hit.relevance, hit.reinforcement) for hit in ana.recall("gateway note").hits] == before


def test_the_formula_in_sql_is_the_one_that_is_documented(
    scope_connection: Callable[[str, str], Any],
) -> None:
    with scope_connection("acme", "ana") as connection:
        rows = connection.execute(
            "SELECT u, m, reinforced(u, m) FROM generate_series(0, 60, 3) AS u, generate_series(0, 60, 3) AS m"
        ).fetchall()
    for useful, misleading, value in rows:
        assert value == pytest.approx(multiplier(useful, misleading), abs=1e-9)


def test_a_voter_cannot_write_a_multiplier(scope_connection: Callable[[str, str], Any], ana: Any) -> None:
    ana.feedback(ana.remember("gateway"), useful=True)
    with (
        scope_connection("acme", "ana") as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute("UPDATE reinforcement SET multiplier = 1.4")


def test_without_a_scope_there_is_no_vote(app_database: str, ana: Any) -> None:
    made = ana.remember("gateway", visibility="shared")
    with psycopg.connect(app_database) as connection:
        connection.execute(
            "SELECT set_config('search_path', 'lore, public', true), set_config('role', 'lore_user', true)"
        )
        assert connection.execute("SELECT * FROM vote(%s, true)", [made]).fetchall() == []


class TestManyAtOnce:
    """64 voters, some of them searching, removing and maintaining meanwhile."""

    @pytest.fixture
    def many(self, database: str) -> Any:
        with MemoryStore.connect(database, embedder=HashEmbedder(32), max_size=16) as store:
            yield store

    def test_sixty_four_voters_and_readers_lose_no_vote(
        self, many: MemoryStore, database: str, admin_connection: psycopg.Connection[Any]
    ) -> None:
        owner = many.as_user("acme", "owner")
        ids = [owner.remember(f"gateway note {n}", visibility="shared") for n in range(4)]
        start = threading.Barrier(64)

        def vote(number: int) -> None:
            voter: Memories = many.as_user("acme", f"voter {number}")
            start.wait()
            found = voter.recall("gateway note")
            for place, made in enumerate(ids if number % 2 else reversed(ids)):
                voter.feedback(made, useful=(number + place) % 4 != 0, recall_id=found.id)

        admin = StoreAdmin.connect(database)
        with ThreadPoolExecutor(65) as pool:
            votes = [pool.submit(vote, number) for number in range(64)]
            for _ in range(3):
                with admin.service() as cursor:
                    cursor.execute("SELECT refresh_reinforcement()")
            for each in votes:
                each.result()
        counted = admin_connection.execute(
            "SELECT r.useful + r.misleading, r.multiplier = reinforced(r.useful, r.misleading) FROM reinforcement AS r"
        ).fetchall()
        assert counted == [(64, True)] * 4
        exact = "SELECT bool_and(r.useful = (SELECT count(*) FROM feedback AS f WHERE f.key = r.key AND f.useful)) FROM reinforcement AS r"
        assert admin_connection.execute(exact).fetchall() == [(True,)]
        (deadlocks,) = admin_connection.execute(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        ).fetchall()
        assert deadlocks == (0,)

    def test_a_memory_forgotten_among_its_voters_takes_the_votes_with_it(
        self, many: MemoryStore, admin_connection: psycopg.Connection[Any]
    ) -> None:
        owner = many.as_user("acme", "owner")
        made = owner.remember("gateway", visibility="shared")

        def vote(number: int) -> bool:
            try:
                many.as_user("acme", f"voter {number}").feedback(made, useful=True)
            except NotFound:
                return False
            return True

        with ThreadPoolExecutor(16) as pool:
            votes = [pool.submit(vote, number) for number in range(24)]
            owner.forget(made)
            assert {each.result() for each in votes} <= {True, False}
        assert admin_connection.execute("SELECT count(*) FROM feedback").fetchall() == [(0,)]
