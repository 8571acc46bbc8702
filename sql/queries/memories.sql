-- name: own_hashes
-- One row per own memory of these ids: whether an upsert would change its text, and its translation where it has one
-- or waits for it.
SELECT m.id, m.content_hash, coalesce(text_hash(m.content_original), m.content_hash) AS given_hash, m.language, m.translation,
       CASE WHEN m.translation = 'done' THEN m.content END AS translated
FROM memories AS m
WHERE m.org = scope_org() AND m.owner = scope_user() AND m.id = ANY (%(ids)s::text[])

-- name: lock_own
-- One row per own memory of these ids, locked in their order: writers of one memory follow each other, and the next
-- statement sees what the writer before left.
SELECT m.id FROM memories AS m
WHERE m.org = scope_org() AND m.owner = scope_user() AND m.id = ANY (%(ids)s::text[])
ORDER BY m.id
FOR UPDATE

-- name: upsert_memories
-- One row per memory given, in no order: inserted, or replacing the own memory of that id. `fresh`: its text is new.
WITH given AS (
    SELECT * FROM jsonb_to_recordset(%(memories)s::jsonb) AS g(
        id text, content text, kind text, visibility text, metadata jsonb, pinned boolean, created_at timestamptz,
        expires_at timestamptz, agent text, session text, source text, trust text, language text,
        content_original text, translation text, partly_embedded boolean)
), before AS (
    SELECT m.id, m.content_hash FROM memories AS m
    WHERE m.org = scope_org() AND m.owner = scope_user() AND m.id IN (SELECT g.id FROM given AS g)
), kept AS (
    -- the texts that are replaced
    INSERT INTO history (org, key, version, event, content)
    SELECT m.org, m.key, m.version, 'updated', m.content
    FROM memories AS m JOIN given AS g ON g.id = m.id
    WHERE m.org = scope_org() AND m.owner = scope_user() AND m.content <> g.content
), stored AS (
    INSERT INTO memories AS m (org, owner, id, content, kind, visibility, metadata, pinned, created_at, updated_at, expires_at,
                               agent, session, source, trust, language, content_original, translation, partly_embedded, text_config)
    SELECT scope_org(), scope_user(), g.id, g.content, g.kind, g.visibility, g.metadata, g.pinned, coalesce(g.created_at, now()),
           coalesce(g.created_at, now()), g.expires_at, g.agent, g.session, g.source, g.trust, g.language, g.content_original,
           g.translation, g.partly_embedded, (SELECT coalesce(s.next_text_config, s.text_config) FROM settings AS s)
    FROM given AS g
    ON CONFLICT (org, owner, id) DO UPDATE
    SET content = excluded.content, kind = excluded.kind, visibility = excluded.visibility, metadata = excluded.metadata,
        pinned = excluded.pinned, expires_at = excluded.expires_at, agent = excluded.agent, session = excluded.session,
        source = excluded.source, trust = excluded.trust, language = excluded.language,
        content_original = excluded.content_original, translation = excluded.translation,
        partly_embedded = excluded.partly_embedded, text_config = excluded.text_config,
        created_at = CASE WHEN (SELECT g.created_at FROM given AS g WHERE g.id = m.id) IS NULL THEN m.created_at ELSE excluded.created_at END,
        updated_at = CASE WHEN m.content <> excluded.content THEN now()
                          WHEN (SELECT g.created_at FROM given AS g WHERE g.id = m.id) IS NULL THEN m.updated_at ELSE excluded.updated_at END,
        invalidated_at = NULL, superseded_by = NULL, version = m.version + 1
    RETURNING m.org, m.id, m.key, m.content_hash
)
SELECT s.org, s.id, s.key, s.content_hash, b.content_hash IS DISTINCT FROM s.content_hash AS fresh, b.id IS NULL AS created,
       'halfvec'::regtype::oid AS halfvec_oid
FROM stored AS s LEFT JOIN before AS b ON b.id = s.id

-- name: delete_windows
-- No rows: the windows, and with them the vectors and codes, of these memories in every space.
DELETE FROM windows WHERE org = scope_org() AND key = ANY (%(keys)s::bigint[])

