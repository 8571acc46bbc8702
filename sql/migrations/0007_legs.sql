-- The legs: four ways to find candidates. Locks: none.
-- They run as lore_search, inside `candidates` (0008), because operators such as @@ are not leakproof and may not
-- serve as index conditions under row security. Each reads the scope itself, so no argument can widen it. Users may
-- not call them; whatever they return is joined under row security before anyone sees it.
--
-- They set no planner options: `candidates` sets them once for all that it calls (each SET on a function costs).
--
-- Who may see a memory is asked by CASE: of an OR the planner would make an index condition, and read all that is shared and
-- all that is the caller's in place of the words, until a new store is analysed for the first time.
--
-- `allowed`: NULL for a plain search of what is live now; else the only keys that may be proposed (a filter, kinds,
-- a point in time), already bounded by row security.

SET LOCAL ROLE lore_owner;

-- Loads pg_trgm, without which its setting below would be unknown and refused.
DO $$ BEGIN PERFORM similarity('a', 'b'); END $$;

-- name: fusion
-- The one row of fusion_config, or its defaults where there is none.
CREATE FUNCTION fusion() RETURNS fusion_config
    LANGUAGE plpgsql STABLE PARALLEL SAFE
    SET search_path FROM CURRENT
    AS $$
DECLARE
    chosen fusion_config;
BEGIN
    SELECT c.* INTO chosen FROM fusion_config AS c;
    IF NOT FOUND THEN
        chosen := ROW(true, 60, 4, 1, 1, 1, 1, 4, 10, 0.2, 300, 32, 1.2, 0.75, 0.45, 0.6, 4000000, 1000, NULL, NULL)::fusion_config;
    END IF;
    RETURN chosen;
END
$$;

-- name: vector_match
-- One memory proposed by the vector leg: its closest window.
CREATE TYPE vector_match AS (key bigint, rank bigint, similarity double precision, ordinal integer);

-- name: closest_windows
-- One row per memory, closest first: of an exact scan over all its windows. Ties: newest, then key.
-- Fetches more windows until `pool` distinct memories stand, since a memory's windows collapse into its closest.
CREATE FUNCTION closest_windows(asked halfvec, in_space smallint, pool integer, allowed bigint[]) RETURNS SETOF vector_match
    LANGUAGE plpgsql STABLE ROWS 40
    SET search_path FROM CURRENT
    AS $$
DECLARE
    v_org CONSTANT text := scope_org();
    v_user CONSTANT text := scope_user();
    v_now CONSTANT timestamptz := now();
    wanted integer := pool * 2;
    found vector_match[];
    seen bigint;
BEGIN
    LOOP
        IF allowed IS NULL THEN
            SELECT array_agg(ROW(c.key, 0, c.similarity, c.ordinal)::vector_match ORDER BY c.distance, c.created_at DESC, c.key DESC)
                   FILTER (WHERE c.nth = 1), count(*)
            INTO found, seen
            FROM (SELECT w.key, -w.distance AS similarity, w.ordinal, w.distance, w.created_at,
                         row_number() OVER (PARTITION BY w.key ORDER BY w.distance, w.ordinal) AS nth
                  FROM (SELECT v.key, v.ordinal, v.created_at, v.embedding <#> asked AS distance
                        FROM vectors AS v
                        WHERE v.org = v_org AND v.space = in_space AND v.live AND (v.shared OR v.owner = v_user)
                          AND (v.expires_at IS NULL OR v.expires_at > v_now)
                        ORDER BY v.embedding <#> asked, v.created_at DESC, v.key DESC, v.ordinal
                        LIMIT wanted) AS w) AS c;
        ELSE
            SELECT array_agg(ROW(c.key, 0, c.similarity, c.ordinal)::vector_match ORDER BY c.distance, c.created_at DESC, c.key DESC)
                   FILTER (WHERE c.nth = 1), count(*)
            INTO found, seen
            FROM (SELECT w.key, -w.distance AS similarity, w.ordinal, w.distance, w.created_at,
                         row_number() OVER (PARTITION BY w.key ORDER BY w.distance, w.ordinal) AS nth
                  FROM (SELECT v.key, v.ordinal, v.created_at, v.embedding <#> asked AS distance
                        FROM vectors AS v
                        WHERE v.org = v_org AND v.space = in_space AND v.key = ANY (allowed) AND (v.shared OR v.owner = v_user)
                        ORDER BY v.embedding <#> asked, v.created_at DESC, v.key DESC, v.ordinal
                        LIMIT wanted) AS w) AS c;
        END IF;
        EXIT WHEN cardinality(found) >= pool OR seen < wanted;
        wanted := wanted * 4;
    END LOOP;
    RETURN QUERY SELECT m.key, m.n, m.similarity, m.ordinal
                 FROM unnest(found) WITH ORDINALITY AS m(key, rank, similarity, ordinal, n) WHERE m.n <= pool;
