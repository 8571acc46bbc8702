"""What each role may do with each table and function, and what its own SQL shows it."""

# ruff: noqa: S608 (statements of a test's own)

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.errors import CheckViolation, InsufficientPrivilege

from lore_retriever import MemoryStore
from lore_retriever.testing import HashEmbedder
from support import as_application, kept_database, run_psql, scoped
from tripwires import COMMON, MARKERS, SCOPES, plant_everywhere, shown_to

TENANT_TABLES = (
    *("memories", "windows", "vectors", "codes", "pending", "terms"),
    *("scope_statistics", "aliases", "feedback", "reinforcement", "history", "untranslated"),
)
# Select, Insert, Update, Delete; a small letter: some columns only.
RIGHTS = {
    "lore_user": {
        "memories": "SiuD",
        "windows": "SI-D",
        "vectors": "SIUD",
        "codes": "SIUD",
        "pending": "SIUD",
        "untranslated": "SIUD",
        "aliases": "SiuD",
        "feedback": "SIu-",
        "history": "Si--",
        **dict.fromkeys(("terms", "scope_statistics", "reinforcement", "settings", "fusion_config"), "S---"),
        **dict.fromkeys(("kinds", "embedding_space", "centres", "migrations"), "S---"),
        **dict.fromkeys(("eval_runs", "role_identities", "token_keys"), "----"),
    },
    "lore_search": {
        **dict.fromkeys(("memories", "windows", "vectors", "codes", "pending", "terms", "scope_statistics"), "S---"),
        **dict.fromkeys(("aliases", "reinforcement", "settings", "fusion_config", "kinds"), "S---"),
        **dict.fromkeys(("embedding_space", "centres"), "S---"),
        "role_identities": "S---",
        **dict.fromkeys(("feedback", "history", "untranslated", "migrations", "eval_runs", "token_keys"), "----"),
    },
    "lore_service": {
        **dict.fromkeys(TENANT_TABLES, "SIUD"),
        **dict.fromkeys(
            ("fusion_config", "kinds", "embedding_space", "centres", "eval_runs", "role_identities"), "SIUD"
        ),
        "settings": "S-u-",
        "migrations": "S---",
        "token_keys": "----",
    },
}
LEGS = ("vector_leg", "exact_leg", "relaxed_leg", "alias_leg", "closest_windows", "closest_codes", "similar_stems")


@pytest.fixture(scope="module")
def admin(create_database: Callable[..., str], template: str) -> Iterator[str]:
    with kept_database(create_database, template) as conninfo:
        plant_everywhere(conninfo)
        yield conninfo


@pytest.fixture(scope="module")
def application(admin: str) -> str:
    return as_application(admin)


def refused(connection: psycopg.Connection[Any], statement: str, params: Any = None) -> str:
    """The message with which a statement is refused, SQLSTATE 42501."""
    with pytest.raises(InsufficientPrivilege) as caught, connection.transaction():
        connection.execute(statement.encode(), params)
    assert caught.value.sqlstate == "42501"
    return str(caught.value)


# Which rows of a table a scope may read, and which it may change; `m` is the row's memory.
_MEMORY_VISIBLE = "m.org = %(org)s AND (m.visibility = 'shared' OR m.owner = %(user)s)"
_MEMORY_OWN = "m.org = %(org)s AND m.owner = %(user)s"
_PART = "t.org = %(org)s AND t.owner IN ('', %(user)s)"
READABLE = {
    **dict.fromkeys(TENANT_TABLES, _MEMORY_VISIBLE),
    **dict.fromkeys(("codes", "pending", "untranslated", "history"), _MEMORY_OWN),
    **dict.fromkeys(("terms", "scope_statistics"), _PART),
    "aliases": f"(t.key IS NULL AND t.org = %(org)s) OR ({_MEMORY_VISIBLE})",
    "feedback": f"{_MEMORY_VISIBLE} AND t.voter = %(user)s",
}
CHANGEABLE = {
    **dict.fromkeys(TENANT_TABLES, _MEMORY_OWN),
    **dict.fromkeys(("terms", "scope_statistics"), "false"),
    "aliases": f"(t.key IS NULL AND t.org = %(org)s) OR ({_MEMORY_OWN})",
    "feedback": "t.org = %(org)s AND t.voter = %(user)s",
}
UPDATES = {
    "memories": "pinned = true, content = 'overwritten'",
    "vectors": "live = false",
    "codes": "live = false",
    "pending": "attempts = 7",
    "untranslated": "attempts = 7",
    "aliases": "name = 'renamed'",
    "feedback": "useful = false",
}


