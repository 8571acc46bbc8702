-- What becomes of memories over time: their history, moving house, and leaving without a trace.

-- name: memory_history
-- One row per change of the own memory of this id, oldest first; the memory itself stands in no row.
SELECT h.version, h.event, h.content, h.superseded_by, h.changed_at
FROM memories AS m JOIN history AS h ON h.org = m.org AND h.key = m.key
WHERE m.org = scope_org() AND m.owner = scope_user() AND m.id = %(id)s::text
ORDER BY h.entry

-- name: own_memory
-- One row or none: the own memory of this id, as it was given.
SELECT m.content, m.content_original, m.kind, m.visibility, m.metadata, m.pinned, m.created_at, m.expires_at, m.agent, m.session,
       m.source, m.trust, m.language
FROM memories AS m
WHERE m.org = scope_org() AND m.owner = scope_user() AND m.id = %(id)s::text

-- name: nearest_memories
-- One row per visible, live memory closest to a vector, closest first: the vector leg of a search alone.
SELECT r.id, r.owner, r.owner = scope_user() AS is_own, r.similarity, r.content_excerpt
FROM recall(ARRAY[''], ARRAY[%(embedding)s::halfvec], %(limit)s::integer) AS r
WHERE r.similarity IS NOT NULL
ORDER BY r.similarity DESC, r.created_at DESC, r.owner, r.id

-- name: export_memories
-- One row per memory after the given place, in order of organisation and key: one line of an export. As the service role.
SELECT m.org, m.key, jsonb_build_object(
           'org', m.org, 'owner', m.owner, 'id', m.id, 'content', m.content, 'content_original', m.content_original,
           'language', m.language, 'translation', m.translation, 'kind', m.kind, 'visibility', m.visibility, 'metadata', m.metadata,
           'pinned', m.pinned, 'agent', m.agent, 'session', m.session, 'source', m.source, 'trust', m.trust,
           'created_at', m.created_at, 'updated_at', m.updated_at, 'expires_at', m.expires_at,
           'invalidated_at', m.invalidated_at, 'superseded_by', m.superseded_by, 'version', m.version)
       || jsonb_build_object(
           'aliases', (SELECT coalesce(jsonb_agg(a.name ORDER BY a.folded), '[]') FROM aliases AS a WHERE a.org = m.org AND a.key = m.key),
           'feedback', (SELECT coalesce(jsonb_agg(jsonb_build_object('voter', f.voter, 'recall_id', f.recall_id, 'useful', f.useful,
                                                                     'created_at', f.created_at) ORDER BY f.created_at, f.voter, f.recall_id), '[]')
                        FROM feedback AS f WHERE f.org = m.org AND f.key = m.key),
           'history', (SELECT coalesce(jsonb_agg(jsonb_build_object('version', h.version, 'event', h.event, 'content', h.content,
                                                                    'superseded_by', h.superseded_by, 'changed_at', h.changed_at) ORDER BY h.entry), '[]')
                       FROM history AS h WHERE h.org = m.org AND h.key = m.key)) AS line
FROM memories AS m
WHERE (m.org, m.key) > (%(after_org)s::text, %(after_key)s::bigint)
  AND (%(org)s::text IS NULL OR m.org = %(org)s::text) AND (%(owner)s::text IS NULL OR m.owner = %(owner)s::text)
ORDER BY m.org, m.key
LIMIT %(limit)s::integer

-- name: export_alias_groups
-- One row per group of names that belongs to an organisation: one line of an export. As the service role.
SELECT jsonb_build_object('org', a.org, 'names', jsonb_agg(a.name ORDER BY a.alias), 'owner', min(a.owner)) AS line
FROM aliases AS a
WHERE a.key IS NULL AND (%(org)s::text IS NULL OR a.org = %(org)s::text)
GROUP BY a.org, a.group_no
ORDER BY a.org, a.group_no

