-- name: own_states
-- One row per own memory of these ids: all that decides whether storing it again would change anything.
SELECT m.id, coalesce(text_hash(m.content_original), m.content_hash) AS content_hash, m.kind, m.visibility, m.metadata, m.pinned, m.created_at, m.expires_at, m.agent, m.session, m.source,
       m.trust, m.language, m.invalidated_at,
       ARRAY(SELECT a.name FROM aliases AS a WHERE a.org = m.org AND a.key = m.key ORDER BY a.name) AS aliases
FROM memories AS m
WHERE m.org = scope_org() AND m.owner = scope_user() AND m.id = ANY (%(ids)s::text[])
