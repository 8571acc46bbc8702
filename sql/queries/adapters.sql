-- What the frameworks' interfaces ask for beside a search. All of it under row security.

-- name: get_memories
-- One row per visible, live memory of these ids, whole; one's own wins over a shared one.
SELECT DISTINCT ON (m.id)
       m.id, m.content, m.kind, m.visibility, m.owner, m.metadata, m.pinned, m.created_at, m.updated_at, m.expires_at,
       m.invalidated_at, m.superseded_by, m.agent, m.session, m.source, m.trust, m.language, m.content_original, m.version,
       m.full_length
FROM memories AS m
WHERE m.org = scope_org() AND m.id = ANY (%(ids)s::text[])
  AND m.invalidated_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > now())
ORDER BY m.id, (m.owner = scope_user()) DESC, m.key

-- name: closest_vectors
-- One row per memory of these ids and owners that has vectors: its window closest to the query, in the searched space.
SELECT DISTINCT ON (m.key) m.id, m.owner, v.embedding::real[] AS embedding
FROM unnest(%(ids)s::text[], %(owners)s::text[]) AS g(id, owner)
JOIN memories AS m ON m.org = scope_org() AND m.owner = g.owner AND m.id = g.id
JOIN vectors AS v ON v.org = scope_org() AND v.space = (searched_space()).space AND v.key = m.key
ORDER BY m.key, v.embedding <#> %(embedding)s::halfvec, v.ordinal

-- name: fusion_knobs
-- One row: the knobs of the fusion as searches use them, the defaults where none are recorded.
SELECT f.rrf_k, f.vector_weight, f.exact_weight, f.relaxed_weight, f.alias_weight FROM fusion() AS f

-- name: pick_memories
-- One row per visible, live memory of these ids (any if null) that passes the filter, whole, in the order of writing;
-- of two with one id, one's own.
SELECT m.id, m.content, m.kind, m.visibility, m.owner, m.metadata, m.pinned, m.created_at, m.updated_at, m.expires_at,
       m.invalidated_at, m.superseded_by, m.agent, m.session, m.source, m.trust, m.language, m.content_original, m.version,
       m.full_length
FROM memories AS m
WHERE m.org = scope_org() AND m.invalidated_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > now())
  AND (%(ids)s::text[] IS NULL OR m.id = ANY (%(ids)s::text[]))
  AND (%(filter)s::jsonb IS NULL OR m.key = ANY (allowed_keys(%(filter)s::jsonb, NULL, NULL)))
  AND (m.owner = scope_user()
       OR NOT EXISTS (SELECT FROM memories AS o
                      WHERE o.org = scope_org() AND o.owner = scope_user() AND o.id = m.id
                        AND o.invalidated_at IS NULL AND (o.expires_at IS NULL OR o.expires_at > now())))
ORDER BY m.key

-- name: forget_picked
-- One row per own memory of these ids (any if null) that passes the filter: gone from every table.
DELETE FROM memories AS m
WHERE m.org = scope_org() AND m.owner = scope_user()
  AND (%(ids)s::text[] IS NULL OR m.id = ANY (%(ids)s::text[]))
  AND (%(filter)s::jsonb IS NULL OR m.key = ANY (allowed_keys(%(filter)s::jsonb, NULL, NULL)))
RETURNING m.id

-- name: forget_document
-- One row per own memory that was cut from this document, invalidated or not: gone from every table.
DELETE FROM memories AS m
WHERE m.org = scope_org() AND m.owner = scope_user() AND m.metadata ->> %(key)s::text = %(ref_doc_id)s::text
RETURNING m.id
