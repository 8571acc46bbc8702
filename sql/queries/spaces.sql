-- Embedding spaces, their switch, and the generations of codes. Named parameters; all of it as the service role.

-- name: all_spaces
-- One row per embedding space, dropped ones too, the active one first; locked against another switch.
SELECT s.space, s.model, s.revision, s.dimensions, s.state, s.centre, s.left_at
FROM embedding_space AS s
ORDER BY (s.state = 'active') DESC, s.space
FOR NO KEY UPDATE

-- name: insert_space
-- One row: the number of a new space.
INSERT INTO embedding_space (model, revision, dimensions, state)
VALUES (%(model)s::text, %(revision)s::text, %(dimensions)s::integer, %(state)s::text)
RETURNING space

-- name: set_space_state
-- No rows. Two statements make a switch, the one that leaves first; one transaction makes it whole.
UPDATE embedding_space AS s
SET state = %(state)s::text, left_at = CASE WHEN %(state)s::text = 'kept' THEN clock_timestamp() END
WHERE s.space = %(space)s::smallint

-- name: delete_space
-- No rows: a dropped space, and what is left of it.
DELETE FROM embedding_space AS s WHERE s.space = %(space)s::smallint AND s.state = 'dropped'

-- name: writers
-- One row per transaction that has written memories, windows, vectors or their queue and is not finished. Whatever
-- begins to write later sees what was committed before.
SELECT DISTINCT l.virtualtransaction AS transaction
FROM pg_locks AS l
WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.pid <> pg_backend_pid()
  AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
  AND l.relation IN ('memories'::regclass, 'windows'::regclass, 'vectors'::regclass, 'pending'::regclass)

-- name: queue_some
-- One row or none: the last of the next `limit` memories, in order of key. Those that lack windows or vectors in a
-- space now wait for them.
WITH chosen AS MATERIALIZED (
    SELECT m.org, m.key, m.owner FROM memories AS m
    WHERE (m.org, m.key) > (%(org)s::text, %(key)s::bigint)
    ORDER BY m.org, m.key
    LIMIT %(limit)s::integer
), queued AS (
    INSERT INTO pending (org, space, key, owner)
    SELECT c.org, %(space)s::smallint, c.key, c.owner
    FROM chosen AS c
    WHERE NOT EXISTS (SELECT FROM windows AS w WHERE w.org = c.org AND w.key = c.key AND w.space = %(space)s::smallint)
       OR EXISTS (SELECT FROM windows AS w
                  WHERE w.org = c.org AND w.key = c.key AND w.space = %(space)s::smallint
                    AND NOT EXISTS (SELECT FROM vectors AS v
                                    WHERE v.org = w.org AND v.space = w.space AND v.key = w.key AND v.ordinal = w.ordinal))
    ON CONFLICT (org, space, key) DO NOTHING
)
SELECT c.org, c.key FROM chosen AS c ORDER BY c.org DESC, c.key DESC LIMIT 1

-- name: clear_some
-- One row or none: the last of the next `limit` memories, in order of key; their windows in a space are gone, and with
-- them vectors and codes.
WITH chosen AS MATERIALIZED (
    SELECT m.org, m.key FROM memories AS m
    WHERE (m.org, m.key) > (%(org)s::text, %(key)s::bigint)
    ORDER BY m.org, m.key
    LIMIT %(limit)s::integer
), cleared AS (
    DELETE FROM windows AS w USING chosen AS c WHERE w.org = c.org AND w.key = c.key AND w.space = %(space)s::smallint
)
SELECT c.org, c.key FROM chosen AS c ORDER BY c.org DESC, c.key DESC LIMIT 1

-- name: count_vectors
-- One row: the vectors of a space.
SELECT count(*) AS vectors FROM vectors AS v WHERE v.space = %(space)s::smallint

-- name: vectors_at_most
-- One row: about how many vectors there are in all, as of the last vacuum; 0 where there was none.
SELECT greatest(0, c.reltuples)::bigint AS vectors FROM pg_class AS c WHERE c.oid = 'vectors'::regclass

-- name: generations
-- One row per generation of codes of a space, newest first.
SELECT c.centre, c.retired FROM centres AS c WHERE c.space = %(space)s::smallint ORDER BY c.centre DESC

