"""The doctor finds every fault, made for real in a database, and says what to do about it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from cli_tools import ana_of
from lore_retriever import Memories, NewMemory, StoreUnavailable, diagnosis
from lore_retriever.admin import StoreAdmin
from lore_retriever.doctor import Finding, Report, examine
from lore_retriever.testing import HashEmbedder

Examine = Callable[[], Report]


@pytest.fixture
def look(app_database: str, database: str) -> Examine:
    """Examines the test's database, as the application with an administrator beside it."""
    return lambda: examine(app_database, admin=StoreAdmin.connect(database))


def faults(report: Report) -> dict[str, tuple[str, str]]:
    """Check to (state, what was told) of all that is not fine."""
    return {finding.check: (finding.state, finding.told) for finding in report.findings if finding.state != "ok"}


def the_fault(report: Report, check: str, state: str) -> str:
    """What was told of the one fault; it has a way out."""
    found = [finding for finding in report.findings if finding.state != "ok"]
    assert [(finding.check, finding.state) for finding in found] == [(check, state)]
    assert found[0].way_out
    return found[0].told


def test_a_sound_store_has_no_findings(look: Examine, ana: Memories) -> None:
    ana.remember_many([NewMemory(content=f"alpha {n}") for n in range(30)])
    report = look()
    assert faults(report) == {}
    assert report.exit_code == 0
    assert {finding.check for finding in report.findings} >= {
        "server",
        "extensions",
        "schema",
        "roles",
        "login role",
        "row security",
        "policies",
        "grants to PUBLIC",
        "functions",
        "owners",
        "rights",
        "vacuum",
        "embedding model",
        "contents",
        "statistics",
        "vectors",
    }


# --- schema and extensions


def test_a_missing_store_is_told_with_the_command_that_makes_one(empty_database: str) -> None:
    report = examine(empty_database)
    assert report.exit_code == 3
    [schema] = [finding for finding in report.findings if finding.check == "schema"]
    assert (schema.state, schema.way_out and "lore-retriever migrate" in schema.way_out) == ("broken", True)
    [extensions] = [finding for finding in report.findings if finding.check == "extensions"]
    assert "vector" in extensions.told


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("DELETE FROM migrations WHERE number = (SELECT max(number) FROM migrations)", "is behind"),
        ("INSERT INTO migrations (number, name, hash) VALUES (9999, '9999_future', 'x')", "newer lore-retriever"),
        ("UPDATE migrations SET hash = 'x' WHERE number = 3", "0003_tables"),
    ],
)
def test_a_schema_that_does_not_fit_is_told_and_is_exit_code_3(
    look: Examine, admin_connection: psycopg.Connection[Any], change: str, told: str
) -> None:
    admin_connection.execute(change.encode())
    report = look()
    assert told in the_fault(report, "schema", "broken")
    assert report.exit_code == 3


def test_a_missing_extension_is_named(look: Examine, admin_connection: psycopg.Connection[Any]) -> None:
    admin_connection.execute("DROP EXTENSION fuzzystrmatch")
    assert "fuzzystrmatch" in the_fault(look(), "extensions", "broken")


def test_an_extension_in_a_schema_that_users_may_not_use_is_told(
    look: Examine, admin_connection: psycopg.Connection[Any]
) -> None:
    admin_connection.execute("CREATE SCHEMA hidden; ALTER EXTENSION fuzzystrmatch SET SCHEMA hidden")
    assert "hidden" in the_fault(look(), "extensions", "broken")


def test_old_servers_encodings_and_pgvectors_are_refused() -> None:
    server = {"version_number": 140_012, "version": "14.12", "encoding": "SQL_ASCII", "is_standby": False}
    assert [(each.check, each.state) for each in diagnosis.judge_server(server)] == [
        ("server", "broken"),
        ("encoding", "broken"),
    ]
    names = ("vector", "pg_trgm", "btree_gin", "unaccent", "fuzzystrmatch")
    rows = [{"name": name, "schema": "public", "version": "0.7.4", "is_reachable": True} for name in names]
    [finding] = diagnosis.judge_extensions(rows)
    assert (finding.check, finding.state) == ("pgvector", "broken")


# --- roles and rights


@contextmanager
def login(database: str, name: str, options: str) -> Iterator[str]:
    """Connection string of a login role that lives as long as the block."""
    role = f"lore_test_{name}_{os.getpid()}"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'x' {options}".encode())
        try:
            yield make_conninfo(database, user=role, password="x")
        finally:
            connection.execute(f"DROP ROLE {role}".encode())


