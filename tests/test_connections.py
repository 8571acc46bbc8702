"""Opening, losing, giving back and closing connections."""

from __future__ import annotations

import asyncio
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from faulty_wire import FaultyWire
from lore_retriever import (
    AsyncMemoryStore,
    EmbeddingSpaceMismatch,
    InvalidInput,
    MemoryStore,
    PermissionDenied,
    SchemaMismatch,
    Scope,
    StoreUnavailable,
)
from lore_retriever.admin import StoreAdmin
from lore_retriever.testing import HashEmbedder
from support import as_application, kept_database, opened, operation

EMBEDDER = HashEmbedder(32)
BOTH = pytest.mark.parametrize("kind", ["sync", "async"])


@pytest.fixture(scope="module")
def admin(create_database: Callable[..., str], template: str) -> Iterator[str]:
    with kept_database(create_database, template) as conninfo:
        with MemoryStore.connect(as_application(conninfo), embedder=EMBEDDER) as store:
            store.as_user("acme", "ana").remember("the walrus census", id="m")
        yield conninfo


@pytest.fixture(scope="module")
def application(admin: str) -> str:
    return as_application(admin)


def kill_backends(admin: str) -> int:
    """Cut every application connection of the database; how many there were."""
    with psycopg.connect(admin, autocommit=True) as connection:
        cut = connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchall()
    return len(cut)


SCOPE = Scope(org="acme", user="ana")


# --- opening ---


@BOTH
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"host": "127.0.0.1", "port": 1}, r"no connection within 0.5 s: .*refused.*Check that the server runs"),
        ({"host": "no-such-host.invalid"}, r"no connection within 0.5 s: .*no-such-host\.invalid"),
    ],
)
def test_a_server_that_cannot_be_reached_is_named_in_time_with_the_reason(
    application: str, kind: str, change: dict[str, Any], said: str
) -> None:
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match=said), opened(kind, make_conninfo(application, **change), timeout_s=0.5):
        pass
    assert time.monotonic() - began < 5


@BOTH
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"dbname": "no_such_database"}, 'database "no_such_database" does not exist'),
        ({"user": "no_such_role"}, r"no_such_role"),
    ],
)
def test_a_login_that_waiting_does_not_mend_is_refused_at_once(
    application: str, kind: str, change: dict[str, Any], said: str
) -> None:
    began = time.monotonic()
    refused = pytest.raises(StoreUnavailable, match=f"is refused: .*{said}.* Check the connection string")
    with refused, opened(kind, make_conninfo(application, **change), timeout_s=30):
        pass
    assert time.monotonic() - began < 5


@BOTH
def test_what_is_no_connection_string_is_refused_at_once_and_never_quoted(kind: str) -> None:
    for wrong in ("hots=localhost password=s3cret", "host=localhost s3cret", "postgresql://u:s3cret@[/x"):
        with pytest.raises(InvalidInput, match="no connection string") as refused, opened(kind, wrong):
            pass
        assert "s3cret" not in "".join(traceback.format_exception(refused.value))
    with pytest.raises(InvalidInput, match="no connection string"):
        MemoryStore.admin("hots=localhost")


@pytest.mark.parametrize("store", [MemoryStore, AsyncMemoryStore])
def test_the_name_of_a_model_is_no_embedder(application: str, store: Any) -> None:
    with pytest.raises(InvalidInput, match=r"embedder is 'nope', a name; give an embedder: OfflineEmbedder\(\)"):
        store.connect(application, embedder="nope")


@BOTH
def test_an_option_that_no_connection_knows_is_named_at_once(application: str, kind: str) -> None:
    with (
        pytest.raises(StoreUnavailable, match="hots"),
        opened(kind, application, connect_options={"hots": "x"}, timeout_s=30),
    ):
        pass


@BOTH
def test_a_server_that_starts_in_time_is_waited_for(admin: str, kind: str, tmp_path: Path) -> None:
    with FaultyWire(admin) as wire:
        real = Path(str(psycopg.conninfo.conninfo_to_dict(wire.conninfo)["host"])) / ".s.PGSQL.5432"
        late = threading.Timer(0.5, lambda: (tmp_path / real.name).symlink_to(real))
        late.start()
        with opened(kind, make_conninfo(wire.conninfo, host=str(tmp_path)), timeout_s=20) as store:
            assert store.as_user("acme", "ana").recall("walrus").hits
    late.join()


@BOTH
def test_a_database_without_a_store_is_named_with_the_way_out(empty_database: str, kind: str) -> None:
    with opened(kind, empty_database) as store:
        for attempt in (lambda v: v.recall("x"), lambda v: v.remember("x"), lambda v: v.list(), lambda v: v.get("m")):
            with pytest.raises(SchemaMismatch, match="lore-retriever migrate"):
                attempt(store.as_user("acme", "ana"))