-- name: insert_windows
-- No rows: one window per element of the arrays, in the space that this client was opened on (an error if it is dropped).
INSERT INTO windows (org, space, key, ordinal, window_start, window_end)
SELECT scope_org(), s.space, g.key, g.ordinal, g.window_start, g.window_end
FROM searched_space() AS s
CROSS JOIN unnest(%(keys)s::bigint[], %(ordinals)s::integer[], %(starts)s::integer[], %(ends)s::integer[])
     AS g(key, ordinal, window_start, window_end)

-- name: insert_vectors
-- No rows: one vector per element of the arrays, where the memory still has the text that was embedded.
INSERT INTO vectors (org, space, key, ordinal, owner, shared, live, expires_at, created_at, embedding)
SELECT m.org, %(space)s::smallint, g.key, g.ordinal, m.owner, m.visibility = 'shared', m.invalidated_at IS NULL, m.expires_at, m.created_at,
       g.embedding
FROM unnest(%(orgs)s::text[], %(keys)s::bigint[], %(ordinals)s::integer[], %(hashes)s::bytea[], %(vectors)s::halfvec[])
     AS g(org, key, ordinal, content_hash, embedding)
JOIN memories AS m ON m.org = g.org AND m.key = g.key AND m.content_hash = g.content_hash
ON CONFLICT (org, space, key, ordinal) DO NOTHING

-- name: insert_pending
-- No rows: these memories wait for their vectors in every space but those where they are done: in the active one, in
-- one that is being built, in one that is kept as the way back. At once, or where their text failed by itself, after a second.
INSERT INTO pending (org, space, key, owner, attempts, next_at, error)
SELECT scope_org(), s.space, g.key, scope_user(), f.failures, now() + f.failures * interval '1 second', %(error)s::text
FROM unnest(%(keys)s::bigint[]) AS g(key) CROSS JOIN embedding_space AS s
CROSS JOIN LATERAL (SELECT CASE WHEN s.space = %(failed_space)s::smallint THEN 1 ELSE 0 END AS failures) AS f
WHERE s.state <> 'dropped' AND s.space <> ALL (%(done_spaces)s::smallint[])
ON CONFLICT (org, space, key) DO UPDATE SET attempts = excluded.attempts, next_at = excluded.next_at, error = excluded.error

-- name: replace_memory_aliases
-- No rows: the other names of these memories, replacing those they had.
WITH gone AS (
    DELETE FROM aliases AS a WHERE a.org = scope_org() AND a.key = ANY (%(keys)s::bigint[])
)
INSERT INTO aliases (org, folded, name, key, owner, shared)
SELECT DISTINCT ON (m.key, folded_name(g.name)) m.org, folded_name(g.name), g.name, m.key, m.owner, m.visibility = 'shared'
FROM unnest(%(alias_keys)s::bigint[], %(names)s::text[]) AS g(key, name)
JOIN memories AS m ON m.org = scope_org() AND m.key = g.key
WHERE folded_name(g.name) <> ''
ON CONFLICT (org, key, folded) WHERE key IS NOT NULL DO UPDATE SET name = excluded.name, shared = excluded.shared

-- name: begin_bulk
-- One row, of no interest: many memories follow in this transaction.
SELECT set_config('lore.bulk', 'on', true)

-- name: bound_waiting
-- One row, of no interest: this transaction is committed together with others, for which a writer may wait that it waits for.
SELECT set_config('lock_timeout', '5s', true)

-- name: claim_import
-- One row: whether no other import is writing into this store; held until the transaction ends.
SELECT pg_try_advisory_xact_lock(hashtextextended(concat_ws(E'\x01', 'lore import', current_schema()), 0)) AS is_ours

-- name: sort_in
-- One row, of no interest: sorts in what the indexes of words have gathered.
SELECT sort_in()

-- name: refresh_statistics
-- One row: whether the scope's statistics were brought up to date.
SELECT refresh_statistics() AS refreshed

-- name: get_memory
-- One row or none: the whole memory of this id; one's own wins over a shared one. Invalidated only to its owner.
SELECT m.id, m.content, m.kind, m.visibility, m.owner, m.metadata, m.pinned, m.created_at, m.updated_at, m.expires_at,
       m.invalidated_at, m.superseded_by, m.agent, m.session, m.source, m.trust, m.language, m.content_original, m.version,
       m.full_length