END
$$;

-- name: closest_codes
-- One row per memory, closest first: binary codes propose by an index-only scan, vectors re-rank what they propose.
CREATE FUNCTION closest_codes(asked halfvec, in_space smallint, in_centre smallint, candidates integer, pool integer)
    RETURNS SETOF vector_match
    LANGUAGE plpgsql STABLE ROWS 40
    SET search_path FROM CURRENT
    AS $$
DECLARE
    v_org CONSTANT text := scope_org();
    v_user CONSTANT text := scope_user();
    v_now CONSTANT timestamptz := now();
    asked_bits bit varying;
    wanted integer := candidates;
    found vector_match[];
    seen bigint;
BEGIN
    SELECT binary_quantize(asked - c.embedding) INTO asked_bits FROM centres AS c WHERE c.space = in_space AND c.centre = in_centre;
    LOOP
        WITH proposed AS MATERIALIZED (
            -- the closest codes of the scope; order is deterministic, since distances of bits tie
            SELECT c.key, c.ordinal
            FROM (SELECT s.key, s.ordinal, s.bits <~> asked_bits AS distance FROM codes AS s
                  WHERE s.org = v_org AND s.space = in_space AND s.centre = in_centre AND s.live AND s.shared
                    AND (s.expires_at IS NULL OR s.expires_at > v_now)
                  UNION ALL
                  SELECT p.key, p.ordinal, p.bits <~> asked_bits FROM codes AS p
                  WHERE p.org = v_org AND p.space = in_space AND p.centre = in_centre AND p.live AND NOT p.shared AND p.owner = v_user
                    AND (p.expires_at IS NULL OR p.expires_at > v_now)) AS c
            ORDER BY c.distance, c.key DESC, c.ordinal
            LIMIT wanted
        ), measured AS (
            SELECT v.key, v.ordinal, v.created_at, v.embedding <#> asked AS distance
            FROM proposed AS p
            JOIN vectors AS v ON v.org = v_org AND v.space = in_space AND v.key = p.key AND v.ordinal = p.ordinal
        ), collapsed AS (
            SELECT m.*, row_number() OVER (PARTITION BY m.key ORDER BY m.distance, m.ordinal) AS nth FROM measured AS m
        )
        SELECT array_agg(ROW(c.key, 0, -c.distance, c.ordinal)::vector_match ORDER BY c.distance, c.created_at DESC, c.key DESC)
               FILTER (WHERE c.nth = 1), count(*)
        INTO found, seen
        FROM collapsed AS c;
        EXIT WHEN cardinality(found) >= pool OR seen < wanted;
        wanted := wanted * 4;
    END LOOP;
    RETURN QUERY SELECT m.key, m.n, m.similarity, m.ordinal
                 FROM unnest(found) WITH ORDINALITY AS m(key, rank, similarity, ordinal, n) WHERE m.n <= pool;
END
$$;

-- name: searched_space
-- The space that this transaction searches and writes: the one its client opened (`lore.space`), else the active one.
-- An error once the client's space is dropped.
CREATE FUNCTION searched_space() RETURNS embedding_space
    LANGUAGE plpgsql STABLE PARALLEL SAFE
    SET search_path FROM CURRENT
    AS $$
DECLARE
    wanted CONSTANT text := nullif(current_setting('lore.space', true), '');
    chosen embedding_space;
BEGIN
    IF wanted IS NULL THEN
        SELECT s.* INTO chosen FROM embedding_space AS s WHERE s.state = 'active';
    ELSE
        SELECT s.* INTO chosen FROM embedding_space AS s WHERE s.space = wanted::smallint AND s.state <> 'dropped';
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the embedding space % that this client was opened on has been dropped', wanted
                USING ERRCODE = 'object_not_in_prerequisite_state', CONSTRAINT = 'embedding_space_dropped';
        END IF;
    END IF;
    RETURN chosen;
END
$$;

-- name: vector_leg
-- One row per memory, closest first; rank starts at 1; measure: cosine similarity of its closest window.
-- An exact scan while the organisation's windows fit the budget, or where no codes exist; codes beyond.
CREATE FUNCTION vector_leg(asked halfvec, pool integer, allowed bigint[], config fusion_config) RETURNS SETOF vector_match
    LANGUAGE plpgsql STABLE ROWS 40
    SET search_path FROM CURRENT
    AS $$
DECLARE
    v_space CONSTANT embedding_space := searched_space();
    org_windows bigint;
