"""What errors, functions, statistics, plans and COPY tell somebody who has psql as her own role: nothing of others."""

# ruff: noqa: S608 (statements of a test's own)

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from attackers import ROLES, TENANT_TABLES, attacked_database, psql_of, refused
from support import scoped
from tripwires import MARKERS, shown_to


@pytest.fixture(scope="module")
def admin(create_database: Callable[..., str], template: str) -> Iterator[str]:
    with attacked_database(create_database, template) as conninfo:
        yield conninfo


@pytest.fixture
def ana(admin: str) -> Iterator[psycopg.Connection[Any]]:
    """Her session, rolled back at the end."""
    with psql_of(admin) as connection:
        yield connection


# --- functions that tell, and errors that tell


LEAKY = [
    "SELECT count(*) FROM lore.{t} AS t WHERE pg_temp.peek(t::text)",
    "SELECT count(*) FROM (SELECT * FROM lore.{t} OFFSET 0) AS t WHERE pg_temp.peek(t::text)",
    "SELECT count(*) FROM lore.{t} AS t JOIN lore.{t} AS u ON pg_temp.peek(t::text || u::text)",
    "SELECT t.org FROM lore.{t} AS t ORDER BY pg_temp.peek(t::text)",
    "SELECT count(*) FILTER (WHERE pg_temp.peek(t::text)) FROM lore.{t} AS t",
    "SELECT EXISTS (SELECT FROM lore.{t} AS t WHERE pg_temp.peek(t::text))",
    "WITH c AS MATERIALIZED (SELECT t::text AS row FROM lore.{t} AS t WHERE pg_temp.peek(t::text)) SELECT count(*) FROM c",
]


@pytest.mark.parametrize("table", TENANT_TABLES)
def test_a_leaky_function_is_shown_her_rows_alone(ana: psycopg.Connection[Any], table: str) -> None:
    shown: list[str] = []
    ana.add_notice_handler(lambda notice: shown.append(notice.message_primary or ""))
    ana.execute(
        "CREATE FUNCTION pg_temp.peek(t text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001"
        " AS $$ BEGIN RAISE NOTICE 'saw %', t; RETURN true; END $$"
    )
    own = ana.execute(f"SELECT count(*) FROM lore.{table}".encode()).fetchone()
    assert own is not None
    limited = f"(SELECT * FROM lore.{table} LIMIT 3)"
    for statement in LEAKY:
        text = statement.replace("JOIN lore.{t} AS u", f"JOIN {limited} AS u").format(t=table)
        ana.execute(text.encode())
    assert len(shown) >= own[0]
    assert shown_to("acme", "ana", " ".join(shown)) == set()


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT content::integer FROM memories",
        "SELECT count(*) FROM memories WHERE content::xml IS NOT NULL",
        "SELECT count(*) FROM memories WHERE metadata ->> 'wire' <> '' AND (metadata ->> 'wire')::date > now()",
        "SELECT (content || id)::regclass FROM memories",
        "SELECT count(*) FROM memories WHERE 1 / (position('globex' in content) * 0) = 1",
        "SELECT name::bigint FROM aliases",
        "SELECT stem::bigint FROM terms",
        "SELECT (event || key)::point FROM history",
        "UPDATE memories SET visibility = content",
        "UPDATE memories SET content = NULL",
        "INSERT INTO memories (org, owner, id, content) SELECT org, owner, id, content FROM memories",
        "INSERT INTO aliases (org, folded, name, key, owner, shared) SELECT org, folded, name, key, owner, shared FROM aliases",
    ],
)
def test_error_texts_tell_of_her_rows_alone(ana: psycopg.Connection[Any], statement: str) -> None:
    with pytest.raises(psycopg.Error) as caught, ana.transaction():
        ana.execute(statement.encode())
    said = " ".join(
        str(getattr(caught.value.diag, part) or "") for part in ("message_primary", "message_detail", "context")
    )
    assert shown_to("acme", "ana", said + str(caught.value)) == set()


def test_an_id_that_a_colleague_uses_privately_is_free(ana: psycopg.Connection[Any]) -> None:
    """No unique violation, no error and no number tells that it is taken."""
    insert = "INSERT INTO memories (org, owner, id, content, visibility) VALUES ('acme', 'ana', %s, 'x', %s)"
    for visibility in ("private", "shared"):
        with ana.transaction(force_rollback=True):
            for wire in ("acmebenprivate", "globexanaprivate", "globexbenshared"):
                assert ana.execute(insert.encode(), [f"long-{wire}", visibility]).rowcount == 1
    upsert = insert + " ON CONFLICT (org, owner, id) DO UPDATE SET content = 'mine' RETURNING content"
    assert ana.execute(upsert.encode(), ["long-acmebenprivate", "private"]).fetchone() == ("x",)
    # Nor does an upsert reach a colleague's shared memory.
    over = "INSERT INTO memories (org, owner, id, content, visibility) VALUES ('acme', 'ana', 'long-acmebenshared', 'x', 'shared')"
    refused(ana, over + " ON CONFLICT (org, id) WHERE visibility = 'shared' DO UPDATE SET content = 'overwritten'")
    # A shared id is no secret in its organisation; that it is taken there is all that the error says.
    with pytest.raises(psycopg.errors.UniqueViolation) as caught, ana.transaction():
        ana.execute(insert.encode(), ["long-acmebenshared", "shared"])
    assert shown_to("acme", "ana", str(caught.value)) == set()


