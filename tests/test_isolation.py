"""No caller ever sees, counts or feels another's memories: the tripwires of `tripwires.py`, through the library."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from lore_retriever import (
    AsyncMemoryStore,
    InvalidInput,
    MemoryStore,
    NewMemory,
    PermissionDenied,
    Scope,
    ScopeMissing,
    StoreUnavailable,
)
from lore_retriever.admin import StoreAdmin
from lore_retriever.steps import Transact
from lore_retriever.testing import HashEmbedder
from support import Face, Sql, as_application, kept_database, opened, scoped
from tripwires import COMMON, MARKERS, SCOPES, foreign, leaks, marker, plant, searches, shown_to


@pytest.fixture(scope="module")
def admin(create_database: Callable[..., str], template: str) -> Iterator[str]:
    """Administrator's connection string of a database with everybody's memories."""
    with kept_database(create_database, template) as conninfo:
        with MemoryStore.connect(as_application(conninfo), embedder=HashEmbedder(32)) as store:
            plant(store)
        StoreAdmin.connect(conninfo).maintain()
        yield conninfo


@pytest.fixture(scope="module")
def application(admin: str) -> str:
    return as_application(admin)


@pytest.fixture(params=["sync", "async"])
def one_connection(request: pytest.FixtureRequest, application: str) -> Iterator[Face]:
    """A store whose pool holds a single connection, so that every scope follows another on it."""
    with opened(request.param, application, min_size=1, max_size=1) as store:
        yield store


def sql(text: str, **params: Any) -> Sql:
    return Sql("test", params, text)


def ids(recall: Any) -> set[tuple[str, str]]:
    return {(hit.owner, hit.id) for hit in recall.hits}


def test_every_scope_on_one_connection_finds_its_own_and_nothing_foreign(one_connection: Face) -> None:
    for org, user in SCOPES:
        view = one_connection.as_user(org, user)
        found = ids(view.recall(COMMON, limit=1000))
        assert {(user, "note"), (user, f"long-{marker(org, user, 'private')}")} <= found
        assert not {memory_id for _, memory_id in found if memory_id.startswith(("old-", "gone-"))}
        assert leaks(view, org, user) == []


def test_scopes_that_alternate_on_one_connection_get_what_they_got_alone(one_connection: Face) -> None:
    alone = {scope: ids(one_connection.as_user(*scope).recall(COMMON, limit=1000)) for scope in SCOPES}
    assert len({frozenset(found) for found in alone.values()}) == len(SCOPES)
    for _ in range(3):
        for scope in (*SCOPES, *reversed(SCOPES)):
            assert ids(one_connection.as_user(*scope).recall(COMMON, limit=1000)) == alone[scope]


def test_no_failure_in_a_transaction_leaves_a_scope_behind(one_connection: Face) -> None:
    def failing(last: Exception | str) -> Any:
        def body() -> Any:
            yield sql("SELECT count(*) AS n, set_config('statement_timeout', '200', true) FROM memories")
            if isinstance(last, Exception):
                raise last
            yield sql(last)

        yield Transact(body)

    failures: list[tuple[Exception | str, type[Exception]]] = [
        (RuntimeError("the caller's code"), RuntimeError),
        ("SELECT 1 / 0", psycopg.errors.DivisionByZero),
        ("SELECT no_such_column FROM memories", psycopg.errors.UndefinedColumn),
        ("INSERT INTO fusion_config DEFAULT VALUES", PermissionDenied),
        ("SELECT recall(ARRAY['x'], NULL, 0)", InvalidInput),
        ("SELECT content, pg_sleep(5) FROM memories", StoreUnavailable),
    ]
    for error, raised in failures:
        for (org, user), (other_org, other_user) in zip(SCOPES, (*SCOPES[1:], SCOPES[0]), strict=True):
            with pytest.raises(raised) as caught:
                one_connection.perform(failing(error), Scope(org=org, user=user))
            assert shown_to(org, user, str(caught.value)) == set()
            recall = one_connection.as_user(other_org, other_user).recall(COMMON, limit=1000)
            shown = "".join(hit.model_dump_json() for hit in recall.hits)
            assert (shown_to(other_org, other_user, shown), len(recall.hits) > 3) == (set(), True)


async def test_a_cancelled_search_leaves_no_scope_behind(application: str) -> None:
    def slow() -> Any:
        def body() -> Any:
            yield sql("SELECT content, pg_sleep(30) FROM memories")

        yield Transact(body)

    async with AsyncMemoryStore.connect(application, embedder=HashEmbedder(32), min_size=1, max_size=1) as store:
        await store.open_space()
        for (org, user), (other_org, other_user) in zip(SCOPES, (*SCOPES[1:], SCOPES[0]), strict=True):
            task = asyncio.create_task(store.perform(slow(), Scope(org=org, user=user)))
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            recall = await store.as_user(other_org, other_user).recall(COMMON, limit=1000)
            shown = "".join(hit.model_dump_json() for hit in recall.hits)
            assert (shown_to(other_org, other_user, shown), len(recall.hits) > 3) == (set(), True)


async def test_scopes_that_take_turns_concurrently_stay_apart(application: str) -> None:
    async with AsyncMemoryStore.connect(application, embedder=HashEmbedder(32), min_size=1, max_size=2) as store:

        async def one(org: str, user: str, search: dict[str, Any]) -> set[str]:
            recall = await store.as_user(org, user).recall(**search)
            return shown_to(org, user, "".join(hit.model_dump_json() for hit in recall.hits))

        some = [search for number, search in enumerate(searches("acme", "ana")) if number % 5 == 0]
        assert await asyncio.gather(*(one(*scope, search) for search in some for scope in SCOPES)) == [set()] * (
            len(some) * len(SCOPES)
        )


def test_the_scope_is_gone_after_the_commit(application: str) -> None:
    with (
        ConnectionPool(application, min_size=1, max_size=1, open=True) as pool,
        MemoryStore.connect(pool, embedder=HashEmbedder(32)) as store,
    ):
        assert store.as_user("acme", "ana").recall(COMMON).hits
        with pool.connection() as connection:
            settings = "SELECT current_setting('lore.org_id', true), current_setting('lore.user_id', true)"
            assert connection.execute(settings).fetchone() == ("", "")
            connection.execute("SET ROLE lore_user")
            assert connection.execute("SELECT count(*) FROM lore.memories").fetchone() == (0,)
            assert connection.execute("SELECT count(*) FROM lore.recall(ARRAY['gateway'])").fetchone() == (0,)


@pytest.mark.parametrize(("org", "user"), [("", ""), ("acme", ""), ("", "ana"), ("acme", "nobody"), ("nowhere", "ana")])
def test_no_scope_or_half_of_one_is_no_rows(application: str, org: str, user: str) -> None:
    with scoped(application, org, user) as connection:
        shared = connection.execute("SELECT DISTINCT visibility FROM memories").fetchall()
        found = connection.execute("SELECT DISTINCT visibility FROM recall(ARRAY['gateway'], k => 1000)").fetchall()
    # Somebody new in an organisation reads what it shares; in every other case there is nothing.
    new_member = (org, user) == ("acme", "nobody")
    assert found == ([("shared",)] if new_member else [])
    assert shared == ([("shared",)] if org == "acme" else [])


def test_a_scope_without_names_is_refused_before_the_database_is_asked(application: str) -> None:
    with MemoryStore.connect(application, embedder=HashEmbedder(32)) as store:
        for org, user in (("", "ana"), ("acme", ""), ("  ", "ana")):
            with pytest.raises(ScopeMissing):
                store.as_user(org, user)
        with pytest.raises(ScopeMissing):
            store.as_caller(lambda: None).recall("gateway")  # type: ignore[arg-type,return-value]


def test_better_private_rows_of_a_colleague_cost_nobody_a_place(store: MemoryStore) -> None:
    ana, ben = store.as_user("acme", "ana"), store.as_user("acme", "ben")
    ben.remember_many([NewMemory(content=f"walrus census of bay {n}", id=f"b{n}", kind="document") for n in range(10)])
    before = ben.recall("walrus census")
    ana.remember_many([NewMemory(content="walrus census", kind="document") for _ in range(200)])
    after = ben.recall("walrus census")
    assert {hit.id for hit in after.hits} == {f"b{n}" for n in range(10)}
    assert after.hits == before.hits
    assert len(ana.recall("walrus census", limit=10).hits) == 10


def _neighbours(store: MemoryStore, admin: str, org: str, user: str) -> None:
    """Two hundred private rows of somebody else that stand in the way of every leg, with statistics of them."""
    view = store.as_user(org, user)
    view.remember_many(
        [
            NewMemory(
                content=f"walrus census zephyrqux telemetry ERR-4471 number {n}",
                id="census" if n == 0 else None,
                kind="document",
                aliases=("sea cow", "tusker"),
            )
            for n in range(200)
        ]
    )
    StoreAdmin.connect(admin).maintain()


@pytest.mark.parametrize(("org", "user"), [("acme", "ana"), ("globex", "ben"), ("globex", "ana")])
def test_scores_suggestions_and_aliases_depend_on_nobody_else_s_rows(
    store: MemoryStore, database: str, org: str, user: str
) -> None:
    ben = store.as_user("acme", "ben")
    texts = (
        "walrus census of the northern bay",
        "telemetri of the gateway, ERR-4471",
        "zephyrquux is the name of the build host",
        "tusker sightings, every spring",
    )
    # "document" never fades: the scores of two moments are the same number.
    ben.remember_many([NewMemory(content=text, kind="document") for text in texts for _ in range(5)])
    StoreAdmin.connect(database).maintain()

    def picture() -> list[Any]:
        asked = ("walrus census", "zephyrqux", "telemetry", "why did ERR-4471 come back", "sea cow", "tusker", "census")
        recalls = [ben.recall(query, **limits) for query in asked for limits in ({}, {"kinds": ["document"]})]
        words = [ben.explain(query).model_dump_json(include={"words"}) for query in asked]
        return [[hit.model_dump() for hit in recall.hits] for recall in recalls] + words

    before = picture()
    _neighbours(store, database, org, user)
    if org == "globex":
        store.as_user(org, user).add_alias("sea cow", "tusker", "walrus")
    assert picture() == before


def test_an_alias_of_one_organisation_does_not_act_in_another(store: MemoryStore) -> None:
    acme, globex = store.as_user("acme", "ana"), store.as_user("globex", "ana")
    for view in (acme, globex):
        view.remember("Kubernetes runs the gateway", id="m")
    acme.add_alias("Kubernetes", "k8s")
    assert [hit.legs["alias"].matched for hit in acme.recall("k8s").hits if "alias" in hit.legs] == ["Kubernetes"]
    assert [hit for hit in globex.recall("k8s").hits if "alias" in hit.legs] == []
    assert globex.aliases() == []


def test_an_explanation_shows_nothing_foreign(application: str) -> None:
    with MemoryStore.connect(application, embedder=HashEmbedder(32)) as store:
        for org, user in SCOPES:
            for wire in foreign(org, user):
                text = store.as_user(org, user).explain(f"{COMMON} {wire[:-2]}xx").model_dump_json()
                assert shown_to(org, user, text) == set()


def test_a_superuser_s_connection_is_as_bounded_as_any_other(admin: str) -> None:
    with MemoryStore.connect(admin, embedder=HashEmbedder(32), max_size=1) as store:
        for org, user in SCOPES:
            found = store.as_user(org, user).recall(COMMON, limit=1000)
            assert shown_to(org, user, "".join(hit.model_dump_json() for hit in found.hits)) == set()


def test_the_tripwires_are_there_to_be_found(admin: str) -> None:
    with psycopg.connect(admin) as connection:
        texts = " ".join(row[0] for row in connection.execute("SELECT content FROM lore.memories").fetchall())
    assert all(wire in texts for wire in MARKERS)