def rows_of(admin: str | psycopg.Connection[Any], table: str, which: str, org: str, user: str) -> list[str]:
    """Rows of a table as text, of everybody's, for which a condition over `t` and its memory `m` holds."""
    if isinstance(admin, str):
        with psycopg.connect(admin) as connection:
            return rows_of(connection, table, which, org, user)
    memory = "LEFT JOIN lore.memories AS m ON m.org = t.org AND m.key = t.key"
    if table in ("terms", "scope_statistics"):
        memory = ""
    query = f"SELECT t::text FROM lore.{table} AS t {memory} WHERE ({which}) IS TRUE ORDER BY 1"
    return [row[0] for row in admin.execute(query.encode(), {"org": org, "user": user}).fetchall()]


@pytest.mark.parametrize("role", RIGHTS)
def test_each_role_has_these_rights_on_each_table_and_no_other(admin: str, role: str) -> None:
    with psycopg.connect(admin) as connection:
        rows = connection.execute(
            """
            SELECT c.relname, string_agg(
                CASE WHEN has_table_privilege(%(role)s, c.oid, verb) THEN left(verb, 1)
                     WHEN verb <> 'DELETE' AND has_any_column_privilege(%(role)s, c.oid, verb) THEN lower(left(verb, 1))
                     ELSE '-' END, '' ORDER BY n)
            FROM pg_class AS c CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) WITH ORDINALITY AS v(verb, n)
            WHERE c.relnamespace = 'lore'::regnamespace AND c.relkind = 'r' GROUP BY c.relname
            """,
            {"role": role},
        ).fetchall()
    assert dict(rows) == RIGHTS[role]


def test_the_public_has_no_right_on_anything(admin: str) -> None:
    with psycopg.connect(admin) as connection:
        granted = connection.execute(
            """
            SELECT c.oid::regclass::text, a.privilege_type FROM pg_class AS c, aclexplode(c.relacl) AS a
            WHERE c.relnamespace = 'lore'::regnamespace AND a.grantee = 0
            UNION ALL
            SELECT p.oid::regprocedure::text, a.privilege_type
            FROM pg_proc AS p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a
            WHERE p.pronamespace = 'lore'::regnamespace AND a.grantee = 0
            UNION ALL
            SELECT n.nspname, a.privilege_type FROM pg_namespace AS n, aclexplode(n.nspacl) AS a
            WHERE n.nspname = 'lore' AND a.grantee = 0
            """
        ).fetchall()
    assert granted == []


def test_every_table_of_tenant_data_has_row_security_forced(admin: str) -> None:
    with psycopg.connect(admin) as connection:
        rows = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'lore'::regnamespace AND relkind = 'r'"
            " AND relrowsecurity AND relforcerowsecurity"
        ).fetchall()
        with_org = connection.execute(
            "SELECT c.relname FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid"
            " WHERE c.relnamespace = 'lore'::regnamespace AND c.relkind = 'r' AND a.attname = 'org'"
        ).fetchall()
    assert {name for (name,) in rows} == {name for (name,) in with_org} == {*TENANT_TABLES, "role_identities"}


