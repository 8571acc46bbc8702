"""The rows that every peer gets: the live windows of a filled store, with their texts and vectors.

Peers know no windows, so each window is a document of theirs, as a splitter would have made it.
"""

from __future__ import annotations

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

EXPORT = """
COPY (SELECT m.org, m.org || '/' || m.id AS memory, m.org || '/' || m.id || '#' || w.ordinal AS id, m.owner,
             CASE m.visibility WHEN 'shared' THEN 'yes' ELSE 'no' END AS shared,
             substr(m.content, w.window_start + 1, w.window_end - w.window_start) AS content, v.embedding
      FROM lore.memories AS m
      JOIN lore.windows AS w ON w.org = m.org AND w.key = m.key AND w.space = 1
      JOIN lore.vectors AS v ON v.org = w.org AND v.space = 1 AND v.key = w.key AND v.ordinal = w.ordinal
      WHERE m.invalidated_at IS NULL)
TO STDOUT (FORMAT binary)"""

TABLE = """
CREATE TABLE rows (org text NOT NULL, memory text NOT NULL, id text NOT NULL, owner text NOT NULL, shared text NOT NULL,
                   content text NOT NULL, embedding halfvec NOT NULL)"""


def database_beside(conninfo: str, name: str) -> str:
    """The connection string of another database on the same server."""
    return make_conninfo(conninfo, dbname=name)


def create_database(conninfo: str, name: str, *, template: str | None = None) -> str:
    """An empty database, or a copy of another one; its connection string. One that is there is replaced."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        place = sql.Identifier(name)
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(place))
        made_of = sql.SQL(" TEMPLATE {}").format(sql.Identifier(template)) if template else sql.SQL("")
        connection.execute(sql.SQL("CREATE DATABASE {}").format(place) + made_of)
    return database_beside(conninfo, name)


def drop_database(conninfo: str, name: str) -> None:
    """Away with it."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(name)))


def export_rows(store: str, into: str) -> int:
    """Copy a store's live windows into a database of their own; how many."""
    with psycopg.connect(store) as source, psycopg.connect(into, autocommit=True) as target:
        target.execute("CREATE EXTENSION IF NOT EXISTS vector")
        target.execute(TABLE)
        with (
            source.cursor().copy(EXPORT) as read,
            target.cursor().copy("COPY rows FROM STDIN (FORMAT binary)") as write,
        ):
            for block in read:
                write.write(block)
        target.execute("ANALYZE rows")
        row = target.execute("SELECT count(*) FROM rows").fetchone()
        assert row is not None
        return int(row[0])


def settle(conninfo: str) -> None:
    """Drop what was copied from, and vacuum."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("DROP TABLE rows")
        connection.execute("VACUUM (ANALYZE)")


def set_for_database(conninfo: str, settings: dict[str, str]) -> None:
    """Settings that every later connection to this database starts with."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        name = sql.Identifier(connection.info.dbname)
        for key, value in settings.items():
            where = sql.SQL(".").join(sql.Identifier(part) for part in key.split("."))
            connection.execute(sql.SQL("ALTER DATABASE {} SET {} = {}").format(name, where, sql.Literal(value)))