def test_a_store_without_a_space_says_that_an_embedder_is_needed(empty_database: str) -> None:
    StoreAdmin.connect(empty_database).migrate()
    with (
        MemoryStore.connect(empty_database) as store,
        pytest.raises(EmbeddingSpaceMismatch, match=r"no embedding space yet.*migrate"),
    ):
        store.as_user("acme", "ana").recall("x")
    with MemoryStore.connect(empty_database, embedder=EMBEDDER) as store:
        assert store.migrate() == []
        assert store.as_user("acme", "ana").recall("x").hits == ()


@BOTH
def test_a_login_role_outside_lore_user_is_refused_with_the_grant(admin: str, kind: str) -> None:
    with psycopg.connect(admin, autocommit=True) as connection:
        if connection.execute("SELECT FROM pg_roles WHERE rolname = 'lore_test_stranger'").fetchone() is None:
            connection.execute("CREATE ROLE lore_test_stranger LOGIN PASSWORD 'app'")
    stranger = make_conninfo(admin, user="lore_test_stranger", password="app")
    refused = pytest.raises(PermissionDenied, match=r'set role "lore_user".*GRANT lore_user TO')
    with opened(kind, stranger) as store, refused:
        store.as_user("acme", "ana").recall("x")


@BOTH
def test_a_store_of_an_application_cannot_migrate_or_maintain(application: str, kind: str) -> None:
    with opened(kind, application) as store:
        for attempt in (store.migrate, store.maintain):
            with pytest.raises(PermissionDenied, match=r"MemoryStore.admin|--admin-database"):
                attempt()
        assert store.as_user("acme", "ana").recall("walrus").hits


@BOTH
def test_a_store_opened_with_rights_enough_migrates_and_maintains(empty_database: str, kind: str) -> None:
    with opened(kind, empty_database) as store:
        assert store.migrate()
        assert store.migrate() == []
        store.as_user("acme", "ana").remember("walrus")
        assert store.maintain()["parts"] == 1


def test_a_password_is_asked_for_at_each_connection(application: str) -> None:
    asked = []

    def password() -> str:
        asked.append(1)
        return "app"

    without = make_conninfo(**(psycopg.conninfo.conninfo_to_dict(application) | {"password": None}))
    with MemoryStore.connect(without, embedder=EMBEDDER, password=password, min_size=2, max_size=2) as store:
        assert store.as_user("acme", "ana").recall("walrus").hits
    assert len(asked) == 2


async def test_an_asynchronous_store_asks_for_its_password_too(application: str) -> None:
    asked = []
    without = make_conninfo(**(psycopg.conninfo.conninfo_to_dict(application) | {"password": None}))
    async with AsyncMemoryStore.connect(without, embedder=EMBEDDER, password=lambda: asked.append(1) or "app") as store:  # type: ignore[func-returns-value]
        assert (await store.as_user("acme", "ana").recall("walrus")).hits
    assert asked == [1]


@pytest.mark.parametrize("autocommit", [True, False])
def test_a_pool_of_one_s_own_is_used_and_left_open(application: str, autocommit: bool) -> None:
    with ConnectionPool(application, min_size=1, max_size=2, kwargs={"autocommit": autocommit}, open=True) as pool:
        with MemoryStore.connect(pool, embedder=EMBEDDER) as store:
            assert store.as_user("acme", "ana").recall("walrus").hits
            store.as_user("acme", "ana").update("m", pinned=False)
        with pool.connection() as connection:
            assert connection.autocommit is autocommit
            assert connection.execute("SELECT current_user").fetchone() == ("lore_test_app",)


async def test_an_asynchronous_pool_of_one_s_own_is_used_and_left_open(application: str) -> None:
    async with AsyncConnectionPool(application, min_size=1, max_size=2, open=False) as pool:
        async with AsyncMemoryStore.connect(pool, embedder=EMBEDDER) as store:
            assert (await store.as_user("acme", "ana").recall("walrus")).hits
        async with pool.connection() as connection:
            assert await (await connection.execute("SELECT 1")).fetchone() == (1,)


@BOTH
def test_statements_need_not_be_prepared(application: str, admin: str, kind: str) -> None:
    def prepared(threshold: int | None) -> int:
        with opened(kind, application, min_size=1, max_size=1, prepare_threshold=threshold) as store:
            for _ in range(8):
                assert store.as_user("acme", "ana").recall("walrus").hits
            rows = store.perform(operation("SELECT count(*) AS n FROM pg_prepared_statements"), SCOPE)
        return int(rows[0]["n"])

    assert prepared(None) == 0
    assert prepared(2) > 0


async def test_a_store_can_be_awaited_entered_or_opened_once(application: str) -> None:
    awaited = await AsyncMemoryStore.connect(application, embedder=EMBEDDER)
    assert (await awaited.as_user("acme", "ana").recall("walrus")).hits
    assert await awaited is awaited
    await awaited.close()
    async with AsyncMemoryStore.connect(application, embedder=EMBEDDER) as entered:
        assert (await entered.as_user("acme", "ana").recall("walrus")).hits
    unopened = AsyncMemoryStore.connect(application, embedder=EMBEDDER)
    with pytest.raises(StoreUnavailable, match="not open yet"):
        await unopened.as_user("acme", "ana").recall("walrus")


