"""With the inner half of the search broken on purpose, the outer half still shows nothing foreign.

The candidate functions apply the scope themselves; whatever they propose is joined under row security. Here their
predicates are replaced by true, in this file's database only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from lore_retriever import MemoryStore
from lore_retriever.admin import StoreAdmin
from lore_retriever.testing import HashEmbedder
from support import as_application, kept_database, scoped
from tripwires import COMMON, SCOPES, foreign, leaks, plant, shown_to

# (pattern, what stands in its place): the organisation and the visibility, wherever a leg or a statistic applies them.
BREAKS = (
    (r"CASE WHEN \w+\.visibility = 'shared' THEN true ELSE \w+\.owner = (v_user|scope_user\(\)) END", "true"),
    (r"\(\w+\.(visibility = 'shared'|shared) OR \w+\.owner = v_user\)", "true"),
    (r"\(\w+\.(visibility = 'shared'|shared) OR \w+\.owner = scope_user\(\)\)", "true"),
    (r"\w+\.live AND \w+\.shared\b", "true"),
    (r"NOT \w+\.shared AND \w+\.owner = v_user", "true"),
    (r"\w+\.owner IN \('', (v_user|scope_user\(\))\)", "true"),
    (r"\w+\.owner = ANY \(ARRAY\['', v_user\]\)", "true"),
    (r"\b\w+\.org = (v_org|scope_org\(\))", "true"),
)
INNER = (
    *("closest_windows", "closest_codes", "exact_leg", "similar_stems", "read_stems", "scope_size", "relaxed_leg"),
    *("holders_of_common_words", "newest_holders", "alias_leg"),
)
# What is left of a scope in a function that is broken: nothing but where it is read.
READ = r"v_(org|user) CONSTANT text := scope_(org|user)\(\);"
LEFT = r"v_org|v_user|scope_org|scope_user|'shared'|\.shared\b"


def break_inner_half(conninfo: str) -> None:
    """Replace the predicates of every inner function; its owner and rights stay."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("SET search_path = lore, public, pg_temp")
        for name in INNER:
            row = connection.execute(
                "SELECT pg_get_functiondef(%s::regproc), %s::regproc::oid", [name, name]
            ).fetchone()
            assert row is not None
            text = row[0]
            for pattern, instead in BREAKS:
                text = re.sub(pattern, instead, text)
            assert text != row[0], name
            left = re.findall(rf".*(?:{LEFT}).*", re.sub(r"--.*", "", re.sub(READ, "", text)))
            assert left == [], f"{name} still asks for the scope"
            owner = "SELECT proowner, proacl::text FROM pg_proc WHERE oid = %s"
            before = connection.execute(owner, [row[1]]).fetchone()
            connection.execute(text.encode())
            assert connection.execute(owner, [row[1]]).fetchone() == before


@pytest.fixture(scope="module")
def admin(create_database: Callable[..., str], template: str) -> Iterator[str]:
    """Administrator's connection string of a database with everybody's memories and no inner half."""
    with kept_database(create_database, template) as conninfo:
        with MemoryStore.connect(as_application(conninfo), embedder=HashEmbedder(32)) as store:
            plant(store)
        StoreAdmin.connect(conninfo).maintain()
        break_inner_half(conninfo)
        yield conninfo


@pytest.fixture(scope="module")
def application(admin: str) -> str:
    return as_application(admin)


def query_vector(text: str) -> str:
    [vector] = HashEmbedder(32).embed_queries([text])
    return str(list(vector))


def test_the_inner_half_is_broken_indeed(application: str) -> None:
    with scoped(application, "acme", "ana") as connection:
        own = {row[0] for row in connection.execute("SELECT key FROM memories").fetchall()}
        proposed = connection.execute(
            "SELECT l.leg, array_agg(l.key) FROM explain_legs(%s, %s::halfvec[], 1000, NULL) AS l GROUP BY l.leg",
            [[COMMON, "the usual nickname"], [query_vector(COMMON), None]],
        ).fetchall()
    foreign_of = {leg: len(set(keys) - own) for leg, keys in proposed}
    assert {leg: count > 5 for leg, count in foreign_of.items()} == dict.fromkeys(
        ("vector", "exact", "relaxed", "alias"), True
    )


@pytest.mark.parametrize(("org", "user"), SCOPES)
def test_nothing_foreign_comes_out_all_the_same(application: str, org: str, user: str) -> None:
    with MemoryStore.connect(application, embedder=HashEmbedder(32), max_size=1) as store:
        assert leaks(store.as_user(org, user), org, user) == []


def test_plain_sql_shows_nothing_foreign_either(application: str) -> None:
    for org, user in SCOPES:
        with scoped(application, org, user) as connection:
            rows: list[Any] = connection.execute(
                "SELECT r::text FROM recall(%s, %s::halfvec[], 1000) AS r",
                [[COMMON, "ERR-4471", "lighthouse"], [query_vector(COMMON), None, None]],
            ).fetchall()
            assert len(rows) > 3
            assert shown_to(org, user, str(rows)) == set()
            assert connection.execute("SELECT count(*) FROM recall(ARRAY['x'], k => 10)").fetchone() is not None


def test_without_a_scope_there_is_still_nothing(application: str) -> None:
    for org, user in (("", ""), ("acme", ""), ("", "ana")):
        with scoped(application, org, user) as connection:
            assert connection.execute("SELECT count(*) FROM recall(%s, k => 100)", [[COMMON]]).fetchone() == (0,)


def test_the_tripwires_trip_where_both_halves_are_broken(create_database: Callable[..., str], template: str) -> None:
    with kept_database(create_database, template) as conninfo:
        with MemoryStore.connect(as_application(conninfo), embedder=HashEmbedder(32)) as store:
            plant(store)
        break_inner_half(conninfo)
        with psycopg.connect(conninfo, autocommit=True) as connection:
            for table in ("memories", "aliases", "windows"):
                connection.execute(f"ALTER TABLE lore.{table} DISABLE ROW LEVEL SECURITY".encode())
            # What the second half still asks by itself.
            row = connection.execute("SELECT pg_get_functiondef('lore.recall'::regproc)").fetchone()
            assert row is not None
            connection.execute(re.sub(r"\w+\.org = v_org", "true", row[0]).encode())
        with MemoryStore.connect(as_application(conninfo), embedder=HashEmbedder(32), max_size=1) as store:
            found = leaks(store.as_user("acme", "ana"), "acme", "ana")
        assert set().union(*(wires for _, wires in found)) == foreign("acme", "ana")