def test_only_these_functions_run_with_other_rights_than_the_caller_s(admin: str) -> None:
    with psycopg.connect(admin) as connection:
        rows = connection.execute(
            "SELECT proname, proowner::regrole::text, proconfig, pronargs FROM pg_proc"
            " WHERE pronamespace = 'lore'::regnamespace AND prosecdef"
        ).fetchall()
        arguments = connection.execute(
            "SELECT DISTINCT unnest(proargnames) FROM pg_proc WHERE pronamespace = 'lore'::regnamespace AND prosecdef"
        ).fetchall()
    assert {name: owner for name, owner, _, _ in rows} == {
        "candidates": "lore_search",
        "explain_legs": "lore_search",
        "explain_words": "lore_search",
        "role_caller": "lore_search",
        "token_claims": "lore_owner",
        "sort_in": "lore_owner",
        "refresh_statistics": "lore_service",
        "vote": "lore_service",
    }
    # Each pins its path, temporary names last, and takes no argument that could name somebody.
    assert all(any(s.startswith("search_path=") and s.endswith("pg_temp") for s in config) for _, _, config, _ in rows)
    assert {name for (name,) in arguments} & {"org", "user", "owner", "of_org", "of_owner", "part", "voter"} == set()


def test_the_roles_can_neither_log_in_nor_bypass_row_security_nor_become_each_other(admin: str) -> None:
    with psycopg.connect(admin) as connection:
        roles = connection.execute(
            "SELECT rolname FROM pg_roles WHERE rolname IN ('lore_owner', 'lore_search', 'lore_service', 'lore_user')"
            " AND (rolsuper OR rolbypassrls OR rolcanlogin OR rolcreaterole OR rolcreatedb)"
        ).fetchall()
        member = connection.execute(
            "SELECT a.rolname, b.rolname FROM pg_roles AS a, pg_roles AS b WHERE a.rolname <> b.rolname"
            " AND a.rolname IN ('lore_user', 'lore_search') AND pg_has_role(a.oid, b.oid, 'MEMBER')"
        ).fetchall()
    assert (roles, member) == ([], [])


def test_an_application_cannot_become_more_than_the_user_role(application: str) -> None:
    with psycopg.connect(application) as connection:
        superuser = connection.execute("SELECT pg_get_userbyid(10)").fetchone()
        assert superuser is not None
        for role in ("lore_owner", "lore_search", "lore_service", *superuser):
            refused(connection, f"SET ROLE {role}")


@pytest.mark.parametrize("table", TENANT_TABLES)
def test_plain_sql_reads_these_rows_of_each_table(admin: str, application: str, table: str) -> None:
    for org, user in SCOPES:
        own = rows_of(admin, table, READABLE[table], org, user)
        others = rows_of(admin, table, f"({READABLE[table]}) IS NOT TRUE", org, user)
        assert own
        assert others
        with scoped(application, org, user) as connection:
            name = sql.Identifier(table)
            read = connection.execute(sql.SQL("SELECT t::text FROM {} AS t ORDER BY 1").format(name)).fetchall()
        assert [row for (row,) in read] == own


@pytest.mark.parametrize("table", TENANT_TABLES)
@pytest.mark.parametrize("verb", ["UPDATE", "DELETE"])
def test_plain_sql_changes_no_row_of_anybody_else(admin: str, table: str, verb: str) -> None:
    statement = f"UPDATE {table} SET {UPDATES.get(table, 'org = org')}" if verb == "UPDATE" else f"DELETE FROM {table}"
    may = RIGHTS["lore_user"][table]["SIUD".index(verb[0])] != "-"
    others = f"({CHANGEABLE[table]}) IS NOT TRUE"
    for org, user in SCOPES:
        before = rows_of(admin, table, others, org, user)
        assert before
        with scoped(admin, org, user) as connection:
            if not may:
                refused(connection, statement)
                continue
            changed = connection.execute(statement.encode()).rowcount
            connection.execute("RESET ROLE")
            assert rows_of(connection, table, others, org, user) == before
            assert changed > 0


