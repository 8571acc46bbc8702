"""Roles, verbs and tables, read from the catalogue: whatever is new fails here until somebody has said what it is.

What each role may do by its grants stands in test_rights.py; here is what row security makes of it, for every role.
"""

# ruff: noqa: S608 (statements of a test's own)

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest

from support import kept_database, scoped
from tripwires import SCOPES, plant_everywhere

TENANT_TABLES = (
    *("memories", "windows", "vectors", "codes", "pending", "terms"),
    *("scope_statistics", "aliases", "feedback", "reinforcement", "history", "untranslated"),
)
# Of the whole store, without an organisation: no row security, and no user writes them.
STORE_TABLES = {
    "settings",
    "fusion_config",
    "kinds",
    "embedding_space",
    "centres",
    "eval_runs",
    "migrations",
    "token_keys",
}

# Which commands lore_user has a policy for: what is missing is refused or finds nothing, whatever is granted.
USER_POLICIES = {
    "memories": {"SELECT", "INSERT", "UPDATE", "DELETE"},
    "vectors": {"SELECT", "INSERT", "UPDATE", "DELETE"},
    "codes": {"SELECT", "INSERT", "UPDATE", "DELETE"},
    "aliases": {"SELECT", "INSERT", "UPDATE", "DELETE"},
    "windows": {"SELECT", "INSERT", "DELETE"},
    "feedback": {"SELECT", "INSERT", "UPDATE"},
    "history": {"SELECT", "INSERT"},
    "pending": {"SELECT", "ALL"},
    "untranslated": {"ALL"},
    "terms": {"SELECT"},
    "scope_statistics": {"SELECT"},
    "reinforcement": {"SELECT"},
    "role_identities": set(),
}


@pytest.fixture(scope="module")
def admin(create_database: Callable[..., str], template: str) -> Iterator[str]:
    with kept_database(create_database, template) as conninfo:
        plant_everywhere(conninfo)
        yield conninfo


def test_every_relation_is_of_a_tenant_or_of_the_store(admin: str) -> None:
    with psycopg.connect(admin) as connection:
        tables = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'lore'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f')"
        ).fetchall()
    assert {name for (name,) in tables} == {*TENANT_TABLES, *STORE_TABLES, "role_identities"}


def test_users_have_these_policies_and_each_asks_for_the_scope(admin: str) -> None:
    with psycopg.connect(admin) as connection:
        rows = connection.execute(
            "SELECT tablename, roles, cmd, permissive, qual, with_check FROM pg_policies WHERE schemaname = 'lore'"
        ).fetchall()
    found: dict[str, set[str]] = {table: set() for table in (*TENANT_TABLES, "role_identities")}
    for table, roles, command, permissive, qual, check in rows:
        assert (len(roles), permissive) == (1, "PERMISSIVE")
        if roles != ["lore_user"]:
            continue
        found[table].add(command)
        for condition in (qual, check):
            assert condition is None or "scope_org()" in condition, (table, command)
        # whatever writes says what the row may be afterwards
        assert check is not None or command in ("SELECT", "DELETE")
    assert found == USER_POLICIES


def test_nobody_else_sees_rows_but_the_service_role_and_the_search(admin: str) -> None:
    with psycopg.connect(admin) as connection:
        rows = connection.execute(
            "SELECT tablename, roles, cmd, qual FROM pg_policies WHERE schemaname = 'lore' AND roles <> '{lore_user}'"
        ).fetchall()
    expected = {(table, "lore_service", "ALL") for table in (*TENANT_TABLES, "role_identities")}
    searched = {*TENANT_TABLES, "role_identities"} - {"untranslated"}
    expected |= {(table, "lore_search", "SELECT") for table in searched}
    assert {(table, roles[0], command) for table, roles, command, _ in rows} == expected
    # of the mapping, the search sees the row of whoever logged in
    assert [qual for table, roles, _, qual in rows if (table, roles) == ("role_identities", ["lore_search"])] == [
        "(role_name = SESSION_USER)"
    ]


