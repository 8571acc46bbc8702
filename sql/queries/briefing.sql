-- name: briefing_lists
-- One row per memory that a briefing may show without a query: pinned ones, open tasks and open questions, and the
-- newest of others. Visible and live, now or as of an instant; each list newest first. Texts are cut to 1,200 characters.
WITH wanted AS MATERIALIZED (
    SELECT CASE WHEN %(filter)s::jsonb IS NULL AND %(kinds)s::text[] IS NULL AND %(as_of)s::timestamptz IS NULL THEN NULL
                ELSE allowed_keys(%(filter)s::jsonb, %(kinds)s::text[], %(as_of)s::timestamptz) END AS keys
), pinned AS (
    SELECT m.key, 'pinned' AS list, 1 AS place
    FROM memories AS m, wanted AS w
    WHERE m.org = scope_org() AND m.pinned
      AND CASE WHEN w.keys IS NULL THEN m.invalidated_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > now()) ELSE m.key = ANY (w.keys) END
    ORDER BY m.created_at DESC, m.key DESC
    LIMIT %(pinned)s::integer
), tasks AS (
    SELECT m.key, 'open_tasks' AS list, 2 AS place
    FROM memories AS m, wanted AS w
    WHERE m.org = scope_org() AND m.kind IN ('task', 'open-question')
      AND CASE WHEN w.keys IS NULL THEN m.invalidated_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > now()) ELSE m.key = ANY (w.keys) END
    ORDER BY m.created_at DESC, m.key DESC
    LIMIT %(tasks)s::integer
), newest AS (
    -- at most 500, so that a store full of documents is not read through for the last note
    SELECT m.key, m.kind, m.created_at
    FROM memories AS m, wanted AS w
    WHERE m.org = scope_org()
      AND CASE WHEN w.keys IS NULL THEN m.invalidated_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > now()) ELSE m.key = ANY (w.keys) END
    ORDER BY m.created_at DESC, m.key DESC
    LIMIT CASE WHEN %(recent)s::integer = 0 THEN 0 ELSE 500 END
), recent AS (
    SELECT n.key, 'recent' AS list, 3 AS place
    FROM newest AS n
    WHERE n.kind NOT IN ('task', 'open-question') AND (%(documents)s::boolean OR n.kind <> 'document')
    ORDER BY n.created_at DESC, n.key DESC
    LIMIT %(recent)s::integer
), listed AS (
    SELECT p.key, p.list, p.place FROM pinned AS p
    UNION ALL SELECT t.key, t.list, t.place FROM tasks AS t
    UNION ALL SELECT r.key, r.list, r.place FROM recent AS r
)
SELECT l.list, m.id, m.owner, m.owner = scope_user() AS is_own, left(m.content, 1200) AS text, m.full_length, m.kind, m.visibility,
       m.pinned, m.source, m.trust, m.created_at, m.updated_at
FROM listed AS l JOIN memories AS m ON m.org = scope_org() AND m.key = l.key
ORDER BY l.place, m.created_at DESC, m.key DESC

-- name: briefing_details
-- One row per hit that is still there: what a search does not return of it; the first `chars` characters of those that may
-- be shown whole; and, where it is sought, the window closest to the query that found it. Of a hit that matches the query
-- `named` exactly: of its 8 closest windows one of those that hold most of its identifiers; none where these hold none,
-- or the query has none: then the search has chosen the window by what it matched.
WITH space AS MATERIALIZED (
    SELECT (searched_space()).space AS number
)
SELECT m.id, m.owner, m.owner = scope_user() AS is_own, m.source, m.trust, left(m.content, g.chars) AS whole,
       c.window_start, substr(m.content, c.window_start + 1, c.window_end - c.window_start) AS window_text
FROM unnest(%(owners)s::text[], %(ids)s::text[], %(chars)s::integer[], %(sought)s::text[], %(named)s::text[])
     AS g(owner, id, chars, sought, named)
JOIN memories AS m ON m.org = scope_org() AND m.owner = g.owner AND m.id = g.id
LEFT JOIN LATERAL (
    SELECT n.window_start, n.window_end
    FROM (
        SELECT w.window_start, w.window_end, v.ordinal, v.embedding <#> g.sought::halfvec AS distance
        FROM space AS s
        JOIN vectors AS v ON v.org = scope_org() AND v.space = s.number AND v.key = m.key
        JOIN windows AS w ON w.org = scope_org() AND w.space = s.number AND w.key = m.key AND w.ordinal = v.ordinal
        WHERE g.sought IS NOT NULL AND (g.named IS NULL OR cardinality(query_identifiers(g.named)) > 0)
        ORDER BY distance, v.ordinal
        LIMIT CASE WHEN g.named IS NULL THEN 1 ELSE 8 END
    ) AS n
    CROSS JOIN LATERAL (
        SELECT count(*) AS number
        FROM unnest(query_identifiers(g.named)) AS i(name)
        WHERE strpos(lower(folded_text(substr(m.content, n.window_start + 1, n.window_end - n.window_start))), i.name) > 0
    ) AS held
    WHERE g.named IS NULL OR held.number > 0
    ORDER BY held.number DESC, n.distance, n.ordinal
    LIMIT 1
) AS c ON true