PSQL_SESSION = """
BEGIN;
SELECT set_config('role', 'lore_user', true), set_config('lore.org_id', :'org', true), set_config('lore.user_id', :'user', true);
SELECT 'list ' || id FROM lore.memories WHERE invalidated_at IS NULL AND (expires_at IS NULL OR expires_at > now());
SELECT 'recall ' || id FROM lore.recall(ARRAY[:'query'], k => 1000);
COMMIT;
SET ROLE lore_user;
SELECT 'after ' || id FROM lore.memories;
SELECT 'after ' || id FROM lore.recall(ARRAY[:'query'], k => 1000);
"""


def test_plain_psql_sees_what_the_library_sees(admin: str, application: str) -> None:
    with MemoryStore.connect(application, embedder=HashEmbedder(32)) as store:
        for org, user in SCOPES:
            view = store.as_user(org, user)
            printed = run_psql(application, PSQL_SESSION, org=org, user=user, query=COMMON).split("\n")
            listed = {line.removeprefix("list ") for line in printed if line.startswith("list ")}
            found = {line.removeprefix("recall ") for line in printed if line.startswith("recall ")}
            assert listed == {memory.id for memory in view.list(limit=1000)}
            # Without a vector the lexical legs alone answer: all that they find is among what the library finds.
            assert found <= {hit.id for hit in view.recall(COMMON, limit=1000).hits}
            assert len(found) > 3
            assert not [line for line in printed if line.startswith("after")]
            assert shown_to(org, user, str(printed)) == set()


def test_users_call_no_leg_and_write_no_configuration(application: str) -> None:
    forbidden = [
        *(
            "SELECT vector_leg(NULL, 10, NULL, fusion())",
            "SELECT exact_leg('x', 10, NULL, fusion())",
            "SELECT relaxed_leg('x', 10, NULL, fusion())",
            "SELECT alias_leg('x', 10, NULL)",
            "SELECT closest_windows(NULL, 1::smallint, 10, NULL)",
            "SELECT closest_codes(NULL, 1::smallint, 1::smallint, 10, 10)",
            "SELECT similar_stems('gateway', 0.3)",
            "SELECT count_part('globex', 'ana', 0)",
            "SELECT rebuild_statistics()",
            "INSERT INTO fusion_config DEFAULT VALUES",
            "UPDATE fusion_config SET rrf_k = 1",
            "DELETE FROM fusion_config",
            "UPDATE settings SET identity = 'role'",
            "INSERT INTO kinds (kind) VALUES ('mine')",
            "UPDATE kinds SET half_life_days = 1",
            "UPDATE embedding_space SET state = 'kept'",
            "DELETE FROM centres",
            "SELECT * FROM eval_runs",
            "INSERT INTO migrations (number, name, hash) VALUES (99, 'x', 'x')",
            "INSERT INTO terms (org, owner, stem, df) VALUES ('acme', 'ana', 'x', 1)",
            "UPDATE scope_statistics SET memories = 1",
            "INSERT INTO reinforcement (org, key, multiplier, useful, misleading) SELECT org, key, 1.4, 9, 0 FROM memories",
            "CREATE TABLE lore.mine (n integer)",
            "CREATE FUNCTION lore.scope_org() RETURNS text LANGUAGE sql AS $$ SELECT 'globex' $$",
            "ALTER FUNCTION scope_org() RENAME TO other",
            "DROP POLICY user_reads ON memories",
            "ALTER TABLE memories NO FORCE ROW LEVEL SECURITY",
            "SET LOCAL session_replication_role = replica",
            "TRUNCATE memories",
        )
    ]
    with scoped(application, "acme", "ana") as connection:
        for statement in forbidden:
            refused(connection, statement)
        assert {name for name in LEGS if name in " ".join(forbidden)} == set(LEGS)


@pytest.mark.parametrize("column", ["created_at", "updated_at", "expires_at"])
@pytest.mark.parametrize("moment", ["infinity", "-infinity", "10000-01-01", "0001-01-01 BC"])
def test_no_date_is_stored_that_no_reader_can_read(application: str, column: str, moment: str) -> None:
    with scoped(application, "acme", "ana") as connection, pytest.raises(CheckViolation):
        connection.execute(f"UPDATE memories SET {column} = %s".encode(), [moment])