def test_no_role_of_ours_may_empty_watch_or_refer_to_a_table(admin: str) -> None:
    """TRUNCATE passes row security, REFERENCES tells which keys exist, TRIGGER runs with the rights of others."""
    with psycopg.connect(admin) as connection:
        granted = connection.execute(
            """
            SELECT r.rolname, c.relname, p.verb
            FROM pg_class AS c CROSS JOIN unnest(ARRAY['TRUNCATE', 'REFERENCES', 'TRIGGER']) AS p(verb)
            CROSS JOIN (SELECT rolname FROM pg_roles WHERE rolname IN ('lore_user', 'lore_search', 'lore_service')) AS r
            WHERE c.relnamespace = 'lore'::regnamespace AND c.relkind = 'r' AND has_table_privilege(r.rolname, c.oid, p.verb)
            """
        ).fetchall()
        sequences = connection.execute(
            "SELECT r.rolname, c.relname FROM pg_class AS c"
            " CROSS JOIN (SELECT rolname FROM pg_roles WHERE rolname IN ('lore_user', 'lore_search', 'lore_service')) AS r"
            " WHERE c.relnamespace = 'lore'::regnamespace AND c.relkind = 'S'"
            " AND has_sequence_privilege(r.rolname, c.oid, 'USAGE, SELECT, UPDATE')"
        ).fetchall()
        schemas = connection.execute(
            "SELECT r.rolname FROM pg_roles AS r WHERE r.rolname IN ('lore_user', 'lore_search', 'lore_service')"
            " AND has_schema_privilege(r.rolname, 'lore', 'CREATE')"
        ).fetchall()
    assert (granted, sequences, schemas) == ([], [], [])


@pytest.mark.parametrize("table", TENANT_TABLES)
def test_the_owner_of_the_tables_sees_and_changes_no_row(admin: str, table: str) -> None:
    """FORCE: without it, whoever owns a table would pass its policies."""
    for org, user in (*SCOPES, ("", "")):
        with scoped(admin, org, user, role="lore_owner") as connection:
            for statement in (f"SELECT FROM {table}", f"UPDATE {table} SET org = org", f"DELETE FROM {table}"):
                assert connection.execute(statement.encode()).rowcount == 0
            insert = f"INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT (NULL::{table}).*"
            with pytest.raises(
                (psycopg.errors.InsufficientPrivilege, psycopg.errors.NotNullViolation, psycopg.errors.GeneratedAlways)
            ):
                connection.execute(insert.encode())


@pytest.mark.parametrize("table", TENANT_TABLES)
def test_the_search_s_role_reads_all_and_writes_nothing(admin: str, table: str) -> None:
    with psycopg.connect(admin) as connection:
        row = connection.execute(f"SELECT count(*) FROM lore.{table}".encode()).fetchone()
    assert row is not None
    assert row[0] > 0
    with scoped(admin, "", "", role="lore_search") as connection:
        if table not in ("feedback", "history", "untranslated"):
            assert connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchone() == row
        for statement in (
            f"UPDATE {table} SET org = org",
            f"DELETE FROM {table}",
            f"INSERT INTO {table} DEFAULT VALUES",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                connection.execute(statement.encode())


@pytest.mark.parametrize("table", TENANT_TABLES)
def test_a_user_without_a_scope_meets_an_empty_table(admin: str, table: str) -> None:
    for org, user in (("", ""), ("", "ana")):
        with scoped(admin, org, user) as connection:
            assert connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchone() == (0,)
    with scoped(admin, "acme", "") as connection:
        # an organisation without a user: at most what it shares
        own = {"memories": "visibility = 'private'", "vectors": "NOT shared", "aliases": "NOT shared"}.get(
            table, "owner <> ''"
        )
        if table in ("windows", "reinforcement", "feedback", "history"):
            own = f"NOT EXISTS (SELECT FROM memories AS m WHERE m.org = {table}.org AND m.key = {table}.key AND m.visibility = 'shared')"
        assert connection.execute(f"SELECT count(*) FROM {table} WHERE {own}".encode()).fetchone() == (0,)


def test_statements_about_the_tables_are_planned_with_one_look_at_the_scope(admin: str) -> None:
    """The policies ask for the scope once a statement, not once a row: it is an InitPlan in every plan."""
    with scoped(admin, "acme", "ana") as connection:
        for table in TENANT_TABLES:
            plan = connection.execute(f"EXPLAIN (VERBOSE) SELECT * FROM {table}".encode()).fetchall()
            lines = [line for (line,) in plan]
            conditions = [
                line
                for line in lines
                if line.strip().startswith(("Filter:", "Index Cond:", "Recheck Cond:", "Join Filter:"))
            ]
            assert any("InitPlan" in line for line in lines)
            assert conditions
            assert not any(
                "current_setting" in line or "scope_org" in line or "scope_user" in line for line in conditions
            ), table
