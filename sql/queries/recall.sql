-- name: recall
-- One row per hit, best first; at most k.
SELECT id, owner, visibility, kind, content_excerpt, truncated, full_length, excerpt_start, excerpt_end,
       score, relevance, recency, reinforcement, vector_rank, exact_rank, relaxed_rank, alias_rank,
       similarity, exact_score, relaxed_score, alias, coverage, created_at, updated_at, metadata, pinned, query_no, omitted
FROM recall(%(queries)s::text[], array_prepend(%(embedding)s::halfvec, %(further)s::halfvec[]), %(k)s::integer, %(filter)s::jsonb,
            %(kinds)s::text[], %(as_of)s::timestamptz)

-- name: recall_at_once
-- The same in one round trip, which enters the scope itself. `enter_search` runs first, since `recall` takes what it returns.
-- The search path is the login role's own, so types are named in full.
SELECT r.*
FROM {schema}.enter_search(%(role)s, %(org)s, %(user)s, %(space)s, %(token)s, %(queries)s, %(embedding)s, %(further)s) AS e
CROSS JOIN LATERAL {schema}.recall(
    e.texts, e.embeddings, %(k)s::pg_catalog.int4, %(filter)s::pg_catalog.jsonb, %(kinds)s::pg_catalog.text[],
    %(as_of)s::pg_catalog.timestamptz
) AS r
