"""Databases of every release are brought up to date with their data, under forced row security, while others work."""

from __future__ import annotations

import gzip
import importlib
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import psycopg
import pytest

from lore_retriever import MemoryStore, SchemaMismatch, migrations
from lore_retriever.admin import StoreAdmin
from lore_retriever.queries import sql_folder
from lore_retriever.testing import HashEmbedder
from support import as_application, kept_database, run_psql

ROOT = Path(__file__).parents[1]
EMBEDDER = HashEmbedder(32)
NOW = "as this checkout makes it"
RELEASES = (NOW, *sorted(path.name for path in (ROOT / "tests" / "data" / "releases").glob("*.sql.gz")))

LATER = """\
-- A made-up migration: a column more, and every reference becomes a runbook. Locks: memories.
SET LOCAL ROLE lore_owner;
ALTER TABLE memories NO FORCE ROW LEVEL SECURITY;
ALTER TABLE memories ADD COLUMN mood text NOT NULL DEFAULT 'calm';
UPDATE memories SET kind = 'runbook', mood = 'busy' WHERE kind = 'reference';
ALTER TABLE memories FORCE ROW LEVEL SECURITY;
RESET ROLE;
"""
FORGETFUL = "SET LOCAL ROLE lore_owner; UPDATE memories SET kind = 'runbook' WHERE kind = 'reference'; RESET ROLE;"


@pytest.fixture(scope="module")
def keeper() -> Iterator[ModuleType]:
    """The script that keeps releases."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        yield importlib.import_module("keep_release")
    finally:
        sys.path.remove(str(ROOT / "scripts"))


@pytest.fixture(scope="module")
def dumps(create_database: Callable[..., str], keeper: ModuleType) -> dict[str, str]:
    """Every release's database as SQL."""
    with kept_database(create_database) as conninfo:
        keeper.fill(conninfo)
        found = {NOW: keeper.dump(conninfo).decode()}
    for name in RELEASES[1:]:
        found[name] = gzip.decompress((ROOT / "tests" / "data" / "releases" / name).read_bytes()).decode()
    return found


@pytest.fixture(params=RELEASES)
def released(request: pytest.FixtureRequest, dumps: dict[str, str], empty_database: str) -> str:
    """A database as a release left it, with data."""
    with psycopg.connect(empty_database, autocommit=True) as connection:
        for name in migrations.EXTENSIONS:
            connection.execute(f"CREATE EXTENSION {name} SCHEMA public")
    run_psql(empty_database, dumps[request.param])
    return empty_database


