"""Login roles that are their own identity, and a session of one who attacks: acme's ana, with psql as her own role.

Tripwires of everybody else stand in every table; she also owns a schema of her own, which is more than an application's
login should have.
"""

# ruff: noqa: S608 (statements of a test's own)

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from lore_retriever.admin import StoreAdmin
from lore_retriever.identity import Identity, map_role, use_identity
from support import SEARCH_PATH, kept_database
from tripwires import COMMON, MARKERS, plant_everywhere

TENANT_TABLES = (
    *("memories", "windows", "vectors", "codes", "pending", "terms"),
    *("scope_statistics", "aliases", "feedback", "reinforcement", "history", "untranslated"),
)
ROLES = {name: f"lore_test_{os.getpid()}_attack_{name}" for name in ("ana", "ben", "eve")}
SCOPES = {"ana": ("acme", "ana"), "ben": ("globex", "ben")}
EVIL = f"evil_{os.getpid()}"


@contextmanager
def attacked_database(create_database: Callable[..., str], template: str) -> Iterator[str]:
    """Administrator's connection string of a database whose callers are known by their login roles."""
    with kept_database(create_database, template) as conninfo:
        plant_everywhere(conninfo)
        keeper = StoreAdmin.connect(conninfo)
        with psycopg.connect(conninfo, autocommit=True) as connection:
            for role in ROLES.values():
                connection.execute(
                    sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'x' IN ROLE lore_user").format(sql.Identifier(role))
                )
            database, ana = (sql.Identifier(str(name)) for name in (conninfo_to_dict(conninfo)["dbname"], ROLES["ana"]))
            connection.execute(sql.SQL("GRANT CREATE, TEMPORARY ON DATABASE {} TO {}").format(database, ana))
            connection.execute("ANALYZE")
        for name, (org, user) in SCOPES.items():
            map_role(keeper, ROLES[name], org=org, user=user)
        use_identity(keeper, Identity(mode="role"))
        yield conninfo
    with psycopg.connect(conninfo, dbname="postgres", autocommit=True) as connection:
        for role in ROLES.values():
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


def login(admin: str, name: str) -> str:
    return make_conninfo(admin, user=ROLES[name], password="x")


@contextmanager
def psql_of(admin: str, name: str = "ana", search_path: str = SEARCH_PATH) -> Iterator[psycopg.Connection[Any]]:
    """A session of somebody who types SQL, rolled back at the end; no scope is set, none is needed."""
    with psycopg.connect(login(admin, name)) as connection:
        connection.execute("SELECT set_config('search_path', %s, false)", [search_path])
        yield connection
        connection.rollback()


def refused(connection: psycopg.Connection[Any], statement: str, params: Any = None) -> str:
    """With what message a statement is refused for want of a right."""
    with pytest.raises(psycopg.errors.InsufficientPrivilege) as caught, connection.transaction():
        connection.execute(statement.encode(), params)
    return str(caught.value)


def everything(connection: psycopg.Connection[Any]) -> str:
    """All that plain SQL shows of every table of tenant data, and of searches for everybody's markers."""
    shown = []
    for table in TENANT_TABLES:
        shown += connection.execute(f"SELECT t::text FROM lore.{table} AS t".encode()).fetchall()
    asked = [COMMON, "ERR-4471", "the usual nickname", "lighthouse", *MARKERS]
    shown += connection.execute("SELECT r::text FROM lore.recall(%s, k => 1000) AS r", [asked]).fetchall()
    shown += connection.execute("SELECT w::text FROM lore.explain_words(%s) AS w WHERE w.df > 0", [asked]).fetchall()
    return str(shown)