BEGIN
    IF asked IS NULL OR v_space.space IS NULL THEN
        RETURN;
    END IF;
    IF vector_dims(asked) <> v_space.dimensions THEN
        RAISE EXCEPTION 'the query vector has % numbers, the store''s space % has %', vector_dims(asked), v_space.model, v_space.dimensions
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF v_space.centre IS NOT NULL AND allowed IS NULL THEN
        SELECT sum(s.windows) INTO org_windows FROM scope_statistics AS s WHERE s.org = scope_org();
        IF org_windows * v_space.dimensions > config.scan_numbers THEN
            -- code_candidates is measured for 384 bits; wider codes lose less (docs/performance.md)
            RETURN QUERY SELECT * FROM closest_codes(asked, v_space.space, v_space.centre,
                greatest(pool * 2, (config.code_candidates * sqrt(384.0 / greatest(384, v_space.dimensions)))::integer), pool);
            RETURN;
        END IF;
    END IF;
    RETURN QUERY SELECT * FROM closest_windows(asked, v_space.space, pool, allowed);
END
$$;

-- name: newest_holders
-- The `most` newest memories of the scope that match, found among the newest of the organisation; NULL where the full-text
-- index is the shorter way to them. A word that half of a large organisation holds is on every other one of its newest rows,
-- and the index would hand over tens of thousands more. Of one date those that were written first.
-- `stems`: those of `wanted`, whose frequencies tell how many rows have to be read, as if independent; if that was too few, the
-- index is asked. `least_closeness`: of ts_rank_cd, where there are several; 0 asks for none.
CREATE FUNCTION newest_holders(wanted tsquery, stems text[], least_closeness real, most integer) RETURNS bigint[]
    LANGUAGE plpgsql STABLE
    SET search_path FROM CURRENT
    SET enable_bitmapscan = off  -- which is how the full-text index would be read
    AS $$
DECLARE
    v_org CONSTANT text := scope_org();
    v_user CONSTANT text := scope_user();
    v_now CONSTANT timestamptz := now();
    rows_of_org bigint;
    visible bigint;
    expected double precision;
    most_rows double precision;
    found bigint[];
BEGIN
    SELECT sum(s.memories), sum(s.memories) FILTER (WHERE s.owner IN ('', v_user)) INTO rows_of_org, visible
    FROM scope_statistics AS s WHERE s.org = v_org;
    IF coalesce(visible, 0) = 0 THEN
        RETURN NULL;
    END IF;
    -- no fewer than a number can hold: a hundred rare stems multiply to nothing
    SELECT visible * exp(greatest(-100, sum(ln(least(1, greatest(1, q.df) / visible))))) INTO expected
    FROM (SELECT (SELECT sum(t.df) FROM terms AS t
                  WHERE t.org = v_org AND t.owner = ANY (ARRAY['', v_user]) AND t.stem = s.stem)::double precision AS df
          FROM unnest(stems) AS s(stem)) AS q;
    most_rows := 2 * most * (rows_of_org / expected);
    IF expected IS NULL OR most_rows > expected THEN
        RETURN NULL;
    END IF;
    found := ARRAY(
        SELECT m.key
        FROM (SELECT i.* FROM memories AS i WHERE i.org = v_org ORDER BY i.created_at DESC LIMIT least(most_rows, 1e9)::bigint) AS m
        WHERE m.tsv @@ wanted AND m.invalidated_at IS NULL
          AND (least_closeness = 0 OR numnode(wanted) = 1 OR ts_rank_cd('{1,1,1,1}', m.tsv, wanted) >= least_closeness)
          AND CASE WHEN m.visibility = 'shared' THEN true ELSE m.owner = v_user END AND (m.expires_at IS NULL OR m.expires_at > v_now)
        LIMIT most);
    RETURN CASE WHEN cardinality(found) = most THEN found END;
END
$$;

-- name: exact_match
-- One memory proposed by the exact leg. `identifiers`: those of the query that it carries and few memories carry;
-- NULL where it matches by its words alone.
CREATE TYPE exact_match AS (key bigint, rank bigint, score double precision, identifiers text[]);

-- name: exact_leg
-- One row per memory, best first: the memory of that id; memories that carry the query's identifiers; memories that
-- hold all of its words. Score: idf of the identifiers it carries, plus 1 and ts_rank_cd where all words match.
CREATE FUNCTION exact_leg(query_text text, pool integer, allowed bigint[], config fusion_config) RETURNS SETOF exact_match
    LANGUAGE plpgsql STABLE ROWS 40
    SET search_path FROM CURRENT
    SET enable_nestloop = off  -- a thousand holders joined with their identifiers row by row would cost 30 ms
    AS $$