def test_a_function_of_the_caller_s_own_is_shown_no_foreign_row(application: str) -> None:
    with scoped(application, "acme", "ana") as connection:
        shown: list[str] = []
        connection.add_notice_handler(lambda notice: shown.append(notice.message_primary or ""))
        connection.execute(
            "CREATE FUNCTION pg_temp.peek(t text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001"
            " AS $$ BEGIN RAISE NOTICE 'saw %', t; RETURN true; END $$"
        )
        connection.execute("SELECT count(*) FROM memories WHERE pg_temp.peek(content)")
        connection.execute("SELECT count(*) FROM aliases WHERE pg_temp.peek(name)")
        assert len(shown) > 5
        assert shown_to("acme", "ana", " ".join(shown)) == set()


def test_a_text_replaced_while_private_stays_private(admin: str, application: str) -> None:
    with MemoryStore.connect(application, embedder=HashEmbedder(32)) as store:
        ana = store.as_user("acme", "ana")
        ana.remember("the code of the safe is 1234", id="safe")
        ana.update("safe", content="the safe stands in the cellar")
        ana.update("safe", visibility="shared")
    read = (
        "SELECT h.content FROM history AS h JOIN memories AS m ON m.org = h.org AND m.key = h.key WHERE m.id = 'safe'"
    )
    with scoped(application, "acme", "ana") as connection:
        assert connection.execute(read).fetchall() == [("the code of the safe is 1234",)]
    with scoped(application, "acme", "ben") as connection:
        assert connection.execute("SELECT count(*) FROM memories WHERE id = 'safe'").fetchone() == (1,)
        assert connection.execute(read).fetchall() == []


EVERY_KEY = list(range(1, 1001))


@pytest.mark.parametrize("allowed", [None, EVERY_KEY])
def test_a_definer_function_follows_the_scope_whatever_its_arguments(
    application: str, allowed: list[int] | None
) -> None:
    queries = [COMMON, "ERR-4471", "the usual nickname"]
    with scoped(application, "acme", "ana") as connection:
        own = {row[0] for row in connection.execute("SELECT key FROM memories").fetchall()}
        for call in (
            "SELECT c.key FROM candidates(%s, NULL, 1000, %s) AS c",
            "SELECT l.key FROM explain_legs(%s, NULL, 4000, %s) AS l WHERE l.key IS NOT NULL",
        ):
            found = {row[0] for row in connection.execute(call.encode(), [queries, allowed]).fetchall()}
            assert len(found) > 5
            assert found <= own


def test_the_words_of_an_explanation_are_the_caller_s_own(application: str) -> None:
    with scoped(application, "acme", "ana") as connection:
        misspelt = [wire[:-1] + "x" for wire in MARKERS]
        words = connection.execute("SELECT w.stem, w.asked FROM explain_words(%s) AS w", [misspelt]).fetchall()
    suggested = [stem for stem, asked in words if stem != asked]
    assert suggested
    assert shown_to("acme", "ana", " ".join(f"{stem}ate {stem}" for stem in suggested)) == set()


def test_a_measure_counts_no_row_that_the_caller_cannot_see(application: str) -> None:
    """Everybody's keys handed in as allowed: an identifier's weight still counts its visible carriers alone."""
    call = "SELECT c.key, c.exact_score, c.relaxed_score FROM candidates(%s, NULL, 100, %s) AS c ORDER BY c.key"
    with scoped(application, "acme", "ana") as connection:
        own_keys = [row[0] for row in connection.execute("SELECT key FROM memories").fetchall()]
        found = [connection.execute(call, [["ERR-4471", COMMON], keys]).fetchall() for keys in (EVERY_KEY, own_keys)]
    assert found[0]
    assert found[0] == found[1]
