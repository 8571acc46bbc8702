"""docs/howto/backup.md as it stands: a role for backups, roles apart, a restoration on another server, and what it keeps."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lore_retriever import MemoryStore
from lore_retriever.admin import StoreAdmin
from lore_retriever.embedded import EmbeddedPostgres
from lore_retriever.testing import HashEmbedder
from servers import own_server
from support import APPLICATION, as_application, postgres_program, run_psql
from tripwires import SCOPES, leaks, plant_everywhere, searches

EMBEDDER = HashEmbedder(32)
GUIDE = Path(__file__).parents[1] / "docs" / "howto" / "backup.md"

POLICIES = "SELECT tablename, policyname, roles::text, cmd, qual, with_check FROM pg_policies ORDER BY 1, 2"
RIGHTS = (
    "SELECT c.relname, c.relowner::regrole::text, c.relrowsecurity, c.relforcerowsecurity,"
    " ARRAY(SELECT a::text FROM unnest(c.relacl) AS a ORDER BY 1)"
    " FROM pg_class AS c WHERE c.relnamespace = 'lore'::regnamespace AND c.relname <> 'migrations' ORDER BY 1"
)
FUNCTIONS = (
    "SELECT p.oid::regprocedure::text, p.proowner::regrole::text, p.prosecdef, translate(p.proconfig::text, '\"\\', ''),"
    " ARRAY(SELECT a::text FROM unnest(p.proacl) AS a ORDER BY 1)"
    " FROM pg_proc AS p WHERE p.pronamespace = 'lore'::regnamespace ORDER BY 1"
)
TABLES = "SELECT relname FROM pg_class WHERE relnamespace = 'lore'::regnamespace AND relkind = 'r' ORDER BY 1"


def blocks(language: str) -> list[str]:
    """The guide's code in a language, in its order."""
    return re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)


def shell(script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run what the guide tells to type, with the programs of the built-in Postgres."""
    path = f"{postgres_program('psql').parent}:{os.environ['PATH']}"
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        env=plain | {"PATH": path} | variables,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def source() -> Iterator[EmbeddedPostgres]:
    """A server with rows of everybody's in every table."""
    with own_server() as server:
        StoreAdmin.connect(server.conninfo()).migrate(EMBEDDER)
        plant_everywhere(server.conninfo())
        run_psql(server.conninfo(), blocks("sql")[0])
        yield server


@pytest.fixture(scope="module")
def restored(source: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """Another server, restored as the guide says."""
    folder = tmp_path_factory.mktemp("backup")
    back_up, restore = blocks("sh")[:2]
    done = shell(
        f"cd {folder}\n{back_up}",
        DATABASE=source.conninfo(user="lore_backup"),
        ADMIN=source.conninfo(dbname="postgres"),
    )
    assert done.returncode == 0, done.stderr
    with own_server() as server:
        done = shell(
            f"cd {folder}\n{restore}",
            SERVER=server.conninfo(dbname="postgres"),
            DATABASE=server.conninfo(dbname="restored"),
        )
        assert done.returncode == 0, done.stderr
        yield server


def asked(conninfo: str, query: str) -> list[Any]:
    with psycopg.connect(conninfo) as connection:
        return connection.execute(query.encode()).fetchall()


def test_the_owner_cannot_dump_what_row_security_hides_from_it(source: EmbeddedPostgres) -> None:
    as_owner = "ALTER ROLE lore_owner LOGIN"
    with psycopg.connect(source.conninfo(), autocommit=True) as connection:
        connection.execute(as_owner)
    done = shell('pg_dump --dbname "$DATABASE" --schema lore', DATABASE=source.conninfo(user="lore_owner"))
    assert done.returncode != 0
    assert "row-level security" in done.stderr or "permission denied" in done.stderr


def test_the_role_for_backups_reads_everything_and_writes_nothing(source: EmbeddedPostgres) -> None:
    with psycopg.connect(source.conninfo(user="lore_backup"), autocommit=True) as connection:
        assert connection.execute("SELECT count(DISTINCT org) FROM lore.memories").fetchone() == (2,)
        for statement in (
            "DELETE FROM lore.memories",
            "UPDATE lore.memories SET pinned = true",
            "CREATE TABLE lore.mine ()",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.encode())


def test_a_restored_store_has_every_row_policy_right_and_function(
    source: EmbeddedPostgres, restored: EmbeddedPostgres
) -> None:
    before, after = source.conninfo(), restored.conninfo(dbname="restored")
    for query in (POLICIES, RIGHTS, FUNCTIONS, TABLES):
        assert asked(before, query)
        assert asked(before, query) == asked(after, query)
    for (table,) in asked(before, TABLES):
        whole = f"SELECT count(*), md5(string_agg(t::text, ',' ORDER BY t::text)) FROM lore.{table} AS t"  # noqa: S608
        assert asked(before, whole) == asked(after, whole), table
    assert asked(after, "SELECT count(*) > 0 FROM lore.codes") == [(True,)]
    assert StoreAdmin.connect(after).status().state == "current"


def test_a_restored_store_ranks_as_before_and_shows_nothing_foreign(
    source: EmbeddedPostgres, restored: EmbeddedPostgres
) -> None:
    with (
        MemoryStore.connect(source.conninfo(user=APPLICATION), embedder=EMBEDDER) as one,
        MemoryStore.connect(restored.conninfo(dbname="restored", user=APPLICATION), embedder=EMBEDDER) as other,
    ):
        for scope in SCOPES[:2]:
            for search in searches(*scope):
                if "as_of" in search:
                    continue
                found = [store.as_user(*scope).recall(**search) for store in (one, other)]
                first, second = ([(h.owner, h.id, h.relevance, h.legs, h.text) for h in f.hits] for f in found)
                assert first == second
            assert leaks(other.as_user(*scope), *scope) == []


def test_a_restored_store_is_written_on_where_the_old_one_stopped(restored: EmbeddedPostgres) -> None:
    conninfo = restored.conninfo(dbname="restored")
    with MemoryStore.connect(as_application(conninfo), embedder=EMBEDDER) as store:
        ana = store.as_user("new", "ana")
        ana.remember("the walrus census", id="m", aliases=("tusks",))
        ana.update("m", content="the walrus census of this year")
        assert [hit.id for hit in ana.recall("tusks").hits] == ["m"]
        assert ana.history("m")
    assert StoreAdmin.connect(conninfo).maintain()["parts"] >= 1