@pytest.mark.parametrize(
    ("options", "state", "told"),
    [
        ("SUPERUSER", "warning", "is a superuser"),
        ("BYPASSRLS IN ROLE lore_user", "warning", "BYPASSRLS"),
        ("IN ROLE lore_user, lore_service", "warning", "can also become lore_service"),
        ("IN ROLE lore_user, lore_owner", "warning", "can also become lore_owner"),
    ],
)
def test_a_login_role_that_could_do_more_than_lore_user_is_a_warning(
    database: str, options: str, state: str, told: str
) -> None:
    with login(database, "more", options) as conninfo:
        report = examine(conninfo, admin=StoreAdmin.connect(database))
    assert told in the_fault(report, "login role", state)
    assert report.exit_code == 0


def test_a_login_role_outside_lore_user_is_broken(database: str) -> None:
    with login(database, "out", "") as conninfo:
        report = examine(conninfo, admin=StoreAdmin.connect(database))
    assert "not a member of lore_user" in faults(report)["login role"][1]
    assert faults(report)["embedding model"][0] == "unknown"
    assert report.exit_code == 1


def test_roles_that_are_missing_or_pass_row_security_are_named() -> None:
    server = {"login": "app", "is_superuser": False, "bypasses": False}
    names = ("lore_owner", "lore_search", "lore_service", "lore_user")
    rows = [{"name": name, "is_unbounded": name == "lore_search", "is_member": name == "lore_user"} for name in names]
    roles, login_role = diagnosis.judge_roles(server, rows)
    assert (roles.state, "lore_search" in roles.told, login_role.state) == ("broken", True, "ok")
    roles, _ = diagnosis.judge_roles(server, [row for row in rows if row["name"] != "lore_service"])
    assert (roles.state, roles.told) == ("broken", "missing: lore_service.")


@pytest.mark.parametrize(
    ("change", "check", "told"),
    [
        ("ALTER TABLE memories NO FORCE ROW LEVEL SECURITY", "row security", "memories"),
        ("ALTER TABLE vectors DISABLE ROW LEVEL SECURITY", "row security", "vectors"),
        ("CREATE TABLE extra (org text)", "row security", "extra"),
        ("CREATE POLICY oops ON memories FOR SELECT TO lore_user USING (true)", "policies", "oops on memories"),
        ("CREATE POLICY all_of_it ON windows USING (true)", "policies", "all_of_it on windows"),
        ("GRANT SELECT ON memories TO PUBLIC", "grants to PUBLIC", "memories (SELECT)"),
        ("GRANT UPDATE (content) ON memories TO PUBLIC", "grants to PUBLIC", "memories.content (UPDATE)"),
        ("CREATE FUNCTION extra() RETURNS int LANGUAGE sql AS 'SELECT 1'", "grants to PUBLIC", "extra() (EXECUTE)"),
        ("ALTER FUNCTION refresh_statistics() RESET search_path", "functions", "refresh_statistics"),
        ("ALTER FUNCTION refresh_statistics() SET search_path = pg_temp, lore", "functions", "refresh_statistics"),
        ("ALTER TABLE memories OWNER TO CURRENT_USER", "owners", "memories"),
        ("ALTER FUNCTION refresh_statistics() OWNER TO CURRENT_USER", "owners", "refresh_statistics()"),
        ("GRANT UPDATE ON fusion_config TO lore_user", "rights", "may write settings"),
        ("REVOKE USAGE ON SCHEMA lore FROM lore_user", "rights", "may not call recall"),
    ],
)
def test_whatever_loosens_the_bounds_is_found(
    look: Examine, admin_connection: psycopg.Connection[Any], change: str, check: str, told: str
) -> None:
    admin_connection.execute(change.encode())
    report = look()
    state, found = faults(report)[check]
    assert (state, told in found) == ("broken", True)
    assert report.exit_code == 1


# --- the embedding space, and what waits


def test_a_space_whose_model_is_unknown_here_is_a_warning_and_naming_it_settles_it(
    look: Examine, app_database: str, database: str, admin_connection: psycopg.Connection[Any]
) -> None:
    admin_connection.execute("UPDATE embedding_space SET model = 'acme/own-model'")
    assert "acme/own-model" in the_fault(look(), "embedding model", "warning")
    admin = StoreAdmin.connect(database)
    named = examine(app_database, admin=admin, embedder=HashEmbedder(32, model="acme/own-model"))
    assert faults(named) == {}
    other = examine(app_database, admin=admin, embedder=HashEmbedder(16))
    assert "16 dimensions" in the_fault(other, "embedding model", "broken")


def test_a_store_without_a_space_is_told_to_migrate_with_a_model(
    look: Examine, admin_connection: psycopg.Connection[Any]
) -> None:
    admin_connection.execute("DELETE FROM embedding_space")
    assert "none is recorded" in the_fault(look(), "embedding model", "broken")


