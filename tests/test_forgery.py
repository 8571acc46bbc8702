"""No row can be forged in plain SQL: not another's, not in another's name, not with a lie about who may see it."""

# ruff: noqa: S608 (statements of a test's own)

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

from support import as_application, as_service, kept_database, scoped
from tripwires import plant_everywhere


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


FORGERIES = [
    # a memory of another organisation, or of a colleague
    "INSERT INTO memories (org, id, owner, content) VALUES ('globex', 'f', 'ana', 'x')",
    "INSERT INTO memories (org, id, owner, content) VALUES ('acme', 'f', 'ben', 'x')",
    "INSERT INTO memories (org, id, owner, content, key) OVERRIDING SYSTEM VALUE VALUES ('acme', 'f', 'ana', 'x', %(ben)s)",
    "UPDATE memories SET owner = 'ben'",
    "UPDATE memories SET org = 'globex'",
    # windows of others
    "INSERT INTO windows VALUES ('acme', 1, %(ben)s, 90, 0, 1)",
    "INSERT INTO windows VALUES ('acme', 1, %(shared)s, 90, 0, 1)",
    "INSERT INTO windows VALUES ('globex', 1, %(globex)s, 90, 0, 1)",
    "UPDATE windows SET window_end = 1",
    # vectors and codes of others, or that lie about owner, visibility or organisation
    *(
        f"INSERT INTO {table} (org, space, key, ordinal, owner, shared, live, created_at, {extra}"
        f" SELECT {org}, 1, {key}, 0, {owner}, {shared}, true, now(), {value}"
        for table, extra, value in (
            ("vectors", "embedding)", "('[1' || repeat(',0', 31) || ']')::halfvec"),
            ("codes", "centre, bits)", "1, repeat('1', 32)::varbit"),
        )
        for org, key, owner, shared in (
            ("'acme'", "%(ben)s", "'ben'", "false"),
            ("'acme'", "%(ben)s", "'ana'", "false"),
            ("'acme'", "%(shared)s", "'ben'", "true"),
            ("'acme'", "%(shared)s", "'ana'", "true"),
            ("'acme'", "%(ana)s", "'ana'", "true"),
            ("'acme'", "%(ana)s", "'ben'", "false"),
            ("'globex'", "%(globex)s", "'ana'", "false"),
            ("'globex'", "%(ana)s", "'ana'", "false"),
        )
    ),
    *(
        f"UPDATE {table} SET {change}"
        for table in ("vectors", "codes")
        for change in ("shared = NOT shared", "owner = 'ben'", "org = 'globex'", "key = %(ben)s")
    ),
    # work for others, or on memories of others
    "INSERT INTO pending (org, space, key, owner) VALUES ('acme', 1, %(ben)s, 'ana')",
    "INSERT INTO pending (org, space, key, owner) VALUES ('acme', 1, %(ben)s, 'ben')",
    "UPDATE pending SET owner = 'ben'",
    "INSERT INTO untranslated (org, key, owner) VALUES ('acme', %(ben)s, 'ana')",
    "INSERT INTO untranslated (org, key, owner) VALUES ('acme', %(shared)s, 'ana')",
    "UPDATE untranslated SET owner = 'ben'",
    # names of others' memories, and names that claim to be shared
    "INSERT INTO aliases (org, folded, name, key, owner, shared) VALUES ('acme', 'f', 'f', %(ben)s, 'ana', false)",
    "INSERT INTO aliases (org, folded, name, key, owner, shared) VALUES ('acme', 'f', 'f', %(shared)s, 'ana', true)",
    "INSERT INTO aliases (org, folded, name, key, owner, shared) VALUES ('acme', 'f', 'f', %(ana)s, 'ana', true)",
    "INSERT INTO aliases (org, folded, name, group_no, owner, shared) VALUES ('globex', 'f', 'f', 1, 'ana', true)",
    "INSERT INTO aliases (org, folded, name, group_no, owner, shared) VALUES ('acme', 'f', 'f', 1, 'ben', true)",
    "UPDATE aliases SET key = %(ben)s",
    "UPDATE aliases SET owner = 'ben'",
    # votes in another's name, or on what one cannot see
    "INSERT INTO feedback (org, key, voter, useful) VALUES ('acme', %(shared)s, 'ben', true)",
    "INSERT INTO feedback (org, key, voter, useful) VALUES ('acme', %(ben)s, 'ana', true)",
    "INSERT INTO feedback (org, key, voter, useful) VALUES ('globex', %(globex)s, 'ana', true)",
    "UPDATE feedback SET voter = 'ben'",
    # a past that was not
    "INSERT INTO history (org, key, version, event) VALUES ('acme', %(shared)s, 9, 'updated')",
    "INSERT INTO history (org, key, version, event) VALUES ('acme', %(ben)s, 9, 'updated')",
]


@pytest.fixture(scope="module")
def keys(admin: str) -> dict[str, int]:
    """Surrogate keys: ana's and ben's private note, ben's shared one, one of globex."""
    with as_service(admin) as connection:
        rows = connection.execute(
            "SELECT CASE WHEN org = 'globex' THEN 'globex' WHEN visibility = 'shared' THEN 'shared' ELSE owner END, key"
            " FROM memories WHERE (org, owner, id) IN (('acme', 'ana', 'note'), ('acme', 'ben', 'note'),"
            " ('acme', 'ben', 'note-acmebenshared'), ('globex', 'ana', 'note'))"
        ).fetchall()
    assert len(rows) == 4
    return dict(rows)


@pytest.mark.parametrize("statement", FORGERIES)
def test_ana_of_acme_forges_nothing(application: str, keys: dict[str, int], statement: str) -> None:
    with scoped(application, "acme", "ana") as connection:
        refused(connection, statement, keys)


def test_a_colleague_s_key_is_refused_as_an_unknown_one_is(application: str, keys: dict[str, int]) -> None:
    statements = [s for s in FORGERIES if s.startswith("INSERT") and "%(ben)s" in s and "OVERRIDING" not in s]
    with scoped(application, "acme", "ana") as connection:
        for statement in statements:
            assert refused(connection, statement, keys) == refused(connection, statement, keys | {"ben": 987654321})