FROM memories AS m
WHERE m.org = scope_org() AND m.id = %(id)s::text
  AND (m.owner = scope_user() OR (m.visibility = 'shared' AND m.invalidated_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > now())))
ORDER BY (m.owner = scope_user()) DESC, m.key
LIMIT 1

-- name: list_memories
-- One row per visible, live memory, newest first; at most `limit`, after the given place. Texts are cut to 1,200 characters.
SELECT m.id, left(m.content, 1200) AS content, m.kind, m.visibility, m.owner, m.metadata, m.pinned, m.created_at, m.updated_at,
       m.expires_at, m.invalidated_at, m.superseded_by, m.agent, m.session, m.source, m.trust, m.language,
       NULL::text AS content_original, m.version, m.full_length, m.full_length > 1200 AS truncated
FROM memories AS m
WHERE m.org = scope_org() AND m.invalidated_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > now())
  AND (%(kind)s::text IS NULL OR m.kind = %(kind)s::text)
  AND (%(pinned)s::boolean IS NULL OR m.pinned = %(pinned)s::boolean)
  AND (%(after_id)s::text IS NULL
       OR (m.created_at, m.key) < (SELECT p.created_at, p.key FROM memories AS p
                                   WHERE p.org = scope_org() AND p.id = %(after_id)s::text
                                     AND (%(after_owner)s::text IS NULL OR p.owner = %(after_owner)s::text)
                                   ORDER BY (p.owner = scope_user()) DESC, p.key LIMIT 1))
  AND (%(filter)s::jsonb IS NULL OR m.key = ANY ((SELECT allowed_keys(%(filter)s::jsonb, NULL, NULL))::bigint[]))
ORDER BY m.created_at DESC, m.key DESC
LIMIT %(limit)s::integer

-- name: update_memory
-- One row or none: the own memory of this id with the fields given in `changes`; those absent stay.
WITH given AS (
    SELECT %(changes)s::jsonb AS c
), old AS (
    SELECT m.key, m.version, m.content, m.content_hash FROM memories AS m
    WHERE m.org = scope_org() AND m.owner = scope_user() AND m.id = %(id)s::text
      AND (%(version)s::integer IS NULL OR m.version = %(version)s::integer)
    FOR UPDATE
), kept AS (
    INSERT INTO history (org, key, version, event, content)
    SELECT scope_org(), o.key, o.version, 'updated', o.content FROM old AS o, given AS g
    WHERE g.c ? 'content' AND g.c ->> 'content' <> o.content
), changed AS (
    UPDATE memories AS m
    SET content = coalesce(g.c ->> 'content', m.content),
        kind = coalesce(g.c ->> 'kind', m.kind),
        visibility = coalesce(g.c ->> 'visibility', m.visibility),
        metadata = coalesce(g.c -> 'metadata', m.metadata),
        pinned = coalesce((g.c ->> 'pinned')::boolean, m.pinned),
        expires_at = CASE WHEN g.c ? 'expires_at' THEN (g.c ->> 'expires_at')::timestamptz ELSE m.expires_at END,
        created_at = coalesce((g.c ->> 'created_at')::timestamptz, m.created_at),
        agent = CASE WHEN g.c ? 'agent' THEN g.c ->> 'agent' ELSE m.agent END,
        session = CASE WHEN g.c ? 'session' THEN g.c ->> 'session' ELSE m.session END,
        source = CASE WHEN g.c ? 'source' THEN g.c ->> 'source' ELSE m.source END,
        trust = CASE WHEN g.c ? 'trust' THEN g.c ->> 'trust' ELSE m.trust END,
        language = CASE WHEN g.c ? 'language' THEN g.c ->> 'language' ELSE m.language END,
        content_original = CASE WHEN g.c ? 'content' THEN g.c ->> 'content_original' ELSE m.content_original END,
        translation = CASE WHEN g.c ? 'content' THEN g.c ->> 'translation' ELSE m.translation END,
        partly_embedded = coalesce((g.c ->> 'partly_embedded')::boolean, m.partly_embedded),
        updated_at = CASE WHEN g.c ? 'content' AND g.c ->> 'content' <> m.content THEN now() ELSE m.updated_at END,
        version = m.version + 1
    FROM given AS g, old AS o
    WHERE m.org = scope_org() AND m.key = o.key
    RETURNING m.org, m.key, m.content_hash, m.version
)
SELECT c.org, c.key, c.content_hash, c.version, c.content_hash <> o.content_hash AS fresh, 'halfvec'::regtype::oid AS halfvec_oid FROM changed AS c, old AS o

