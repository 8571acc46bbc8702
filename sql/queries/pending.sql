-- name: claim_pending
-- One row per window of up to `limit` memories that wait for vectors in a space; locked until the transaction ends,
-- so that no two workers embed one window. Expired waits first; a memory gives up after `most_attempts`.
WITH claimed AS MATERIALIZED (
    SELECT p.org, p.key FROM pending AS p
    WHERE p.space = %(space)s::smallint AND p.next_at <= now() AND p.attempts < %(most_attempts)s::integer
    ORDER BY p.next_at, p.org, p.key
    LIMIT %(limit)s::integer
    FOR UPDATE SKIP LOCKED
)
SELECT c.org, c.key, m.id, m.content_hash, w.ordinal,
       substr(m.content, w.window_start + 1, w.window_end - w.window_start) AS text
FROM claimed AS c
JOIN memories AS m ON m.org = c.org AND m.key = c.key
LEFT JOIN windows AS w ON w.org = c.org AND w.key = c.key
     AND NOT EXISTS (SELECT FROM vectors AS v WHERE v.org = w.org AND v.space = %(space)s::smallint AND v.key = w.key AND v.ordinal = w.ordinal)
ORDER BY c.org, c.key, w.ordinal

-- name: postpone_pending
-- No rows: these memories are tried again later, ever more rarely.
UPDATE pending AS p
SET attempts = p.attempts + 1, next_at = now() + least(interval '1 hour', interval '1 second' * power(4, p.attempts)), error = %(error)s::text
FROM unnest(%(orgs)s::text[], %(keys)s::bigint[]) AS g(org, key)
WHERE p.org = g.org AND p.key = g.key AND p.space = %(space)s::smallint

-- name: pending_counts
-- One row: memories and windows that wait for vectors in a space, and those given up.
SELECT count(DISTINCT (p.org, p.key)) AS memories,
       count(w.ordinal) AS windows,
       count(DISTINCT (p.org, p.key)) FILTER (WHERE p.attempts >= %(most_attempts)s::integer) AS given_up,
       min(p.error) AS error
FROM pending AS p LEFT JOIN windows AS w ON w.org = p.org AND w.key = p.key
WHERE p.space = %(space)s::smallint