@pytest.fixture
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Makes this package one that knows a migration more; the name of that."""

    def know(text: str) -> str:
        shutil.copytree(sql_folder() / "migrations", tmp_path / "migrations", dirs_exist_ok=True)
        number = max(migration.number for migration in migrations.known_migrations()) + 1
        (tmp_path / "migrations" / f"{number:04}_made_up.sql").write_text(text)
        monkeypatch.setattr(migrations, "sql_folder", lambda: tmp_path)
        return f"{number:04}_made_up"

    return know


def rows(conninfo: str, query: str) -> list[Any]:
    with psycopg.connect(conninfo, options="-c search_path=lore,public") as connection:
        return connection.execute(query.encode()).fetchall()


def check_data(conninfo: str, keeper: ModuleType) -> None:
    """What `keep_release.fill` stored is there and found, and more can be written."""
    with MemoryStore.connect(as_application(conninfo), embedder=EMBEDDER) as store:
        for org, user in keeper.SCOPES:
            view = store.as_user(org, user)
            own = {memory.id for memory in view.list(limit=1000) if memory.owner == user}
            assert own == {"note", "long", f"shared by {user}", "changed", "back", "voted", "waiting"}
            assert view.get("long").content == keeper._LONG
            assert view.get("long").metadata == {"team": "infra", "n": [1, {"a": None}]}
            assert view.get("old").superseded_by == "changed"
            assert [entry.event for entry in view.history("back")] == ["invalidated", "restored"]
            assert [hit.id for hit in view.recall("ERR-4471", limit=1).hits] == ["note"]
            assert f"shared by {user}" in [hit.id for hit in view.recall(f"{user}'s plan").hits]
            assert f"shared by {user}" in [hit.id for hit in view.recall("部署").hits]
            assert view.recall("useful twice", limit=1).hits[0].reinforcement > 1
            assert view.aliases() == [("k8s", "Kubernetes")]
            new = view.remember("written after the upgrade")
            assert view.recall("written upgrade", limit=1).hits[0].id == new
    for table, least in (("codes", 10), ("history", 6), ("fusion_config", 1), ("centres", 1)):
        assert rows(conninfo, f"SELECT count(*) >= {least} FROM {table}") == [(True,)]  # noqa: S608 (our own names)


def unforced(conninfo: str) -> list[Any]:
    return rows(conninfo, "SELECT relname FROM pg_class WHERE relrowsecurity AND NOT relforcerowsecurity")


def test_a_database_of_any_release_is_brought_up_to_date_with_its_data(released: str, keeper: ModuleType) -> None:
    admin = StoreAdmin.connect(released)
    assert admin.status().state in ("current", "behind")
    admin.migrate(EMBEDDER)
    assert admin.status().state == "current"
    check_data(released, keeper)
    admin.embed(EMBEDDER)
    assert admin.waiting()["memories"] == 0


def test_a_later_migration_changes_the_data_of_every_tenant_and_leaves_row_security_forced(
    released: str, keeper: ModuleType, later: Callable[[str], str]
) -> None:
    admin = StoreAdmin.connect(released)
    admin.migrate(EMBEDDER)
    ((before,),) = rows(released, "SELECT count(*) FROM memories WHERE kind = 'reference'")
    name = later(LATER)
    assert (admin.status().state, admin.status().waiting) == ("behind", (name,))
    assert admin.migrate(EMBEDDER) == [name]
    assert rows(released, "SELECT count(*) FROM memories WHERE kind = 'reference'") == [(0,)]
    assert rows(released, "SELECT count(*) FROM memories WHERE mood = 'busy'") == [(before,)] == [(3,)]
    assert unforced(released) == []
    check_data(released, keeper)


def test_a_migration_that_does_not_lift_row_security_changes_nothing(
    released: str, later: Callable[[str], str]
) -> None:
    """The trap that CONTRIBUTING.md warns of: no error, no row."""
    later(FORGETFUL)
    StoreAdmin.connect(released).migrate(EMBEDDER)
    assert rows(released, "SELECT count(*) FROM memories WHERE kind = 'reference'") == [(3,)]


def test_two_that_upgrade_at_once_do_it_once(released: str, later: Callable[[str], str]) -> None:
    StoreAdmin.connect(released).migrate(EMBEDDER)
    name = later(LATER)
    with ThreadPoolExecutor(3) as threads:
        done = [threads.submit(StoreAdmin.connect(released).migrate, EMBEDDER) for _ in range(3)]
        assert sorted(one.result(60) for one in done) == [[], [], [name]]
    assert rows(released, "SELECT count(*) FROM memories WHERE mood = 'busy'") == [(3,)]


def test_a_migration_that_fails_halfway_leaves_everything_as_it_was(released: str, later: Callable[[str], str]) -> None:
    admin = StoreAdmin.connect(released)
    admin.migrate(EMBEDDER)
    name = later(LATER + "SELECT 1 / 0;")
    with pytest.raises(psycopg.errors.DivisionByZero):
        admin.migrate(EMBEDDER)
    assert admin.status().waiting == (name,)
    assert unforced(released) == []
    assert rows(released, "SELECT count(*) FROM memories WHERE kind = 'reference'") == [(3,)]


def test_an_old_client_is_told_to_upgrade_and_one_that_is_open_works_on(
    released: str, later: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    StoreAdmin.connect(released).migrate(EMBEDDER)
    application = as_application(released)
    with MemoryStore.connect(application, embedder=EMBEDDER) as opened_before:
        ana = opened_before.as_user("acme", "ana")
        assert ana.recall("ERR-4471").hits
        later(LATER)
        StoreAdmin.connect(released).migrate(EMBEDDER)
        monkeypatch.undo()  # the old client's package again
        ana.remember("written by an old client", id="by the old one")
        assert ana.recall("old client", limit=1).hits[0].id == "by the old one"
    told = pytest.raises(SchemaMismatch, match=r"made by a newer lore-retriever\. Upgrade this package")
    with MemoryStore.connect(application, embedder=EMBEDDER) as old, told:
        old.as_user("acme", "ana").recall("x")
    with pytest.raises(SchemaMismatch, match="newer lore-retriever"):
        StoreAdmin.connect(released).migrate(EMBEDDER)


def test_what_is_written_throughout_an_upgrade_is_all_there(released: str, later: Callable[[str], str]) -> None:
    admin = StoreAdmin.connect(released)
    admin.migrate(EMBEDDER)
    with MemoryStore.connect(as_application(released), embedder=EMBEDDER, max_size=3) as store:
        stop = threading.Event()
        written: list[str] = []

        def write(number: int) -> None:
            view = store.as_user("acme", f"writer {number}")
            while not stop.is_set():
                written.append(view.remember(f"walrus of writer {number}"))
                assert view.recall("walrus").hits

        assert store.space  # opened before
        with ThreadPoolExecutor(2) as threads:
            writing = [threads.submit(write, number) for number in range(2)]
            _until(lambda: len(written) >= 4)
            later(LATER)
            admin.migrate(EMBEDDER)
            before = len(written)
            _until(lambda: len(written) >= before + 4)
            stop.set()
            for one in writing:
                one.result(30)
    assert rows(released, "SELECT count(*) FROM memories WHERE owner LIKE 'writer%'") == [(len(written),)]


def _until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)
