"""How often a search goes to the server and back, and that nothing of its scope stays on the connection."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, LiteralString

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import make_conninfo

from faulty_wire import FaultyWire
from lore_retriever import MemoryStore, PermissionDenied
from lore_retriever.admin import StoreAdmin
from lore_retriever.operations.common import halfvec_text
from lore_retriever.steps import HalfVector
from lore_retriever.testing import HashEmbedder
from support import SEARCH_PATH, as_application, kept_database, opened

BOTH = pytest.mark.parametrize("kind", ["sync", "async"])
RESERVED = "lore_test_reserved"  # a login role that has to take the user role before it may do anything


@pytest.fixture(scope="module")
def admin(create_database: Callable[..., str], template: str) -> Iterator[str]:
    with kept_database(create_database, template) as conninfo:
        with MemoryStore.connect(as_application(conninfo), embedder=HashEmbedder(32)) as store:
            for user in ("ana", "ben"):
                store.as_user("acme", user).remember(f"the walrus census of {user}", id="m")
        yield conninfo


@pytest.fixture(scope="module")
def reserved(admin: str) -> str:
    with psycopg.connect(admin, autocommit=True) as connection:
        if connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [RESERVED]).fetchone() is None:
            connection.execute(f"CREATE ROLE {RESERVED} LOGIN PASSWORD 'app'")
            connection.execute(f"GRANT lore_user TO {RESERVED} WITH INHERIT FALSE, SET TRUE")
    return make_conninfo(admin, user=RESERVED, password="app")


def trips(kind: Any, wire: FaultyWire, ask: Callable[[Any], Any]) -> int:
    """Round trips of something asked on a connection that has prepared it."""
    with opened(kind, wire.conninfo, min_size=1, max_size=1) as store:
        ana = store.as_user("acme", "ana")
        for _ in range(8):
            ask(ana)
        before = wire.requests
        found = ask(ana)
        assert [hit.id for hit in found.hits] == ["m"]
        return wire.requests - before


@BOTH
def test_a_search_is_one_round_trip(admin: str, kind: Any) -> None:
    with FaultyWire(as_application(admin)) as wire:
        assert trips(kind, wire, lambda ana: ana.recall("walrus census")) == 1
        assert trips(kind, wire, lambda ana: ana.recall(["walrus census", "", "a count of tusks"])) == 1


@BOTH
def test_a_login_role_that_may_nothing_by_itself_takes_the_user_role_first(reserved: str, kind: Any) -> None:
    with FaultyWire(reserved) as wire:
        assert trips(kind, wire, lambda ana: ana.recall("walrus census")) == 4  # BEGIN, scope, search, COMMIT


@BOTH
def test_a_connection_that_acts_as_another_role_than_it_logged_in_as_takes_the_user_role_first(
    admin: str, kind: Any
) -> None:
    with psycopg.connect(admin, autocommit=True) as connection:
        changed_role(connection, "CREATE ROLE lore_test_switched LOGIN PASSWORD 'app'")
        changed_role(connection, "CREATE ROLE lore_test_inert")
        connection.execute("GRANT lore_user, lore_test_inert TO lore_test_switched")
        connection.execute("ALTER ROLE lore_test_switched SET role = lore_test_inert")
    with FaultyWire(make_conninfo(admin, user="lore_test_switched", password="app")) as wire:
        assert trips(kind, wire, lambda ana: ana.recall("walrus census")) == 4  # refused once, it does not ask again


@BOTH
def test_rights_that_change_while_a_store_is_open_do_not_end_its_searches(admin: str, kind: Any) -> None:
    with psycopg.connect(admin, autocommit=True) as connection:
        changed_role(connection, "CREATE ROLE lore_test_changing LOGIN PASSWORD 'app'")
        connection.execute("GRANT lore_user TO lore_test_changing WITH INHERIT TRUE, SET TRUE")
        with opened(kind, make_conninfo(admin, user="lore_test_changing", password="app")) as store:
            ana = store.as_user("acme", "ana")
            assert [hit.id for hit in ana.recall("walrus census").hits] == ["m"]
            connection.execute("GRANT lore_user TO lore_test_changing WITH INHERIT FALSE, SET TRUE")
            assert [hit.id for hit in ana.recall("walrus census").hits] == ["m"]
            connection.execute("REVOKE lore_user FROM lore_test_changing")
            with pytest.raises(PermissionDenied, match="must be a member of lore_user"):
                ana.recall("walrus census")


def changed_role(connection: psycopg.Connection[Any], statement: LiteralString) -> None:
    """Roles belong to the server and outlive a test's database."""
    with contextlib.suppress(psycopg.errors.DuplicateObject):
        connection.execute(statement)


