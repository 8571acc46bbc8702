"""Indexing every text anew under another text-search configuration, while it is searched and written."""

from __future__ import annotations

from collections.abc import Callable

import psycopg

from lore_retriever.draining import Service
from lore_retriever.errors import InvalidInput
from lore_retriever.queries import query
from lore_retriever.spaces import wait_for_writers
from lore_retriever.steps import Row

__all__ = ["rebuild_text"]

RETEXTED_AT_ONCE = 500
"""Memories indexed anew in one transaction."""


def rebuild_text(service: Service, config: str, *, progress: Callable[[int, int], None] | None = None) -> int:
    """Index every text under a configuration; how many were. See `StoreAdmin.rebuild_text`."""
    with service() as cursor:
        _check_text_config(cursor, config)
        cursor.execute("UPDATE settings SET next_text_config = %s", [config])
    # Writers that began before may still be writing under the old one.
    wait_for_writers(service)
    with service() as cursor:
        row = cursor.execute("SELECT count(*) AS n FROM memories WHERE text_config <> %s", [config]).fetchone()
    total = row["n"] if row else 0
    done = 0
    while True:
        with service() as cursor:
            changed = cursor.execute(query("retext_some"), {"config": config, "limit": RETEXTED_AT_ONCE}).rowcount
        if not changed:
            break
        done += changed
        if progress is not None:
            progress(done, total)
    with service() as cursor:
        cursor.execute("UPDATE settings SET text_config = %s, next_text_config = NULL", [config])
        cursor.execute("SELECT rebuild_statistics()")
    return done


def _check_text_config(cursor: psycopg.Cursor[Row], config: str) -> None:
    try:
        cursor.execute("SAVEPOINT probe")
        cursor.execute("SELECT text_vector(%s, 'probe', true)", [config])
    except psycopg.errors.UndefinedObject as error:
        cursor.execute("ROLLBACK TO SAVEPOINT probe")
        names = cursor.execute("SELECT cfgname AS name FROM pg_ts_config ORDER BY 1").fetchall()
        known = ", ".join(row["name"] for row in names)
        raise InvalidInput(f"the server has no text-search configuration {config!r}. It has: {known}.") from error