-- name: delete_exported
-- One row per memory that the lines given will replace: its part of the organisation, and whether it was stored in this
-- transaction, from an earlier line; without `replace` only such. Not where a colleague shares the id that the new one would be
-- shared by. As the service role.
DELETE FROM memories AS m
USING jsonb_to_recordset(%(lines)s::jsonb) AS g(org text, owner text, id text, visibility text)
WHERE m.org = g.org AND m.owner = g.owner AND m.id = g.id
  AND (%(replace)s::boolean OR m.xmin = pg_current_xact_id()::xid)
  AND NOT (g.visibility = 'shared' AND EXISTS (
      SELECT FROM memories AS o WHERE o.org = g.org AND o.id = g.id AND o.visibility = 'shared' AND o.owner <> g.owner))
RETURNING m.org, part_of(m.owner, m.visibility) AS part, m.xmin = pg_current_xact_id()::xid AS is_ours

-- name: import_memories
-- One row per memory stored: its part of the organisation. Those whose id is taken are left out. As the service role. Vectors wait in `pending`.
WITH given AS (
    SELECT * FROM jsonb_to_recordset(%(lines)s::jsonb) AS g(
        org text, owner text, id text, content text, content_original text, language text, translation text, kind text,
        visibility text, metadata jsonb, pinned boolean, agent text, session text, source text, trust text,
        created_at timestamptz, updated_at timestamptz, expires_at timestamptz, invalidated_at timestamptz, superseded_by text,
        version integer, aliases jsonb, feedback jsonb, history jsonb)
), stored AS (
    INSERT INTO memories AS m (org, owner, id, content, content_original, language, translation, kind, visibility, metadata, pinned,
                               agent, session, source, trust, created_at, updated_at, expires_at, invalidated_at, superseded_by,
                               version, text_config)
    SELECT g.org, g.owner, g.id, g.content, g.content_original, g.language, g.translation, g.kind, g.visibility, g.metadata, g.pinned,
           g.agent, g.session, g.source, g.trust, g.created_at, coalesce(g.updated_at, g.created_at), g.expires_at, g.invalidated_at,
           g.superseded_by, coalesce(g.version, 1), (SELECT coalesce(s.next_text_config, s.text_config) FROM settings AS s)
    FROM given AS g
    ORDER BY g.org, g.owner, g.id
    ON CONFLICT DO NOTHING
    RETURNING m.org, m.owner, m.id, m.key, m.visibility
), kept AS (
    -- one row per memory stored, with what belongs to it
    SELECT s.org, s.key, s.owner, s.id, s.visibility, g.aliases, g.feedback, g.history
    FROM stored AS s JOIN given AS g ON g.org = s.org AND g.owner = s.owner AND g.id = s.id
), named AS (
    INSERT INTO aliases (org, folded, name, key, owner, shared)
    SELECT DISTINCT ON (k.key, folded_name(n.name)) k.org, folded_name(n.name), n.name, k.key, k.owner, k.visibility = 'shared'
    FROM kept AS k CROSS JOIN LATERAL jsonb_array_elements_text(k.aliases) AS n(name)
    WHERE folded_name(n.name) <> ''
), voted AS (
    INSERT INTO feedback (org, key, voter, recall_id, useful, created_at)
    SELECT k.org, k.key, f.voter, coalesce(f.recall_id, ''), f.useful, f.created_at
    FROM kept AS k CROSS JOIN LATERAL jsonb_to_recordset(k.feedback) AS f(voter text, recall_id text, useful boolean, created_at timestamptz)
), changed AS (
    INSERT INTO history (org, key, version, event, content, superseded_by, changed_at)
    SELECT k.org, k.key, (h.entry ->> 'version')::integer, h.entry ->> 'event', h.entry ->> 'content', h.entry ->> 'superseded_by',
           (h.entry ->> 'changed_at')::timestamptz
    FROM kept AS k CROSS JOIN LATERAL jsonb_array_elements(k.history) WITH ORDINALITY AS h(entry, n)
    ORDER BY k.key, h.n
), waiting AS (
    INSERT INTO pending (org, space, key, owner)
    SELECT k.org, s.space, k.key, k.owner FROM kept AS k CROSS JOIN embedding_space AS s WHERE s.state <> 'dropped'
)
SELECT k.org, part_of(k.owner, k.visibility) AS part FROM kept AS k

-- name: forget_user
-- One row per table that held something of a user: how many rows are gone, or no longer name the user. As the service role.
SELECT f.place, f.rows FROM forget_user(%(org)s::text, %(owner)s::text) AS f