def test_a_search_goes_by_no_name_of_the_login_roles_own_search_path(admin: str) -> None:
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA decoy")
        connection.execute("GRANT USAGE ON SCHEMA decoy TO PUBLIC")
        for name in ("jsonb", "timestamptz", "text", "int4", "integer", "halfvec"):
            connection.execute(f"CREATE DOMAIN decoy.{name} AS pg_catalog.box")  # type: ignore[arg-type]
        connection.execute(
            "CREATE FUNCTION decoy.differs(pg_catalog.text, pg_catalog.text) RETURNS boolean LANGUAGE plpgsql"
            " AS $$ BEGIN RAISE 'decoy'; END $$"
        )
        connection.execute(
            "CREATE OPERATOR decoy.<> (LEFTARG = pg_catalog.text, RIGHTARG = pg_catalog.text, FUNCTION = decoy.differs)"
        )
    try:
        options = {"options": "-c search_path=decoy,pg_catalog"}
        with MemoryStore.connect(as_application(admin), embedder=HashEmbedder(32), connect_options=options) as store:
            found = store.as_user("acme", "ana").recall("walrus census", kinds=["fact"], as_of=datetime.now(UTC))
            assert [hit.id for hit in found.hits] == ["m"]
    finally:
        with psycopg.connect(admin, autocommit=True) as connection:
            connection.execute("DROP SCHEMA decoy CASCADE")


@BOTH
def test_a_schema_beyond_ascii_is_searched_in_every_client_encoding(empty_database: str, kind: Any) -> None:
    StoreAdmin.connect(empty_database, schema="gedächtnis").migrate(HashEmbedder(32))
    options = {"client_encoding": "latin1"}
    with opened(kind, as_application(empty_database), schema="gedächtnis", connect_options=options) as store:
        ana = store.as_user("acme", "ana")
        ana.remember("the walrus census", id="m")
        assert [hit.id for hit in ana.recall("walrus census").hits] == ["m"]


def test_one_connection_serves_one_user_after_the_other_and_keeps_nothing_of_either(admin: str) -> None:
    with MemoryStore.connect(as_application(admin), embedder=HashEmbedder(32), min_size=1, max_size=1) as store:
        for user in ("ana", "ben") * 5:
            [hit] = store.as_user("acme", user).recall("walrus census").hits
            assert hit.text == f"the walrus census of {user}"
        with store._driver.pool.connection() as connection:  # the pool's only one
            row = connection.execute(
                "SELECT current_user, current_setting('lore.org_id', true), current_setting('lore.user_id', true)"
            ).fetchone()
    assert row is not None
    assert row[0] == "lore_test_app"
    assert not any(row[1:])


def test_a_search_that_fails_leaves_no_scope_behind(admin: str) -> None:
    with MemoryStore.connect(as_application(admin), embedder=HashEmbedder(32), min_size=1, max_size=1) as store:
        with store._driver.pool.connection() as connection, pytest.raises(psycopg.errors.InvalidParameterValue):
            connection.execute(
                "SELECT r.* FROM lore.enter_search('lore_user', 'acme', 'ana', '', '', ARRAY['x'], NULL, NULL) AS e"
                " CROSS JOIN LATERAL lore.recall(e.texts, e.embeddings, 0) AS r"
            )
        with store._driver.pool.connection() as connection:
            assert connection.execute("SELECT count(*) FROM lore.memories").fetchone() == (0,)


@pytest.fixture(scope="module")
def plain(admin: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute("SELECT set_config('search_path', %s, false)", [SEARCH_PATH])
        yield connection


@given(numbers=st.lists(st.floats(-1, 1, width=16), min_size=1, max_size=40))
def test_a_vector_arrives_in_binary_as_it_does_in_text(plain: psycopg.Connection[Any], numbers: list[float]) -> None:
    row = plain.execute(
        "SELECT (%s::halfvec)::text, (%s::halfvec)::text", [HalfVector(numbers), halfvec_text(numbers)]
    ).fetchone()
    assert row is not None
    assert row[0] == row[1]
