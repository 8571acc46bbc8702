-- Copies all memories of the first twenty organisations, with what belongs to them. The caller puts in SQL expressions that
-- name their new {organisations} and {ids}. In one transaction, triggers off.

CREATE TEMP TABLE copied ON COMMIT DROP AS
SELECT m.org AS old_org, m.key AS old_key, {organisations} AS org, {ids} AS id
FROM memories AS m WHERE m.org ~ '^org0[01][0-9]$';
ANALYZE copied;

INSERT INTO memories (org, id, owner, visibility, kind, content, metadata, created_at, updated_at, invalidated_at, text_config,
                      content_hash, full_length, tsv, partly_indexed, identifiers)
SELECT c.org, c.id, m.owner, m.visibility, m.kind, m.content, m.metadata, m.created_at, m.updated_at, m.invalidated_at, m.text_config,
       m.content_hash, m.full_length, m.tsv, m.partly_indexed, m.identifiers
FROM copied AS c JOIN memories AS m ON m.org = c.old_org AND m.key = c.old_key;

CREATE TEMP TABLE keys ON COMMIT DROP AS
SELECT c.old_org, c.old_key, m.org, m.key FROM copied AS c JOIN memories AS m ON m.org = c.org AND m.id = c.id;
ANALYZE keys;

INSERT INTO windows (org, space, key, ordinal, window_start, window_end)
SELECT k.org, w.space, k.key, w.ordinal, w.window_start, w.window_end
FROM keys AS k JOIN windows AS w ON w.org = k.old_org AND w.key = k.old_key;

INSERT INTO vectors (org, space, key, ordinal, owner, shared, live, expires_at, created_at, embedding)
SELECT k.org, v.space, k.key, v.ordinal, v.owner, v.shared, v.live, v.expires_at, v.created_at, v.embedding
FROM keys AS k JOIN vectors AS v ON v.org = k.old_org AND v.space = 1 AND v.key = k.old_key;

INSERT INTO codes (org, space, centre, key, ordinal, owner, shared, live, expires_at, created_at, bits)
SELECT k.org, c.space, c.centre, k.key, c.ordinal, c.owner, c.shared, c.live, c.expires_at, c.created_at, c.bits
FROM keys AS k JOIN codes AS c ON c.org = k.old_org AND c.space = 1 AND c.key = k.old_key;
