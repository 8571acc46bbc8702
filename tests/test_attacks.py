"""Attacks in plain SQL, where the login role is the identity: rights, settings, shadowing names, arguments, pools."""

# ruff: noqa: S608 (statements of a test's own)

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from attackers import EVIL, ROLES, SCOPES, TENANT_TABLES, attacked_database, everything, login, psql_of, refused
from lore_retriever import MemoryStore
from lore_retriever.testing import HashEmbedder
from support import as_application, kept_database
from tripwires import COMMON, MARKERS, foreign, leaks, plant_everywhere, shown_to


@pytest.fixture(scope="module")
def admin(create_database: Callable[..., str], template: str) -> Iterator[str]:
    with attacked_database(create_database, template) as conninfo:
        yield conninfo


@pytest.fixture
def ana(admin: str) -> Iterator[psycopg.Connection[Any]]:
    """Her session, rolled back at the end."""
    with psql_of(admin) as connection:
        yield connection


def test_psql_shows_the_member_s_rows_and_nothing_foreign(admin: str) -> None:
    for name, (org, user) in SCOPES.items():
        with psql_of(admin, name) as connection:
            text = everything(connection)
        assert shown_to(org, user, text) == set()
        assert {wire for wire in MARKERS if wire in text} == set(MARKERS) - foreign(org, user)
    with psql_of(admin, "eve") as connection:
        assert "aprivate" not in everything(connection)
        assert connection.execute("SELECT count(*) FROM lore.memories").fetchone() == (0,)


def test_the_library_as_a_login_role_shows_nothing_foreign(admin: str) -> None:
    with MemoryStore.connect(login(admin, "ana"), embedder=HashEmbedder(32), max_size=1) as store:
        assert leaks(store.as_caller(store.whoami), "acme", "ana") == []


# --- settings, roles and rights


@pytest.mark.parametrize(
    ("org", "user"), [("globex", "ana"), ("acme", "ben"), ("globex", ""), ("", "ben"), ("ACME", "ana")]
)
def test_a_scope_set_by_hand_is_an_error_and_not_another_scope(
    ana: psycopg.Connection[Any], org: str, user: str
) -> None:
    for local in (True, False):
        ana.execute(
            "SELECT set_config('lore.org_id', %s, %s), set_config('lore.user_id', %s, %s)", [org, local, user, local]
        )
        for statement in (
            "SELECT count(*) FROM memories",
            "SELECT * FROM recall(ARRAY['gateway'])",
            "INSERT INTO memories (org, owner, id, content) VALUES ('globex', 'ben', 'x', 'x')",
            "DELETE FROM memories",
            "SELECT vote('note', true)",
            "SELECT refresh_statistics()",
            "SELECT * FROM candidates(ARRAY['gateway'], NULL, 10, NULL)",
        ):
            assert "speaks for ana of acme" in refused(ana, statement)


def test_other_settings_of_the_library_and_of_gateways_change_nothing(ana: psycopg.Connection[Any]) -> None:
    before = everything(ana)
    for name, value in {
        "request.jwt.claims": '{"org": "globex", "sub": "ben"}',
        "request.jwt.claim.sub": "ben",
        "lore.token": "a.b.c",
        "lore.role": "lore_service",
        "transform_null_equals": "on",
        "array_nulls": "off",
        "role": "lore_user",
    }.items():
        ana.execute("SELECT set_config(%s, %s, false)", [name, value])
    assert everything(ana) == before