-- name: insert_centre
-- One row: a generation of codes around a centre that is given.
INSERT INTO centres (space, centre, embedding)
SELECT %(space)s::smallint, coalesce(max(c.centre), 0) + 1, %(embedding)s::halfvec
FROM centres AS c WHERE c.space = %(space)s::smallint
RETURNING centre

-- name: measure_centre
-- One row or none: a generation of codes around the mean of a sample of real vectors, none where they are too few. No
-- organisation counts with more than 2,000.
WITH sampled AS (
    SELECT v.embedding, row_number() OVER (PARTITION BY v.org) AS n
    FROM vectors AS v TABLESAMPLE SYSTEM (%(percent)s::real)
    WHERE v.space = %(space)s::smallint
)
INSERT INTO centres (space, centre, embedding)
SELECT %(space)s::smallint, (SELECT coalesce(max(c.centre), 0) + 1 FROM centres AS c WHERE c.space = %(space)s::smallint),
       avg(s.embedding)
FROM sampled AS s
WHERE s.n <= 2000
HAVING count(*) >= %(least)s::integer
RETURNING centre

-- name: fill_codes
-- One row or none: the last of the next `limit` vectors of a space that lack a code of a generation, in order of key,
-- and how many codes were written for them. The vectors are locked: whoever changes a memory's visibility or life meanwhile then sees the codes too.
WITH chosen AS MATERIALIZED (
    SELECT v.org, v.space, v.key, v.ordinal, v.owner, v.shared, v.live, v.expires_at, v.created_at, v.embedding
    FROM vectors AS v
    WHERE (v.org, v.space, v.key, v.ordinal) > (%(org)s::text, %(space)s::smallint, %(key)s::bigint, %(ordinal)s::integer)
      AND v.space = %(space)s::smallint
      AND NOT EXISTS (SELECT FROM codes AS c
                      WHERE c.org = v.org AND c.space = v.space AND c.key = v.key AND c.ordinal = v.ordinal AND c.centre = %(centre)s::smallint)
    ORDER BY v.org, v.space, v.key, v.ordinal
    LIMIT %(limit)s::integer
    FOR SHARE OF v
), written AS (
    INSERT INTO codes (org, space, centre, key, ordinal, owner, shared, live, expires_at, created_at, bits)
    SELECT c.org, c.space, g.centre, c.key, c.ordinal, c.owner, c.shared, c.live, c.expires_at, c.created_at,
           binary_quantize(c.embedding - g.embedding)
    FROM chosen AS c JOIN centres AS g ON g.space = c.space AND g.centre = %(centre)s::smallint
    ON CONFLICT (org, space, key, ordinal, centre) DO NOTHING
    RETURNING 1
)
SELECT c.org, c.key, c.ordinal, (SELECT count(*) FROM written) AS written
FROM chosen AS c ORDER BY c.org DESC, c.key DESC, c.ordinal DESC LIMIT 1

-- name: use_generation
-- No rows, but a count: searches read this generation of codes from the next statement on; every other one gets no more
-- codes. Nothing happens where another run has retired it meanwhile.
WITH chosen AS MATERIALIZED (
    SELECT c.centre FROM centres AS c
    WHERE c.space = %(space)s::smallint AND c.centre = %(centre)s::smallint AND NOT c.retired
    FOR UPDATE
), others AS (
    UPDATE centres AS c SET retired = true
    WHERE c.space = %(space)s::smallint AND c.centre <> %(centre)s::smallint AND EXISTS (SELECT FROM chosen)
)
UPDATE embedding_space AS s SET centre = %(centre)s::smallint WHERE s.space = %(space)s::smallint AND EXISTS (SELECT FROM chosen)

-- name: coded_organisations
-- One row per organisation that has codes of a generation.
SELECT DISTINCT c.org FROM codes AS c WHERE c.space = %(space)s::smallint AND c.centre = %(centre)s::smallint ORDER BY 1

-- name: delete_codes
-- No rows, but a count: up to `limit` codes of a generation, of one organisation.
DELETE FROM codes AS c
WHERE c.ctid = ANY (ARRAY(SELECT i.ctid FROM codes AS i
                          WHERE i.org = %(org)s::text AND i.space = %(space)s::smallint AND i.centre = %(centre)s::smallint
                          LIMIT %(limit)s::integer))

-- name: delete_generation
-- No rows: a retired generation.
DELETE FROM centres AS c WHERE c.space = %(space)s::smallint AND c.centre = %(centre)s::smallint AND c.retired