DECLARE
    v_org CONSTANT text := scope_org();
    v_user CONSTANT text := scope_user();
    v_now CONSTANT timestamptz := now();
    words tsquery;
    -- Nodes of a tsquery beyond which no memory is asked for all words: the relaxed leg knows a pasted text by its rarest.
    most_words CONSTANT integer := 64;
    most_chars CONSTANT integer := 4000;  -- a longer text has more words than that, and need not be read to know it
    -- All words count as the whole query where they stand together: with weights 1, ts_rank_cd is the sum of
    -- 1 / (1 + words between) over their covers, so this asks for at most some 50 words between them. Scattered over a
    -- long text they say nothing: the relaxed leg counts them.
    least_closeness CONSTANT real := 0.02;
    most_holders CONSTANT integer := greatest(400, least(1000, pool));  -- of thousands that hold all words the newest
    large_scope CONSTANT bigint := 10000;  -- memories, from which on thousands may
    names text[] := query_identifiers(left(query_text, 8000));
    carriers bigint[] := '{}';      -- one entry per (identifier, memory)
    weights double precision[] := '{}';
    carried_names text[] := '{}';
    same_id bigint[];
    holders bigint[];
BEGIN
    IF length(query_text) <= most_chars THEN
        SELECT CASE WHEN s.next_text_config IS NULL THEN exact_query(s.text_config, query_text)
                    ELSE exact_query(s.text_config, query_text) || exact_query(s.next_text_config, query_text) END
        INTO words FROM settings AS s;
    END IF;

    IF allowed IS NULL THEN
        WHILE cardinality(names) > 0 LOOP
            SELECT array_agg(c.key), array_agg(ln(1 + 1000.0 / c.carried)), array_agg(c.name) INTO carriers, weights, carried_names
            FROM (SELECT m.key, n.name, count(*) OVER (PARTITION BY n.name) AS carried
                  FROM unnest(names) AS n(name)
                  CROSS JOIN LATERAL (
                      SELECT i.key FROM memories AS i
                      WHERE i.org = v_org AND i.identifiers @> ARRAY[n.name] AND i.invalidated_at IS NULL
                        AND CASE WHEN i.visibility = 'shared' THEN true ELSE i.owner = v_user END AND (i.expires_at IS NULL OR i.expires_at > v_now)
                      LIMIT config.identifier_rows + 1) AS m) AS c  -- all of them, or one more than count
            WHERE c.carried <= config.identifier_rows;
            EXIT WHEN carriers IS NOT NULL;
            names := identifier_parts(names);  -- of what nobody carries as typed
        END LOOP;
        IF numnode(words) BETWEEN 1 AND most_words THEN
            IF (SELECT sum(s.memories) FROM scope_statistics AS s WHERE s.org = v_org AND s.owner IN ('', v_user)) >= large_scope THEN
                SELECT newest_holders(words, tsvector_to_array(text_vector(s.text_config, query_text, false)), least_closeness, most_holders)
                INTO holders FROM settings AS s;
            END IF;
            holders := coalesce(holders, ARRAY(
                SELECT m.key FROM memories AS m
                WHERE m.org = v_org AND m.tsv @@ words AND m.invalidated_at IS NULL
                  AND (numnode(words) = 1 OR ts_rank_cd('{1,1,1,1}', m.tsv, words) >= least_closeness)
                  AND CASE WHEN m.visibility = 'shared' THEN true ELSE m.owner = v_user END AND (m.expires_at IS NULL OR m.expires_at > v_now)
                ORDER BY m.created_at DESC, m.key DESC LIMIT most_holders));
        END IF;
    ELSE
        SELECT array_agg(c.key), array_agg(ln(1 + 1000.0 / c.carried)), array_agg(c.name) INTO carriers, weights, carried_names
        FROM (SELECT m.key, n.name, count(*) OVER (PARTITION BY n.name) AS carried
              FROM unnest(names) AS n(name)
              JOIN memories AS m ON m.org = v_org AND m.key = ANY (allowed) AND m.identifiers @> ARRAY[n.name]
                   AND CASE WHEN m.visibility = 'shared' THEN true ELSE m.owner = v_user END) AS c
        WHERE c.carried <= config.identifier_rows;
        holders := ARRAY(SELECT m.key FROM memories AS m
                         WHERE m.org = v_org AND m.key = ANY (allowed) AND numnode(words) <= most_words AND m.tsv @@ words
                           AND ts_rank_cd('{1,1,1,1}', m.tsv, words) >= least_closeness
                           AND CASE WHEN m.visibility = 'shared' THEN true ELSE m.owner = v_user END
                         ORDER BY m.created_at DESC, m.key DESC LIMIT most_holders);
    END IF;
    same_id := ARRAY(SELECT m.key FROM memories AS m
                     WHERE m.org = v_org AND m.id = btrim(query_text) AND CASE WHEN m.visibility = 'shared' THEN true ELSE m.owner = v_user END
                       AND CASE WHEN allowed IS NULL THEN m.invalidated_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > v_now)
                                ELSE m.key = ANY (allowed) END);
    IF cardinality(carriers) IS NULL AND cardinality(holders) = 0 AND cardinality(same_id) = 0 THEN
        RETURN;
    END IF;

    RETURN QUERY
    WITH carried AS (
        SELECT c.key, sum(c.weight) AS weight, array_agg(c.name) AS names
        FROM unnest(carriers, weights, carried_names) AS c(key, weight, name) GROUP BY c.key
    ), scored AS (
        SELECT m.key, m.created_at,
               CASE WHEN m.key = ANY (same_id) THEN 1000 ELSE 0 END + coalesce(c.weight, 0) AS names_score,
               CASE WHEN m.key = ANY (holders) THEN 1 + ts_rank_cd('{0.1,0.1,0.1,0.1}', m.tsv, words, 1) ELSE 0 END AS words_score,
               -- named at its head: the memory is about it, and does not merely mention it
               EXISTS (SELECT FROM unnest(c.names) AS n(name) WHERE strpos(lower(folded_text(m.id || ' ' || left(m.content, 100))), n.name) > 0) AS is_headed,
               CASE WHEN m.key = ANY (same_id) THEN coalesce(c.names, '{}') ELSE c.names END AS identifiers
        FROM memories AS m LEFT JOIN carried AS c ON c.key = m.key
        WHERE m.org = v_org AND CASE WHEN m.visibility = 'shared' THEN true ELSE m.owner = v_user END
          AND m.key = ANY (coalesce(carriers, '{}') || coalesce(holders, '{}') || same_id)
    ), placed AS (
        SELECT s.*, row_number() OVER (ORDER BY s.names_score DESC, s.is_headed DESC, s.words_score DESC, s.created_at DESC, s.key DESC) AS place,
               rank() OVER (ORDER BY s.names_score DESC, s.is_headed DESC) AS named_place
        FROM scored AS s
    )
    -- Memories that carry the same identifiers share a place: their weight is so high that an order among them would
    -- outweigh what the other legs know of them.
    SELECT p.key, CASE WHEN p.identifiers IS NULL THEN p.place ELSE p.named_place END,
           (p.names_score + p.words_score)::double precision, p.identifiers
    FROM placed AS p
    ORDER BY p.place
    LIMIT pool;