@pytest.mark.parametrize(
    "statement",
    [
        "SET ROLE lore_service",
        "SET ROLE lore_owner",
        "SET ROLE lore_search",
        "DO $$BEGIN EXECUTE format('SET ROLE %I', pg_get_userbyid(10)); END$$",  # the first superuser, whatever its name
        f"SET ROLE {ROLES['ben']}",
        f"SET SESSION AUTHORIZATION {ROLES['ben']}",
        "DO $$BEGIN EXECUTE format('SET SESSION AUTHORIZATION %I', pg_get_userbyid(10)); END$$",
        "SET session_replication_role = replica",
        f"ALTER ROLE {ROLES['ana']} RENAME TO somebody",
        f"ALTER ROLE {ROLES['ben']} RENAME TO somebody",
        f"ALTER ROLE {ROLES['ana']} BYPASSRLS",
        f"GRANT lore_service TO {ROLES['ana']}",
        f"GRANT {ROLES['ben']} TO {ROLES['ana']}",
        "ALTER TABLE lore.memories NO FORCE ROW LEVEL SECURITY",
        "ALTER TABLE lore.memories DISABLE ROW LEVEL SECURITY",
        "CREATE POLICY mine ON lore.memories USING (true)",
        "DROP POLICY user_reads ON lore.memories",
        "CREATE TRIGGER mine AFTER INSERT ON lore.memories EXECUTE FUNCTION lore.copy_life()",
        "CREATE RULE mine AS ON INSERT TO lore.memories DO ALSO SELECT 1",
        "CREATE INDEX mine ON lore.memories (content)",
        "CREATE STATISTICS lore.mine ON org, owner FROM lore.memories",
        "CREATE TABLE lore.mine (n integer)",
        "CREATE FUNCTION lore.mine() RETURNS integer LANGUAGE sql RETURN 1",
        "CREATE OR REPLACE FUNCTION lore.scope_org() RETURNS text LANGUAGE sql RETURN 'globex'",
        "ALTER FUNCTION lore.scope_org() SET search_path = pg_temp",
        "SELECT lore.use_identity('settings')",
        "SELECT lore.add_token_key('mine', repeat('x', 32)::bytea)",
        "SELECT * FROM lore.token_keys",
        "SELECT * FROM lore.role_identities",
        "UPDATE lore.role_identities SET org = 'globex'",
        "INSERT INTO lore.role_identities VALUES ('x', 'globex', 'ben')",
        "UPDATE lore.settings SET identity = 'settings'",
        "SELECT * FROM pg_statistic",
        "SELECT * FROM pg_authid",
        "SELECT pg_read_file('PG_VERSION')",
        "COPY lore.memories TO '/tmp/lore_test_stolen'",
        "COPY lore.memories TO PROGRAM 'cat'",
        f"CREATE SCHEMA {EVIL} CREATE TABLE t (org text, key bigint, FOREIGN KEY (org, key) REFERENCES lore.memories)",
    ],
)
def test_a_member_of_lore_user_may_not(ana: psycopg.Connection[Any], statement: str) -> None:
    with (
        # one's own role cannot be renamed by anybody who is logged in as it
        pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.FeatureNotSupported)) as caught,
        ana.transaction(),
    ):
        ana.execute(statement.encode())
    assert shown_to("acme", "ana", str(caught.value)) == set()


def test_row_security_switched_off_is_an_error(ana: psycopg.Connection[Any]) -> None:
    ana.execute("SET row_security = off")
    for table in TENANT_TABLES:
        assert "row-level security" in refused(ana, f"SELECT * FROM lore.{table}")


# --- names that shadow ours


SHADOWS = f"""
CREATE SCHEMA {EVIL};
CREATE TABLE {EVIL}.role_identities (role_name text, org text, user_name text);
INSERT INTO {EVIL}.role_identities VALUES (session_user, 'globex', 'ben');
CREATE TEMP TABLE role_identities AS SELECT * FROM {EVIL}.role_identities;
CREATE TEMP TABLE settings AS SELECT true AS one, 'settings' AS identity;
CREATE TEMP TABLE fusion_config (one boolean);
CREATE TEMP VIEW memories AS SELECT * FROM lore.memories;
CREATE FUNCTION {EVIL}.scope_org() RETURNS text LANGUAGE sql RETURN 'globex';
CREATE FUNCTION {EVIL}.scope_user() RETURNS text LANGUAGE sql RETURN 'ben';
CREATE FUNCTION {EVIL}.current_setting(text, boolean) RETURNS text LANGUAGE sql RETURN 'globex';
CREATE FUNCTION {EVIL}.require_caller(lore.caller, text) RETURNS lore.caller LANGUAGE sql RETURN ROW('globex', 'ben')::lore.caller;
CREATE FUNCTION {EVIL}.role_caller() RETURNS lore.caller LANGUAGE sql RETURN ROW('globex', 'ben')::lore.caller;
CREATE FUNCTION {EVIL}.peek(a text, b text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001
    AS $$ BEGIN RAISE NOTICE 'saw % %', a, b; RETURN true; END $$;
CREATE OPERATOR {EVIL}.= (FUNCTION = {EVIL}.peek, LEFTARG = text, RIGHTARG = text);
CREATE OPERATOR {EVIL}.<> (FUNCTION = {EVIL}.peek, LEFTARG = text, RIGHTARG = text);
CREATE FUNCTION {EVIL}.lower(t text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'saw %', t; RETURN t; END $$;
CREATE FUNCTION {EVIL}.similarity(a text, b text) RETURNS real LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'saw % %', a, b; RETURN 1; END $$;
CREATE FUNCTION {EVIL}.unaccent(regdictionary, t text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'saw %', t; RETURN t; END $$
"""