-- name: own_as_changed
-- One row or none: the own memory of this id, if it is one version further and already is what `changes` would make of it.
SELECT m.version FROM memories AS m
WHERE m.org = scope_org() AND m.owner = scope_user() AND m.id = %(id)s::text AND m.version = %(version)s::integer + 1
  AND jsonb_populate_record(m, %(changes)s::jsonb) IS NOT DISTINCT FROM m

-- name: own_version
-- One row or none: the version of the own memory of this id.
SELECT m.version FROM memories AS m WHERE m.org = scope_org() AND m.owner = scope_user() AND m.id = %(id)s::text

-- name: invalidate_memory
-- One row or none: the own memory of this id, now in no leg; superseded_by names a visible successor. One that is so
-- already stays as it is.
WITH own AS (
    SELECT m.key, m.invalidated_at IS NULL OR m.superseded_by IS DISTINCT FROM %(superseded_by)s::text AS is_news
    FROM memories AS m
    WHERE m.org = scope_org() AND m.owner = scope_user() AND m.id = %(id)s::text
    FOR UPDATE
), changed AS (
    UPDATE memories AS m
    SET invalidated_at = coalesce(m.invalidated_at, now()), superseded_by = %(superseded_by)s::text, version = m.version + 1
    FROM own AS o
    WHERE m.org = scope_org() AND m.key = o.key AND o.is_news
    RETURNING m.key, m.version, m.superseded_by
), kept AS (
    INSERT INTO history (org, key, version, event, superseded_by)
    SELECT scope_org(), c.key, c.version, 'invalidated', c.superseded_by FROM changed AS c
)
SELECT o.key FROM own AS o

-- name: restore_memory
-- One row or none: the own memory of this id, live again. One that is live stays as it is.
WITH own AS (
    SELECT m.key, m.invalidated_at IS NOT NULL AS is_news FROM memories AS m
    WHERE m.org = scope_org() AND m.owner = scope_user() AND m.id = %(id)s::text
    FOR UPDATE
), changed AS (
    UPDATE memories AS m
    SET invalidated_at = NULL, superseded_by = NULL, version = m.version + 1
    FROM own AS o
    WHERE m.org = scope_org() AND m.key = o.key AND o.is_news
    RETURNING m.key, m.version
), kept AS (
    INSERT INTO history (org, key, version, event) SELECT scope_org(), c.key, c.version, 'restored' FROM changed AS c
)
SELECT o.key FROM own AS o

-- name: visible_memory
-- One row or none: whether a memory of this id can be seen.
SELECT m.key FROM memories AS m WHERE m.org = scope_org() AND m.id = %(id)s::text
ORDER BY (m.owner = scope_user()) DESC, m.key LIMIT 1

-- name: forget_memories
-- One row per own memory of these ids: gone from every table.
DELETE FROM memories AS m
WHERE m.org = scope_org() AND m.owner = scope_user() AND m.id = ANY (%(ids)s::text[])
RETURNING m.id

-- name: forget_all
-- One row per own memory: gone from every table.
DELETE FROM memories AS m WHERE m.org = scope_org() AND m.owner = scope_user() RETURNING m.id

-- name: count_memories
-- One row: how many live memories this scope sees.
SELECT count(*) AS n FROM memories AS m
WHERE m.org = scope_org() AND m.invalidated_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > now())

-- name: ids_shared_by_others
-- One row per id of these that a colleague shares.
SELECT DISTINCT m.id FROM memories AS m
WHERE m.org = scope_org() AND m.owner <> scope_user() AND m.visibility = 'shared' AND m.id = ANY (%(ids)s::text[])
ORDER BY 1