END
$$;

-- name: query_stem
-- One stem that the relaxed leg looks for. `asked` is the query's own stem; they differ for a near miss in spelling.
CREATE TYPE query_stem AS (stem text, asked text, wanted tsquery, df bigint, idf double precision);

-- name: stem_query
-- A tsquery for one stem. A single character of an unsplit script is the start of a pair.
CREATE FUNCTION stem_query(stem text) RETURNS tsquery
    LANGUAGE sql IMMUTABLE PARALLEL SAFE  -- not STRICT, else it would not be inlined
    AS $$
    SELECT ('''' || replace(replace(stem, '\', '\\'), '''', '''''') || ''''
            || CASE WHEN length(stem) = 1 AND octet_length(stem) > 2 THEN ':*' ELSE '' END)::tsquery
    $$;

-- name: similar_stems
-- Up to three stems of the caller's visible vocabulary that are spelt nearly like `stem`, most similar first. Sets
-- nothing that outlives it.
CREATE FUNCTION similar_stems(stem text, least_similarity double precision) RETURNS TABLE (near text, similarity double precision, df bigint)
    LANGUAGE plpgsql STABLE ROWS 3
    SET search_path FROM CURRENT
    SET pg_trgm.similarity_threshold = 0.3
    AS $$
#variable_conflict use_column
DECLARE
    v_org CONSTANT text := scope_org();
    v_user CONSTANT text := scope_user();
    v_stem CONSTANT text := stem;
BEGIN
    -- Ends with this function, as its SET above does; a higher threshold lets the index refuse more.
    PERFORM set_config('pg_trgm.similarity_threshold', least_similarity::text, true);
    RETURN QUERY
    SELECT t.stem, max(similarity(t.stem, v_stem))::double precision, sum(t.df)::bigint
    FROM terms AS t
    WHERE t.org = v_org AND t.owner IN ('', v_user) AND t.stem % v_stem
      AND similarity(t.stem, v_stem) >= least_similarity AND t.stem <> v_stem
    GROUP BY t.stem
    ORDER BY 2 DESC, levenshtein_less_equal(left(t.stem, 64), left(v_stem, 64), 4), 3 DESC, 1
    LIMIT 3;
END
$$;

-- name: read_stems
-- The stems that the relaxed leg looks for: of the query the `relaxed_stems` rarest, and near misses in spelling of those
-- that no visible memory holds.
CREATE FUNCTION read_stems(query_text text, memories_in_scope bigint, config fusion_config) RETURNS query_stem[]
    LANGUAGE plpgsql STABLE
    SET search_path FROM CURRENT
    AS $$
DECLARE
    v_org CONSTANT text := scope_org();
    v_user CONSTANT text := scope_user();
    stems text[];
    read query_stem[];