@pytest.mark.parametrize(
    "first", [f"{EVIL}, pg_temp, pg_catalog, lore, public", f"pg_temp, {EVIL}, lore, public, pg_catalog"]
)
def test_objects_of_the_same_names_are_not_taken_for_ours(ana: psycopg.Connection[Any], first: str) -> None:
    expected = everything(ana)
    for statement in SHADOWS.split(";\n"):
        ana.execute(statement.encode())
    shown: list[str] = []
    ana.add_notice_handler(lambda notice: shown.append(notice.message_primary or ""))
    ana.execute("SELECT set_config('search_path', %s, false)", [first])
    assert everything(ana) == expected
    assert ana.execute("SELECT lore.scope_org(), lore.scope_user()").fetchone() == ("acme", "ana")
    # Her operator is asked about her rows alone: row security comes before what might tell of a row.
    for table, column in (("memories", "content"), ("aliases", "name"), ("history", "content"), ("terms", "stem")):
        query = sql.SQL("SELECT count(*) FROM lore.{} WHERE {} OPERATOR({}.=) 'x'::text")
        ana.execute(query.format(*(sql.Identifier(name) for name in (table, column, EVIL))))
    ana.execute("INSERT INTO lore.memories (org, owner, id, content) VALUES ('acme', 'ana', 'mine', 'x')")
    ana.execute("UPDATE lore.memories SET pinned = true WHERE owner = 'ana'")
    assert ana.execute("SELECT * FROM lore.vote('note', true)").fetchone() is not None
    assert len(shown) > 5
    assert shown_to("acme", "ana", " ".join(shown)) == set()


def test_every_function_that_runs_with_other_rights_pins_its_path_and_no_schema_on_it_is_open(admin: str) -> None:
    with psycopg.connect(admin) as connection:
        rows = connection.execute(
            "SELECT p.proname, (SELECT s FROM unnest(p.proconfig) AS s WHERE s ~ '^search_path=') FROM pg_proc AS p"
            " WHERE p.pronamespace = 'lore'::regnamespace AND p.prosecdef"
        ).fetchall()
        opened = connection.execute(
            "SELECT nspname FROM pg_namespace WHERE nspname IN ('lore', 'public') AND has_schema_privilege(%s, oid, 'CREATE')",
            [ROLES["ana"]],
        ).fetchall()
    assert len(rows) >= 7
    assert {path.replace('"', "") for _, path in rows} == {"search_path=lore, public, pg_temp"}
    assert opened == []


def test_the_scope_functions_depend_on_nobody_s_search_path(admin: str) -> None:
    with psycopg.connect(admin) as connection:
        rows = connection.execute(
            "SELECT proname, prosqlbody IS NOT NULL FROM pg_proc WHERE pronamespace = 'lore'::regnamespace AND proname ~ '^scope_(org|user)$'"
        ).fetchall()
    assert sorted(rows) == [("scope_org", True), ("scope_user", True)]


# --- arguments


# Every function that a user may call, and nothing else: a new one stands here once somebody has asked what it shows.
SCOPED = {"recall", "candidates", "explain_legs", "explain_words", "vote", "refresh_statistics", "allowed_keys"}
# What reads nothing of any row.
HARMLESS = {"sort_in"}
OF_THE_CALLER = {"scope_org", "scope_user", "role_caller", "token_claims", "token_caller", "require_caller"}


