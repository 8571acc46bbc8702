-- Memories that wait for windows or vectors in a space. Named parameters; the caller's own under row security, or
-- everybody's as the service role.

-- name: claim_pending
-- One row per memory, at most `limit`, that is due in a space and that no other worker has claimed. Claimed until the
-- transaction ends. By an advisory lock rather than by FOR UPDATE SKIP LOCKED: it lasts while the model works, and a
-- locked row would hold up whoever forgets or rewrites the memory meanwhile. A memory gives up after `most_attempts`.
SELECT due.org, due.key
FROM (SELECT p.org, p.key FROM pending AS p
      WHERE p.space = %(space)s::smallint AND p.next_at <= now() AND p.attempts < %(most_attempts)s::integer
      ORDER BY p.next_at, p.org, p.key
      LIMIT 2000) AS due
WHERE pg_try_advisory_xact_lock(hashtextextended(
          concat_ws(E'\x01', 'lore pending', current_schema(), %(space)s::smallint, due.org, due.key), 0))
LIMIT %(limit)s::integer

-- name: claimed_memories
-- One row per claimed memory that still waits, with the windows that lack a vector. Read after the claim, so that what
-- another worker has just finished is not done again.
SELECT p.org, p.key, m.id, m.content, m.content_hash, w.is_split, w.ordinals, w.starts, w.ends
FROM unnest(%(orgs)s::text[], %(keys)s::bigint[]) WITH ORDINALITY AS g(org, key, n)
JOIN pending AS p ON p.org = g.org AND p.space = %(space)s::smallint AND p.key = g.key
JOIN memories AS m ON m.org = p.org AND m.key = p.key
CROSS JOIN LATERAL (
    SELECT count(*) > 0 AS is_split,
           coalesce(array_agg(i.ordinal ORDER BY i.ordinal) FILTER (WHERE v.key IS NULL), '{}') AS ordinals,
           coalesce(array_agg(i.window_start ORDER BY i.ordinal) FILTER (WHERE v.key IS NULL), '{}') AS starts,
           coalesce(array_agg(i.window_end ORDER BY i.ordinal) FILTER (WHERE v.key IS NULL), '{}') AS ends
    FROM windows AS i
    LEFT JOIN vectors AS v ON v.org = i.org AND v.space = i.space AND v.key = i.key AND v.ordinal = i.ordinal
    WHERE i.org = p.org AND i.key = p.key AND i.space = p.space
) AS w
ORDER BY g.n

-- name: lock_unchanged
-- One row per memory of these that still has the text it was claimed with. It keeps that text, its visibility and its
-- life until the transaction ends.
SELECT m.org, m.key, 'halfvec'::regtype::oid AS halfvec_oid
FROM memories AS m
JOIN unnest(%(orgs)s::text[], %(keys)s::bigint[], %(hashes)s::bytea[]) AS g(org, key, content_hash)
     ON m.org = g.org AND m.key = g.key AND m.content_hash = g.content_hash
ORDER BY m.org, m.key
FOR SHARE OF m

-- name: insert_missing_windows
-- No rows: one window per element of the arrays.
INSERT INTO windows (org, space, key, ordinal, window_start, window_end)
SELECT g.org, %(space)s::smallint, g.key, g.ordinal, g.window_start, g.window_end
FROM unnest(%(orgs)s::text[], %(keys)s::bigint[], %(ordinals)s::integer[], %(starts)s::integer[], %(ends)s::integer[])
     AS g(org, key, ordinal, window_start, window_end)
ON CONFLICT (org, key, space, ordinal) DO NOTHING

-- name: mark_partly_embedded
-- No rows: these memories have more windows than one memory may have.
UPDATE memories AS m SET partly_embedded = true
FROM unnest(%(orgs)s::text[], %(keys)s::bigint[]) AS g(org, key)
WHERE m.org = g.org AND m.key = g.key AND NOT m.partly_embedded

-- name: delete_pending
-- No rows: those of these memories that lack no vector any more wait no longer.
DELETE FROM pending AS p
USING unnest(%(orgs)s::text[], %(keys)s::bigint[]) AS g(org, key)
WHERE p.org = g.org AND p.key = g.key AND p.space = %(space)s::smallint
  AND EXISTS (SELECT FROM windows AS w WHERE w.org = p.org AND w.key = p.key AND w.space = p.space)
  AND NOT EXISTS (SELECT FROM windows AS w
                  WHERE w.org = p.org AND w.key = p.key AND w.space = p.space
                    AND NOT EXISTS (SELECT FROM vectors AS v WHERE v.org = w.org AND v.space = p.space AND v.key = w.key AND v.ordinal = w.ordinal))

-- name: postpone_pending
-- No rows: these memories are tried again later, ever more rarely. Locked in order, so that two workers do not deadlock.
WITH failed AS MATERIALIZED (
    SELECT p.org, p.space, p.key, g.error
    FROM pending AS p
    JOIN unnest(%(orgs)s::text[], %(keys)s::bigint[], %(errors)s::text[]) AS g(org, key, error) ON p.org = g.org AND p.key = g.key
    WHERE p.space = %(space)s::smallint
    ORDER BY p.org, p.key
    FOR UPDATE OF p
)
UPDATE pending AS p
SET attempts = p.attempts + 1, next_at = now() + least(interval '1 hour', interval '1 second' * power(4, p.attempts)), error = f.error
FROM failed AS f
WHERE p.org = f.org AND p.space = f.space AND p.key = f.key

-- name: pending_counts
-- One row: memories that wait for vectors in a space, those given up, and the windows that lack one; of memories not
-- yet split, windows are estimated.
SELECT count(*) AS memories,
       coalesce(sum(w.missing), 0)::bigint AS windows,
       count(*) FILTER (WHERE p.attempts >= %(most_attempts)s::integer) AS given_up,
       min(p.error) AS error
FROM pending AS p
JOIN memories AS m ON m.org = p.org AND m.key = p.key
CROSS JOIN LATERAL (
    SELECT CASE WHEN count(*) = 0 THEN ceil(m.full_length / 1200.0) ELSE count(*) FILTER (WHERE v.key IS NULL) END AS missing
    FROM windows AS i
    LEFT JOIN vectors AS v ON v.org = i.org AND v.space = i.space AND v.key = i.key AND v.ordinal = i.ordinal
    WHERE i.org = p.org AND i.key = p.key AND i.space = p.space
) AS w
WHERE p.space = %(space)s::smallint

-- name: retry_pending
-- No rows: what waits for vectors in a space, given up or not, is due now.
UPDATE pending AS p SET attempts = 0, next_at = now() WHERE p.space = %(space)s::smallint AND (p.attempts > 0 OR p.next_at > now())
