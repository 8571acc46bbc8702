-- What the evaluation harness asks and writes. Trials run in a transaction that is rolled back.

-- name: fusion_in_use
-- One row: the knobs in use, with the accepted run and its time; `is_set`: they differ from having no row at all.
SELECT to_jsonb(fusion()) - 'one' AS knobs, EXISTS (SELECT FROM fusion_config) AS is_set

-- name: clear_fusion
-- No rows: the shipped defaults are in use again.
DELETE FROM fusion_config

-- name: write_fusion
-- No rows: these knobs, and the shipped defaults for the others. Needs an empty fusion_config.
INSERT INTO fusion_config
SELECT (jsonb_populate_record(fusion(), %(knobs)s::jsonb || jsonb_build_object(
    'accepted_run', %(run)s::bigint, 'accepted_at', CASE WHEN %(run)s::bigint IS NOT NULL THEN now() END))).*

-- name: hold_fusion
-- No rows: nobody else changes settings until this transaction ends; searches go on.
LOCK TABLE fusion_config IN SHARE ROW EXCLUSIVE MODE

-- name: leg_places
-- One row per memory that a leg proposed, with its place in each leg and its fused relevance.
SELECT c.key, c.relevance, c.vector_rank, c.exact_rank, c.relaxed_rank, c.alias_rank
FROM candidates(%(queries)s::text[], array_prepend(%(embedding)s::halfvec, %(further)s::halfvec[]), %(k)s::integer,
                CASE WHEN %(filter)s::jsonb IS NULL AND %(kinds)s::text[] IS NULL AND %(as_of)s::timestamptz IS NULL THEN NULL
                     ELSE allowed_keys(%(filter)s::jsonb, %(kinds)s::text[], %(as_of)s::timestamptz) END) AS c

-- name: ids_of_keys
-- One row per visible memory of these keys.
SELECT m.key, m.id, m.created_at FROM memories AS m WHERE m.org = scope_org() AND m.key = ANY (%(keys)s::bigint[])

-- name: record_eval_run
-- One row: the number of the run that was recorded.
INSERT INTO eval_runs (suite, data_hash, code_version, config, measures, detail)
VALUES (%(suite)s::text, %(data_hash)s::text, %(code_version)s::text, %(config)s::jsonb, %(measures)s::jsonb, %(detail)s::jsonb)
RETURNING run

-- name: find_eval_run
-- One row or none: the latest run recorded on this suite with the same data, code and settings.
SELECT r.run, r.created_at, r.measures, r.detail
FROM eval_runs AS r
WHERE r.suite = %(suite)s::text AND r.data_hash = %(data_hash)s::text AND r.code_version = %(code_version)s::text
  AND r.config = %(config)s::jsonb
ORDER BY r.run DESC
LIMIT 1

-- name: eval_history
-- One row per recorded run, acceptance and undoing, the latest first.
SELECT r.run, r.created_at, r.suite, r.data_hash, r.code_version, r.config, r.measures, r.detail - 'run' AS detail
FROM eval_runs AS r
ORDER BY r.run DESC
LIMIT %(limit)s::integer

-- name: last_acceptance
-- One row or none: the latest acceptance that was not undone.
SELECT r.run, r.config, r.detail
FROM eval_runs AS r
WHERE r.detail ->> 'event' = 'accepted'
  AND NOT EXISTS (SELECT FROM eval_runs AS u WHERE u.detail ->> 'event' = 'undone' AND (u.detail ->> 'of')::bigint = r.run)
ORDER BY r.run DESC
LIMIT 1

-- name: handwritten_corpus
-- No rows: the memories of some organisations as a table of one's own would hold them, for `handwritten_rrf`.
CREATE TEMPORARY TABLE handwritten ON COMMIT DROP AS
SELECT m.org, m.key, m.id, to_tsvector('english', m.content) AS fts
FROM memories AS m
WHERE m.org = ANY (%(orgs)s::text[]) AND m.owner = %(owner)s::text

-- name: handwritten_rrf
-- One row per hit, best first: what a function written by hand does, as tutorials for Postgres show it. Full text (all
-- words) and vectors, twice the wanted rows of each, 1 / (50 + rank) added up. No legs beside, no windows collapsed by
-- rank, no order among equals.
WITH lexical AS (
    SELECT h.key, row_number() OVER (ORDER BY ts_rank_cd(h.fts, q.words) DESC) AS rank
    FROM handwritten AS h, websearch_to_tsquery('english', %(query)s::text) AS q(words)
    WHERE h.org = %(org)s::text AND h.fts @@ q.words AND (%(keys)s::bigint[] IS NULL OR h.key = ANY (%(keys)s::bigint[]))
    ORDER BY rank
    LIMIT 2 * %(k)s::integer
), semantic AS (
    SELECT h.key, row_number() OVER (ORDER BY min(v.embedding <=> %(embedding)s::halfvec)) AS rank
    FROM handwritten AS h
    JOIN embedding_space AS s ON s.state = 'active'
    JOIN vectors AS v ON v.org = h.org AND v.space = s.space AND v.key = h.key
    WHERE h.org = %(org)s::text AND (%(keys)s::bigint[] IS NULL OR h.key = ANY (%(keys)s::bigint[]))
    GROUP BY h.key
    ORDER BY rank
    LIMIT 2 * %(k)s::integer
)
SELECT h.id, coalesce(1.0 / (50 + l.rank), 0) + coalesce(1.0 / (50 + s.rank), 0) AS score
FROM lexical AS l FULL JOIN semantic AS s ON s.key = l.key
JOIN handwritten AS h ON h.key = coalesce(l.key, s.key)
ORDER BY score DESC, h.key
LIMIT %(k)s::integer

-- name: keys_of_ids
-- One row per memory of these ids in an organisation.
SELECT h.key FROM handwritten AS h WHERE h.org = %(org)s::text AND h.id = ANY (%(ids)s::text[])

-- name: write_evidence
-- One row or none: the space whose strength of evidence was calibrated.
UPDATE embedding_space SET evidence = %(evidence)s::jsonb
WHERE model = %(model)s::text AND revision = %(revision)s::text AND dimensions = %(dimensions)s::integer
RETURNING space
