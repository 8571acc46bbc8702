-- name: recall
-- One row per hit, best first; at most k.
SELECT id, owner, visibility, kind, content_excerpt, truncated, full_length, excerpt_start, excerpt_end,
       score, relevance, recency, reinforcement, vector_rank, exact_rank, relaxed_rank, alias_rank,
       similarity, exact_score, relaxed_score, alias, coverage, created_at, updated_at, metadata, pinned, query_no, omitted
FROM recall(%(queries)s::text[], %(embeddings)s::halfvec[], %(k)s::integer, %(filter)s::jsonb, %(kinds)s::text[],
            %(as_of)s::timestamptz)