def test_every_function_that_a_user_may_call_is_known(admin: str) -> None:
    with psycopg.connect(admin) as connection:
        rows = connection.execute(
            "SELECT p.proname, p.provolatile, p.prosecdef FROM pg_proc AS p WHERE p.pronamespace = 'lore'::regnamespace"
            " AND has_function_privilege('lore_user', p.oid, 'EXECUTE') AND p.prorettype <> 'trigger'::regtype"
        ).fetchall()
    definers = {name for name, _, is_definer in rows if is_definer}
    assert definers == {
        "candidates",
        "explain_legs",
        "explain_words",
        "vote",
        "refresh_statistics",
        "role_caller",
        "token_claims",
        "sort_in",
    }
    # All else runs as the caller, under row security, whatever its arguments.
    assert definers <= SCOPED | OF_THE_CALLER | HARMLESS
    assert {*SCOPED, *OF_THE_CALLER} <= {name for name, _, _ in rows}


def test_hostile_arguments_show_no_foreign_key_and_write_no_foreign_row(
    admin: str, ana: psycopg.Connection[Any]
) -> None:
    with psycopg.connect(admin) as connection:
        keys = [key for (key,) in connection.execute("SELECT key FROM lore.memories").fetchall()]
        foreign_votes = "SELECT count(*) FROM lore.feedback WHERE voter <> 'ana' OR org <> 'acme'"
        before = connection.execute(foreign_votes).fetchone()
    own = {key for (key,) in ana.execute("SELECT key FROM memories").fetchall()}
    vectors = ["[" + ",".join(["1"] * 32) + "]"] * 2
    queries = [COMMON, f"{COMMON}' OR true --"]
    for call in (
        "SELECT c.key FROM candidates(%s, %s::halfvec[], 1000, %s) AS c",
        "SELECT l.key FROM explain_legs(%s, %s::halfvec[], 4000, %s) AS l WHERE l.key IS NOT NULL",
    ):
        assert {key for (key,) in ana.execute(call.encode(), [queries, vectors, keys]).fetchall()} <= own
    for hostile in (
        '{"lore_owner": "ben"}',
        '{"$or": [{"lore_owner": {"$ne": "ana"}}, {"team": "infra"}]}',
        '{"wire": {"$like": "%"}}',
    ):
        found = ana.execute(
            "SELECT r::text FROM recall(ARRAY['gateway'], k => 1000, filter => %s) AS r", [hostile]
        ).fetchall()
        assert shown_to("acme", "ana", str(found)) == set()
    for wire in foreign("acme", "ana"):
        assert ana.execute("SELECT * FROM vote(%s, true, 'recall')", [f"long-{wire}"]).fetchall() == []
    ana.commit()
    with psycopg.connect(admin) as connection:
        assert connection.execute(foreign_votes).fetchone() == before


# --- one session, several callers: a pool, where a trusted server sets the scope


@pytest.mark.parametrize("plans", ["force_generic_plan", "force_custom_plan", "auto"])
def test_statements_prepared_for_one_caller_serve_the_next_with_his_own_rows(
    create_database: Callable[..., str], template: str, app_pool: str, plans: str
) -> None:
    asked = "SELECT org, owner, visibility FROM lore.memories"
    with psycopg.connect(app_pool, autocommit=True) as connection:
        connection.execute("SELECT set_config('plan_cache_mode', %s, false)", [plans])
        connection.execute(f"PREPARE rows AS {asked}".encode())
        connection.execute(
            "PREPARE found (text[]) AS SELECT owner, visibility, content_excerpt FROM lore.recall($1, k => 100)"
        )
        for _ in range(4):
            for org in ("acme", "globex"):
                for user in ("ana", "ben"):
                    with connection.transaction():
                        connection.execute(
                            "SELECT set_config('lore.org_id', %s, true), set_config('lore.user_id', %s, true)",
                            [org, user],
                        )
                        rows = connection.execute("EXECUTE rows").fetchall()
                        assert rows
                        assert all(o == org and (w == user or v == "shared") for o, w, v in rows)
                        found = connection.execute("EXECUTE found ('{gateway}')").fetchall()
                        assert found
                        assert shown_to(org, user, str(found)) == set()
            assert connection.execute("EXECUTE rows").fetchall() == []
            assert connection.execute("EXECUTE found ('{gateway}')").fetchall() == []


@pytest.fixture(scope="module")
def app_pool(create_database: Callable[..., str], template: str) -> Iterator[str]:
    """Everybody's memories in a store that trusts its server; the application's connection string."""
    with kept_database(create_database, template) as conninfo:
        plant_everywhere(conninfo)
        yield as_application(conninfo)
