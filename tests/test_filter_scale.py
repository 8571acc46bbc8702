"""A filter that keeps one row in a thousand still returns k rows, the right ones."""

from __future__ import annotations

import psycopg

from lore_retriever import MemoryStore
from lore_retriever.operations.common import halfvec_text
from lore_retriever.testing import HashEmbedder

ROWS = 50_000
KEPT = 50


def fill(conninfo: str, embedder: HashEmbedder) -> None:
    """50,000 memories of one user, one in a thousand of them with `bucket` 7."""
    with psycopg.connect(conninfo, autocommit=True) as connection, connection.transaction():
        connection.execute("SET LOCAL search_path = lore, public, pg_temp")
        connection.execute(
            "INSERT INTO memories (org, id, owner, content, metadata)"
            " SELECT 'acme', 'm' || n, 'ana', 'note number ' || n, jsonb_build_object('bucket', n %% (%s / %s))"
            " FROM generate_series(1, %s) AS n",
            [ROWS, KEPT, ROWS],
        )
        connection.execute(
            "INSERT INTO windows (org, space, key, ordinal, window_start, window_end)"
            " SELECT m.org, s.space, m.key, 0, 0, m.full_length FROM memories AS m, embedding_space AS s"
        )
        texts = [f"note number {n}" for n in range(1, ROWS + 1)]
        vectors = [halfvec_text(vector) for vector in embedder.embed_texts(texts)]
        connection.execute(
            "INSERT INTO vectors (org, space, key, ordinal, owner, shared, live, created_at, embedding)"
            " SELECT m.org, s.space, m.key, 0, m.owner, false, true, m.created_at, v.embedding::halfvec"
            " FROM unnest(%s::text[]) WITH ORDINALITY AS v(embedding, n)"
            " JOIN memories AS m ON m.org = 'acme' AND m.id = 'm' || v.n CROSS JOIN embedding_space AS s",
            [vectors],
        )
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("ANALYZE")


def test_a_filter_that_keeps_one_in_a_thousand_returns_k_rows_equal_to_brute_force(
    database: str, app_database: str
) -> None:
    embedder = HashEmbedder(32)
    fill(database, embedder)
    asked = "a question about something else"
    (query,) = embedder.embed_queries([asked])
    kept = [n for n in range(1, ROWS + 1) if n % (ROWS // KEPT) == 7]
    closeness = {
        f"m{n}": sum(a * b for a, b in zip(query, vector, strict=True))
        for n, vector in zip(kept, embedder.embed_texts([f"note number {n}" for n in kept]), strict=True)
    }
    with MemoryStore.connect(app_database, embedder=embedder) as store:
        hits = store.as_user("acme", "ana").recall(asked, limit=20, filter={"bucket": 7}).hits
    assert len(hits) == 20
    best = sorted(closeness.values(), reverse=True)[:20]
    assert all(hit.legs["vector"].rank == hit.rank for hit in hits)
    # halfvec keeps three digits: the same places up to that
    assert all(abs(closeness[hit.id] - value) < 0.002 for hit, value in zip(hits, best, strict=True))