def test_what_waits_is_a_warning_and_what_was_given_up_is_broken(
    look: Examine, ana: Memories, admin_connection: psycopg.Connection[Any]
) -> None:
    ana.remember_many([NewMemory(content="alpha"), NewMemory(content="bravo")], embed=False)
    assert "2 memories wait" in the_fault(look(), "vectors", "warning")
    admin_connection.execute("UPDATE pending SET attempts = 8, error = 'the model is gone'")
    told = the_fault(look(), "vectors", "broken")
    assert "2 memories were given up" in told
    assert "the model is gone" in told


def test_windows_that_lost_their_vector_are_found(
    look: Examine, ana: Memories, admin_connection: psycopg.Connection[Any]
) -> None:
    ana.remember("alpha")
    admin_connection.execute("DELETE FROM vectors")
    assert "1 windows have no vector" in the_fault(look(), "vectors", "broken")


def test_vectors_without_a_code_are_found(
    look: Examine, ana: Memories, admin_connection: psycopg.Connection[Any]
) -> None:
    ana.remember("alpha")
    admin_connection.execute(
        "INSERT INTO centres (space, centre, embedding)"
        " SELECT space, 1, array_fill(0.1, ARRAY[32])::vector::halfvec FROM embedding_space"
    )
    admin_connection.execute("UPDATE embedding_space SET centre = 1")
    assert "1 of 1 vectors have no code" in the_fault(look(), "codes", "broken")


def test_statistics_that_were_never_counted_are_a_warning_that_maintain_settles(
    look: Examine, ana: Memories, database: str, admin_connection: psycopg.Connection[Any]
) -> None:
    ana.remember_many([NewMemory(content=f"alpha {n}") for n in range(30)])
    admin_connection.execute("DELETE FROM scope_statistics")
    assert "1 of 1 parts" in the_fault(look(), "statistics", "warning")
    StoreAdmin.connect(database).maintain()
    assert faults(look()) == {}


def test_memories_that_are_found_in_part_only_are_counted(
    look: Examine, ana: Memories, admin_connection: psycopg.Connection[Any]
) -> None:
    ana.remember("alpha", id="long")
    admin_connection.execute("UPDATE memories SET partly_embedded = true")
    assert "1 memories are found by the meaning of their first part" in the_fault(look(), "contents", "warning")


def test_dead_rows_are_a_warning(look: Examine, ana: Memories, database: str) -> None:
    ana.remember_many([NewMemory(content=f"alpha {n}") for n in range(300)], embed=False)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("ALTER TABLE lore.memories SET (autovacuum_enabled = false)")
        for _ in range(5):
            connection.execute("UPDATE lore.memories SET agent = 'x'")
        connection.execute("SELECT pg_stat_force_next_flush()")
    assert "memories" in faults(look())["vacuum"][1]
    StoreAdmin.connect(database).maintain()
    assert "vacuum" not in faults(look())


# --- what it may not see, and how it is printed


def test_without_an_administrator_the_contents_are_unknown_not_fine(app_database: str) -> None:
    for admin in (None, StoreAdmin.connect(app_database)):
        report = examine(app_database, admin=admin)
        [finding] = [finding for finding in report.findings if finding.state == "unknown"]
        assert finding.check == "contents"
        assert finding.way_out and "--admin-database" in finding.way_out
        assert report.exit_code == 0


def test_a_database_that_does_not_answer_is_no_finding_but_an_error() -> None:
    with pytest.raises(StoreUnavailable):
        examine("host=127.0.0.1 port=1 dbname=x")


def test_the_command_prints_findings_and_ends_with_their_exit_code(
    app_database: str, database: str, admin_connection: psycopg.Connection[Any]
) -> None:
    lore = ana_of(app_database, database)
    fine = lore("doctor")
    assert (fine.exit_code, "✓ row security" in fine.stdout) == (0, True)
    admin_connection.execute("ALTER TABLE memories NO FORCE ROW LEVEL SECURITY")
    broken = lore("doctor")
    assert (broken.exit_code, "✗ row security" in broken.stdout) == (1, True)
    as_json = lore("doctor", "--json")
    report = Report.model_validate_json(as_json.stdout)
    assert (as_json.exit_code, report.exit_code) == (1, 1)
    assert [Finding.model_validate(each) for each in json.loads(as_json.stdout)["findings"]]
    admin_connection.execute("DELETE FROM migrations WHERE number = (SELECT max(number) FROM migrations)")
    assert lore("doctor").exit_code == 3


def test_another_schema_is_examined_when_it_is_named(database: str) -> None:
    StoreAdmin.connect(database, schema="second").migrate(HashEmbedder(32))
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("ALTER TABLE second.memories NO FORCE ROW LEVEL SECURITY")
    admin = StoreAdmin.connect(database, schema="second")
    assert faults(examine(database, schema="second", admin=admin))["row security"][0] == "broken"
    assert "row security" not in faults(examine(database, admin=StoreAdmin.connect(database)))
