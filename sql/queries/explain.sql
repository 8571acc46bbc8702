-- name: explain_legs
-- One row per query, leg and visible memory it proposed, in the leg's order; one without an id where a leg proposed none.
SELECT l.query_no, l.leg, m.id, l.rank, l.value, l.matched, l.took_ms
FROM explain_legs(%(queries)s::text[], array_prepend(%(embedding)s::halfvec, %(further)s::halfvec[]), %(k)s::integer * (SELECT (fusion()).pool_multiplier),
         CASE WHEN %(filter)s::jsonb IS NULL AND %(kinds)s::text[] IS NULL AND %(as_of)s::timestamptz IS NULL THEN NULL
              ELSE allowed_keys(%(filter)s::jsonb, %(kinds)s::text[], %(as_of)s::timestamptz) END) AS l
LEFT JOIN memories AS m ON m.org = scope_org() AND m.key = l.key
WHERE l.key IS NULL OR m.key IS NOT NULL
ORDER BY l.query_no, l.leg, l.rank

-- name: explain_words
-- One row per query and stem looked for, rarest first.
SELECT w.query_no, w.stem, w.asked, w.df, w.idf FROM explain_words(%(queries)s::text[]) AS w

-- name: explain_queries
-- One row per query: the identifiers found in it, and the whole query as the exact leg reads it.
SELECT (q.n - 1)::integer AS query_no, query_identifiers(q.text) AS identifiers, exact_query(s.text_config, q.text)::text AS exact_query
FROM unnest(%(queries)s::text[]) WITH ORDINALITY AS q(text, n) CROSS JOIN settings AS s
ORDER BY 1