BEGIN
    SELECT tsvector_to_array(text_vector(s.text_config, query_text, false)
                             || coalesce(text_vector(s.next_text_config, query_text, false), ''::tsvector))
    INTO stems FROM settings AS s;
    IF cardinality(stems) > 128 THEN
        -- Of a pasted text the 128 longest stems are looked up: long words are the rarer ones.
        stems := ARRAY(SELECT q.stem FROM unnest(stems) AS q(stem) ORDER BY length(q.stem) DESC, q.stem LIMIT 128);
    END IF;
    read := ARRAY(
        SELECT ROW(c.stem, c.stem, c.wanted, c.df, ln(1 + (greatest(memories_in_scope, c.df) - c.df + 0.5) / (c.df + 0.5)))::query_stem
        FROM (SELECT r.stem, w.wanted, coalesce(r.df, (
                         -- not counted since the last refresh
                         SELECT count(*) FROM (SELECT FROM memories AS m
                                               WHERE m.org = v_org AND m.tsv @@ w.wanted AND m.invalidated_at IS NULL
                                                 AND CASE WHEN m.visibility = 'shared' THEN true ELSE m.owner = v_user END LIMIT 300) AS found)) AS df
              FROM (SELECT q.stem,
                           (SELECT sum(t.df) FROM terms AS t
                            WHERE t.org = v_org AND t.owner = ANY (ARRAY['', v_user]) AND t.stem = q.stem) AS df
                    FROM unnest(stems) AS q(stem)
                    ORDER BY df NULLS FIRST, length(q.stem) DESC, q.stem LIMIT config.relaxed_stems) AS r
              CROSS JOIN LATERAL (SELECT stem_query(r.stem) AS wanted OFFSET 0) AS w
              OFFSET 0) AS c);
    IF config.near_miss_penalty > 0 AND cardinality(stems) <= 64  -- a pasted text has words enough
       AND EXISTS (SELECT FROM unnest(read) AS u WHERE u.df = 0) THEN
        read := read || ARRAY(
            SELECT ROW(n.near, a.stem, stem_query(n.near), n.df, a.idf * config.near_miss_penalty * n.similarity)::query_stem
            FROM (SELECT u.* FROM unnest(read) AS u
                  -- never a number: ids one digit apart are other ids
                  WHERE u.df = 0 AND length(u.stem) >= 4 AND u.stem !~ '[0-9]'
                  ORDER BY length(u.stem) DESC, u.stem LIMIT 4) AS a
            CROSS JOIN LATERAL similar_stems(a.stem, config.near_miss_similarity) AS n);
    END IF;
    RETURN read;
END
$$;

-- name: relaxed_match
-- One memory proposed by the relaxed leg. `coverage`: share of the query's idf that its matched stems carry;
-- `stems`: those stems, and `weights` their idf.
CREATE TYPE relaxed_match AS (
    key bigint, rank bigint, score double precision, coverage double precision, stems text[], weights double precision[]
);

-- name: scope_size
-- One row: visible memories and their mean length in characters, as of the last refresh; counted on the spot, up to
-- 2,000, where there has been none.
CREATE FUNCTION scope_size(OUT memories bigint, OUT mean_length double precision)
    LANGUAGE plpgsql STABLE
    SET search_path FROM CURRENT
    AS $$
BEGIN
    SELECT sum(s.memories), sum(s.characters)::double precision / nullif(sum(s.memories), 0) INTO memories, mean_length
    FROM scope_statistics AS s WHERE s.org = scope_org() AND s.owner IN ('', scope_user());
    IF mean_length IS NULL THEN
        SELECT count(*), coalesce(avg(found.full_length), 1) INTO memories, mean_length
        FROM (SELECT m.full_length FROM memories AS m
              WHERE m.org = scope_org() AND CASE WHEN m.visibility = 'shared' THEN true ELSE m.owner = scope_user() END LIMIT 2000) AS found;
    END IF;
END
$$;

-- name: holders_of_common_words
-- The memories that stems propose, at most `most`. A stem that more than `most` memories hold proposes where it stands
-- with another one; by itself, too, if that is not often enough. Of thousands those that hold more of the words, then the
-- newest, which where many hold them all is to be found among the newest of all.
CREATE FUNCTION holders_of_common_words(proposing query_stem[], stems query_stem[], most integer, pool integer) RETURNS bigint[]
    LANGUAGE plpgsql STABLE
    SET search_path FROM CURRENT
    AS $$
DECLARE
    v_org CONSTANT text := scope_org();
    v_user CONSTANT text := scope_user();
    v_now CONSTANT timestamptz := now();
    all_of_them tsquery;  -- the stems that propose; of one the company of another, where the query has one
    their_stems text[];
    others text[];
    alone boolean := false;
    proposed bigint[];