def test_a_foreign_key_is_refused_as_one_that_never_was(admin: str, ana: psycopg.Connection[Any]) -> None:
    with psycopg.connect(admin) as connection:
        row = connection.execute(
            "SELECT key FROM lore.memories WHERE org = 'acme' AND owner = 'ben' AND visibility = 'private'"
        ).fetchone()
    assert row is not None
    for statement in (
        "INSERT INTO windows VALUES ('acme', 1, %s, 77, 0, 1)",
        "INSERT INTO history (org, key, version, event) VALUES ('acme', %s, 1, 'updated')",
        "INSERT INTO feedback (org, key, voter, useful) VALUES ('acme', %s, 'ana', true)",
        "INSERT INTO pending (org, space, key, owner) VALUES ('acme', 1, %s, 'ana')",
        "INSERT INTO untranslated (org, key, owner) VALUES ('acme', %s, 'ana')",
        "INSERT INTO aliases (org, folded, name, key, owner, shared) VALUES ('acme', 'f', 'f', %s, 'ana', false)",
    ):
        assert refused(ana, statement, [row[0]]) == refused(ana, statement, [987_654_321])


# --- what the server itself tells


def test_statistics_views_show_nothing_of_our_tables(admin: str, ana: psycopg.Connection[Any]) -> None:
    with psycopg.connect(admin) as connection:
        assert connection.execute("SELECT count(*) > 20 FROM pg_stats WHERE schemaname = 'lore'").fetchone() == (True,)
    seen = ana.execute("SELECT tablename FROM pg_stats WHERE schemaname = 'lore'").fetchall()
    assert {table for (table,) in seen} & {*TENANT_TABLES, "role_identities", "token_keys"} == set()
    assert ana.execute("SELECT count(*) FROM pg_stats_ext").fetchone() == (0,)
    assert ana.execute("SELECT count(*) FROM pg_stats_ext_exprs").fetchone() == (0,)


def test_sequences_tell_nothing(ana: psycopg.Connection[Any]) -> None:
    rows = ana.execute("SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = 'lore'").fetchall()
    assert len(rows) >= 3
    assert {value for _, value in rows} == {None}
    for name, _ in rows:
        refused(ana, f"SELECT last_value FROM lore.{name}")
        refused(ana, f"SELECT nextval('lore.{name}')")
        refused(ana, f"SELECT setval('lore.{name}', 1)")


def test_the_activity_of_others_is_hidden(admin: str, ana: psycopg.Connection[Any]) -> None:
    secret = "'what globexbenprivate asked'"
    with psql_of(admin, "ben") as ben:
        ben.execute(f"SELECT {secret}".encode())
        with psycopg.connect(admin) as connection:
            row = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%%globexbenprivate%%'"
            ).fetchone()
        assert row is not None
        assert row[0] >= 1
        for view in ("pg_stat_activity", "pg_prepared_statements", "pg_cursors", "pg_locks"):
            text = str(ana.execute(f"SELECT v::text FROM {view} AS v".encode()).fetchall())
            assert shown_to("acme", "ana", text) == set()


def estimate(connection: psycopg.Connection[Any], statement: str, params: Any) -> int:
    plan = connection.execute(("EXPLAIN (FORMAT JSON) " + statement).encode(), params).fetchone()
    assert plan is not None
    return int(plan[0][0]["Plan"]["Plan Rows"])


# Columns whose values the planner may know, and so whoever can use EXPLAIN may guess: names of organisations and users, a
# few words out of a short list, numbers, dates. No text that somebody wrote.
WITH_STATISTICS = {
    *(
        "memories.org",
        "memories.owner",
        "memories.visibility",
        "memories.language",
        "memories.translation",
    ),
    *("memories.text_config", "memories.tsv", "memories.identifiers", "memories.metadata"),
    *("windows.org", "vectors.org", "vectors.owner", "vectors.embedding", "codes.org", "codes.owner"),
    *("pending.org", "pending.owner", "untranslated.org", "untranslated.owner", "terms.org", "terms.owner"),
    *(
        "scope_statistics.org",
        "scope_statistics.owner",
        "aliases.org",
        "aliases.owner",
        "feedback.org",
        "feedback.voter",
    ),
    *("reinforcement.org", "history.org", "history.event"),
}
# Their comparisons are not leakproof, so that no estimate for a user makes use of them.
NOT_COMPARED = {"memories.tsv", "memories.identifiers", "memories.metadata", "vectors.embedding"}


