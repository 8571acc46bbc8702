-- Translations: what is known of a text already, and what waits for one. Named parameters; the caller's own under row
-- security, or everybody's as the service role.

-- name: insert_untranslated
-- No rows: these memories wait for their translation.
INSERT INTO untranslated (org, key, owner, error)
SELECT scope_org(), g.key, scope_user(), g.error
FROM unnest(%(keys)s::bigint[], %(errors)s::text[]) AS g(key, error)
ON CONFLICT (org, key) DO UPDATE SET attempts = 0, next_at = now(), error = excluded.error

-- name: claim_untranslated
-- One row per memory, at most `limit`, whose translation is due and that no other worker has claimed; as `claim_pending`.
SELECT due.org, due.key
FROM (SELECT u.org, u.key FROM untranslated AS u
      WHERE u.next_at <= now() AND u.attempts < %(most_attempts)s::integer
      ORDER BY u.next_at, u.org, u.key
      LIMIT 2000) AS due
WHERE pg_try_advisory_xact_lock(hashtextextended(concat_ws(E'\x01', 'lore untranslated', current_schema(), due.org, due.key), 0))
LIMIT %(limit)s::integer

-- name: claimed_untranslated
-- One row per claimed memory that still waits for its translation.
SELECT m.org, m.key, m.id, m.owner, m.content, m.content_hash, m.language
FROM unnest(%(orgs)s::text[], %(keys)s::bigint[]) AS g(org, key)
JOIN untranslated AS u ON u.org = g.org AND u.key = g.key
JOIN memories AS m ON m.org = g.org AND m.key = g.key AND m.translation = 'pending'
ORDER BY m.org, m.key

-- name: translate_memories
-- One row per memory that still had the text that was translated: it now has the translation, and keeps the original.
UPDATE memories AS m
SET content = g.content, content_original = g.content_original, language = g.language, translation = g.translation,
    partly_embedded = g.partly_embedded
FROM jsonb_to_recordset(%(memories)s::jsonb) AS g(
    org text, key bigint, content_hash text, content text, content_original text, language text, translation text,
    partly_embedded boolean)
WHERE m.org = g.org AND m.key = g.key AND m.content_hash = decode(g.content_hash, 'hex') AND m.translation = 'pending'
RETURNING m.org, m.key, m.id, m.content_hash, m.content_hash <> decode(g.content_hash, 'hex') AS fresh, 'halfvec'::regtype::oid AS halfvec_oid

-- name: delete_translated
-- No rows: those of these memories whose translation is no longer awaited leave the queue.
DELETE FROM untranslated AS u
USING unnest(%(orgs)s::text[], %(keys)s::bigint[]) AS g(org, key)
WHERE u.org = g.org AND u.key = g.key
  AND NOT EXISTS (SELECT FROM memories AS m WHERE m.org = u.org AND m.key = u.key AND m.translation = 'pending')

-- name: postpone_untranslated
-- No rows: these memories are tried again later, ever more rarely; a last failure marks them as failed.
WITH failed AS (
    UPDATE untranslated AS u
    SET attempts = u.attempts + 1, next_at = now() + least(interval '1 hour', interval '1 second' * power(4, u.attempts)),
        error = g.error
    FROM unnest(%(orgs)s::text[], %(keys)s::bigint[], %(errors)s::text[]) AS g(org, key, error)
    WHERE u.org = g.org AND u.key = g.key
    RETURNING u.org, u.key, u.attempts
)
UPDATE memories AS m SET translation = 'failed'
FROM failed AS f
WHERE m.org = f.org AND m.key = f.key AND f.attempts >= %(most_attempts)s::integer AND m.translation = 'pending'

-- name: retry_untranslated
-- No rows, but a count: what waits for a translation, given up or not, is due now.
WITH due AS (
    UPDATE untranslated AS u SET attempts = 0, next_at = now() RETURNING u.org, u.key
)
UPDATE memories AS m SET translation = 'pending' FROM due AS d WHERE m.org = d.org AND m.key = d.key

-- name: delete_windows_of
-- No rows: the windows, and with them the vectors and codes, of these memories in every space.
DELETE FROM windows AS w USING unnest(%(orgs)s::text[], %(keys)s::bigint[]) AS g(org, key) WHERE w.org = g.org AND w.key = g.key

-- name: queue_memories
-- No rows: these memories wait for windows and vectors in every space.
INSERT INTO pending (org, space, key, owner)
SELECT m.org, s.space, m.key, m.owner
FROM unnest(%(orgs)s::text[], %(keys)s::bigint[]) AS g(org, key)
JOIN memories AS m ON m.org = g.org AND m.key = g.key
CROSS JOIN embedding_space AS s
WHERE s.state <> 'dropped'
ON CONFLICT (org, space, key) DO UPDATE SET attempts = 0, next_at = now(), error = NULL

-- name: language_counts
-- One row per language that memories were given in, most first: how many, and of these translated, waiting, given up.
SELECT m.language, count(*) AS memories,
       count(*) FILTER (WHERE m.translation = 'done') AS translated,
       count(*) FILTER (WHERE m.translation = 'pending') AS waiting,
       count(*) FILTER (WHERE m.translation = 'failed') AS failed
FROM memories AS m
GROUP BY m.language
ORDER BY 2 DESC, 1