BEGIN
    SELECT string_agg(p.wanted::text, ' & ')::tsquery, array_agg(p.stem) INTO all_of_them, their_stems FROM unnest(proposing) AS p;
    IF cardinality(proposing) = 1 THEN
        SELECT all_of_them && coalesce(string_agg(s.wanted::text, ' | '), '')::tsquery, array_agg(s.stem ORDER BY s.df DESC)
        INTO all_of_them, others
        FROM unnest(stems) AS s WHERE s.df > 0 AND s.stem <> proposing[1].stem;
        their_stems := their_stems || others[1];
    END IF;
    proposed := newest_holders(all_of_them, array_remove(their_stems, NULL), 0, most);
    IF proposed IS NOT NULL THEN
        RETURN proposed;
    END IF;
    LOOP
        proposed := ARRAY(
            SELECT m.key
            FROM unnest(proposing) AS p
            CROSS JOIN LATERAL (
                SELECT CASE WHEN p.df <= most OR alone OR o.others IS NULL THEN p.wanted ELSE p.wanted && o.others::tsquery END AS wanted
                FROM (SELECT string_agg(s.wanted::text, ' | ') AS others FROM unnest(stems) AS s WHERE s.df > 0 AND s.stem <> p.stem) AS o
                OFFSET 0
            ) AS w
            CROSS JOIN LATERAL (
                SELECT i.key, i.created_at FROM memories AS i
                WHERE i.org = v_org AND i.tsv @@ w.wanted AND i.invalidated_at IS NULL
                  AND CASE WHEN i.visibility = 'shared' THEN true ELSE i.owner = v_user END AND (i.expires_at IS NULL OR i.expires_at > v_now)
                OFFSET 0  -- each with its own words, never the organisation for all
            ) AS m
            GROUP BY m.key, m.created_at ORDER BY sum(p.idf) DESC, m.created_at DESC, m.key DESC LIMIT most);
        EXIT WHEN alone OR cardinality(proposed) >= least(pool, most);
        alone := true;
    END LOOP;
    RETURN proposed;
END
$$;

-- name: relaxed_leg
-- One row per memory, best first: any of the query's stems, ranked by BM25. The rarest stems propose, until their document
-- frequencies sum to `relaxed_proposals`; a common one second to the rarest, too, where that proposes less than twice the pool.
-- All stems score what they proposed.
-- Of what few stems propose, text and rank are read in one pass.
--
-- BM25 from a tsvector: ts_rank of one lexeme is H(tf) / (pi^2/6), H(tf) = 1 + 1/4 + ... + 1/tf^2, so that
-- tf = round(1 / ((pi^2/6) (1 - rank)) - 1/2), exact for every tf that a tsvector holds (test_text_sql.py).
-- A stem of the text's head (label A, in all its places) weighs 1 in that rank and any other 1/2, which halves it: rank
-- is 0.61 to 1 for the one and 0.30 to 0.5 for the other. Standing in the head counts as one occurrence more.
CREATE FUNCTION relaxed_leg(query_text text, pool integer, allowed bigint[], config fusion_config) RETURNS SETOF relaxed_match
    LANGUAGE plpgsql STABLE ROWS 40
    SET search_path FROM CURRENT
    AS $$
DECLARE
    v_org CONSTANT text := scope_org();
    v_user CONSTANT text := scope_user();
    v_now CONSTANT timestamptz := now();
    size record;
    stems query_stem[];
    most_proposals integer;
    proposing query_stem[];
    proposals bigint;  -- memories that they propose, counted once for each stem
    holders_of tsquery;  -- any of the stems that propose, where they are few enough to be read at once
    proposed bigint[];
    query_idf double precision;
    at_home boolean;  -- most of the query's words are known here
    -- What compounds were taken apart into, and compounds written as one: what nobody holds of that says nothing about the
    -- words that the query is made of (SciFact, "flash-evoked ERG b-wave": nDCG@10 0.732 instead of 0.726).
    derived text[] := '{}';
