"""What must be so once the load of `soak.py` is over: memories, tables, pools, server."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import psycopg
from soak_client import Client, held_of
from soak_model import Ledger, word_of

from lore_retriever import NotFound
from lore_retriever.embeddings import Embedder

__all__ = ["NEVER", "check_pool", "check_server", "check_tables", "check_users"]

_COPY = "(v.owner, v.shared, v.live, v.expires_at, v.created_at) IS DISTINCT FROM"
_OF_MEMORY = "(m.owner, m.visibility = 'shared', m.invalidated_at IS NULL, m.expires_at, m.created_at)"

NEVER = {
    "memories without windows that do not wait": (
        "memories AS m WHERE NOT EXISTS (SELECT FROM windows AS w WHERE (w.org, w.key) = (m.org, m.key))"
        " AND NOT EXISTS (SELECT FROM pending AS p WHERE (p.org, p.key) = (m.org, m.key))"
    ),
    "memories whose windows end before or after their text": (
        "memories AS m WHERE EXISTS (SELECT FROM windows AS w WHERE (w.org, w.key) = (m.org, m.key)) AND m.full_length"
        " <> (SELECT max(w.window_end) FROM windows AS w WHERE (w.org, w.key) = (m.org, m.key))"
    ),
    "windows without a vector that do not wait": (
        "windows AS w WHERE NOT EXISTS (SELECT FROM vectors AS v"
        " WHERE (v.org, v.space, v.key, v.ordinal) = (w.org, w.space, w.key, w.ordinal))"
        " AND NOT EXISTS (SELECT FROM pending AS p WHERE (p.org, p.space, p.key) = (w.org, w.space, w.key))"
    ),
    "vectors that say something else than their memory": (
        f"vectors AS v JOIN memories AS m ON (m.org, m.key) = (v.org, v.key) WHERE {_COPY} {_OF_MEMORY}"
    ),
    "codes that say something else than their memory": (
        f"codes AS v JOIN memories AS m ON (m.org, m.key) = (v.org, v.key) WHERE {_COPY} {_OF_MEMORY}"
    ),
    "aliases that say something else than their memory": (
        "aliases AS a JOIN memories AS m ON (m.org, m.key) = (a.org, a.key)"
        " WHERE (a.owner, a.shared) IS DISTINCT FROM (m.owner, m.visibility = 'shared')"
    ),
    **{
        f"orphans in {table}": f"{table} AS t WHERE key IS NOT NULL"
        " AND NOT EXISTS (SELECT FROM memories AS m WHERE (m.org, m.key) = (t.org, t.key))"
        for table in ("windows", "vectors", "codes", "pending", "aliases", "feedback", "reinforcement", "history")
    },
    "orphans in vectors (windows)": (
        "vectors AS v WHERE NOT EXISTS (SELECT FROM windows AS w"
        " WHERE (v.org, v.space, v.key, v.ordinal) = (w.org, w.space, w.key, w.ordinal))"
    ),
}
"""Rows that must not be there at any time between two operations."""

NEVER_SETTLED = {
    "memories that wait after embedding": "pending AS p",
    "parts counted wrongly": (
        "(SELECT org, owner, memories FROM scope_statistics) AS s FULL JOIN"
        " (SELECT org, CASE WHEN visibility = 'shared' THEN '' ELSE owner END AS owner, count(*) AS memories"
        " FROM memories WHERE invalidated_at IS NULL GROUP BY 1, 2) AS m USING (org, owner)"
        " WHERE coalesce(s.memories, 0) <> coalesce(m.memories, 0)"
    ),
}
"""Rows that must not be there once what waited is embedded and maintenance ran."""


def check_users(ledger: Ledger, clients: Sequence[Client]) -> None:
    """Every memory is what its writer knows, nobody has one more, and each is found by its own word or is invalid."""
    for client in clients:
        seen = client.view.list(limit=1000)
        own = {memory.id for memory in seen if memory.owner == client.name[1]}
        live = {memory_id for memory_id, held in client.mine.items() if held.is_live}
        if own != live:
            ledger.violate(f"{client.name} lacks {live - own} and has {own - live}")
        for memory_id, held in client.mine.items():
            _check_memory(ledger, client, memory_id, held)
        for memory in seen:
            if not ledger.may_see(client.name, memory.owner, memory.id):
                ledger.violate(f"{client.name} sees {memory.id!r} of {memory.owner!r}")


def _check_memory(ledger: Ledger, client: Client, memory_id: str, held: Any) -> None:
    try:
        stored = held_of(client.view.get(memory_id))
    except NotFound:
        ledger.violate(f"{client.name} lost {memory_id!r}")
        return
    if stored != held:
        ledger.violate(f"{client.name}: {memory_id!r} is {stored}, not {held}")
    hits = client.view.recall(word_of(client.name, memory_id)).hits
    is_found = (client.name[1], memory_id) in {(hit.owner, hit.id) for hit in hits}
    if is_found is not held.is_live:
        ledger.violate(f"{client.name}: {memory_id!r} is {'' if held.is_live else 'not '}live, and found: {is_found}")


def check_tables(ledger: Ledger, conninfo: str, embedder: Embedder, *, is_settled: bool) -> None:
    """No row that must not be; and every vector is that of the text in its window."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("SET search_path = lore, public")
        for what, rows in (NEVER | (NEVER_SETTLED if is_settled else {})).items():
            found = connection.execute(f"SELECT count(*) FROM {rows}".encode()).fetchone()  # noqa: S608 (our own text)
            if found is None or found[0]:
                ledger.violate(f"{found and found[0]} {what}")
        spans = connection.execute(
            "SELECT m.id, substr(m.content, w.window_start + 1, w.window_end - w.window_start), v.embedding::text"
            " FROM vectors AS v JOIN windows AS w USING (org, space, key, ordinal) JOIN memories AS m USING (org, key)"
        ).fetchall()
    made = embedder.embed_texts([text for _, text, _ in spans])
    for (memory_id, _, stored), vector in zip(spans, made, strict=True):
        numbers = [float(number) for number in stored.strip("[]").split(",")]
        if max(abs(a - b) for a, b in zip(numbers, vector, strict=True)) > 0.002:
            ledger.violate(f"a vector of {memory_id!r} is not that of its text")


def check_pool(ledger: Ledger, pool: Any, what: str) -> None:
    """Every connection is back, and nobody waits for one."""
    deadline = time.monotonic() + 10
    while True:
        stats = pool.get_stats()
        is_whole = stats["pool_available"] == stats["pool_size"] and not stats.get("requests_waiting", 0)
        if is_whole or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    if not is_whole:
        ledger.violate(f"the {what} pool is stuck: {stats}")


def check_server(ledger: Ledger, conninfo: str) -> None:
    """No transaction is open, no lock is held."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        busy = connection.execute(
            "SELECT state, left(query, 80) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
            " AND datname = current_database() AND backend_type = 'client backend' AND state <> 'idle'"
        ).fetchall()
        locks = connection.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone()
    if busy:
        ledger.violate(f"transactions are left open: {busy}")
    if locks is None or locks[0]:
        ledger.violate(f"{locks and locks[0]} advisory locks are left")
