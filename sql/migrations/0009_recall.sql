-- The search. Locks: none.
-- Two steps with a variable between them: candidates (definer, reads the scope itself) into an array, then the rows
-- under the caller's row security. A fault in the first step cannot show a foreign row.

SET LOCAL ROLE lore_owner;

-- name: candidate
-- One memory that at least one leg proposed. `query_no`: the query that found it best, from 0. `marks`: strings that
-- mark the passage that matched (identifiers, stems), with weights.
CREATE TYPE candidate AS (
    key bigint, relevance double precision, query_no integer,
    vector_rank bigint, similarity double precision, ordinal integer,
    exact_rank bigint, exact_score double precision,
    relaxed_rank bigint, relaxed_score double precision, coverage double precision,
    alias_rank bigint, alias text,
    marks text[], mark_weights double precision[]
);

-- name: candidates
-- One row per memory that a leg proposed for any of the queries, with its place in each leg and its fused relevance:
-- the sum of weight / (rrf_k + rank). Of a query the first 20,000 characters are read. With several queries a memory has one rank in a leg, its best over the queries.
CREATE FUNCTION candidates(query_texts text[], query_embeddings halfvec[], k integer, allowed bigint[]) RETURNS SETOF candidate
    LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 100
    SET search_path FROM CURRENT
    SET jit = off
    SET plan_cache_mode = force_generic_plan  -- planning anew would cost more than the search
    SET enable_seqscan = off                   -- every table is read through its index by organisation
    SET enable_nestloop = on
    SET enable_bitmapscan = on                 -- as the full-text indexes are read
    SET cpu_tuple_cost = 10                    -- rather a GIN index that has not sorted in what was written last than every row
    SET max_parallel_workers_per_gather = 0
    AS $$
DECLARE
    config CONSTANT fusion_config := fusion();
    pool CONSTANT integer := k * config.pool_multiplier;
BEGIN
    IF scope_org() IS NULL OR scope_user() IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY
    WITH queries AS MATERIALIZED (
        SELECT left(coalesce(q.text, ''), 20000) AS text, q.embedding, (q.n - 1)::integer AS n
        FROM unnest(query_texts, query_embeddings) WITH ORDINALITY AS q(text, embedding, n)
    ), proposals AS (
        -- one row per leg, query and memory
        SELECT q.n, l.key, l.rank AS vector, NULL::bigint AS exact, NULL::bigint AS relaxed, NULL::bigint AS alias_rank,
               l.similarity, l.ordinal, NULL::double precision AS exact_score, NULL::text[] AS identifiers,
               NULL::double precision AS relaxed_score, NULL::double precision AS coverage, NULL::text[] AS stems,
               NULL::double precision[] AS weights, NULL::text AS alias
        FROM queries AS q CROSS JOIN LATERAL vector_leg(q.embedding, pool, allowed, config) AS l
        WHERE config.vector_weight > 0
        UNION ALL
        SELECT q.n, l.key, NULL, l.rank, NULL, NULL, NULL, NULL, l.score, l.identifiers, NULL, NULL, NULL, NULL, NULL
        FROM queries AS q CROSS JOIN LATERAL exact_leg(q.text, pool, allowed, config) AS l
        WHERE config.exact_weight > 0
        UNION ALL
        SELECT q.n, l.key, NULL, NULL, l.rank, NULL, NULL, NULL, NULL, NULL, l.score, l.coverage, l.stems, l.weights, NULL
        FROM queries AS q CROSS JOIN LATERAL relaxed_leg(q.text, pool, allowed, config) AS l
        WHERE config.relaxed_weight > 0
        UNION ALL
        SELECT q.n, l.key, NULL, NULL, NULL, l.rank, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, l.alias
        FROM queries AS q CROSS JOIN LATERAL alias_leg(q.text, pool, allowed) AS l
        WHERE config.alias_weight > 0
    ), united AS (
        -- one row per memory: in each leg its best rank over the queries, so that no leg counts it twice; the window and
        -- the query of that rank ride in its last six digits (an ordered aggregate would sort every group)
        SELECT p.key, min(p.vector) AS vector, min(p.exact) AS exact, min(p.relaxed) AS relaxed, min(p.alias_rank) AS alias_rank,
               max(p.similarity) AS similarity, (min(p.vector * 1000000 + p.ordinal) % 1000000)::integer AS ordinal,
               max(p.exact_score) AS exact_score, max(p.identifiers) AS identifiers,
               max(p.relaxed_score) AS relaxed_score, max(p.coverage) AS coverage,
               (min(least(p.vector, p.exact, p.relaxed, p.alias_rank) * 1000000 + p.n) % 1000000)::integer AS n,
               max(p.stems) AS stems, max(p.weights) FILTER (WHERE p.weights IS NOT NULL) AS weights, max(p.alias) AS alias
        FROM proposals AS p
        GROUP BY p.key
    )
    SELECT u.key,
           coalesce(config.vector_weight / (config.rrf_k + u.vector), 0)
           + coalesce(CASE WHEN u.identifiers IS NOT NULL THEN config.identifier_weight ELSE config.exact_weight END / (config.rrf_k + u.exact), 0)
           + coalesce(config.relaxed_weight / (config.rrf_k + u.relaxed), 0)
           + coalesce(config.alias_weight / (config.rrf_k + u.alias_rank), 0),
           u.n, u.vector, u.similarity, u.ordinal, u.exact, u.exact_score, u.relaxed, u.relaxed_score, u.coverage, u.alias_rank, u.alias,
           u.identifiers || u.stems,
           array_fill(20::double precision, ARRAY[coalesce(cardinality(u.identifiers), 0)]) || u.weights
    FROM united AS u;