BEGIN
    size := scope_size();
    -- Two thirds of them do where there are few to choose from (measured on 800 to 5,000 memories; half lost a hit in 100).
    most_proposals := least(config.relaxed_proposals, greatest(config.relaxed_proposals * 2 / 3, size.memories / 15));
    stems := read_stems(query_text, size.memories, config);
    IF length(query_text) <= 4000 AND query_text ~ '[[:alnum:]][-_./:]+[[:alnum:]]|[[:lower:]][[:upper:]]|[[:upper:]]{2}[[:lower:]]{2}' THEN
        SELECT tsvector_to_array(text_vector(s.text_config, compound_forms(folded_text(query_text)), false))
        INTO derived FROM settings AS s;
    END IF;
    SELECT sum(s.idf) FILTER (WHERE s.is_asked),
           count(*) FILTER (WHERE s.is_asked AND s.df > 0) * 2 >= count(*) FILTER (WHERE s.is_asked)
           OR sum(s.idf) FILTER (WHERE s.is_asked AND s.df > 0) * 2 >= sum(s.idf) FILTER (WHERE s.is_asked),
           array_agg(ROW(s.stem, s.asked, s.wanted, s.df, s.idf)::query_stem) FILTER (WHERE s.is_proposing),
           sum(s.df) FILTER (WHERE s.is_proposing), string_agg(s.wanted::text, ' | ') FILTER (WHERE s.is_proposing)
    INTO query_idf, at_home, proposing, proposals, holders_of
    FROM (SELECT u.*, u.stem = u.asked AND (u.df > 0 OR u.stem <> ALL (derived)) AS is_asked,
                 u.df > 0 AND (sum(u.df::integer) OVER rarest <= most_proposals
                               OR row_number() OVER rarest <= 2 AND sum(u.df::integer) OVER rarest - u.df < pool * 2) AS is_proposing
          FROM unnest(stems) AS u
          WINDOW rarest AS (PARTITION BY u.df > 0 ORDER BY u.df, u.stem)) AS s;
    IF proposing IS NULL THEN
        RETURN;
    END IF;
    IF allowed IS NOT NULL THEN
        holders_of := NULL;
        proposed := ARRAY(
            SELECT m.key FROM memories AS m
            WHERE m.org = v_org AND m.key = ANY (allowed) AND CASE WHEN m.visibility = 'shared' THEN true ELSE m.owner = v_user END
              AND m.tsv @@ (SELECT string_agg(s.wanted::text, ' | ')::tsquery FROM unnest(stems) AS s));
    ELSIF proposals > most_proposals * 2 THEN
        holders_of := NULL;
        proposed := holders_of_common_words(proposing, stems, most_proposals, pool);
    END IF;

    RETURN QUERY
    WITH documents AS MATERIALIZED (
        -- || makes one plain copy of the tsvector of a long memory: else every ts_rank below would decompress it again
        SELECT m.key, m.created_at, CASE WHEN m.full_length > 2000 THEN m.tsv || '' ELSE m.tsv END AS tsv,
               config.bm25_k1 * (1 - config.bm25_b + config.bm25_b * m.full_length / size.mean_length) AS saturation
        FROM (SELECT i.key, i.created_at, i.tsv, i.full_length FROM memories AS i
              WHERE i.org = v_org AND i.tsv @@ holders_of AND i.invalidated_at IS NULL
                AND CASE WHEN i.visibility = 'shared' THEN true ELSE i.owner = v_user END AND (i.expires_at IS NULL OR i.expires_at > v_now)
              UNION ALL
              SELECT i.key, i.created_at, i.tsv, i.full_length FROM memories AS i
              WHERE i.org = v_org AND i.key = ANY (proposed) AND CASE WHEN i.visibility = 'shared' THEN true ELSE i.owner = v_user END) AS m
    ), ranked AS (
        -- one row per document and stem; OFFSET 0 keeps ts_rank from being computed for every use of it
        SELECT d.key, d.created_at, d.saturation, s.stem, s.idf, ts_rank('{0.5,0.5,0.5,1}', d.tsv, s.wanted)::double precision AS rank
        FROM documents AS d CROSS JOIN unnest(stems) AS s
        OFFSET 0
    ), matched AS (
        SELECT r.key, r.created_at, r.saturation, r.stem, r.idf,
               CASE WHEN r.rank > 0.55 THEN 1 + greatest(1, round(1 / (1.6449340668482264 * (1 - r.rank)) - 0.5))
                    ELSE greatest(1, round(1 / (1.6449340668482264 * (1 - 2 * r.rank)) - 0.5)) END AS tf
        FROM ranked AS r WHERE r.rank > 0.1
        OFFSET 0
    ), scored AS (
        SELECT m.key, m.created_at, sum(m.idf * m.tf * (config.bm25_k1 + 1) / (m.tf + m.saturation)) AS score,
               least(1, sum(m.idf) / query_idf) AS coverage, array_agg(m.stem) AS stems, array_agg(m.idf) AS weights
        FROM matched AS m
        GROUP BY m.key, m.created_at
    )
    SELECT s.key, row_number() OVER (ORDER BY s.score DESC, s.created_at DESC, s.key DESC), s.score, s.coverage, s.stems, s.weights
    FROM (SELECT c.*, max(c.coverage) OVER () AS best_coverage FROM scored AS c) AS s
    -- Words that happen to be spelt alike do harm across languages, hence the floor; a question in words that are at
    -- home here is never left without its best match. Under a filter nobody knows whether they are at home in what it
    -- lets through (XQuAD, German asked of English paragraphs: nDCG@10 0.824 with this escape, 0.879 without).
    WHERE s.coverage >= config.relaxed_coverage OR (s.coverage = s.best_coverage AND at_home AND allowed IS NULL)
    ORDER BY 2
    LIMIT pool;
END
$$;

RESET ROLE;