def test_the_planner_knows_no_text_that_somebody_wrote(admin: str) -> None:
    with psycopg.connect(admin) as connection:
        rows = connection.execute(
            """
            SELECT c.relname || '.' || a.attname, a.atttypid
            FROM pg_statistic AS s JOIN pg_class AS c ON c.oid = s.starelid
            JOIN pg_attribute AS a ON a.attrelid = s.starelid AND a.attnum = s.staattnum
            JOIN pg_type AS t ON t.oid = a.atttypid
            WHERE c.relnamespace = 'lore'::regnamespace AND c.relname = ANY (%s) AND t.typcategory NOT IN ('N', 'B', 'D', 'T')
            """,
            [list(TENANT_TABLES)],
        ).fetchall()
        assert {name for name, _ in rows} <= WITH_STATISTICS
        assert {name for name, _ in rows} > {"memories.org", "terms.owner", "aliases.org"}
        types = {type_oid for name, type_oid in rows if name in NOT_COMPARED}
        leakproof = connection.execute(
            "SELECT p.oid::regprocedure FROM pg_operator AS o JOIN pg_proc AS p ON p.oid = o.oprcode"
            " WHERE o.oprleft = ANY (%s) AND o.oprrest <> 0 AND p.proleakproof",
            [list(types)],
        ).fetchall()
    assert leakproof == []


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("memories", "content"),
        ("memories", "id"),
        ("terms", "stem"),
        ("aliases", "name"),
        ("memories", "source"),
        ("memories", "kind"),
    ],
)
def test_estimates_do_not_tell_what_others_wrote(ana: psycopg.Connection[Any], table: str, column: str) -> None:
    """Where the planner knew the column, the estimate of a range would show, step by step, what stands in it."""
    for operator in ("<", ">", "=", ">="):
        statement = f"SELECT FROM lore.{table} WHERE {column} {operator} %s"
        probes = ("", "a", "acmebenprivate", "globexbenprivate", "globexbenshared", "note", "z", "zzzz", "é")
        assert len({estimate(ana, statement, [probe]) for probe in probes}) == 1


def test_an_explained_plan_quotes_no_foreign_value(ana: psycopg.Connection[Any]) -> None:
    ana.execute("SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off")
    for table in TENANT_TABLES:
        for options in ("VERBOSE", "ANALYZE, VERBOSE, BUFFERS", "GENERIC_PLAN, VERBOSE"):
            plan = ana.execute(f"EXPLAIN ({options}) SELECT * FROM lore.{table}".encode()).fetchall()
            assert shown_to("acme", "ana", str(plan)) == set()
    search = "EXPLAIN (ANALYZE, VERBOSE) SELECT * FROM lore.recall(ARRAY['gateway'], k => 100)"
    assert shown_to("acme", "ana", str(ana.execute(search.encode()).fetchall())) == set()


def test_copy_takes_out_her_rows_and_brings_none_in(ana: psycopg.Connection[Any]) -> None:
    for table in TENANT_TABLES:
        for source in (f"lore.{table}", f"(SELECT * FROM lore.{table})"):
            with ana.cursor() as cursor, cursor.copy(f"COPY {source} TO STDOUT".encode()) as copy:
                text = b"".join(bytes(block) for block in copy).decode()
            assert shown_to("acme", "ana", text) == set()
            assert text
    with pytest.raises((psycopg.errors.FeatureNotSupported, psycopg.errors.InsufficientPrivilege)), ana.transaction():  # noqa: SIM117
        with ana.cursor() as cursor, cursor.copy("COPY lore.feedback (org, key, voter, useful) FROM STDIN") as copy:
            copy.write(b"globex\t1\tben\tt\n")


def test_the_attacks_would_show_what_they_look_for(admin: str) -> None:
    """As somebody whom row security does not bind, the same questions show every marker."""
    with psycopg.connect(admin) as connection:
        text = str(connection.execute("SELECT m::text FROM lore.memories AS m").fetchall())
        assert {wire for wire in MARKERS if wire in text} == set(MARKERS)
        with pytest.raises(psycopg.errors.InvalidTextRepresentation) as caught, connection.transaction():
            connection.execute("SELECT content::integer FROM lore.memories")
        assert re.search("|".join(MARKERS), str(caught.value))
        # With statistics of its own, a column tells by the estimates of ranges what stands in it.
        connection.execute("ALTER TABLE lore.memories ALTER content SET STATISTICS 100")
        connection.execute("ANALYZE lore.memories")
        connection.execute(sql.SQL("SET LOCAL SESSION AUTHORIZATION {}").format(sql.Identifier(ROLES["ana"])))
        told = {
            estimate(connection, "SELECT FROM lore.memories WHERE content > %s", [probe]) for probe in ("", "Q", "z")
        }
        assert len(told) > 1
        connection.rollback()
    with scoped(admin, "", "", role="lore_service") as connection:
        assert shown_to("acme", "ana", str(connection.execute("SELECT m::text FROM memories AS m").fetchall())) != set()