@BOTH
def test_a_closed_store_says_so(application: str, kind: str) -> None:
    with opened(kind, application) as store:
        ana = store.as_user("acme", "ana")
        assert ana.recall("walrus").hits
        store.close()
        with pytest.raises(StoreUnavailable, match="closed"):
            ana.recall("walrus")
        store.close()


def test_leaving_the_block_closes_the_connections(application: str, admin: str) -> None:
    def connections() -> int:
        with psycopg.connect(admin) as connection:
            row = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'leaving'"
            ).fetchone()
        assert row is not None
        return int(row[0])

    def settled(wanted: int) -> bool:
        deadline = time.monotonic() + 5
        while connections() != wanted and time.monotonic() < deadline:
            time.sleep(0.02)
        return connections() == wanted

    named = {"application_name": "leaving"}
    with MemoryStore.connect(application, embedder=EMBEDDER, min_size=3, connect_options=named) as store:
        assert store.as_user("acme", "ana").recall("walrus").hits
        assert settled(3)
    assert settled(0)


# --- losing connections, and giving them back ---


@BOTH
def test_the_next_call_recovers_from_cut_connections(application: str, admin: str, kind: str) -> None:
    with opened(kind, application, min_size=6, max_size=6) as store:
        ana = store.as_user("acme", "ana")
        assert ana.recall("walrus").hits
        for call in (lambda: ana.recall("walrus").hits, lambda: ana.remember("again", id="again"), lambda: ana.list()):
            assert kill_backends(admin) >= 6
            assert call()


@BOTH
def test_a_connection_cut_in_every_try_is_one_clear_error(application: str, kind: str) -> None:
    cutting = "DO $$ BEGIN RAISE 'terminating connection' USING ERRCODE = 'admin_shutdown'; END $$"
    with opened(kind, application, min_size=1, max_size=2) as store:
        began = time.monotonic()
        with pytest.raises(StoreUnavailable, match="did not answer"):
            store.perform(operation(cutting), SCOPE)
        assert time.monotonic() - began < 5
        assert store.as_user("acme", "ana").recall("walrus").hits


@BOTH
def test_searches_that_find_nothing_or_fail_give_their_connections_back(application: str, kind: str) -> None:
    with opened(kind, application, min_size=2, max_size=2, timeout_s=5) as store:
        nobody = store.as_user("nowhere", "nobody")
        assert nobody.recall("x").hits == ()
        for _ in range(200):
            assert nobody.recall("walrus").hits == ()
        for _ in range(200):
            with pytest.raises(InvalidInput):
                store.perform(operation("SELECT recall(ARRAY['x'], NULL, 0)"), SCOPE)
        pool = store._target._driver.pool
        deadline = time.monotonic() + 5
        while pool.get_stats()["pool_available"] < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        stats = pool.get_stats()
        assert (stats["pool_size"], stats["pool_available"], stats.get("requests_waiting", 0)) == (2, 2, 0)


@BOTH
def test_an_exhausted_pool_is_one_clear_error(application: str, kind: str) -> None:
    if kind == "sync":
        with MemoryStore.connect(application, embedder=EMBEDDER, min_size=1, max_size=1, timeout_s=0.3) as store:
            ana = store.as_user("acme", "ana")
            ana.recall("walrus")
            with ThreadPoolExecutor(1) as threads:
                busy = threads.submit(store.perform, operation("SELECT pg_sleep(1)"), SCOPE)
                time.sleep(0.2)
                with pytest.raises(StoreUnavailable, match="give the pool more connections"):
                    ana.recall("walrus")
                busy.result()
            assert ana.recall("walrus").hits
        return

    async def main() -> None:
        connect = AsyncMemoryStore.connect(application, embedder=EMBEDDER, min_size=1, max_size=1, timeout_s=0.3)
        async with connect as store:
            ana = store.as_user("acme", "ana")
            await ana.recall("walrus")
            busy = asyncio.create_task(store.perform(operation("SELECT pg_sleep(1)"), SCOPE))
            await asyncio.sleep(0.2)
            with pytest.raises(StoreUnavailable, match="give the pool more connections"):
                await ana.recall("walrus")
            await busy
            assert (await ana.recall("walrus")).hits

    asyncio.run(main())


def test_a_statement_that_takes_too_long_is_cut_by_the_server_s_time_out(application: str) -> None:
    options = {"options": "-c statement_timeout=200"}
    with MemoryStore.connect(application, embedder=EMBEDDER, connect_options=options) as store:
        with pytest.raises(StoreUnavailable, match="time-out"):
            store.perform(operation("SELECT pg_sleep(5)"), SCOPE)
        assert store.as_user("acme", "ana").recall("walrus").hits