END
$$;

-- name: marked_window
-- Which window of a content holds the heaviest marks, from 1; NULL where none holds any. Finding a place in a text counts
-- its characters from the start, so the content is cut into pieces first; where every character is one byte, it is cut as
-- bytes, which counts nothing (a third of a search's time went into this counting).
CREATE FUNCTION marked_window(content text, content_length integer, starts integer[], ends integer[], marks text[], weights double precision[])
    RETURNS integer
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path FROM CURRENT
    AS $$
DECLARE
    size CONSTANT integer := 20000;
    bytes bytea;
    pieces text[];
BEGIN
    IF cardinality(starts) IS NULL OR cardinality(marks) IS NULL THEN
        RETURN NULL;
    END IF;
    IF octet_length(content) = content_length THEN
        bytes := convert_to(lower(content COLLATE "C"), 'UTF8');
        RETURN (
            SELECT w.n
            FROM unnest(starts, ends) WITH ORDINALITY AS w(window_start, window_end, n)
            CROSS JOIN LATERAL (SELECT substr(bytes, w.window_start + 1, w.window_end - w.window_start) AS passage OFFSET 0) AS t
            CROSS JOIN LATERAL (
                SELECT sum(m.weight) AS weight FROM unnest(marks, weights) AS m(mark, weight)
                WHERE position(convert_to(m.mark, 'UTF8') IN t.passage) > 0
            ) AS found
            WHERE found.weight > 0
            ORDER BY found.weight DESC, w.n
            LIMIT 1);
    END IF;
    pieces := ARRAY(SELECT lower(substr(content, p.n * size + 1, size + 1200))
                    FROM generate_series(0, (content_length - 1) / size) AS p(n) ORDER BY p.n);
    RETURN (
        SELECT w.n
        FROM unnest(starts, ends) WITH ORDINALITY AS w(window_start, window_end, n)
        CROSS JOIN LATERAL (
            SELECT substr(pieces[w.window_start / size + 1], w.window_start % size + 1, w.window_end - w.window_start) AS passage OFFSET 0
        ) AS t
        CROSS JOIN LATERAL (
            SELECT sum(m.weight) AS weight FROM unnest(marks, weights) AS m(mark, weight) WHERE strpos(t.passage, m.mark) > 0
        ) AS found
        WHERE found.weight > 0
        ORDER BY found.weight DESC, w.n
        LIMIT 1);
END
$$;

-- name: recall
-- One row per hit, best first; at most k. score = relevance x recency x reinforcement; ties: newest, then id.
-- A plain psql user searches with it inside a transaction that has set lore.org_id and lore.user_id.
CREATE FUNCTION recall(
    query_texts text[], query_embeddings halfvec[] DEFAULT NULL, k integer DEFAULT 10,
    filter jsonb DEFAULT NULL, kinds text[] DEFAULT NULL, as_of timestamptz DEFAULT NULL
) RETURNS TABLE (
    id text, owner text, visibility text, kind text, content_excerpt text, truncated boolean, full_length integer,
    excerpt_start integer, excerpt_end integer, score double precision, relevance double precision,
    recency double precision, reinforcement double precision,
    vector_rank bigint, exact_rank bigint, relaxed_rank bigint, alias_rank bigint,
    similarity double precision, exact_score double precision, relaxed_score double precision, alias text,
    created_at timestamptz, updated_at timestamptz, metadata jsonb, pinned boolean, coverage double precision, query_no integer, omitted bigint
)
    LANGUAGE plpgsql STABLE ROWS 10
    SET search_path FROM CURRENT
    SET jit = off
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET enable_nestloop = off  -- a hundred candidates joined row by row would cost as much as the legs
    SET enable_bitmapscan = off  -- else all that is shared and all of the caller's, until a new store is analysed for the first time
    AS $$
#variable_conflict use_column
DECLARE
    v_org CONSTANT text := scope_org();
    v_at CONSTANT timestamptz := coalesce(as_of, now());
    v_k CONSTANT integer := k;
    v_space CONSTANT smallint := (searched_space()).space;
    found candidate[];
    keys bigint[];
BEGIN
    IF k IS NULL OR k < 1 OR k > 1000 THEN
        RAISE EXCEPTION 'k is %, it must lie between 1 and 1000', k USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF query_embeddings IS NOT NULL AND cardinality(query_embeddings) <> cardinality(query_texts) THEN
        RAISE EXCEPTION '% queries came with % vectors; give one for each, or none', cardinality(query_texts), cardinality(query_embeddings)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    found := ARRAY(
        SELECT c FROM candidates(query_texts, query_embeddings, v_k,
            CASE WHEN filter IS NULL AND kinds IS NULL AND as_of IS NULL THEN NULL ELSE allowed_keys(filter, kinds, as_of) END) AS c);
    keys := ARRAY(SELECT c.key FROM unnest(found) AS c);
    IF cardinality(keys) = 0 THEN
        RETURN;
    END IF;
    RETURN QUERY
    WITH proposed AS MATERIALIZED (
        SELECT c.* FROM unnest(found) AS c
    ), visible AS MATERIALIZED (
        -- the candidates that row security lets the caller see
        SELECT m.key, m.id, m.kind, m.created_at, m.updated_at, coalesce(r.multiplier, 1) AS multiplier
        FROM memories AS m
        LEFT JOIN reinforcement AS r ON r.org = v_org AND r.key = m.key
        WHERE m.org = v_org AND m.key = ANY (keys)
    ), ranked AS MATERIALIZED (
        -- the k best, in order
        SELECT p.*, v.id, f.recency, v.multiplier AS reinforcement, p.relevance * f.recency * v.multiplier AS score,
               row_number() OVER (ORDER BY p.relevance * f.recency * v.multiplier DESC, v.created_at DESC, v.id) AS place
        FROM proposed AS p
        JOIN visible AS v ON v.key = p.key
        LEFT JOIN kinds AS known ON known.kind = v.kind
        LEFT JOIN kinds AS other ON other.kind = '' AND known.kind IS NULL
        CROSS JOIN LATERAL (
            SELECT coalesce(known.half_life_days, other.half_life_days) AS days, coalesce(known.recency_floor, other.recency_floor, 0) AS least,
                   greatest(0, extract(epoch FROM v_at - v.updated_at) / 86400)::double precision AS age
        ) AS h
        CROSS JOIN LATERAL (
            SELECT CASE WHEN h.days IS NULL THEN 1 ELSE greatest(h.least, 0.5 ^ least(h.age / h.days, 1000)) END AS recency
        ) AS f
        ORDER BY place
        LIMIT v_k
    ), whole AS MATERIALIZED (
        SELECT m.key, m.owner, m.visibility, m.kind, m.content || '' AS content, m.full_length, m.created_at, m.updated_at, m.metadata, m.pinned
        FROM memories AS m
        WHERE m.org = v_org AND m.key = ANY (ARRAY(SELECT r.key FROM ranked AS r))
    ), excerpted AS (
        -- 1,200 characters come whole; longer memories as the window of the leg that ranked them best
        SELECT r.*, w.owner, w.visibility, w.kind, w.full_length, w.created_at, w.updated_at, w.metadata, w.pinned, e.excerpt_start, e.excerpt_end,
               CASE WHEN w.full_length <= 1200 THEN w.content
                    ELSE substr(w.content, e.excerpt_start + 1, e.excerpt_end - e.excerpt_start) END AS excerpt
        FROM ranked AS r
        JOIN whole AS w ON w.key = r.key
        CROSS JOIN LATERAL (
            SELECT array_agg(i.window_start ORDER BY i.ordinal) AS starts, array_agg(i.window_end ORDER BY i.ordinal) AS ends
            FROM windows AS i
            WHERE i.org = v_org AND i.space = v_space AND i.key = r.key AND w.full_length > 1200
        ) AS s
        CROSS JOIN LATERAL (
            SELECT CASE WHEN r.vector_rank < least(coalesce(r.exact_rank, 100000), coalesce(r.relaxed_rank, 100000), coalesce(r.alias_rank, 100000))
                        THEN r.ordinal + 1
                        ELSE coalesce(marked_window(w.content, w.full_length, s.starts, s.ends, r.marks, r.mark_weights), r.ordinal + 1, 1)
                   END AS chosen
            OFFSET 0  -- once, though it is used twice
        ) AS c
        CROSS JOIN LATERAL (
            -- no windows: all of a short memory, the start of one that waits for its windows
            SELECT coalesce(s.starts[c.chosen], 0) AS excerpt_start, coalesce(s.ends[c.chosen], least(w.full_length, 1200)) AS excerpt_end
        ) AS e
    ), measured AS (
        SELECT x.*, sum(x.excerpt_end - x.excerpt_start + length(x.metadata::text) + 300) OVER (ORDER BY x.place) AS characters
        FROM excerpted AS x
    ), kept AS (
        SELECT x.* FROM measured AS x
        WHERE x.place = 1 OR x.characters <= (SELECT s.result_budget FROM settings AS s)
    )
    SELECT x.id, x.owner, x.visibility, x.kind, x.excerpt, x.full_length > 1200, x.full_length, x.excerpt_start, x.excerpt_end,
           x.score, x.relevance, x.recency, x.reinforcement,
           x.vector_rank, x.exact_rank, x.relaxed_rank, x.alias_rank,
           x.similarity, x.exact_score, x.relaxed_score, x.alias,
           x.created_at, x.updated_at, x.metadata, x.pinned, x.coverage, x.query_no,
           (SELECT count(*) FROM ranked) - (SELECT count(*) FROM kept)
    FROM kept AS x
    ORDER BY x.place;
END
$$;

-- name: enter_search
-- Drops to the user role and sets the scope, for this transaction only, as the application does in a statement of its own;
-- returns what a search then asks. For applications that search in one round trip. The search path is the login role's own, so
-- every name here is the system's in full. A token is left as it is where none is given.
CREATE FUNCTION enter_search(
    role_name text, org text, user_name text, space text, token text, query_texts text[], embedding halfvec, further halfvec[],
    OUT texts text[], OUT embeddings halfvec[]
)
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM pg_catalog.set_config('role', role_name, true), pg_catalog.set_config('lore.org_id', org, true),
            pg_catalog.set_config('lore.user_id', user_name, true), pg_catalog.set_config('lore.space', space, true);
    IF token OPERATOR(pg_catalog.<>) '' THEN
        PERFORM pg_catalog.set_config('lore.token', token, true);
    END IF;
    texts := query_texts;
    embeddings := pg_catalog.array_prepend(embedding, further);
END
$$;

RESET ROLE;
