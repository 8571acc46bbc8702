"""Reads on a streaming standby, and what a store does when that takes over from its primary."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from lore_retriever import MemoryStore, NewMemory, PermissionDenied, StoreUnavailable
from lore_retriever.admin import StoreAdmin
from lore_retriever.embedded import EmbeddedPostgres
from lore_retriever.testing import HashEmbedder
from servers import hosts, own_server, standby_of, wait_for_replay
from support import APPLICATION, as_application, opened
from tripwires import SCOPES, leaks, plant

EMBEDDER = HashEmbedder(32)
BOTH = pytest.mark.parametrize("kind", ["sync", "async"])


@pytest.fixture(scope="module")
def primary() -> Iterator[EmbeddedPostgres]:
    """A server with everybody's memories."""
    with own_server() as server:
        StoreAdmin.connect(server.conninfo()).migrate(EMBEDDER)
        with MemoryStore.connect(as_application(server.conninfo()), embedder=EMBEDDER) as store:
            plant(store)
        StoreAdmin.connect(server.conninfo()).maintain()
        yield server


@pytest.fixture(scope="module")
def standby(primary: EmbeddedPostgres) -> Iterator[EmbeddedPostgres]:
    with standby_of(primary) as server:
        wait_for_replay(primary, server)
        yield server


def reads(view: Any) -> list[Any]:
    """What every way of reading returns, less what is new each time."""
    recalls = [view.recall("gateway restarts nightly", limit=limit) for limit in (1, 10, 1000)]
    recalls += [view.recall("ERR-4471"), view.recall("the usual nickname"), view.recall("lighthouse")]
    recalls += [view.recall(["gateway", "nightly"], filter={"team": "infra"}), view.recall("gatway restrats")]
    seen: list[Any] = [[(hit.owner, hit.id, hit.relevance, hit.legs, hit.text) for hit in r.hits] for r in recalls]
    seen.append(view.get("note"))
    seen.append(view.list(limit=1000))
    seen.append(view.build_context("gateway").text)
    seen.append(view.history("note"))
    seen.append(view.aliases())
    seen.append(view.misled())
    assert view.explain("gateway")
    return seen


@BOTH
def test_every_read_says_the_same_on_the_standby(
    primary: EmbeddedPostgres, standby: EmbeddedPostgres, kind: str
) -> None:
    with (
        opened(kind, primary.conninfo(user=APPLICATION)) as first,
        opened(kind, standby.conninfo(user=APPLICATION)) as second,
    ):
        for scope in SCOPES[:2]:
            expected = reads(first.as_user(*scope))
            assert expected[0]
            assert reads(second.as_user(*scope)) == expected


def test_the_standby_shows_nothing_foreign(standby: EmbeddedPostgres) -> None:
    with MemoryStore.connect(standby.conninfo(user=APPLICATION), embedder=EMBEDDER) as store:
        found = []
        for search in ({"limit": 1000}, {"pinned": True}):
            found += store.as_user("acme", "ana").list(**search)
        assert found
        assert {memory.owner for memory in found if memory.visibility == "private"} == {"ana"}


@BOTH
def test_a_write_on_the_standby_says_where_writes_go(standby: EmbeddedPostgres, kind: str) -> None:
    with opened(kind, standby.conninfo(user=APPLICATION)) as store:
        ana = store.as_user("acme", "ana")
        for write in (
            lambda: ana.remember("x"),
            lambda: ana.update("note", pinned=True),
            lambda: ana.forget("note"),
            lambda: ana.feedback("note", useful=True),
            lambda: ana.add_alias("a", "b"),
        ):
            with pytest.raises(StoreUnavailable, match="target_session_attrs=read-write"):
                write()
        assert ana.get("note")


@BOTH
def test_a_store_that_knows_both_servers_goes_on_with_the_one_that_took_over(kind: str) -> None:
    """Written before, found afterwards; written afterwards, by the same open store."""
    with own_server() as first:
        StoreAdmin.connect(first.conninfo()).migrate(EMBEDDER)
        as_application(first.conninfo())
        with standby_of(first) as second:
            values = hosts(first, second, user=APPLICATION)
            writing = make_conninfo(**values, target_session_attrs="read-write")
            reading = make_conninfo(**values, target_session_attrs="prefer-standby")
            with opened(kind, writing) as writer, opened(kind, reading) as reader:
                writer.as_user("acme", "ana").remember_many(
                    [NewMemory(content=f"walrus {n}", id=f"w{n}") for n in range(20)]
                )
                wait_for_replay(first, second)
                assert len(reader.as_user("acme", "ana").list()) == 20
                _take_over(first, second)
                writer.as_user("acme", "ana").remember("walrus, after the fall", id="after")
                assert len(writer.as_user("acme", "ana").list()) == 21
                assert writer.as_user("acme", "ana").recall("fall").hits[0].id == "after"
                assert len(reader.as_user("acme", "ana").list()) == 21


def _take_over(primary: EmbeddedPostgres, standby: EmbeddedPostgres) -> None:
    """kill -9 of the primary, and promotion of its standby."""
    os.kill(int((primary.path / "data" / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
    with psycopg.connect(standby.conninfo(), autocommit=True) as connection:
        assert connection.execute("SELECT pg_promote(true, 30)").fetchone() == (True,)


def test_a_role_that_may_only_select_and_execute_reads_everything_and_writes_nothing(
    database: str, app_database: str
) -> None:
    with MemoryStore.connect(app_database, embedder=EMBEDDER) as store:
        plant(store)
        expected = reads(store.as_user("acme", "ana"))
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("REVOKE INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA lore FROM lore_user")
        rights = connection.execute(
            "SELECT DISTINCT privilege_type FROM information_schema.column_privileges WHERE grantee = 'lore_user'"
            " UNION SELECT privilege_type FROM information_schema.role_table_grants WHERE grantee = 'lore_user'"
        ).fetchall()
    assert rights == [("SELECT",)]
    with MemoryStore.connect(app_database, embedder=EMBEDDER) as store:
        ana = store.as_user("acme", "ana")
        assert reads(ana) == expected
        assert leaks(ana, "acme", "ana") == []
        for write in (lambda: ana.remember("x"), lambda: ana.forget("note"), lambda: ana.update("note", pinned=True)):
            with pytest.raises(PermissionDenied):
                write()
