-- The whole schema as the migrations build it, for reading and for comparing. Written by scripts/dump_schema.py; a test
-- compares it with a fresh database. To build a store, run the migrations (`lore-retriever migrate`).
-- Schema 'lore' here; any name works.

--
-- PostgreSQL database dump
--

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: lore; Type: SCHEMA; Schema: -; Owner: administrator
--

CREATE SCHEMA lore;

ALTER SCHEMA lore OWNER TO administrator;

--
-- Name: alias_match; Type: TYPE; Schema: lore; Owner: lore_owner
--

CREATE TYPE lore.alias_match AS (
	key bigint,
	rank bigint,
	alias text
);

ALTER TYPE lore.alias_match OWNER TO lore_owner;

--
-- Name: caller; Type: TYPE; Schema: lore; Owner: lore_owner
--

CREATE TYPE lore.caller AS (
	org text,
	user_name text
);

ALTER TYPE lore.caller OWNER TO lore_owner;

--
-- Name: candidate; Type: TYPE; Schema: lore; Owner: lore_owner
--

CREATE TYPE lore.candidate AS (
	key bigint,
	relevance double precision,
	query_no integer,
	vector_rank bigint,
	similarity double precision,
	ordinal integer,
	exact_rank bigint,
	exact_score double precision,
	relaxed_rank bigint,
	relaxed_score double precision,
	coverage double precision,
	alias_rank bigint,
	alias text,
	marks text[],
	mark_weights double precision[]
);

ALTER TYPE lore.candidate OWNER TO lore_owner;

--
-- Name: exact_match; Type: TYPE; Schema: lore; Owner: lore_owner
--

CREATE TYPE lore.exact_match AS (
	key bigint,
	rank bigint,
	score double precision,
	identifiers text[]
);

ALTER TYPE lore.exact_match OWNER TO lore_owner;

--
-- Name: filter_program; Type: TYPE; Schema: lore; Owner: lore_owner
--

CREATE TYPE lore.filter_program AS (
	condition text,
	texts text[],
	vals jsonb[],
	times timestamp with time zone[],
	nodes integer,
	operands integer
);

ALTER TYPE lore.filter_program OWNER TO lore_owner;

--
-- Name: query_stem; Type: TYPE; Schema: lore; Owner: lore_owner
--

CREATE TYPE lore.query_stem AS (
	stem text,
	asked text,
	wanted tsquery,
	df bigint,
	idf double precision
);

ALTER TYPE lore.query_stem OWNER TO lore_owner;

--
-- Name: relaxed_match; Type: TYPE; Schema: lore; Owner: lore_owner
--

CREATE TYPE lore.relaxed_match AS (
	key bigint,
	rank bigint,
	score double precision,
	coverage double precision,
	stems text[],
	weights double precision[]
);

ALTER TYPE lore.relaxed_match OWNER TO lore_owner;

--
-- Name: vector_match; Type: TYPE; Schema: lore; Owner: lore_owner
--

CREATE TYPE lore.vector_match AS (
	key bigint,
	rank bigint,
	similarity double precision,
	ordinal integer
);

ALTER TYPE lore.vector_match OWNER TO lore_owner;

--
-- Name: add_token_key(text, bytea); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.add_token_key(name text, secret bytea) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $$
DECLARE
    -- RFC 2104: a secret longer than a block is hashed, a shorter one filled with zeros
    block bytea := CASE WHEN length(secret) > 64 THEN sha256(secret) ELSE secret END;
    inner_block bytea;
    outer_block bytea;
BEGIN
    IF secret IS NULL OR length(secret) < 32 THEN
        RAISE EXCEPTION 'the secret has % bytes; HS256 needs 32 or more', coalesce(length(secret), 0) USING ERRCODE = 'invalid_parameter_value';
    END IF;
    block := block || decode(repeat('00', 64 - length(block)), 'hex');
    inner_block := block;
    outer_block := block;
    FOR n IN 0..63 LOOP
        inner_block := set_byte(inner_block, n, get_byte(block, n) # 54);
        outer_block := set_byte(outer_block, n, get_byte(block, n) # 92);
    END LOOP;
    INSERT INTO token_keys AS k (name, inner_pad, outer_pad) VALUES (add_token_key.name, inner_block, outer_block)
    ON CONFLICT ON CONSTRAINT token_keys_pkey
    DO UPDATE SET inner_pad = excluded.inner_pad, outer_pad = excluded.outer_pad, created_at = now();
END
$$;

ALTER FUNCTION lore.add_token_key(name text, secret bytea) OWNER TO lore_owner;

--
-- Name: alias_leg(text, integer, bigint[]); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.alias_leg(query_text text, pool integer, allowed bigint[]) RETURNS SETOF lore.alias_match
    LANGUAGE plpgsql STABLE ROWS 10
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $$
DECLARE
    v_org CONSTANT text := scope_org();
    v_user CONSTANT text := scope_user();
    v_now CONSTANT timestamptz := now();
    asked text;
    named bigint[];
BEGIN
    IF NOT EXISTS (SELECT FROM aliases AS a WHERE a.org = v_org) THEN
        RETURN;
    END IF;
    asked := folded_name(left(query_text, 2000));
    named := ARRAY(SELECT a.alias FROM aliases AS a
                   WHERE a.org = v_org AND a.folded = ANY (names_in(asked)) AND (a.shared OR a.owner = v_user)
                   ORDER BY a.alias LIMIT 64);
    IF has_unsplit_script(asked) THEN
        named := named || ARRAY(SELECT a.alias FROM aliases AS a
                                WHERE a.org = v_org AND has_unsplit_script(a.folded) AND strpos(asked, a.folded) > 0
                                  AND (a.shared OR a.owner = v_user)
                                ORDER BY a.alias LIMIT 64);
    END IF;
    IF cardinality(named) = 0 THEN
        RETURN;
    END IF;

    RETURN QUERY
    WITH names AS MATERIALIZED (
        SELECT a.* FROM aliases AS a WHERE a.org = v_org AND a.alias = ANY (named)
    ), others AS MATERIALIZED (
        -- the other names of each group that was named
        SELECT DISTINCT ON (o.alias) o.name, coalesce(p.wanted || p.next_wanted, p.wanted) AS wanted
        FROM names AS n
        JOIN aliases AS o ON o.org = v_org AND o.group_no = n.group_no AND o.folded <> n.folded
        CROSS JOIN settings AS s
        CROSS JOIN LATERAL (SELECT '"' || replace(o.name, '"', ' ') || '"' AS phrase) AS f
        CROSS JOIN LATERAL (SELECT exact_query(s.text_config, f.phrase) AS wanted, exact_query(s.next_text_config, f.phrase) AS next_wanted) AS p
        WHERE n.key IS NULL
        ORDER BY o.alias LIMIT 64
    ), proposed AS (
        SELECT n.key, n.name, 2::double precision AS score FROM names AS n WHERE n.key IS NOT NULL
        UNION ALL
        SELECT m.key, o.name, m.score
        FROM others AS o CROSS JOIN LATERAL (
            SELECT i.key, ts_rank_cd('{0.1,0.1,0.1,0.1}', i.tsv, o.wanted, 1)::double precision AS score
            FROM memories AS i
            WHERE i.org = v_org AND i.tsv @@ o.wanted AND i.invalidated_at IS NULL AND CASE WHEN i.visibility = 'shared' THEN true ELSE i.owner = v_user END
            ORDER BY i.key DESC LIMIT 500) AS m
        WHERE allowed IS NULL AND numnode(o.wanted) > 0
        UNION ALL
        SELECT m.key, o.name, ts_rank_cd('{0.1,0.1,0.1,0.1}', m.tsv, o.wanted, 1)
        FROM others AS o JOIN memories AS m ON m.org = v_org AND m.key = ANY (allowed) AND m.tsv @@ o.wanted
             AND CASE WHEN m.visibility = 'shared' THEN true ELSE m.owner = v_user END
        WHERE allowed IS NOT NULL
    ), best AS (
        SELECT DISTINCT ON (p.key) p.key, p.name, p.score, m.created_at
        FROM proposed AS p JOIN memories AS m ON m.org = v_org AND m.key = p.key
        WHERE CASE WHEN m.visibility = 'shared' THEN true ELSE m.owner = v_user END
          AND CASE WHEN allowed IS NULL THEN m.invalidated_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > v_now)
                   ELSE m.key = ANY (allowed) END
        ORDER BY p.key, p.score DESC, p.name
    )
    SELECT b.key, row_number() OVER (ORDER BY b.score DESC, b.created_at DESC, b.key DESC), b.name
    FROM best AS b
    ORDER BY 2
    LIMIT pool;
END
$$;

ALTER FUNCTION lore.alias_leg(query_text text, pool integer, allowed bigint[]) OWNER TO lore_owner;

--
-- Name: allowed_keys(jsonb, text[], timestamp with time zone); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.allowed_keys(filter jsonb, kinds text[] DEFAULT NULL::text[], as_of timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS bigint[]
    LANGUAGE plpgsql STABLE
    SET search_path TO 'lore', 'public', 'pg_temp'
    SET jit TO 'off'
    SET max_parallel_workers_per_gather TO '0'
    SET enable_bitmapscan TO 'on'
    AS $_$
DECLARE
    program CONSTANT filter_program := compile_filter(filter);
    allowed bigint[];
BEGIN
    EXECUTE 'SELECT coalesce(array_agg(m.key), ''{}'') FROM memories AS m WHERE m.org = $4 AND ($5 IS NULL OR m.kind = ANY ($5)) AND '
        || CASE WHEN as_of IS NULL
               THEN 'm.invalidated_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > now()) AND '
               ELSE 'm.created_at <= $6 AND (m.invalidated_at IS NULL OR m.invalidated_at > $6) AND (m.expires_at IS NULL OR m.expires_at > $6) AND '
           END
        || program.condition
        INTO allowed
        USING program.texts, program.vals, program.times, scope_org(), kinds, as_of;
    RETURN allowed;
END
$_$;

ALTER FUNCTION lore.allowed_keys(filter jsonb, kinds text[], as_of timestamp with time zone) OWNER TO lore_owner;

--
-- Name: bound_unsorted(); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.bound_unsorted() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $$
BEGIN
    PERFORM set_config('gin_pending_list_limit', CASE current_setting('lore.bulk', true) WHEN 'on' THEN '8MB' ELSE '512kB' END, true);
    RETURN NULL;
END
$$;

ALTER FUNCTION lore.bound_unsorted() OWNER TO lore_owner;

--
-- Name: candidates(text[], public.halfvec[], integer, bigint[]); Type: FUNCTION; Schema: lore; Owner: lore_search
--

CREATE FUNCTION lore.candidates(query_texts text[], query_embeddings public.halfvec[], k integer, allowed bigint[]) RETURNS SETOF lore.candidate
    LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 100
    SET search_path TO 'lore', 'public', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_nestloop TO 'on'
    SET enable_bitmapscan TO 'on'
    SET cpu_tuple_cost TO '10'
    SET max_parallel_workers_per_gather TO '0'
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

ALTER FUNCTION lore.candidates(query_texts text[], query_embeddings public.halfvec[], k integer, allowed bigint[]) OWNER TO lore_search;

--
-- Name: check_mapped_role(); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.check_mapped_role() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $$
DECLARE
    found pg_catalog.pg_roles;
BEGIN
    SELECT r.* INTO found FROM pg_catalog.pg_roles AS r WHERE r.rolname = NEW.role_name;
    IF found.rolname IS NULL THEN
        RAISE EXCEPTION 'there is no role %: first make a login role of that name, a member of lore_user', quote_ident(NEW.role_name)
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF found.rolsuper OR found.rolbypassrls THEN
        RAISE EXCEPTION 'the role % %, so that row security does not hold for it whoever it speaks for: map a login role that is a member of lore_user and of nothing else',
            quote_ident(NEW.role_name), CASE WHEN found.rolsuper THEN 'is a superuser' ELSE 'has BYPASSRLS' END
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN NEW;
END
$$;

ALTER FUNCTION lore.check_mapped_role() OWNER TO lore_owner;

--
-- Name: closest_codes(public.halfvec, smallint, smallint, integer, integer); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.closest_codes(asked public.halfvec, in_space smallint, in_centre smallint, candidates integer, pool integer) RETURNS SETOF lore.vector_match
    LANGUAGE plpgsql STABLE ROWS 40
    SET search_path TO 'lore', 'public', 'pg_temp'
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

ALTER FUNCTION lore.closest_codes(asked public.halfvec, in_space smallint, in_centre smallint, candidates integer, pool integer) OWNER TO lore_owner;

--
-- Name: closest_windows(public.halfvec, smallint, integer, bigint[]); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.closest_windows(asked public.halfvec, in_space smallint, pool integer, allowed bigint[]) RETURNS SETOF lore.vector_match
    LANGUAGE plpgsql STABLE ROWS 40
    SET search_path TO 'lore', 'public', 'pg_temp'
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

ALTER FUNCTION lore.closest_windows(asked public.halfvec, in_space smallint, pool integer, allowed bigint[]) OWNER TO lore_owner;

--
-- Name: compile_filter(jsonb); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.compile_filter(filter jsonb) RETURNS lore.filter_program
    LANGUAGE plpgsql STABLE
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $$
DECLARE
    nothing CONSTANT filter_program := ROW('true', '{}', '{}', '{}', 0, 0);
BEGIN
    RETURN CASE WHEN filter IS NULL OR filter = 'null' THEN nothing ELSE filter_node(nothing, filter, 1) END;
END
$$;

ALTER FUNCTION lore.compile_filter(filter jsonb) OWNER TO lore_owner;

--
-- Name: compound_forms(text); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.compound_forms(content text) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$
    SELECT concat_ws(' ',
        (SELECT string_agg(regexp_replace(found[1], '[^[:alnum:]]+', '', 'g'), ' ')
         FROM regexp_matches(content, '[[:alnum:]]+(?:[-_./:]+[[:alnum:]]+)+', 'g') AS found
         WHERE length(found[1]) <= 64),
        (SELECT string_agg(regexp_replace(regexp_replace(found[1], '([[:upper:]])([[:upper:]][[:lower:]]{2})', '\1 \2', 'g'),
                                          '([[:lower:][:digit:]])([[:upper:]])', '\1 \2', 'g'), ' ')
         FROM regexp_matches(content, '[[:alnum:]]*(?:[[:lower:]][[:upper:]]|[[:upper:]]{2}[[:lower:]]{2})[[:alnum:]]*', 'g') AS found
         WHERE length(found[1]) <= 128))
    $$;

ALTER FUNCTION lore.compound_forms(content text) OWNER TO lore_owner;

--
-- Name: copy_life(); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.copy_life() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $$
BEGIN
    UPDATE vectors AS v
    SET shared = (NEW.visibility = 'shared'), live = (NEW.invalidated_at IS NULL), expires_at = NEW.expires_at, created_at = NEW.created_at
    WHERE v.org = NEW.org AND v.key = NEW.key;
    UPDATE codes AS c
    SET shared = (NEW.visibility = 'shared'), live = (NEW.invalidated_at IS NULL), expires_at = NEW.expires_at, created_at = NEW.created_at
    WHERE c.org = NEW.org AND c.key = NEW.key;
    UPDATE aliases AS a SET shared = (NEW.visibility = 'shared') WHERE a.org = NEW.org AND a.key = NEW.key;
    RETURN NULL;
END
$$;

ALTER FUNCTION lore.copy_life() OWNER TO lore_owner;

--
-- Name: count_part(text, text, bigint); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.count_part(of_org text, part text, after_key bigint) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'lore', 'public', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    AS $$
DECLARE
    new_stems bigint;
BEGIN
    IF after_key = 0 THEN
        DELETE FROM terms AS t WHERE t.org = of_org AND t.owner = part;
        DELETE FROM scope_statistics AS s WHERE s.org = of_org AND s.owner = part;
    END IF;

    WITH written AS (
        INSERT INTO terms AS t (org, owner, stem, df)
        SELECT of_org, part, counted.stem, counted.df
        FROM (SELECT c.word AS stem, c.ndoc AS df
              -- It counts in half the time of a GROUP BY over unnest, and takes its query as text.
              FROM ts_stat(format('SELECT m.tsv FROM memories AS m WHERE m.org = %L AND m.key > %s AND part_of(m.owner, m.visibility) = %L'
                                  ' AND m.invalidated_at IS NULL', of_org, after_key, part)) AS c
              WHERE length(c.word) <= 64) AS counted
        ORDER BY counted.df DESC, counted.stem
        LIMIT greatest(0, 200000 - coalesce((SELECT s.stems FROM scope_statistics AS s WHERE s.org = of_org AND s.owner = part), 0))
        ON CONFLICT ON CONSTRAINT terms_pkey DO UPDATE SET df = t.df + excluded.df
        RETURNING t.xmax = 0 AS is_new
    )
    SELECT count(*) INTO new_stems FROM written AS w WHERE w.is_new;

    INSERT INTO scope_statistics AS s (org, owner, memories, characters, windows, stems, last_key)
    SELECT of_org, part, count(*), coalesce(sum(m.full_length), 0), coalesce(sum(w.n), 0),
           new_stems, coalesce(max(m.key), after_key)
    FROM memories AS m
    CROSS JOIN LATERAL (
        -- in whichever space has most: another may still be building, or lag behind
        SELECT coalesce(max(s.n), 0) AS n
        FROM (SELECT count(*) AS n FROM windows AS i WHERE i.org = m.org AND i.key = m.key GROUP BY i.space) AS s
    ) AS w
    WHERE m.org = of_org AND m.key > after_key AND part_of(m.owner, m.visibility) = part AND m.invalidated_at IS NULL
    ON CONFLICT ON CONSTRAINT scope_statistics_pkey DO UPDATE
    SET memories = s.memories + excluded.memories, characters = s.characters + excluded.characters,
        windows = s.windows + excluded.windows, stems = s.stems + excluded.stems,
        last_key = greatest(s.last_key, excluded.last_key), refreshed_at = now();
END
$$;

ALTER FUNCTION lore.count_part(of_org text, part text, after_key bigint) OWNER TO lore_owner;

--
-- Name: counted_votes(text, bigint); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.counted_votes(of_org text, of_key bigint) RETURNS TABLE(useful integer, misleading integer, multiplier double precision)
    LANGUAGE sql STABLE
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $$
    SELECT c.u::integer, c.m::integer, reinforced(c.u, c.m)
    FROM (SELECT count(*) FILTER (WHERE f.useful) AS u, count(*) FILTER (WHERE NOT f.useful) AS m
          FROM feedback AS f
          WHERE f.org = of_org AND f.key = of_key AND f.created_at > now() - interval '90 days') AS c
    $$;

ALTER FUNCTION lore.counted_votes(of_org text, of_key bigint) OWNER TO lore_owner;

--
-- Name: decoded_part(text); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.decoded_part(part text) RETURNS jsonb
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT convert_from(decode(rpad(translate(part, '-_', '+/'), (length(part) + 3) / 4 * 4, '='), 'base64'), 'UTF8')::jsonb $$;

ALTER FUNCTION lore.decoded_part(part text) OWNER TO lore_owner;

--
-- Name: enter_search(text, text, text, text, text, text[], public.halfvec, public.halfvec[]); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.enter_search(role_name text, org text, user_name text, space text, token text, query_texts text[], embedding public.halfvec, further public.halfvec[], OUT texts text[], OUT embeddings public.halfvec[]) RETURNS record
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

ALTER FUNCTION lore.enter_search(role_name text, org text, user_name text, space text, token text, query_texts text[], embedding public.halfvec, further public.halfvec[], OUT texts text[], OUT embeddings public.halfvec[]) OWNER TO lore_owner;

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: fusion_config; Type: TABLE; Schema: lore; Owner: lore_owner
--

CREATE TABLE lore.fusion_config (
    one boolean DEFAULT true NOT NULL,
    rrf_k integer DEFAULT 60 NOT NULL,
    pool_multiplier integer DEFAULT 4 NOT NULL,
    vector_weight double precision DEFAULT 1 NOT NULL,
    exact_weight double precision DEFAULT 1 NOT NULL,
    relaxed_weight double precision DEFAULT 1 NOT NULL,
    alias_weight double precision DEFAULT 1 NOT NULL,
    identifier_weight double precision DEFAULT 4 NOT NULL,
    identifier_rows integer DEFAULT 10 NOT NULL,
    relaxed_coverage double precision DEFAULT 0.2 NOT NULL,
    relaxed_proposals integer DEFAULT 300 NOT NULL,
    relaxed_stems integer DEFAULT 32 NOT NULL,
    bm25_k1 double precision DEFAULT 1.2 NOT NULL,
    bm25_b double precision DEFAULT 0.75 NOT NULL,
    near_miss_similarity double precision DEFAULT 0.45 NOT NULL,
    near_miss_penalty double precision DEFAULT 0.6 NOT NULL,
    scan_numbers bigint DEFAULT 4000000 NOT NULL,
    code_candidates integer DEFAULT 1000 NOT NULL,
    accepted_run bigint,
    accepted_at timestamp with time zone,
    CONSTRAINT fusion_config_alias_weight_check CHECK (((alias_weight >= (0)::double precision) AND (alias_weight <= (100)::double precision))),
    CONSTRAINT fusion_config_bm25_b_check CHECK (((bm25_b >= (0)::double precision) AND (bm25_b <= (1)::double precision))),
    CONSTRAINT fusion_config_bm25_k1_check CHECK (((bm25_k1 >= (0)::double precision) AND (bm25_k1 <= (10)::double precision))),
    CONSTRAINT fusion_config_code_candidates_check CHECK (((code_candidates >= 10) AND (code_candidates <= 100000))),
    CONSTRAINT fusion_config_exact_weight_check CHECK (((exact_weight >= (0)::double precision) AND (exact_weight <= (100)::double precision))),
    CONSTRAINT fusion_config_identifier_rows_check CHECK (((identifier_rows >= 0) AND (identifier_rows <= 1000))),
    CONSTRAINT fusion_config_identifier_weight_check CHECK (((identifier_weight >= (0)::double precision) AND (identifier_weight <= (100)::double precision))),
    CONSTRAINT fusion_config_near_miss_penalty_check CHECK (((near_miss_penalty >= (0)::double precision) AND (near_miss_penalty <= (1)::double precision))),
    CONSTRAINT fusion_config_near_miss_similarity_check CHECK (((near_miss_similarity >= (0.1)::double precision) AND (near_miss_similarity <= (1)::double precision))),
    CONSTRAINT fusion_config_one_check CHECK (one),
    CONSTRAINT fusion_config_pool_multiplier_check CHECK (((pool_multiplier >= 1) AND (pool_multiplier <= 20))),
    CONSTRAINT fusion_config_relaxed_coverage_check CHECK (((relaxed_coverage >= (0)::double precision) AND (relaxed_coverage <= (1)::double precision))),
    CONSTRAINT fusion_config_relaxed_proposals_check CHECK (((relaxed_proposals >= 10) AND (relaxed_proposals <= 100000))),
    CONSTRAINT fusion_config_relaxed_stems_check CHECK (((relaxed_stems >= 1) AND (relaxed_stems <= 256))),
    CONSTRAINT fusion_config_relaxed_weight_check CHECK (((relaxed_weight >= (0)::double precision) AND (relaxed_weight <= (100)::double precision))),
    CONSTRAINT fusion_config_rrf_k_check CHECK (((rrf_k >= 1) AND (rrf_k <= 1000))),
    CONSTRAINT fusion_config_scan_numbers_check CHECK ((scan_numbers >= 0)),
    CONSTRAINT fusion_config_vector_weight_check CHECK (((vector_weight >= (0)::double precision) AND (vector_weight <= (100)::double precision)))
);

ALTER TABLE lore.fusion_config OWNER TO lore_owner;

--
-- Name: exact_leg(text, integer, bigint[], lore.fusion_config); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.exact_leg(query_text text, pool integer, allowed bigint[], config lore.fusion_config) RETURNS SETOF lore.exact_match
    LANGUAGE plpgsql STABLE ROWS 40
    SET search_path TO 'lore', 'public', 'pg_temp'
    SET enable_nestloop TO 'off'
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

ALTER FUNCTION lore.exact_leg(query_text text, pool integer, allowed bigint[], config lore.fusion_config) OWNER TO lore_owner;

--
-- Name: exact_query(text, text); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.exact_query(config text, query_text text) RETURNS tsquery
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path TO 'lore', 'public', 'pg_temp'
    SET client_min_messages TO 'warning'
    AS $_$
DECLARE
    words text := regexp_replace(split_compounds(folded_text(left(query_text, 8000))), '-(?:\s*-)+', '-', 'g');
    asked tsquery;
BEGIN
    IF has_unsplit_script(words) THEN
        words := unsplit_bigrams(words, false);
    END IF;
    IF config LIKE '%+unaccent' THEN
        words := unaccent('unaccent'::regdictionary, words);
    END IF;
    asked := websearch_to_tsquery(split_part(config, '+', 1)::regconfig, words);
    IF has_unsplit_script(words) THEN
        -- A single character is the start of a pair.
        asked := regexp_replace(asked::text, $re$'([\u0e00-\u0e7f\u1100-\u11ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff])'(?!:)$re$, $to$'\1':*$to$, 'g')::tsquery;
    END IF;
    RETURN asked;
END
$_$;

ALTER FUNCTION lore.exact_query(config text, query_text text) OWNER TO lore_owner;

--
-- Name: explain_legs(text[], public.halfvec[], integer, bigint[]); Type: FUNCTION; Schema: lore; Owner: lore_search
--

CREATE FUNCTION lore.explain_legs(query_texts text[], query_embeddings public.halfvec[], pool integer, allowed bigint[]) RETURNS TABLE(query_no integer, leg text, key bigint, rank bigint, value double precision, matched text[], took_ms double precision)
    LANGUAGE plpgsql SECURITY DEFINER ROWS 160
    SET search_path TO 'lore', 'public', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET max_parallel_workers_per_gather TO '0'
    AS $$
#variable_conflict use_column
DECLARE
    config CONSTANT fusion_config := fusion();
    began timestamptz;
    asked record;
BEGIN
    IF scope_org() IS NULL OR scope_user() IS NULL THEN
        RETURN;
    END IF;
    FOR asked IN SELECT left(coalesce(q.text, ''), 20000) AS text, q.embedding, (q.n - 1)::integer AS n
                 FROM unnest(query_texts, query_embeddings) WITH ORDINALITY AS q(text, embedding, n) LOOP
        began := clock_timestamp();
        RETURN QUERY SELECT asked.n, 'vector', l.key, l.rank, l.similarity, NULL::text[], extract(epoch FROM clock_timestamp() - began)::double precision * 1000
                     FROM (SELECT) AS one LEFT JOIN LATERAL (SELECT * FROM vector_leg(asked.embedding, pool, allowed, config) OFFSET 0) AS l ON true;
        began := clock_timestamp();
        RETURN QUERY SELECT asked.n, 'exact', l.key, l.rank, l.score, l.identifiers, extract(epoch FROM clock_timestamp() - began)::double precision * 1000
                     FROM (SELECT) AS one LEFT JOIN LATERAL (SELECT * FROM exact_leg(asked.text, pool, allowed, config) OFFSET 0) AS l ON true;
        began := clock_timestamp();
        RETURN QUERY SELECT asked.n, 'relaxed', l.key, l.rank, l.score, l.stems, extract(epoch FROM clock_timestamp() - began)::double precision * 1000
                     FROM (SELECT) AS one LEFT JOIN LATERAL (SELECT * FROM relaxed_leg(asked.text, pool, allowed, config) OFFSET 0) AS l ON true;
        began := clock_timestamp();
        RETURN QUERY SELECT asked.n, 'alias', l.key, l.rank, NULL::double precision, ARRAY[l.alias], extract(epoch FROM clock_timestamp() - began)::double precision * 1000
                     FROM (SELECT) AS one LEFT JOIN LATERAL (SELECT * FROM alias_leg(asked.text, pool, allowed) OFFSET 0) AS l ON true;
    END LOOP;
END
$$;

ALTER FUNCTION lore.explain_legs(query_texts text[], query_embeddings public.halfvec[], pool integer, allowed bigint[]) OWNER TO lore_search;

--
-- Name: explain_words(text[]); Type: FUNCTION; Schema: lore; Owner: lore_search
--

CREATE FUNCTION lore.explain_words(query_texts text[]) RETURNS TABLE(query_no integer, stem text, asked text, df bigint, idf double precision)
    LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 20
    SET search_path TO 'lore', 'public', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    config CONSTANT fusion_config := fusion();
BEGIN
    IF scope_org() IS NULL OR scope_user() IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT (q.n - 1)::integer, s.stem, s.asked, s.df, s.idf
    FROM unnest(query_texts) WITH ORDINALITY AS q(text, n)
    CROSS JOIN LATERAL unnest(read_stems(left(coalesce(q.text, ''), 20000), (SELECT z.memories FROM scope_size() AS z), config)) AS s
    ORDER BY 1, s.df, s.stem;
END
$$;

ALTER FUNCTION lore.explain_words(query_texts text[]) OWNER TO lore_search;

--
-- Name: filter_column(text); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.filter_column(key text) RETURNS text
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $$
    SELECT CASE key
               WHEN 'lore_id' THEN 'm.id' WHEN 'lore_kind' THEN 'm.kind' WHEN 'lore_visibility' THEN 'm.visibility'
               WHEN 'lore_owner' THEN 'm.owner' WHEN 'lore_agent' THEN 'm.agent' WHEN 'lore_session' THEN 'm.session'
               WHEN 'lore_source' THEN 'm.source' WHEN 'lore_trust' THEN 'm.trust' WHEN 'lore_language' THEN 'm.language'
               WHEN 'lore_pinned' THEN 'm.pinned' WHEN 'lore_created_at' THEN 'm.created_at'
               WHEN 'lore_updated_at' THEN 'm.updated_at' WHEN 'lore_expires_at' THEN 'm.expires_at'
           END
    $$;

ALTER FUNCTION lore.filter_column(key text) OWNER TO lore_owner;

--
-- Name: filter_condition(lore.filter_program, text, text, jsonb); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.filter_condition(program lore.filter_program, key text, operator text, operand jsonb) RETURNS lore.filter_program
    LANGUAGE plpgsql STABLE
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $_$
DECLARE
    known CONSTANT text[] := ARRAY['$eq', '$ne', '$in', '$nin', '$exists', '$is_empty', '$lt', '$lte', '$gt', '$gte', '$between',
                                   '$like', '$ilike', '$text_match', '$text_match_insensitive', '$contains', '$any', '$all'];
    own CONSTANT text := filter_column(key);
    field CONSTANT text := CASE WHEN own IS NULL THEN 'json' WHEN key = 'lore_pinned' THEN 'boolean'
                                WHEN key IN ('lore_created_at', 'lore_updated_at', 'lore_expires_at') THEN 'time' ELSE 'text' END;
    allowed CONSTANT text[] := CASE field WHEN 'boolean' THEN known[:6] WHEN 'time' THEN known[:11] ELSE known END;
    plain CONSTANT text := CASE operator WHEN '$ne' THEN '$eq' WHEN '$nin' THEN '$in' ELSE operator END;
    where_at CONSTANT text := 'filter on ' || left(to_jsonb(key)::text, 80);
    problem text;
BEGIN
    program.operands := program.operands + CASE jsonb_typeof(operand) WHEN 'array' THEN jsonb_array_length(operand) ELSE 1 END;
    IF program.operands > 10000 THEN
        problem := 'more than 10000 values in one filter. Search in several parts, or store a key that names the group';
    ELSIF own IS NULL AND starts_with(key, 'lore_') THEN
        problem := 'unknown system field. Known: lore_id, lore_kind, lore_visibility, lore_owner, lore_agent, lore_session, lore_source, '
            || 'lore_trust, lore_language, lore_pinned, lore_created_at, lore_updated_at, lore_expires_at';
    ELSIF operator <> ALL (known) THEN
        problem := 'unknown operator ' || left(to_jsonb(operator)::text, 80) || '. Allowed: ' || array_to_string(allowed, ', ');
    ELSIF operator <> ALL (allowed) THEN
        problem := operator || ' does not apply. Allowed: ' || array_to_string(allowed, ', ');
    ELSE
        problem := operator || ' takes ' || filter_operand_problem(field, operator, operand) || ', not ' || left(operand::text, 80);
    END IF;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION '%: %.', where_at, problem USING ERRCODE = 'invalid_parameter_value';
    END IF;
    program := CASE WHEN own IS NULL THEN filter_metadata_condition(program, key, plain, operand)
                                     ELSE filter_system_condition(program, key, field, plain, operand) END;
    IF operator <> plain OR (operator IN ('$exists', '$is_empty') AND operand = 'false') THEN
        program.condition := '(NOT ' || program.condition || ')';
    END IF;
    RETURN program;
END
$_$;

ALTER FUNCTION lore.filter_condition(program lore.filter_program, key text, operator text, operand jsonb) OWNER TO lore_owner;

--
-- Name: filter_enter(lore.filter_program, integer); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.filter_enter(program lore.filter_program, depth integer) RETURNS lore.filter_program
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $_$
BEGIN
    IF depth > 16 THEN
        RAISE EXCEPTION 'filter: more than 16 levels deep. Join the inner $and / $or lists into fewer levels.'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    program.nodes := program.nodes + 1;
    IF program.nodes > 500 THEN
        RAISE EXCEPTION 'filter: more than 500 conditions. Use $in for many values of one key.'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN program;
END
$_$;

ALTER FUNCTION lore.filter_enter(program lore.filter_program, depth integer) OWNER TO lore_owner;

--
-- Name: filter_entry(lore.filter_program, text, jsonb, integer); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.filter_entry(program lore.filter_program, name text, value jsonb, depth integer) RETURNS lore.filter_program
    LANGUAGE plpgsql STABLE
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $_$
BEGIN
    IF name = '$and' THEN
        RETURN filter_list(filter_enter(program, depth), name, ' AND ', value, depth + 1);
    ELSIF name = '$or' THEN
        RETURN filter_list(filter_enter(program, depth), name, ' OR ', value, depth + 1);
    ELSIF name = '$not' THEN
        program := filter_enter(program, depth);
        IF jsonb_typeof(value) = 'array' THEN  -- none of them holds
            program := filter_list(filter_enter(program, depth + 1), name, ' OR ', value, depth + 2);
        ELSE
            program := filter_node(program, value, depth + 1);
        END IF;
        program.condition := '(NOT ' || program.condition || ')';
        RETURN program;
    ELSIF starts_with(name, '$') THEN
        RAISE EXCEPTION 'filter: % is no key; operators stand under a key, as in {"size": {"$gt": 1}}; above keys: $and, $or, $not.',
            left(to_jsonb(name)::text, 80)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN filter_field(program, name, value, depth);
END
$_$;

ALTER FUNCTION lore.filter_entry(program lore.filter_program, name text, value jsonb, depth integer) OWNER TO lore_owner;

--
-- Name: filter_field(lore.filter_program, text, jsonb, integer); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.filter_field(program lore.filter_program, key text, value jsonb, depth integer) RETURNS lore.filter_program
    LANGUAGE plpgsql STABLE
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $_$
DECLARE
    operators CONSTANT jsonb := CASE jsonb_typeof(value) WHEN 'object' THEN value ELSE jsonb_build_object('$eq', value) END;
    several CONSTANT integer := ((SELECT count(*) FROM jsonb_object_keys(operators)) > 1)::integer;
    conditions text[] := '{}';
    part record;
BEGIN
    IF operators = '{}' THEN
        RAISE EXCEPTION 'filter on %: {} names no operator, as in {"$gt": 1}.', left(to_jsonb(key)::text, 80)
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF several = 1 THEN
        program := filter_enter(program, depth);
    END IF;
    FOR part IN SELECT o.key AS operator, o.value AS operand FROM jsonb_each(operators) AS o LOOP
        program := filter_condition(filter_enter(program, depth + several), key, part.operator, part.operand);
        conditions := conditions || program.condition;
    END LOOP;
    program.condition := '(' || array_to_string(conditions, ' AND ') || ')';
    RETURN program;
END
$_$;

ALTER FUNCTION lore.filter_field(program lore.filter_program, key text, value jsonb, depth integer) OWNER TO lore_owner;

--
-- Name: filter_items(jsonb); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.filter_items(operand jsonb) RETURNS SETOF jsonb
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $$ SELECT jsonb_array_elements(CASE jsonb_typeof(operand) WHEN 'array' THEN operand ELSE jsonb_build_array(operand) END) $$;

ALTER FUNCTION lore.filter_items(operand jsonb) OWNER TO lore_owner;

--
-- Name: filter_list(lore.filter_program, text, text, jsonb, integer); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.filter_list(program lore.filter_program, operator text, joined_by text, parts jsonb, depth integer) RETURNS lore.filter_program
    LANGUAGE plpgsql STABLE
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $$
DECLARE
    conditions text[] := ARRAY[CASE joined_by WHEN ' AND ' THEN 'true' ELSE 'false' END];
    part jsonb;
BEGIN
    IF jsonb_typeof(parts) <> 'array' THEN
        RAISE EXCEPTION 'filter: % takes a list of filters, not %.', operator, left(parts::text, 80)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    FOR part IN SELECT jsonb_array_elements(parts) LOOP
        program := filter_node(program, part, depth);
        conditions := conditions || program.condition;
    END LOOP;
    program.condition := '(' || array_to_string(conditions, joined_by) || ')';
    RETURN program;
END
$$;

ALTER FUNCTION lore.filter_list(program lore.filter_program, operator text, joined_by text, parts jsonb, depth integer) OWNER TO lore_owner;

--
-- Name: filter_list_test(lore.filter_program, text, text, text, jsonb); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.filter_list_test(program lore.filter_program, lookup text, words text, operator text, operand jsonb) RETURNS lore.filter_program
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $_$
DECLARE
    first CONSTANT integer := cardinality(program.vals) + 1;
    in_list CONSTANT text := CASE operator
        WHEN '$any' THEN 'EXISTS (SELECT FROM jsonb_array_elements(%1$s) AS i(item) WHERE item = ANY (($2)[%2$s:%3$s]))'
        ELSE '%1$s @> ($2)[%2$s]' END;
    -- A string holds strings only: one of them will do for `$any`, everything else has to be one.
    in_text CONSTANT boolean := (SELECT CASE operator WHEN '$any' THEN bool_or(jsonb_typeof(item) = 'string')
                                                      ELSE bool_and(jsonb_typeof(item) = 'string') END
                                 FROM filter_items(operand) AS i(item));
BEGIN
    IF operand = '[]' THEN
        -- All of nothing is in whatever is there, any of nothing nowhere.
        program.condition := CASE operator WHEN '$all' THEN 'coalesce(' || lookup || ' <> ''null'', false)' ELSE 'false' END;
        RETURN program;
    END IF;
    program.vals := program.vals || CASE operator WHEN '$any' THEN ARRAY(SELECT filter_items(operand)) ELSE ARRAY[operand] END;
    program.condition := 'false';
    IF in_text THEN
        program := filter_text_test(program, 'jsonb_typeof(' || lookup || ') = ''string''', words, operator, operand);
    END IF;
    program.condition := format('CASE WHEN jsonb_typeof(%s) = ''array'' THEN %s ELSE %s END',
                                lookup, format(in_list, lookup, first, cardinality(program.vals)), program.condition);
    RETURN program;
END
$_$;

ALTER FUNCTION lore.filter_list_test(program lore.filter_program, lookup text, words text, operator text, operand jsonb) OWNER TO lore_owner;

--
-- Name: filter_metadata_condition(lore.filter_program, text, text, jsonb); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.filter_metadata_condition(program lore.filter_program, key text, operator text, operand jsonb) RETURNS lore.filter_program
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $_$
DECLARE
    lookup CONSTANT text := format('(m.metadata -> ($1)[%s])', cardinality(program.texts) + 1);
    words CONSTANT text := format('((m.metadata ->> ($1)[%s]) COLLATE "C")', cardinality(program.texts) + 1);
    first CONSTANT integer := cardinality(program.vals) + 1;
    identity CONSTANT text := CASE operator
        WHEN '$eq' THEN 'coalesce(%1$s = ($2)[%2$s], false)'
        WHEN '$in' THEN 'coalesce(%1$s = ANY (($2)[%2$s:%3$s]), false)'
        WHEN '$exists' THEN '(%1$s IS NOT NULL)'
        WHEN '$is_empty' THEN 'coalesce(%1$s IN (''null'', ''""'', ''[]''), true)' END;
    range CONSTANT text := CASE operator
        WHEN '$lt' THEN '%1$s < ($2)[%2$s]'
        WHEN '$lte' THEN '%1$s <= ($2)[%2$s]'
        WHEN '$gt' THEN '%1$s > ($2)[%2$s]'
        WHEN '$gte' THEN '%1$s >= ($2)[%2$s]'
        WHEN '$between' THEN '%1$s BETWEEN ($2)[%2$s] AND ($2)[%3$s]' END;
BEGIN
    program.texts := program.texts || key;
    IF operator IN ('$contains', '$any', '$all') THEN
        RETURN filter_list_test(program, lookup, words, operator, operand);
    ELSIF identity IS NULL AND 'string' IN (jsonb_typeof(operand), jsonb_typeof(operand -> 0)) THEN
        RETURN filter_text_test(program, 'jsonb_typeof(' || lookup || ') = ''string''', words, operator, operand);
    END IF;
    program.vals := program.vals || CASE WHEN operator IN ('$in', '$between') THEN ARRAY(SELECT filter_items(operand)) ELSE ARRAY[operand] END;
    program.condition := format(coalesce(identity, 'CASE WHEN jsonb_typeof(%1$s) = ''number'' THEN ' || range || ' ELSE false END'),
                                lookup, first, cardinality(program.vals));
    RETURN program;
END
$_$;

ALTER FUNCTION lore.filter_metadata_condition(program lore.filter_program, key text, operator text, operand jsonb) OWNER TO lore_owner;

--
-- Name: filter_node(lore.filter_program, jsonb, integer); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.filter_node(program lore.filter_program, node jsonb, depth integer) RETURNS lore.filter_program
    LANGUAGE plpgsql STABLE
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $_$
DECLARE
    level integer := depth;
    conditions text[] := ARRAY['true'];
    entry record;
BEGIN
    IF jsonb_typeof(node) <> 'object' THEN
        RAISE EXCEPTION 'filter: takes an object such as {"topic": "deploy"}, not %.', left(node::text, 80)
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF (SELECT count(*) FROM jsonb_object_keys(node)) <> 1 THEN  -- an $and without the word
        program := filter_enter(program, depth);
        level := depth + 1;
    END IF;
    FOR entry IN SELECT e.key, e.value FROM jsonb_each(node) AS e LOOP
        program := filter_entry(program, entry.key, entry.value, level);
        conditions := conditions || program.condition;
    END LOOP;
    program.condition := '(' || array_to_string(conditions, ' AND ') || ')';
    RETURN program;
END
$_$;

ALTER FUNCTION lore.filter_node(program lore.filter_program, node jsonb, depth integer) OWNER TO lore_owner;

--
-- Name: filter_operand_problem(text, text, jsonb); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.filter_operand_problem(field text, operator text, operand jsonb) RETURNS text
    LANGUAGE plpgsql STABLE
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $_$
DECLARE
    given CONSTANT text := jsonb_typeof(operand);
    value CONSTANT text := CASE field WHEN 'json' THEN 'null, a boolean, a number or a string' WHEN 'text' THEN 'a string or null'
        WHEN 'boolean' THEN 'true, false or null' ELSE 'ISO 8601 text such as "2026-01-31T09:00+01:00" (UTC if without offset), or null' END;
    -- Only metadata may hold lists; a system field that is text has no null to look for inside it.
    list CONSTANT boolean := operator IN ('$in', '$nin', '$between', '$any', '$all')
        OR (operator IN ('$eq', '$ne') AND field = 'json' AND given = 'array');
    never_null CONSTANT boolean := operator IN ('$lt', '$lte', '$gt', '$gte', '$between')
        OR (operator IN ('$contains', '$any', '$all') AND field = 'text');
BEGIN
    IF operator IN ('$exists', '$is_empty') THEN
        RETURN CASE WHEN given <> 'boolean' THEN 'true or false' END;
    ELSIF operator IN ('$like', '$ilike', '$text_match', '$text_match_insensitive') THEN
        RETURN CASE WHEN given <> 'string' THEN 'a string'
                    -- LIKE itself would raise, and only on some rows: it recurses for every %, and ends at a lone backslash.
                    WHEN operator IN ('$like', '$ilike') AND length(operand #>> '{}') > 1000 THEN 'a pattern of at most 1000 characters'
                    WHEN operator IN ('$like', '$ilike') AND (length(operand #>> '{}') - length(rtrim(operand #>> '{}', '\'))) % 2 = 1
                    THEN 'a pattern in which a backslash escapes the next character' END;
    ELSIF list AND given <> 'array' THEN
        RETURN 'a list';
    ELSIF NOT list AND given IN ('array', 'object') THEN
        RETURN value;
    ELSIF EXISTS (SELECT FROM filter_items(operand) AS i(item)
                  WHERE NOT filter_scalar_fits(field, item) OR (never_null AND jsonb_typeof(item) = 'null')
                     OR (operator IN ('$lt', '$lte', '$gt', '$gte', '$between') AND jsonb_typeof(item) = 'boolean')) THEN
        RETURN CASE WHEN never_null AND field = 'json' THEN 'a number or a string' ELSE value END;
    ELSIF operator = '$between' AND (jsonb_array_length(operand) <> 2 OR jsonb_typeof(operand -> 0) <> jsonb_typeof(operand -> 1)) THEN
        RETURN 'a list of two bounds of one type, lowest first';
    END IF;
    RETURN NULL;
END
$_$;

ALTER FUNCTION lore.filter_operand_problem(field text, operator text, operand jsonb) OWNER TO lore_owner;

--
-- Name: filter_scalar_fits(text, jsonb); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.filter_scalar_fits(field text, value jsonb) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $$
    SELECT CASE jsonb_typeof(value)
               WHEN 'null' THEN true
               WHEN 'string' THEN field IN ('json', 'text') OR (field = 'time' AND filter_time(value #>> '{}') IS NOT NULL)
               WHEN 'boolean' THEN field IN ('json', 'boolean')
               WHEN 'number' THEN field = 'json'
               ELSE false
           END
    $$;

ALTER FUNCTION lore.filter_scalar_fits(field text, value jsonb) OWNER TO lore_owner;

--
-- Name: filter_system_condition(lore.filter_program, text, text, text, jsonb); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.filter_system_condition(program lore.filter_program, key text, field text, operator text, operand jsonb) RETURNS lore.filter_program
    LANGUAGE plpgsql STABLE
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $_$
DECLARE
    own CONSTANT text := filter_column(key);
    given CONSTANT jsonb[] := ARRAY(SELECT item FROM filter_items(operand) AS i(item) WHERE item <> 'null');
    or_unset CONSTANT text := CASE WHEN operator IN ('$eq', '$in') AND cardinality(given) < (SELECT count(*) FROM filter_items(operand))
                                   THEN ' OR %1$s IS NULL' ELSE '' END;
    bound CONSTANT text := CASE field WHEN 'time' THEN '($3)' ELSE '($1)' END;
    first CONSTANT integer := cardinality(CASE field WHEN 'time' THEN program.times::text[] ELSE program.texts END) + 1;
    test CONSTANT text := CASE
        WHEN operator = '$exists' THEN '(%1$s IS NOT NULL)'
        WHEN operator = '$is_empty' AND field = 'text' THEN 'coalesce(%1$s = '''', true)'
        WHEN operator = '$is_empty' THEN '(%1$s IS NULL)'
        WHEN field = 'boolean' THEN '(' || CASE WHEN 'true' = ANY (given) THEN '%1$s IS TRUE' ELSE 'false' END
            || CASE WHEN 'false' = ANY (given) THEN ' OR %1$s IS FALSE' ELSE '' END || or_unset || ')'
        WHEN operator IN ('$eq', '$in') THEN '(%1$s IS NOT NULL AND %1$s = ANY (' || bound || '[%2$s:%3$s])' || or_unset || ')'
        WHEN operator = '$lt' THEN '(%1$s IS NOT NULL AND %1$s < ' || bound || '[%2$s])'
        WHEN operator = '$lte' THEN '(%1$s IS NOT NULL AND %1$s <= ' || bound || '[%2$s])'
        WHEN operator = '$gt' THEN '(%1$s IS NOT NULL AND %1$s > ' || bound || '[%2$s])'
        WHEN operator = '$gte' THEN '(%1$s IS NOT NULL AND %1$s >= ' || bound || '[%2$s])'
        WHEN operator = '$between' THEN '(%1$s IS NOT NULL AND %1$s BETWEEN ' || bound || '[%2$s] AND ' || bound || '[%3$s])'
    END;
BEGIN
    IF field = 'text' AND operator NOT IN ('$exists', '$is_empty', '$eq', '$in') THEN
        RETURN filter_text_test(program, own || ' IS NOT NULL', '(' || own || ' COLLATE "C")', operator, operand);
    ELSIF field = 'time' THEN
        program.times := program.times || ARRAY(SELECT filter_time(item #>> '{}') FROM unnest(given) AS i(item));
    ELSE
        program.texts := program.texts || ARRAY(SELECT item #>> '{}' FROM unnest(given) AS i(item));
    END IF;
    program.condition := format(test, own, first, first + cardinality(given) - 1);
    RETURN program;
END
$_$;

ALTER FUNCTION lore.filter_system_condition(program lore.filter_program, key text, field text, operator text, operand jsonb) OWNER TO lore_owner;

--
-- Name: filter_text_test(lore.filter_program, text, text, text, jsonb); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.filter_text_test(program lore.filter_program, guard text, subject text, operator text, operand jsonb) RETURNS lore.filter_program
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $_$
DECLARE
    first CONSTANT integer := cardinality(program.texts) + 1;
    folded CONSTANT text := 'lower(%1$s COLLATE "default") COLLATE "C"';
    test CONSTANT text := CASE operator
        WHEN '$lt' THEN '%1$s < ($1)[%2$s]'
        WHEN '$lte' THEN '%1$s <= ($1)[%2$s]'
        WHEN '$gt' THEN '%1$s > ($1)[%2$s]'
        WHEN '$gte' THEN '%1$s >= ($1)[%2$s]'
        WHEN '$between' THEN '%1$s BETWEEN ($1)[%2$s] AND ($1)[%3$s]'
        WHEN '$like' THEN '%1$s LIKE ($1)[%2$s]'
        WHEN '$ilike' THEN folded || ' LIKE lower(($1)[%2$s])'
        WHEN '$text_match' THEN 'strpos(%1$s, ($1)[%2$s]) > 0'
        WHEN '$text_match_insensitive' THEN 'strpos(' || folded || ', lower(($1)[%2$s])) > 0'
        WHEN '$contains' THEN 'strpos(%1$s, ($1)[%2$s]) > 0'
        WHEN '$any' THEN 'EXISTS (SELECT FROM unnest(($1)[%2$s:%3$s]) AS i(item) WHERE strpos(%1$s, item) > 0)'
        WHEN '$all' THEN 'NOT EXISTS (SELECT FROM unnest(($1)[%2$s:%3$s]) AS i(item) WHERE strpos(%1$s, item) = 0)'
    END;
BEGIN
    program.texts := program.texts || ARRAY(SELECT item #>> '{}' FROM filter_items(operand) AS i(item) WHERE jsonb_typeof(item) = 'string');
    program.condition := format('CASE WHEN %s THEN %s ELSE false END', guard,
                                format(test, subject, first, cardinality(program.texts)));
    RETURN program;
END
$_$;

ALTER FUNCTION lore.filter_text_test(program lore.filter_program, guard text, subject text, operator text, operand jsonb) OWNER TO lore_owner;

--
-- Name: filter_time(text); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.filter_time(value text) RETURNS timestamp with time zone
    LANGUAGE plpgsql STABLE
    SET search_path TO 'lore', 'public', 'pg_temp'
    SET "TimeZone" TO 'UTC'
    AS $_$
BEGIN
    IF value !~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,6})?)?(Z|[+-](0[0-9]|1[0-5])(:?[0-5][0-9])?)?)?$' THEN
        RETURN NULL;
    END IF;
    RETURN value::timestamptz;
EXCEPTION WHEN datetime_field_overflow OR invalid_datetime_format THEN
    RETURN NULL;  -- the 30th of February
END
$_$;

ALTER FUNCTION lore.filter_time(value text) OWNER TO lore_owner;

--
-- Name: folded_name(text); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.folded_name(name text) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $$ SELECT btrim(regexp_replace(lower(unaccent('unaccent'::regdictionary, folded_text(name))), '[^[:alnum:]+#]+', ' ', 'g')) $$;

ALTER FUNCTION lore.folded_name(name text) OWNER TO lore_owner;

--
-- Name: folded_text(text); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.folded_text(content text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT CASE WHEN octet_length(content) = length(content) THEN content ELSE normalize(content, NFKC) END $$;

ALTER FUNCTION lore.folded_text(content text) OWNER TO lore_owner;

--
-- Name: forget_user(text, text); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.forget_user(in_org text, of_user text) RETURNS TABLE(place text, rows bigint)
    LANGUAGE plpgsql
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    gone bigint[];
    names text[];
    voted bigint[];
    had_shared boolean;
BEGIN
    SELECT coalesce(array_agg(m.key), '{}'), coalesce(array_agg(m.id), '{}'), coalesce(bool_or(m.visibility = 'shared'), false)
    INTO gone, names, had_shared
    FROM (SELECT i.key, i.id, i.visibility FROM memories AS i WHERE i.org = in_org AND i.owner = of_user ORDER BY i.key FOR UPDATE) AS m;
    place := 'windows';
    SELECT count(*) INTO rows FROM windows AS w WHERE w.org = in_org AND w.key = ANY (gone);
    RETURN NEXT;
    place := 'vectors';
    SELECT count(*) INTO rows FROM vectors AS v WHERE v.org = in_org AND v.key = ANY (gone);
    RETURN NEXT;
    place := 'history';
    SELECT count(*) INTO rows FROM history AS h WHERE h.org = in_org AND h.key = ANY (gone);
    RETURN NEXT;
    place := 'aliases';
    SELECT count(*) INTO rows FROM aliases AS a WHERE a.org = in_org AND a.key = ANY (gone);
    RETURN NEXT;
    place := 'votes received';
    SELECT count(*) INTO rows FROM feedback AS f WHERE f.org = in_org AND f.key = ANY (gone);
    RETURN NEXT;
    place := 'memories';
    DELETE FROM memories AS m WHERE m.org = in_org AND m.owner = of_user;
    GET DIAGNOSTICS rows = ROW_COUNT;
    RETURN NEXT;

    place := 'votes given';
    voted := ARRAY(SELECT DISTINCT f.key FROM feedback AS f WHERE f.org = in_org AND f.voter = of_user ORDER BY 1);
    PERFORM FROM reinforcement AS r WHERE r.org = in_org AND r.key = ANY (voted) ORDER BY r.key FOR UPDATE;
    DELETE FROM feedback AS f WHERE f.org = in_org AND f.voter = of_user;
    GET DIAGNOSTICS rows = ROW_COUNT;
    RETURN NEXT;
    UPDATE reinforcement AS r
    SET useful = c.useful, misleading = c.misleading, multiplier = c.multiplier, refreshed_at = now()
    FROM (SELECT v.key, n.* FROM unnest(voted) AS v(key) CROSS JOIN LATERAL counted_votes(in_org, v.key) AS n) AS c
    WHERE r.org = in_org AND r.key = c.key;

    place := 'names given to the organisation';
    UPDATE aliases AS a SET owner = '' WHERE a.org = in_org AND a.owner = of_user;
    GET DIAGNOSTICS rows = ROW_COUNT;
    RETURN NEXT;
    place := 'mentions as successor';
    WITH pointing AS (
        UPDATE memories AS m SET superseded_by = NULL
        WHERE m.org = in_org AND m.superseded_by = ANY (names)
          AND NOT EXISTS (SELECT FROM memories AS o WHERE o.org = in_org AND o.id = m.superseded_by)
        RETURNING 1
    ), remembered AS (
        UPDATE history AS h SET superseded_by = NULL
        WHERE h.org = in_org AND h.superseded_by = ANY (names)
          AND NOT EXISTS (SELECT FROM memories AS o WHERE o.org = in_org AND o.id = h.superseded_by)
        RETURNING 1
    )
    SELECT (SELECT count(*) FROM pointing) + (SELECT count(*) FROM remembered) INTO rows;
    RETURN NEXT;

    place := 'statistics';
    DELETE FROM terms AS t WHERE t.org = in_org AND t.owner = of_user;
    GET DIAGNOSTICS rows = ROW_COUNT;
    RETURN NEXT;
    DELETE FROM scope_statistics AS s WHERE s.org = in_org AND s.owner = of_user;
    IF had_shared THEN
        PERFORM count_part(in_org, '', 0);
    END IF;
END
$$;

ALTER FUNCTION lore.forget_user(in_org text, of_user text) OWNER TO lore_owner;

--
-- Name: fusion(); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.fusion() RETURNS lore.fusion_config
    LANGUAGE plpgsql STABLE PARALLEL SAFE
    SET search_path TO 'lore', 'public', 'pg_temp'
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

ALTER FUNCTION lore.fusion() OWNER TO lore_owner;

--
-- Name: has_unsplit_script(text); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.has_unsplit_script(content text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT octet_length(content) > length(content)
          AND content ~ '[\u0e00-\u0e7f\u1100-\u11ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]' $$;

ALTER FUNCTION lore.has_unsplit_script(content text) OWNER TO lore_owner;

--
-- Name: holders_of_common_words(lore.query_stem[], lore.query_stem[], integer, integer); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.holders_of_common_words(proposing lore.query_stem[], stems lore.query_stem[], most integer, pool integer) RETURNS bigint[]
    LANGUAGE plpgsql STABLE
    SET search_path TO 'lore', 'public', 'pg_temp'
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

ALTER FUNCTION lore.holders_of_common_words(proposing lore.query_stem[], stems lore.query_stem[], most integer, pool integer) OWNER TO lore_owner;

--
-- Name: identifier_parts(text[]); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.identifier_parts(names text[]) RETURNS text[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $_$
    SELECT coalesce(array_agg(DISTINCT part), '{}')
    FROM unnest(names) AS name, regexp_split_to_table(name, '[/:@#\\?&=%+~]+') AS part
    WHERE part <> name AND length(part) >= 6 AND part !~ '^[[:digit:]]+$' AND is_identifier(part)
    $_$;

ALTER FUNCTION lore.identifier_parts(names text[]) OWNER TO lore_owner;

--
-- Name: identifiers_of(text); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.identifiers_of(content text) RETURNS text[]
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $$
DECLARE
    -- Every identifier stands in a piece between spaces that carries one of these marks; most words of prose carry none.
    -- A loop, since a query over sets of unknown size makes and clears hash tables for each text, which took four times as
    -- long.
    marked CONSTANT text := (
        SELECT string_agg(piece[1], ' ')
        FROM regexp_matches(folded_text(content), '\S*(?:[0-9_/@#.~:]|[[:lower:]][[:upper:]]|[[:upper:]]{2}[[:lower:]]{2}|-\S*-)\S*', 'g') AS piece);
    token text;
    part text;
    names text[] := '{}';
BEGIN
    IF marked IS NULL THEN
        RETURN names;
    END IF;
    FOR token IN SELECT DISTINCT t FROM tokens_as_typed(marked) AS t LOOP
        CONTINUE WHEN token !~ '[0-9_/@#.~:]|[[:lower:]][[:upper:]]|[[:upper:]]{2}[[:lower:]]{2}|-.*-' OR NOT is_identifier(token);
        names := names || lower(token);
        FOREACH part IN ARRAY
            CASE WHEN token ~ '[/:@#\\?&=%+~]' THEN regexp_split_to_array(token, '[/:@#\\?&=%+~]+') ELSE '{}' END
            || CASE WHEN token ~ '[^[:alnum:]-]' THEN regexp_split_to_array(token, '[^[:alnum:]-]+') ELSE '{}' END
            || CASE WHEN token ~ '[^[:alnum:]]' THEN regexp_split_to_array(token, '[^[:alnum:]]+') ELSE '{}' END LOOP
            IF is_identifier(part) THEN
                names := names || lower(part);
            END IF;
        END LOOP;
    END LOOP;
    RETURN CASE WHEN cardinality(names) < 2 THEN names
                ELSE ARRAY(SELECT DISTINCT name FROM unnest(names) AS name ORDER BY name LIMIT 2000) END;
END
$$;

ALTER FUNCTION lore.identifiers_of(content text) OWNER TO lore_owner;

--
-- Name: indexed_chars(text, text); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.indexed_chars(config text, content text) RETURNS integer
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $$
DECLARE
    chars integer := length(content);
BEGIN
    WHILE chars > 60000 LOOP
        BEGIN
            PERFORM text_vector(config, left(content, chars), true);
            RETURN chars;
        EXCEPTION WHEN program_limit_exceeded THEN
            chars := greatest(60000, chars / 3);
        END;
    END LOOP;
    RETURN chars;
END
$$;

ALTER FUNCTION lore.indexed_chars(config text, content text) OWNER TO lore_owner;

--
-- Name: is_identifier(text); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.is_identifier(token text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $_$
    SELECT length(token) BETWEEN 3 AND 256
       AND (   (token ~ '[[:digit:]]' AND token ~ '[[:alpha:]_@./-]' AND token !~* '^[[:digit:]]+(st|nd|rd|th|s|x)$')
            OR token ~ '^[[:digit:]]{4,}$'
            OR token ~ '[[:alnum:]](_|::)[[:alnum:]]'
            OR token ~ '[[:alpha:]]{2,}\.[[:alpha:]]{2,}'
            OR token ~ '^[@#/~]'
            OR token ~ '/.+/'
            OR token ~ '@[[:alnum:]]'
            OR token ~ '[[:lower:]][[:upper:]]|[[:upper:]]{2}[[:lower:]]{2}'
            OR token ~ '[[:alnum:]]-[[:alnum:]]+-[[:alnum:]]')
    $_$;

ALTER FUNCTION lore.is_identifier(token text) OWNER TO lore_owner;

--
-- Name: marked_window(text, integer, integer[], integer[], text[], double precision[]); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.marked_window(content text, content_length integer, starts integer[], ends integer[], marks text[], weights double precision[]) RETURNS integer
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path TO 'lore', 'public', 'pg_temp'
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

ALTER FUNCTION lore.marked_window(content text, content_length integer, starts integer[], ends integer[], marks text[], weights double precision[]) OWNER TO lore_owner;

--
-- Name: memory_identifiers(text, text); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.memory_identifiers(id text, content text) RETURNS text[]
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $_$
DECLARE
    names CONSTANT text[] := identifiers_of(content);
BEGIN
    IF id !~ '[^[:alnum:]_-]' THEN  -- one part: the way without a query
        RETURN CASE WHEN id !~ '^[[:digit:]]+$' AND is_identifier(id) THEN names || lower(id) ELSE names END;
    END IF;
    RETURN names || ARRAY(
        SELECT DISTINCT lower(part)
        FROM unnest(id || regexp_split_to_array(id, '[/:@#\\?&=%+~]+') || regexp_split_to_array(id, '[^[:alnum:]_-]+')) AS part
        WHERE part !~ '^[[:digit:]]+$' AND is_identifier(part)
        ORDER BY 1);
END
$_$;

ALTER FUNCTION lore.memory_identifiers(id text, content text) OWNER TO lore_owner;

--
-- Name: memory_vector(text, text); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.memory_vector(config text, content text) RETURNS tsvector
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $$
DECLARE
    head CONSTANT tsvector := text_vector(config, left(content, 200), true);
BEGIN
    IF length(content) <= 200 THEN
        RETURN setweight(head, 'A');
    END IF;
    RETURN setweight(
        text_vector(config, CASE WHEN length(content) <= 60000 THEN content ELSE left(content, indexed_chars(config, content)) END, true),
        'A', tsvector_to_array(head));
END
$$;

ALTER FUNCTION lore.memory_vector(config text, content text) OWNER TO lore_owner;

--
-- Name: names_in(text); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.names_in(folded_query text) RETURNS text[]
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$
    WITH words AS (SELECT (string_to_array(folded_query, ' '))[1:64] AS w)
    SELECT coalesce(array_agg(DISTINCT array_to_string(w[i : i + n - 1], ' ')), '{}')
    FROM words, generate_series(1, cardinality(w)) AS i, generate_series(1, 5) AS n
    WHERE i + n - 1 <= cardinality(w)
    $$;

ALTER FUNCTION lore.names_in(folded_query text) OWNER TO lore_owner;

--
-- Name: newest_holders(tsquery, text[], real, integer); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.newest_holders(wanted tsquery, stems text[], least_closeness real, most integer) RETURNS bigint[]
    LANGUAGE plpgsql STABLE
    SET search_path TO 'lore', 'public', 'pg_temp'
    SET enable_bitmapscan TO 'off'
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

ALTER FUNCTION lore.newest_holders(wanted tsquery, stems text[], least_closeness real, most integer) OWNER TO lore_owner;

--
-- Name: part_of(text, text); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.part_of(owner text, visibility text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT CASE visibility WHEN 'shared' THEN '' ELSE owner END $$;

ALTER FUNCTION lore.part_of(owner text, visibility text) OWNER TO lore_owner;

--
-- Name: query_identifiers(text); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.query_identifiers(query_text text) RETURNS text[]
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $_$
DECLARE
    only_token CONSTANT text := CASE WHEN length(query_text) <= 300 THEN btrim(query_text) END;
BEGIN
    RETURN (
        SELECT coalesce(array_agg(DISTINCT found.name), '{}')
        FROM (SELECT lower(token) AS name
              FROM tokens_as_typed(folded_text(query_text)) AS token
              WHERE (token ~ '[0-9_/@#.~:]|[[:lower:]][[:upper:]]|[[:upper:]]{2}[[:lower:]]{2}|-.*-' AND is_identifier(token)  -- the sieve of identifiers_of
                     AND token !~ '^[[:digit:]]+[[:alpha:]]{1,3}$')  -- in a sentence "15m" and "5xx" are quantities
                 OR (length(token) >= 3 AND only_token = token)
              LIMIT 16) AS found);
END
$_$;

ALTER FUNCTION lore.query_identifiers(query_text text) OWNER TO lore_owner;

--
-- Name: read_stems(text, bigint, lore.fusion_config); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.read_stems(query_text text, memories_in_scope bigint, config lore.fusion_config) RETURNS lore.query_stem[]
    LANGUAGE plpgsql STABLE
    SET search_path TO 'lore', 'public', 'pg_temp'
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

ALTER FUNCTION lore.read_stems(query_text text, memories_in_scope bigint, config lore.fusion_config) OWNER TO lore_owner;

--
-- Name: rebuild_statistics(); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.rebuild_statistics() RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $$
DECLARE
    part record;
    parts integer := 0;
BEGIN
    DELETE FROM terms AS t WHERE NOT EXISTS (SELECT FROM memories AS m WHERE m.org = t.org AND part_of(m.owner, m.visibility) = t.owner);
    DELETE FROM scope_statistics AS s
    WHERE NOT EXISTS (SELECT FROM memories AS m WHERE m.org = s.org AND part_of(m.owner, m.visibility) = s.owner);
    FOR part IN SELECT DISTINCT m.org, part_of(m.owner, m.visibility) AS owner FROM memories AS m ORDER BY 1, 2 LOOP
        PERFORM pg_advisory_xact_lock(statistics_lock(part.org, part.owner));
        PERFORM count_part(part.org, part.owner, 0);
        parts := parts + 1;
    END LOOP;
    RETURN parts;
END
$$;

ALTER FUNCTION lore.rebuild_statistics() OWNER TO lore_owner;

--
-- Name: recall(text[], public.halfvec[], integer, jsonb, text[], timestamp with time zone); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.recall(query_texts text[], query_embeddings public.halfvec[] DEFAULT NULL::public.halfvec[], k integer DEFAULT 10, filter jsonb DEFAULT NULL::jsonb, kinds text[] DEFAULT NULL::text[], as_of timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS TABLE(id text, owner text, visibility text, kind text, content_excerpt text, truncated boolean, full_length integer, excerpt_start integer, excerpt_end integer, score double precision, relevance double precision, recency double precision, reinforcement double precision, vector_rank bigint, exact_rank bigint, relaxed_rank bigint, alias_rank bigint, similarity double precision, exact_score double precision, relaxed_score double precision, alias text, created_at timestamp with time zone, updated_at timestamp with time zone, metadata jsonb, pinned boolean, coverage double precision, query_no integer, omitted bigint)
    LANGUAGE plpgsql STABLE ROWS 10
    SET search_path TO 'lore', 'public', 'pg_temp'
    SET jit TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_nestloop TO 'off'
    SET enable_bitmapscan TO 'off'
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

ALTER FUNCTION lore.recall(query_texts text[], query_embeddings public.halfvec[], k integer, filter jsonb, kinds text[], as_of timestamp with time zone) OWNER TO lore_owner;

--
-- Name: refresh_reinforcement(); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.refresh_reinforcement() RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $$
DECLARE
    changed integer;
BEGIN
    INSERT INTO reinforcement (org, key, multiplier, useful, misleading)
    SELECT DISTINCT f.org, f.key, 1::double precision, 0, 0 FROM feedback AS f
    WHERE f.created_at > now() - interval '90 days'
    ORDER BY 1, 2
    ON CONFLICT (org, key) DO NOTHING;
    PERFORM FROM reinforcement AS r ORDER BY r.org, r.key FOR UPDATE;
    UPDATE reinforcement AS r
    SET useful = c.useful, misleading = c.misleading, multiplier = c.multiplier, refreshed_at = now()
    FROM (SELECT i.org, i.key, v.* FROM reinforcement AS i CROSS JOIN LATERAL counted_votes(i.org, i.key) AS v) AS c
    WHERE r.org = c.org AND r.key = c.key AND (r.useful, r.misleading, r.multiplier) IS DISTINCT FROM (c.useful, c.misleading, c.multiplier);
    GET DIAGNOSTICS changed = ROW_COUNT;
    DELETE FROM reinforcement AS r WHERE r.useful = 0 AND r.misleading = 0;
    RETURN changed;
END
$$;

ALTER FUNCTION lore.refresh_reinforcement() OWNER TO lore_owner;

--
-- Name: refresh_statistics(); Type: FUNCTION; Schema: lore; Owner: lore_service
--

CREATE FUNCTION lore.refresh_statistics() RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $$
DECLARE
    v_org CONSTANT text := scope_org();
    v_part text;
    known scope_statistics;
    fresh integer;
    threshold integer;
    refreshed boolean := false;
BEGIN
    IF v_org IS NULL OR scope_user() IS NULL THEN
        RETURN false;
    END IF;
    FOREACH v_part IN ARRAY ARRAY['', scope_user()] LOOP
        SELECT s.* INTO known FROM scope_statistics AS s WHERE s.org = v_org AND s.owner = v_part;
        -- A small part is counted after every write, so that its newest word is known to the spelling at once.
        threshold := least(5000, greatest(1, coalesce(known.memories, 0) / 1000));
        SELECT count(*) INTO fresh
        FROM (SELECT FROM memories AS m
              WHERE m.org = v_org AND m.key > coalesce(known.last_key, 0) AND part_of(m.owner, m.visibility) = v_part
              LIMIT threshold) AS counted;
        CONTINUE WHEN fresh < threshold;
        -- Whoever comes second leaves the work to the first.
        CONTINUE WHEN NOT pg_try_advisory_xact_lock(statistics_lock(v_org, v_part));
        -- Read again under the lock: whoever held it may just have counted these rows.
        SELECT s.* INTO known FROM scope_statistics AS s WHERE s.org = v_org AND s.owner = v_part;
        PERFORM count_part(v_org, v_part, coalesce(known.last_key, 0));
        refreshed := true;
    END LOOP;
    RETURN refreshed;
END
$$;

ALTER FUNCTION lore.refresh_statistics() OWNER TO lore_service;

--
-- Name: reinforced(bigint, bigint); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.reinforced(useful bigint, misleading bigint) RETURNS double precision
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT least(1.4, greatest(0.5, 1 + 0.15 * ln((1 + useful)::double precision) - 0.25 * ln((1 + misleading)::double precision))) $$;

ALTER FUNCTION lore.reinforced(useful bigint, misleading bigint) OWNER TO lore_owner;

--
-- Name: relaxed_leg(text, integer, bigint[], lore.fusion_config); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.relaxed_leg(query_text text, pool integer, allowed bigint[], config lore.fusion_config) RETURNS SETOF lore.relaxed_match
    LANGUAGE plpgsql STABLE ROWS 40
    SET search_path TO 'lore', 'public', 'pg_temp'
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

ALTER FUNCTION lore.relaxed_leg(query_text text, pool integer, allowed bigint[], config lore.fusion_config) OWNER TO lore_owner;

--
-- Name: require_caller(lore.caller, text); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.require_caller(known lore.caller, credential text) RETURNS lore.caller
    LANGUAGE plpgsql STABLE PARALLEL SAFE
    AS $$
DECLARE
    asked_org CONSTANT text := nullif(current_setting('lore.org_id', true), '');
    asked_user CONSTANT text := nullif(current_setting('lore.user_id', true), '');
BEGIN
    IF asked_org <> known.org OR asked_user <> known.user_name
       OR (known.org IS NULL OR known.user_name IS NULL) AND (asked_org IS NOT NULL OR asked_user IS NOT NULL) THEN
        RAISE EXCEPTION '% speaks for %, not for % of %', credential,
            CASE WHEN known.org IS NULL OR known.user_name IS NULL THEN 'nobody here' ELSE format('%s of %s', known.user_name, known.org) END,
            coalesce(asked_user, 'anybody'), coalesce(asked_org, 'any organisation')
            USING ERRCODE = 'insufficient_privilege', CONSTRAINT = 'lore_identity';
    END IF;
    RETURN known;
END
$$;

ALTER FUNCTION lore.require_caller(known lore.caller, credential text) OWNER TO lore_owner;

--
-- Name: role_caller(); Type: FUNCTION; Schema: lore; Owner: lore_search
--

CREATE FUNCTION lore.role_caller() RETURNS lore.caller
    LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $$
DECLARE
    known caller;
BEGIN
    SELECT i.org, i.user_name INTO known FROM role_identities AS i WHERE i.role_name = session_user;
    RETURN require_caller(known, format('the login role %I', session_user));
END
$$;

ALTER FUNCTION lore.role_caller() OWNER TO lore_search;

--
-- Name: scope_org(); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.scope_org() RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN NULLIF(current_setting('lore.org_id'::text, true), ''::text);

ALTER FUNCTION lore.scope_org() OWNER TO lore_owner;

--
-- Name: scope_size(); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.scope_size(OUT memories bigint, OUT mean_length double precision) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'lore', 'public', 'pg_temp'
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

ALTER FUNCTION lore.scope_size(OUT memories bigint, OUT mean_length double precision) OWNER TO lore_owner;

--
-- Name: scope_user(); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.scope_user() RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN NULLIF(current_setting('lore.user_id'::text, true), ''::text);

ALTER FUNCTION lore.scope_user() OWNER TO lore_owner;

--
-- Name: search_text(text, boolean); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.search_text(content text, ending boolean) RETURNS text
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $$
DECLARE
    folded text := folded_text(content);
    words text := split_compounds(folded) || ' ' || compound_forms(folded);
BEGIN
    RETURN CASE WHEN has_unsplit_script(words) THEN unsplit_bigrams(words, ending) ELSE words END;
END
$$;

ALTER FUNCTION lore.search_text(content text, ending boolean) OWNER TO lore_owner;

--
-- Name: embedding_space; Type: TABLE; Schema: lore; Owner: lore_owner
--

CREATE TABLE lore.embedding_space (
    space smallint NOT NULL,
    model text NOT NULL,
    revision text NOT NULL,
    dimensions integer NOT NULL,
    state text NOT NULL,
    centre smallint,
    evidence jsonb,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    left_at timestamp with time zone,
    CONSTRAINT embedding_space_dimensions_check CHECK (((dimensions >= 1) AND (dimensions <= 16000))),
    CONSTRAINT embedding_space_state_check CHECK ((state = ANY (ARRAY['active'::text, 'building'::text, 'kept'::text, 'dropped'::text])))
);

ALTER TABLE lore.embedding_space OWNER TO lore_owner;

--
-- Name: searched_space(); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.searched_space() RETURNS lore.embedding_space
    LANGUAGE plpgsql STABLE PARALLEL SAFE
    SET search_path TO 'lore', 'public', 'pg_temp'
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

ALTER FUNCTION lore.searched_space() OWNER TO lore_owner;

--
-- Name: similar_stems(text, double precision); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.similar_stems(stem text, least_similarity double precision) RETURNS TABLE(near text, similarity double precision, df bigint)
    LANGUAGE plpgsql STABLE ROWS 3
    SET search_path TO 'lore', 'public', 'pg_temp'
    SET "pg_trgm.similarity_threshold" TO '0.3'
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

ALTER FUNCTION lore.similar_stems(stem text, least_similarity double precision) OWNER TO lore_owner;

--
-- Name: sort_in(); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.sort_in() RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $$
BEGIN
    PERFORM gin_clean_pending_list(i.indexrelid)
    FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid JOIN pg_am AS a ON a.oid = c.relam
    WHERE i.indrelid = 'memories'::regclass AND a.amname = 'gin';
END
$$;

ALTER FUNCTION lore.sort_in() OWNER TO lore_owner;

--
-- Name: split_compounds(text); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.split_compounds(content text) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT regexp_replace(content, '(?<=[[:alnum:]])[-_./:@#\\=+~]+(?=[[:alnum:]])', ' ', 'g') $$;

ALTER FUNCTION lore.split_compounds(content text) OWNER TO lore_owner;

--
-- Name: statistics_lock(text, text); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.statistics_lock(of_org text, part text) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$ SELECT hashtextextended(concat_ws(E'\x01', 'lore statistics', current_schema(), of_org, part), 0) $$;

ALTER FUNCTION lore.statistics_lock(of_org text, part text) OWNER TO lore_owner;

--
-- Name: stem_query(text); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.stem_query(stem text) RETURNS tsquery
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT ('''' || replace(replace(stem, '\', '\\'), '''', '''''') || ''''
            || CASE WHEN length(stem) = 1 AND octet_length(stem) > 2 THEN ':*' ELSE '' END)::tsquery
    $$;

ALTER FUNCTION lore.stem_query(stem text) OWNER TO lore_owner;

--
-- Name: text_hash(text); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.text_hash(content text) RETURNS bytea
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT sha256(convert_to(content, 'UTF8')) $$;

ALTER FUNCTION lore.text_hash(content text) OWNER TO lore_owner;

--
-- Name: text_vector(text, text, boolean); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.text_vector(config text, content text, ending boolean) RETURNS tsvector
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $$
DECLARE
    words text := search_text(content, ending);
BEGIN
    IF config LIKE '%+unaccent' THEN
        RETURN to_tsvector(split_part(config, '+', 1)::regconfig, unaccent('unaccent'::regdictionary, words));
    END IF;
    RETURN to_tsvector(config::regconfig, words);
END
$$;

ALTER FUNCTION lore.text_vector(config text, content text, ending boolean) OWNER TO lore_owner;

--
-- Name: token_caller(text[], text[], text); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.token_caller(org_claim text[], user_claim text[], for_audience text) RETURNS lore.caller
    LANGUAGE plpgsql STABLE PARALLEL SAFE
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $$
DECLARE
    claims CONSTANT jsonb := token_claims(for_audience);
BEGIN
    RETURN require_caller(ROW(nullif(claims #>> org_claim, ''), nullif(claims #>> user_claim, ''))::caller,
                          CASE WHEN claims IS NULL THEN 'a transaction without a token' ELSE 'the token' END);
END
$$;

ALTER FUNCTION lore.token_caller(org_claim text[], user_claim text[], for_audience text) OWNER TO lore_owner;

--
-- Name: token_claims(text); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.token_claims(for_audience text) RETURNS jsonb
    LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $$
DECLARE
    token CONSTANT text := nullif(current_setting('lore.token', true), '');
    message CONSTANT bytea := convert_to(split_part(token, '.', 1) || '.' || split_part(token, '.', 2), 'UTF8');
    signature CONSTANT text := split_part(token, '.', 3);
    signed bytea;
    is_known boolean := false;
    claims jsonb;
    at CONSTANT numeric := extract(epoch FROM statement_timestamp());
    wrong text;
BEGIN
    IF token IS NULL THEN
        RETURN NULL;
    END IF;
    IF split_part(token, '.', 4) = '' AND length(signature) = 43 AND signature !~ '[^A-Za-z0-9_-]' AND length(token) <= 16384 THEN
        signed := decode(translate(signature, '-_', '+/') || '=', 'base64');
        -- Hashed once more before they are compared, so that the time taken tells nothing of how far they agree.
        SELECT coalesce(bool_or(sha256(k.outer_pad || sha256(k.outer_pad || sha256(k.inner_pad || message))) = sha256(k.outer_pad || signed)), false)
        INTO is_known FROM token_keys AS k;
    END IF;
    IF NOT is_known THEN
        wrong := 'is not signed by a key of this store';
    ELSIF decoded_part(split_part(token, '.', 1)) ->> 'alg' IS DISTINCT FROM 'HS256' THEN
        wrong := 'does not say that it is signed by HS256';
    ELSE
        claims := decoded_part(split_part(token, '.', 2));
        IF jsonb_typeof(claims -> 'exp') IS DISTINCT FROM 'number' THEN
            wrong := 'has no time at which it ends (exp)';
        ELSIF (claims ->> 'exp')::numeric <= at THEN
            wrong := 'has expired';
        -- clocks differ by up to a minute
        ELSIF claims ? 'nbf' AND (jsonb_typeof(claims -> 'nbf') <> 'number' OR (claims ->> 'nbf')::numeric > at + 60) THEN
            wrong := 'does not hold yet';
        ELSIF for_audience IS NOT NULL AND NOT coalesce(claims -> 'aud' @> to_jsonb(for_audience), false) THEN
            wrong := format('is not meant for %s', for_audience);
        END IF;
    END IF;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'the token %', wrong USING ERRCODE = 'insufficient_privilege', CONSTRAINT = 'lore_identity';
    END IF;
    RETURN claims;
END
$$;

ALTER FUNCTION lore.token_claims(for_audience text) OWNER TO lore_owner;

--
-- Name: tokens_as_typed(text); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.tokens_as_typed(content text) RETURNS SETOF text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$
    SELECT found[1]
    FROM regexp_matches(
        CASE WHEN has_unsplit_script(content) THEN regexp_replace(content, '[\u0e00-\u0e7f\u1100-\u11ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+', ' ', 'g') ELSE content END,
        '([@#/~]?[[:alnum:]]+(?:[-_./:@\\+~#=?&%]+[[:alnum:]]+)*)', 'g') AS found
    $$;

ALTER FUNCTION lore.tokens_as_typed(content text) OWNER TO lore_owner;

--
-- Name: unsplit_bigrams(text, boolean); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.unsplit_bigrams(content text, ending boolean) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$
    SELECT string_agg(CASE WHEN run.found[1] IS NULL THEN run.found[2] ELSE ' ' || pairs.joined || ' ' END, '' ORDER BY run.n)
    FROM regexp_matches(content,
             '([\u0e00-\u0e7f\u1100-\u11ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+)|([^\u0e00-\u0e7f\u1100-\u11ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+)',
             'g') WITH ORDINALITY AS run(found, n)
    LEFT JOIN LATERAL (
        SELECT string_agg(pair, ' ' ORDER BY i) AS joined
        FROM (SELECT c.char || coalesce(lead(c.char) OVER (ORDER BY c.i), '') AS pair, c.i
              FROM unnest(string_to_array(run.found[1], NULL)) WITH ORDINALITY AS c(char, i)) AS p
        WHERE ending OR length(pair) = 2 OR length(run.found[1]) = 1
    ) AS pairs ON run.found[1] IS NOT NULL
    $$;

ALTER FUNCTION lore.unsplit_bigrams(content text, ending boolean) OWNER TO lore_owner;

--
-- Name: use_identity(text, text[], text[], text); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.use_identity(mode text, in_org_claim text[] DEFAULT '{org}'::text[], in_user_claim text[] DEFAULT '{sub}'::text[], for_audience text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $$
DECLARE
    setting CONSTANT text := 'nullif(current_setting(%L, true), '''')';
    from_gateway CONSTANT text := 'CASE WHEN nullif(current_setting(''request.jwt.claims'', true), '''') IS NULL THEN ' || setting
        || ' ELSE nullif(current_setting(''request.jwt.claims'', true)::jsonb #>> %L::text[], '''') END';
    of_token CONSTANT text := format('(token_caller(%L::text[], %L::text[], %L::text))', in_org_claim, in_user_claim, for_audience);
    org_body CONSTANT text := CASE mode
        WHEN 'settings' THEN format(setting, 'lore.org_id')
        WHEN 'role' THEN '(role_caller()).org'
        WHEN 'claims' THEN of_token || '.org'
        WHEN 'gateway' THEN format(from_gateway, 'lore.org_id', in_org_claim)
    END;
    user_body CONSTANT text := CASE mode
        WHEN 'settings' THEN format(setting, 'lore.user_id')
        WHEN 'role' THEN '(role_caller()).user_name'
        WHEN 'claims' THEN of_token || '.user_name'
        WHEN 'gateway' THEN format(from_gateway, 'lore.user_id', in_user_claim)
    END;
BEGIN
    IF org_body IS NULL THEN
        RAISE EXCEPTION 'identity is %; it must be settings, role, claims or gateway', coalesce(mode, 'NULL') USING ERRCODE = 'invalid_parameter_value';
    END IF;
    EXECUTE 'CREATE OR REPLACE FUNCTION scope_org() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE RETURN ' || org_body;
    EXECUTE 'CREATE OR REPLACE FUNCTION scope_user() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE RETURN ' || user_body;
    UPDATE settings AS s SET identity = mode, org_claim = in_org_claim, user_claim = in_user_claim, audience = for_audience;
END
$$;

ALTER FUNCTION lore.use_identity(mode text, in_org_claim text[], in_user_claim text[], for_audience text) OWNER TO lore_owner;

--
-- Name: vector_leg(public.halfvec, integer, bigint[], lore.fusion_config); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.vector_leg(asked public.halfvec, pool integer, allowed bigint[], config lore.fusion_config) RETURNS SETOF lore.vector_match
    LANGUAGE plpgsql STABLE ROWS 40
    SET search_path TO 'lore', 'public', 'pg_temp'
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

ALTER FUNCTION lore.vector_leg(asked public.halfvec, pool integer, allowed bigint[], config lore.fusion_config) OWNER TO lore_owner;

--
-- Name: vote(text, boolean, text); Type: FUNCTION; Schema: lore; Owner: lore_service
--

CREATE FUNCTION lore.vote(memory_id text, is_useful boolean, in_recall text DEFAULT ''::text) RETURNS TABLE(useful integer, misleading integer, multiplier double precision)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
    v_org CONSTANT text := scope_org();
    v_user CONSTANT text := scope_user();
    v_key bigint;
    counted record;
BEGIN
    IF v_org IS NULL OR v_user IS NULL THEN
        RETURN;
    END IF;
    SELECT m.key INTO v_key
    FROM memories AS m
    WHERE m.org = v_org AND m.id = memory_id
      AND (m.owner = v_user
           OR (m.visibility = 'shared' AND m.invalidated_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > now())))
    ORDER BY (m.owner = v_user) DESC, m.key
    LIMIT 1
    FOR KEY SHARE;
    IF v_key IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO reinforcement (org, key, multiplier, useful, misleading) VALUES (v_org, v_key, 1, 0, 0)
    ON CONFLICT (org, key) DO NOTHING;
    PERFORM FROM reinforcement AS r WHERE r.org = v_org AND r.key = v_key FOR UPDATE;
    INSERT INTO feedback (org, key, voter, recall_id, useful) VALUES (v_org, v_key, v_user, coalesce(in_recall, ''), is_useful)
    ON CONFLICT (org, key, voter, recall_id) DO UPDATE SET useful = excluded.useful, created_at = now();
    SELECT c.* INTO counted FROM counted_votes(v_org, v_key) AS c;
    UPDATE reinforcement AS r
    SET useful = counted.useful, misleading = counted.misleading, multiplier = counted.multiplier, refreshed_at = now()
    WHERE r.org = v_org AND r.key = v_key;
    RETURN QUERY SELECT counted.useful, counted.misleading, counted.multiplier;
END
$$;

ALTER FUNCTION lore.vote(memory_id text, is_useful boolean, in_recall text) OWNER TO lore_service;

--
-- Name: write_codes(); Type: FUNCTION; Schema: lore; Owner: lore_owner
--

CREATE FUNCTION lore.write_codes() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'lore', 'public', 'pg_temp'
    AS $$
BEGIN
    INSERT INTO codes (org, space, centre, key, ordinal, owner, shared, live, expires_at, created_at, bits)
    SELECT n.org, n.space, c.centre, n.key, n.ordinal, n.owner, n.shared, n.live, n.expires_at, n.created_at,
           binary_quantize(n.embedding - c.embedding)
    FROM new_vectors AS n JOIN centres AS c ON c.space = n.space AND NOT c.retired;
    RETURN NULL;
END
$$;

ALTER FUNCTION lore.write_codes() OWNER TO lore_owner;

--
-- Name: aliases; Type: TABLE; Schema: lore; Owner: lore_owner
--

CREATE TABLE lore.aliases (
    org text NOT NULL COLLATE pg_catalog."C",
    alias bigint NOT NULL,
    folded text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL,
    group_no bigint,
    key bigint,
    owner text NOT NULL COLLATE pg_catalog."C",
    shared boolean NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT aliases_check CHECK (((group_no IS NULL) <> (key IS NULL))),
    CONSTRAINT aliases_check1 CHECK (((key IS NOT NULL) OR shared)),
    CONSTRAINT aliases_folded_check CHECK ((folded <> ''::text))
);
ALTER TABLE ONLY lore.aliases ALTER COLUMN org SET (n_distinct=1);
ALTER TABLE ONLY lore.aliases ALTER COLUMN folded SET STATISTICS 0;
ALTER TABLE ONLY lore.aliases ALTER COLUMN name SET STATISTICS 0;

ALTER TABLE ONLY lore.aliases FORCE ROW LEVEL SECURITY;

ALTER TABLE lore.aliases OWNER TO lore_owner;

--
-- Name: aliases_alias_seq; Type: SEQUENCE; Schema: lore; Owner: lore_owner
--

ALTER TABLE lore.aliases ALTER COLUMN alias ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME lore.aliases_alias_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

--
-- Name: centres; Type: TABLE; Schema: lore; Owner: lore_owner
--

CREATE TABLE lore.centres (
    space smallint NOT NULL,
    centre smallint NOT NULL,
    embedding public.halfvec NOT NULL,
    retired boolean DEFAULT false NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE lore.centres OWNER TO lore_owner;

--
-- Name: codes; Type: TABLE; Schema: lore; Owner: lore_owner
--

CREATE TABLE lore.codes (
    org text NOT NULL COLLATE pg_catalog."C",
    space smallint NOT NULL,
    centre smallint NOT NULL,
    key bigint NOT NULL,
    ordinal integer NOT NULL,
    owner text NOT NULL COLLATE pg_catalog."C",
    shared boolean NOT NULL,
    live boolean NOT NULL,
    expires_at timestamp with time zone,
    created_at timestamp with time zone NOT NULL,
    bits bit varying NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_insert_scale_factor='0.02');
ALTER TABLE ONLY lore.codes ALTER COLUMN org SET (n_distinct=1);
ALTER TABLE ONLY lore.codes ALTER COLUMN bits SET STATISTICS 0;

ALTER TABLE ONLY lore.codes FORCE ROW LEVEL SECURITY;

ALTER TABLE lore.codes OWNER TO lore_owner;

--
-- Name: embedding_space_space_seq; Type: SEQUENCE; Schema: lore; Owner: lore_owner
--

ALTER TABLE lore.embedding_space ALTER COLUMN space ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME lore.embedding_space_space_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

--
-- Name: eval_runs; Type: TABLE; Schema: lore; Owner: lore_owner
--

CREATE TABLE lore.eval_runs (
    run bigint NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    suite text NOT NULL,
    data_hash text NOT NULL,
    code_version text NOT NULL,
    config jsonb NOT NULL,
    measures jsonb NOT NULL,
    detail jsonb
);

ALTER TABLE lore.eval_runs OWNER TO lore_owner;

--
-- Name: eval_runs_run_seq; Type: SEQUENCE; Schema: lore; Owner: lore_owner
--

ALTER TABLE lore.eval_runs ALTER COLUMN run ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME lore.eval_runs_run_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

--
-- Name: feedback; Type: TABLE; Schema: lore; Owner: lore_owner
--

CREATE TABLE lore.feedback (
    org text NOT NULL COLLATE pg_catalog."C",
    key bigint NOT NULL,
    voter text NOT NULL COLLATE pg_catalog."C",
    recall_id text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    useful boolean NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);
ALTER TABLE ONLY lore.feedback ALTER COLUMN recall_id SET STATISTICS 0;

ALTER TABLE ONLY lore.feedback FORCE ROW LEVEL SECURITY;

ALTER TABLE lore.feedback OWNER TO lore_owner;

--
-- Name: history; Type: TABLE; Schema: lore; Owner: lore_owner
--

CREATE TABLE lore.history (
    org text NOT NULL COLLATE pg_catalog."C",
    key bigint NOT NULL,
    version integer NOT NULL,
    event text NOT NULL,
    content text,
    superseded_by text COLLATE pg_catalog."C",
    changed_at timestamp with time zone DEFAULT now() NOT NULL,
    entry bigint NOT NULL,
    CONSTRAINT history_event_check CHECK ((event = ANY (ARRAY['updated'::text, 'invalidated'::text, 'restored'::text])))
);
ALTER TABLE ONLY lore.history ALTER COLUMN content SET STATISTICS 0;
ALTER TABLE ONLY lore.history ALTER COLUMN superseded_by SET STATISTICS 0;

ALTER TABLE ONLY lore.history FORCE ROW LEVEL SECURITY;

ALTER TABLE lore.history OWNER TO lore_owner;

--
-- Name: history_entry_seq; Type: SEQUENCE; Schema: lore; Owner: lore_owner
--

ALTER TABLE lore.history ALTER COLUMN entry ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME lore.history_entry_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

--
-- Name: kinds; Type: TABLE; Schema: lore; Owner: lore_owner
--

CREATE TABLE lore.kinds (
    kind text NOT NULL COLLATE pg_catalog."C",
    half_life_days double precision,
    recency_floor double precision DEFAULT 0.85 NOT NULL,
    CONSTRAINT kinds_half_life_days_check CHECK ((half_life_days > (0)::double precision)),
    CONSTRAINT kinds_recency_floor_check CHECK (((recency_floor >= (0)::double precision) AND (recency_floor <= (1)::double precision)))
);

ALTER TABLE lore.kinds OWNER TO lore_owner;

--
-- Name: memories; Type: TABLE; Schema: lore; Owner: lore_owner
--

CREATE TABLE lore.memories (
    org text NOT NULL COLLATE pg_catalog."C",
    key bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    owner text NOT NULL COLLATE pg_catalog."C",
    visibility text DEFAULT 'private'::text NOT NULL,
    kind text DEFAULT 'fact'::text NOT NULL,
    content text NOT NULL,
    content_original text,
    language text,
    translation text,
    metadata jsonb DEFAULT '{}'::jsonb NOT NULL,
    pinned boolean DEFAULT false NOT NULL,
    agent text,
    session text,
    source text,
    trust text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone,
    invalidated_at timestamp with time zone,
    superseded_by text COLLATE pg_catalog."C",
    version integer DEFAULT 1 NOT NULL,
    content_hash bytea GENERATED ALWAYS AS (lore.text_hash(content)) STORED NOT NULL,
    full_length integer GENERATED ALWAYS AS (length(content)) STORED NOT NULL,
    text_config text DEFAULT 'english'::text NOT NULL,
    tsv tsvector GENERATED ALWAYS AS (lore.memory_vector(text_config, content)) STORED NOT NULL,
    partly_indexed boolean GENERATED ALWAYS AS ((lore.indexed_chars(text_config, content) < length(content))) STORED NOT NULL,
    partly_embedded boolean DEFAULT false NOT NULL,
    identifiers text[] GENERATED ALWAYS AS (lore.memory_identifiers(id, content)) STORED NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT memories_id_check CHECK (((length(id) >= 1) AND (length(id) <= 512))),
    CONSTRAINT memories_metadata_check CHECK ((jsonb_typeof(metadata) = 'object'::text)),
    CONSTRAINT memories_org_check CHECK ((org <> ''::text)),
    CONSTRAINT memories_owner_check CHECK ((owner <> ''::text)),
    CONSTRAINT memories_readable_dates CHECK ((((created_at >= '0001-01-02 00:00:00+00'::timestamp with time zone) AND (created_at <= '9999-12-30 00:00:00+00'::timestamp with time zone)) AND ((updated_at >= '0001-01-02 00:00:00+00'::timestamp with time zone) AND (updated_at <= '9999-12-30 00:00:00+00'::timestamp with time zone)) AND ((expires_at IS NULL) OR ((expires_at >= '0001-01-02 00:00:00+00'::timestamp with time zone) AND (expires_at <= '9999-12-30 00:00:00+00'::timestamp with time zone))))),
    CONSTRAINT memories_translation_check CHECK ((translation = ANY (ARRAY['done'::text, 'pending'::text, 'failed'::text]))),
    CONSTRAINT memories_visibility_check CHECK ((visibility = ANY (ARRAY['private'::text, 'shared'::text])))
)
WITH (toast_tuple_target='8160');
ALTER TABLE ONLY lore.memories ALTER COLUMN org SET (n_distinct=1);
ALTER TABLE ONLY lore.memories ALTER COLUMN id SET STATISTICS 0;
ALTER TABLE ONLY lore.memories ALTER COLUMN kind SET STATISTICS 0;
ALTER TABLE ONLY lore.memories ALTER COLUMN content SET STATISTICS 0;
ALTER TABLE ONLY lore.memories ALTER COLUMN content_original SET STATISTICS 0;
ALTER TABLE ONLY lore.memories ALTER COLUMN agent SET STATISTICS 0;
ALTER TABLE ONLY lore.memories ALTER COLUMN session SET STATISTICS 0;
ALTER TABLE ONLY lore.memories ALTER COLUMN source SET STATISTICS 0;
ALTER TABLE ONLY lore.memories ALTER COLUMN trust SET STATISTICS 0;
ALTER TABLE ONLY lore.memories ALTER COLUMN superseded_by SET STATISTICS 0;
ALTER TABLE ONLY lore.memories ALTER COLUMN content_hash SET STATISTICS 0;

ALTER TABLE ONLY lore.memories FORCE ROW LEVEL SECURITY;

ALTER TABLE lore.memories OWNER TO lore_owner;

--
-- Name: memories_key_seq; Type: SEQUENCE; Schema: lore; Owner: lore_owner
--

ALTER TABLE lore.memories ALTER COLUMN key ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME lore.memories_key_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

--
-- Name: migrations; Type: TABLE; Schema: lore; Owner: administrator
--

CREATE TABLE lore.migrations (
    number integer NOT NULL,
    name text NOT NULL,
    hash text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE lore.migrations OWNER TO administrator;

--
-- Name: pending; Type: TABLE; Schema: lore; Owner: lore_owner
--

CREATE TABLE lore.pending (
    org text NOT NULL COLLATE pg_catalog."C",
    space smallint NOT NULL,
    key bigint NOT NULL,
    owner text NOT NULL COLLATE pg_catalog."C",
    attempts integer DEFAULT 0 NOT NULL,
    next_at timestamp with time zone DEFAULT now() NOT NULL,
    error text
);
ALTER TABLE ONLY lore.pending ALTER COLUMN error SET STATISTICS 0;

ALTER TABLE ONLY lore.pending FORCE ROW LEVEL SECURITY;

ALTER TABLE lore.pending OWNER TO lore_owner;

--
-- Name: reinforcement; Type: TABLE; Schema: lore; Owner: lore_owner
--

CREATE TABLE lore.reinforcement (
    org text NOT NULL COLLATE pg_catalog."C",
    key bigint NOT NULL,
    multiplier double precision NOT NULL,
    useful integer NOT NULL,
    misleading integer NOT NULL,
    refreshed_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT reinforcement_multiplier_check CHECK (((multiplier >= (0.5)::double precision) AND (multiplier <= (1.4)::double precision)))
);

ALTER TABLE ONLY lore.reinforcement FORCE ROW LEVEL SECURITY;

ALTER TABLE lore.reinforcement OWNER TO lore_owner;

--
-- Name: role_identities; Type: TABLE; Schema: lore; Owner: lore_owner
--

CREATE TABLE lore.role_identities (
    role_name text NOT NULL COLLATE pg_catalog."C",
    org text NOT NULL COLLATE pg_catalog."C",
    user_name text NOT NULL COLLATE pg_catalog."C",
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT role_identities_org_check CHECK ((org <> ''::text)),
    CONSTRAINT role_identities_role_name_check CHECK ((role_name <> ''::text)),
    CONSTRAINT role_identities_user_name_check CHECK ((user_name <> ''::text))
);
ALTER TABLE ONLY lore.role_identities ALTER COLUMN role_name SET STATISTICS 0;
ALTER TABLE ONLY lore.role_identities ALTER COLUMN user_name SET STATISTICS 0;

ALTER TABLE ONLY lore.role_identities FORCE ROW LEVEL SECURITY;

ALTER TABLE lore.role_identities OWNER TO lore_owner;

--
-- Name: scope_statistics; Type: TABLE; Schema: lore; Owner: lore_owner
--

CREATE TABLE lore.scope_statistics (
    org text NOT NULL COLLATE pg_catalog."C",
    owner text NOT NULL COLLATE pg_catalog."C",
    memories bigint NOT NULL,
    characters bigint NOT NULL,
    windows bigint NOT NULL,
    stems bigint NOT NULL,
    last_key bigint NOT NULL,
    refreshed_at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE ONLY lore.scope_statistics FORCE ROW LEVEL SECURITY;

ALTER TABLE lore.scope_statistics OWNER TO lore_owner;

--
-- Name: settings; Type: TABLE; Schema: lore; Owner: lore_owner
--

CREATE TABLE lore.settings (
    one boolean DEFAULT true NOT NULL,
    text_config text DEFAULT 'english'::text NOT NULL,
    next_text_config text,
    result_budget integer DEFAULT 50000 NOT NULL,
    identity text DEFAULT 'settings'::text NOT NULL,
    org_claim text[] DEFAULT '{org}'::text[] NOT NULL,
    user_claim text[] DEFAULT '{sub}'::text[] NOT NULL,
    audience text,
    CONSTRAINT settings_audience_check CHECK ((audience <> ''::text)),
    CONSTRAINT settings_identity_check CHECK ((identity = ANY (ARRAY['settings'::text, 'role'::text, 'claims'::text, 'gateway'::text]))),
    CONSTRAINT settings_one_check CHECK (one),
    CONSTRAINT settings_org_claim_check CHECK (((cardinality(org_claim) >= 1) AND (cardinality(org_claim) <= 8))),
    CONSTRAINT settings_result_budget_check CHECK ((result_budget > 0)),
    CONSTRAINT settings_user_claim_check CHECK (((cardinality(user_claim) >= 1) AND (cardinality(user_claim) <= 8)))
);

ALTER TABLE lore.settings OWNER TO lore_owner;

--
-- Name: terms; Type: TABLE; Schema: lore; Owner: lore_owner
--

CREATE TABLE lore.terms (
    org text NOT NULL COLLATE pg_catalog."C",
    owner text NOT NULL COLLATE pg_catalog."C",
    stem text NOT NULL COLLATE pg_catalog."C",
    df integer NOT NULL,
    CONSTRAINT terms_df_check CHECK ((df > 0))
)
WITH (fillfactor='70');
ALTER TABLE ONLY lore.terms ALTER COLUMN org SET (n_distinct=1);
ALTER TABLE ONLY lore.terms ALTER COLUMN stem SET STATISTICS 0;

ALTER TABLE ONLY lore.terms FORCE ROW LEVEL SECURITY;

ALTER TABLE lore.terms OWNER TO lore_owner;

--
-- Name: token_keys; Type: TABLE; Schema: lore; Owner: lore_owner
--

CREATE TABLE lore.token_keys (
    name text NOT NULL COLLATE pg_catalog."C",
    inner_pad bytea NOT NULL,
    outer_pad bytea NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT token_keys_inner_pad_check CHECK ((length(inner_pad) = 64)),
    CONSTRAINT token_keys_name_check CHECK ((name <> ''::text)),
    CONSTRAINT token_keys_outer_pad_check CHECK ((length(outer_pad) = 64))
);

ALTER TABLE lore.token_keys OWNER TO lore_owner;

--
-- Name: untranslated; Type: TABLE; Schema: lore; Owner: lore_owner
--

CREATE TABLE lore.untranslated (
    org text NOT NULL COLLATE pg_catalog."C",
    key bigint NOT NULL,
    owner text NOT NULL COLLATE pg_catalog."C",
    attempts integer DEFAULT 0 NOT NULL,
    next_at timestamp with time zone DEFAULT now() NOT NULL,
    error text
);
ALTER TABLE ONLY lore.untranslated ALTER COLUMN error SET STATISTICS 0;

ALTER TABLE ONLY lore.untranslated FORCE ROW LEVEL SECURITY;

ALTER TABLE lore.untranslated OWNER TO lore_owner;

--
-- Name: vectors; Type: TABLE; Schema: lore; Owner: lore_owner
--

CREATE TABLE lore.vectors (
    org text NOT NULL COLLATE pg_catalog."C",
    space smallint NOT NULL,
    key bigint NOT NULL,
    ordinal integer NOT NULL,
    owner text NOT NULL COLLATE pg_catalog."C",
    shared boolean NOT NULL,
    live boolean NOT NULL,
    expires_at timestamp with time zone,
    created_at timestamp with time zone NOT NULL,
    embedding public.halfvec NOT NULL
)
WITH (toast_tuple_target='8160');
ALTER TABLE ONLY lore.vectors ALTER COLUMN org SET (n_distinct=1);

ALTER TABLE ONLY lore.vectors FORCE ROW LEVEL SECURITY;

ALTER TABLE lore.vectors OWNER TO lore_owner;

--
-- Name: windows; Type: TABLE; Schema: lore; Owner: lore_owner
--

CREATE TABLE lore.windows (
    org text NOT NULL COLLATE pg_catalog."C",
    space smallint NOT NULL,
    key bigint NOT NULL,
    ordinal integer NOT NULL,
    window_start integer NOT NULL,
    window_end integer NOT NULL,
    CONSTRAINT windows_check CHECK ((window_end >= window_start)),
    CONSTRAINT windows_ordinal_check CHECK ((ordinal >= 0)),
    CONSTRAINT windows_window_start_check CHECK ((window_start >= 0))
);
ALTER TABLE ONLY lore.windows ALTER COLUMN org SET (n_distinct=1);

ALTER TABLE ONLY lore.windows FORCE ROW LEVEL SECURITY;

ALTER TABLE lore.windows OWNER TO lore_owner;

--
-- Name: aliases aliases_pkey; Type: CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.aliases
    ADD CONSTRAINT aliases_pkey PRIMARY KEY (org, alias);

--
-- Name: centres centres_pkey; Type: CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.centres
    ADD CONSTRAINT centres_pkey PRIMARY KEY (space, centre);

--
-- Name: codes codes_pkey; Type: CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.codes
    ADD CONSTRAINT codes_pkey PRIMARY KEY (org, space, key, ordinal, centre);

--
-- Name: embedding_space embedding_space_model_revision_dimensions_key; Type: CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.embedding_space
    ADD CONSTRAINT embedding_space_model_revision_dimensions_key UNIQUE (model, revision, dimensions);

--
-- Name: embedding_space embedding_space_pkey; Type: CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.embedding_space
    ADD CONSTRAINT embedding_space_pkey PRIMARY KEY (space);

--
-- Name: eval_runs eval_runs_pkey; Type: CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.eval_runs
    ADD CONSTRAINT eval_runs_pkey PRIMARY KEY (run);

--
-- Name: feedback feedback_pkey; Type: CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.feedback
    ADD CONSTRAINT feedback_pkey PRIMARY KEY (org, key, voter, recall_id);

--
-- Name: fusion_config fusion_config_pkey; Type: CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.fusion_config
    ADD CONSTRAINT fusion_config_pkey PRIMARY KEY (one);

--
-- Name: history history_pkey; Type: CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.history
    ADD CONSTRAINT history_pkey PRIMARY KEY (org, key, entry);

--
-- Name: kinds kinds_pkey; Type: CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.kinds
    ADD CONSTRAINT kinds_pkey PRIMARY KEY (kind);

--
-- Name: memories memories_pkey; Type: CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.memories
    ADD CONSTRAINT memories_pkey PRIMARY KEY (org, key);

--
-- Name: migrations migrations_pkey; Type: CONSTRAINT; Schema: lore; Owner: administrator
--

ALTER TABLE ONLY lore.migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (number);

--
-- Name: pending pending_pkey; Type: CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.pending
    ADD CONSTRAINT pending_pkey PRIMARY KEY (org, space, key);

--
-- Name: reinforcement reinforcement_pkey; Type: CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.reinforcement
    ADD CONSTRAINT reinforcement_pkey PRIMARY KEY (org, key);

--
-- Name: role_identities role_identities_pkey; Type: CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.role_identities
    ADD CONSTRAINT role_identities_pkey PRIMARY KEY (role_name);

--
-- Name: scope_statistics scope_statistics_pkey; Type: CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.scope_statistics
    ADD CONSTRAINT scope_statistics_pkey PRIMARY KEY (org, owner);

--
-- Name: settings settings_pkey; Type: CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.settings
    ADD CONSTRAINT settings_pkey PRIMARY KEY (one);

--
-- Name: terms terms_pkey; Type: CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.terms
    ADD CONSTRAINT terms_pkey PRIMARY KEY (org, owner, stem);

--
-- Name: token_keys token_keys_pkey; Type: CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.token_keys
    ADD CONSTRAINT token_keys_pkey PRIMARY KEY (name);

--
-- Name: untranslated untranslated_pkey; Type: CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.untranslated
    ADD CONSTRAINT untranslated_pkey PRIMARY KEY (org, key);

--
-- Name: vectors vectors_pkey; Type: CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.vectors
    ADD CONSTRAINT vectors_pkey PRIMARY KEY (org, space, key, ordinal);

--
-- Name: windows windows_pkey; Type: CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.windows
    ADD CONSTRAINT windows_pkey PRIMARY KEY (org, key, space, ordinal);

--
-- Name: aliases_folded; Type: INDEX; Schema: lore; Owner: lore_owner
--

CREATE INDEX aliases_folded ON lore.aliases USING btree (org, folded);

--
-- Name: aliases_group; Type: INDEX; Schema: lore; Owner: lore_owner
--

CREATE INDEX aliases_group ON lore.aliases USING btree (org, group_no) WHERE (group_no IS NOT NULL);

--
-- Name: aliases_group_name; Type: INDEX; Schema: lore; Owner: lore_owner
--

CREATE UNIQUE INDEX aliases_group_name ON lore.aliases USING btree (org, folded) WHERE (key IS NULL);

--
-- Name: aliases_memory_name; Type: INDEX; Schema: lore; Owner: lore_owner
--

CREATE UNIQUE INDEX aliases_memory_name ON lore.aliases USING btree (org, key, folded) WHERE (key IS NOT NULL);

--
-- Name: codes_private; Type: INDEX; Schema: lore; Owner: lore_owner
--

CREATE INDEX codes_private ON lore.codes USING btree (org, space, centre, owner) INCLUDE (expires_at, key, ordinal, bits) WHERE (live AND (NOT shared));

--
-- Name: codes_shared; Type: INDEX; Schema: lore; Owner: lore_owner
--

CREATE INDEX codes_shared ON lore.codes USING btree (org, space, centre) INCLUDE (expires_at, key, ordinal, bits) WHERE (live AND shared);

--
-- Name: embedding_space_active; Type: INDEX; Schema: lore; Owner: lore_owner
--

CREATE UNIQUE INDEX embedding_space_active ON lore.embedding_space USING btree (state) WHERE (state = 'active'::text);

--
-- Name: embedding_space_building; Type: INDEX; Schema: lore; Owner: lore_owner
--

CREATE UNIQUE INDEX embedding_space_building ON lore.embedding_space USING btree (state) WHERE (state = 'building'::text);

--
-- Name: memories_expiring; Type: INDEX; Schema: lore; Owner: lore_owner
--

CREATE INDEX memories_expiring ON lore.memories USING btree (expires_at) WHERE (expires_at IS NOT NULL);

--
-- Name: memories_identifiers; Type: INDEX; Schema: lore; Owner: lore_owner
--

CREATE INDEX memories_identifiers ON lore.memories USING gin (org, identifiers) WHERE (invalidated_at IS NULL);

--
-- Name: memories_newest; Type: INDEX; Schema: lore; Owner: lore_owner
--

CREATE INDEX memories_newest ON lore.memories USING btree (org, created_at DESC);

--
-- Name: memories_open_tasks; Type: INDEX; Schema: lore; Owner: lore_owner
--

CREATE INDEX memories_open_tasks ON lore.memories USING btree (org, created_at DESC, key DESC) WHERE (kind = ANY (ARRAY['task'::text, 'open-question'::text]));

--
-- Name: memories_own_id; Type: INDEX; Schema: lore; Owner: lore_owner
--

CREATE UNIQUE INDEX memories_own_id ON lore.memories USING btree (org, owner, id);

--
-- Name: memories_pinned; Type: INDEX; Schema: lore; Owner: lore_owner
--

CREATE INDEX memories_pinned ON lore.memories USING btree (org, owner) WHERE pinned;

--
-- Name: memories_shared_id; Type: INDEX; Schema: lore; Owner: lore_owner
--

CREATE UNIQUE INDEX memories_shared_id ON lore.memories USING btree (org, id) WHERE (visibility = 'shared'::text);

--
-- Name: memories_tsv; Type: INDEX; Schema: lore; Owner: lore_owner
--

CREATE INDEX memories_tsv ON lore.memories USING gin (org, tsv) WHERE (invalidated_at IS NULL);

--
-- Name: pending_next; Type: INDEX; Schema: lore; Owner: lore_owner
--

CREATE INDEX pending_next ON lore.pending USING btree (space, next_at);

--
-- Name: terms_spelling; Type: INDEX; Schema: lore; Owner: lore_owner
--

CREATE INDEX terms_spelling ON lore.terms USING gin (org, stem public.gin_trgm_ops);

--
-- Name: untranslated_next; Type: INDEX; Schema: lore; Owner: lore_owner
--

CREATE INDEX untranslated_next ON lore.untranslated USING btree (next_at);

--
-- Name: memories bound_unsorted; Type: TRIGGER; Schema: lore; Owner: lore_owner
--

CREATE TRIGGER bound_unsorted BEFORE INSERT OR UPDATE ON lore.memories FOR EACH STATEMENT EXECUTE FUNCTION lore.bound_unsorted();

--
-- Name: role_identities check_mapped_role; Type: TRIGGER; Schema: lore; Owner: lore_owner
--

CREATE TRIGGER check_mapped_role BEFORE INSERT OR UPDATE ON lore.role_identities FOR EACH ROW EXECUTE FUNCTION lore.check_mapped_role();

--
-- Name: memories copy_life; Type: TRIGGER; Schema: lore; Owner: lore_owner
--

CREATE TRIGGER copy_life AFTER UPDATE ON lore.memories FOR EACH ROW WHEN (((old.visibility IS DISTINCT FROM new.visibility) OR (old.invalidated_at IS DISTINCT FROM new.invalidated_at) OR (old.expires_at IS DISTINCT FROM new.expires_at) OR (old.created_at IS DISTINCT FROM new.created_at))) EXECUTE FUNCTION lore.copy_life();

--
-- Name: vectors write_codes; Type: TRIGGER; Schema: lore; Owner: lore_owner
--

CREATE TRIGGER write_codes AFTER INSERT ON lore.vectors REFERENCING NEW TABLE AS new_vectors FOR EACH STATEMENT EXECUTE FUNCTION lore.write_codes();

--
-- Name: aliases aliases_org_key_fkey; Type: FK CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.aliases
    ADD CONSTRAINT aliases_org_key_fkey FOREIGN KEY (org, key) REFERENCES lore.memories(org, key) ON DELETE CASCADE;

--
-- Name: centres centres_space_fkey; Type: FK CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.centres
    ADD CONSTRAINT centres_space_fkey FOREIGN KEY (space) REFERENCES lore.embedding_space(space) ON DELETE CASCADE;

--
-- Name: codes codes_org_space_key_ordinal_fkey; Type: FK CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.codes
    ADD CONSTRAINT codes_org_space_key_ordinal_fkey FOREIGN KEY (org, space, key, ordinal) REFERENCES lore.vectors(org, space, key, ordinal) ON DELETE CASCADE;

--
-- Name: codes codes_space_centre_fkey; Type: FK CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.codes
    ADD CONSTRAINT codes_space_centre_fkey FOREIGN KEY (space, centre) REFERENCES lore.centres(space, centre) ON DELETE CASCADE;

--
-- Name: feedback feedback_org_key_fkey; Type: FK CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.feedback
    ADD CONSTRAINT feedback_org_key_fkey FOREIGN KEY (org, key) REFERENCES lore.memories(org, key) ON DELETE CASCADE;

--
-- Name: history history_org_key_fkey; Type: FK CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.history
    ADD CONSTRAINT history_org_key_fkey FOREIGN KEY (org, key) REFERENCES lore.memories(org, key) ON DELETE CASCADE;

--
-- Name: pending pending_org_key_fkey; Type: FK CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.pending
    ADD CONSTRAINT pending_org_key_fkey FOREIGN KEY (org, key) REFERENCES lore.memories(org, key) ON DELETE CASCADE;

--
-- Name: pending pending_space_fkey; Type: FK CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.pending
    ADD CONSTRAINT pending_space_fkey FOREIGN KEY (space) REFERENCES lore.embedding_space(space) ON DELETE CASCADE;

--
-- Name: reinforcement reinforcement_org_key_fkey; Type: FK CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.reinforcement
    ADD CONSTRAINT reinforcement_org_key_fkey FOREIGN KEY (org, key) REFERENCES lore.memories(org, key) ON DELETE CASCADE;

--
-- Name: untranslated untranslated_org_key_fkey; Type: FK CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.untranslated
    ADD CONSTRAINT untranslated_org_key_fkey FOREIGN KEY (org, key) REFERENCES lore.memories(org, key) ON DELETE CASCADE;

--
-- Name: vectors vectors_org_key_space_ordinal_fkey; Type: FK CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.vectors
    ADD CONSTRAINT vectors_org_key_space_ordinal_fkey FOREIGN KEY (org, key, space, ordinal) REFERENCES lore.windows(org, key, space, ordinal) ON DELETE CASCADE;

--
-- Name: windows windows_org_key_fkey; Type: FK CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.windows
    ADD CONSTRAINT windows_org_key_fkey FOREIGN KEY (org, key) REFERENCES lore.memories(org, key) ON DELETE CASCADE;

--
-- Name: windows windows_space_fkey; Type: FK CONSTRAINT; Schema: lore; Owner: lore_owner
--

ALTER TABLE ONLY lore.windows
    ADD CONSTRAINT windows_space_fkey FOREIGN KEY (space) REFERENCES lore.embedding_space(space) ON DELETE CASCADE;

--
-- Name: aliases; Type: ROW SECURITY; Schema: lore; Owner: lore_owner
--

ALTER TABLE lore.aliases ENABLE ROW LEVEL SECURITY;

--
-- Name: codes; Type: ROW SECURITY; Schema: lore; Owner: lore_owner
--

ALTER TABLE lore.codes ENABLE ROW LEVEL SECURITY;

--
-- Name: feedback; Type: ROW SECURITY; Schema: lore; Owner: lore_owner
--

ALTER TABLE lore.feedback ENABLE ROW LEVEL SECURITY;

--
-- Name: history; Type: ROW SECURITY; Schema: lore; Owner: lore_owner
--

ALTER TABLE lore.history ENABLE ROW LEVEL SECURITY;

--
-- Name: memories; Type: ROW SECURITY; Schema: lore; Owner: lore_owner
--

ALTER TABLE lore.memories ENABLE ROW LEVEL SECURITY;

--
-- Name: pending; Type: ROW SECURITY; Schema: lore; Owner: lore_owner
--

ALTER TABLE lore.pending ENABLE ROW LEVEL SECURITY;

--
-- Name: reinforcement; Type: ROW SECURITY; Schema: lore; Owner: lore_owner
--

ALTER TABLE lore.reinforcement ENABLE ROW LEVEL SECURITY;

--
-- Name: role_identities; Type: ROW SECURITY; Schema: lore; Owner: lore_owner
--

ALTER TABLE lore.role_identities ENABLE ROW LEVEL SECURITY;

--
-- Name: scope_statistics; Type: ROW SECURITY; Schema: lore; Owner: lore_owner
--

ALTER TABLE lore.scope_statistics ENABLE ROW LEVEL SECURITY;

--
-- Name: aliases search_reads; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY search_reads ON lore.aliases FOR SELECT TO lore_search USING (true);

--
-- Name: codes search_reads; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY search_reads ON lore.codes FOR SELECT TO lore_search USING (true);

--
-- Name: feedback search_reads; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY search_reads ON lore.feedback FOR SELECT TO lore_search USING (true);

--
-- Name: history search_reads; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY search_reads ON lore.history FOR SELECT TO lore_search USING (true);

--
-- Name: memories search_reads; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY search_reads ON lore.memories FOR SELECT TO lore_search USING (true);

--
-- Name: pending search_reads; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY search_reads ON lore.pending FOR SELECT TO lore_search USING (true);

--
-- Name: reinforcement search_reads; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY search_reads ON lore.reinforcement FOR SELECT TO lore_search USING (true);

--
-- Name: role_identities search_reads; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY search_reads ON lore.role_identities FOR SELECT TO lore_search USING ((role_name = SESSION_USER));

--
-- Name: scope_statistics search_reads; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY search_reads ON lore.scope_statistics FOR SELECT TO lore_search USING (true);

--
-- Name: terms search_reads; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY search_reads ON lore.terms FOR SELECT TO lore_search USING (true);

--
-- Name: vectors search_reads; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY search_reads ON lore.vectors FOR SELECT TO lore_search USING (true);

--
-- Name: windows search_reads; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY search_reads ON lore.windows FOR SELECT TO lore_search USING (true);

--
-- Name: aliases service_all; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY service_all ON lore.aliases TO lore_service USING (true) WITH CHECK (true);

--
-- Name: codes service_all; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY service_all ON lore.codes TO lore_service USING (true) WITH CHECK (true);

--
-- Name: feedback service_all; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY service_all ON lore.feedback TO lore_service USING (true) WITH CHECK (true);

--
-- Name: history service_all; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY service_all ON lore.history TO lore_service USING (true) WITH CHECK (true);

--
-- Name: memories service_all; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY service_all ON lore.memories TO lore_service USING (true) WITH CHECK (true);

--
-- Name: pending service_all; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY service_all ON lore.pending TO lore_service USING (true) WITH CHECK (true);

--
-- Name: reinforcement service_all; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY service_all ON lore.reinforcement TO lore_service USING (true) WITH CHECK (true);

--
-- Name: role_identities service_all; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY service_all ON lore.role_identities TO lore_service USING (true) WITH CHECK (true);

--
-- Name: scope_statistics service_all; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY service_all ON lore.scope_statistics TO lore_service USING (true) WITH CHECK (true);

--
-- Name: terms service_all; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY service_all ON lore.terms TO lore_service USING (true) WITH CHECK (true);

--
-- Name: untranslated service_all; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY service_all ON lore.untranslated TO lore_service USING (true) WITH CHECK (true);

--
-- Name: vectors service_all; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY service_all ON lore.vectors TO lore_service USING (true) WITH CHECK (true);

--
-- Name: windows service_all; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY service_all ON lore.windows TO lore_service USING (true) WITH CHECK (true);

--
-- Name: terms; Type: ROW SECURITY; Schema: lore; Owner: lore_owner
--

ALTER TABLE lore.terms ENABLE ROW LEVEL SECURITY;

--
-- Name: untranslated; Type: ROW SECURITY; Schema: lore; Owner: lore_owner
--

ALTER TABLE lore.untranslated ENABLE ROW LEVEL SECURITY;

--
-- Name: aliases user_deletes; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY user_deletes ON lore.aliases FOR DELETE TO lore_user USING (((org = ( SELECT lore.scope_org() AS scope_org)) AND ((key IS NULL) OR (owner = ( SELECT lore.scope_user() AS scope_user)))));

--
-- Name: codes user_deletes; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY user_deletes ON lore.codes FOR DELETE TO lore_user USING (((org = ( SELECT lore.scope_org() AS scope_org)) AND (owner = ( SELECT lore.scope_user() AS scope_user))));

--
-- Name: memories user_deletes; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY user_deletes ON lore.memories FOR DELETE TO lore_user USING (((org = ( SELECT lore.scope_org() AS scope_org)) AND (owner = ( SELECT lore.scope_user() AS scope_user))));

--
-- Name: vectors user_deletes; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY user_deletes ON lore.vectors FOR DELETE TO lore_user USING (((org = ( SELECT lore.scope_org() AS scope_org)) AND (owner = ( SELECT lore.scope_user() AS scope_user))));

--
-- Name: windows user_deletes; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY user_deletes ON lore.windows FOR DELETE TO lore_user USING (((org = ( SELECT lore.scope_org() AS scope_org)) AND (EXISTS ( SELECT
   FROM lore.memories m
  WHERE ((m.org = windows.org) AND (m.key = windows.key) AND (m.owner = ( SELECT lore.scope_user() AS scope_user)))))));

--
-- Name: aliases user_inserts; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY user_inserts ON lore.aliases FOR INSERT TO lore_user WITH CHECK (((org = ( SELECT lore.scope_org() AS scope_org)) AND (owner = ( SELECT lore.scope_user() AS scope_user)) AND ((key IS NULL) OR (EXISTS ( SELECT
   FROM lore.memories m
  WHERE ((m.org = aliases.org) AND (m.key = aliases.key) AND (m.owner = aliases.owner) AND (aliases.shared = (m.visibility = 'shared'::text))))))));

--
-- Name: codes user_inserts; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY user_inserts ON lore.codes FOR INSERT TO lore_user WITH CHECK (((org = ( SELECT lore.scope_org() AS scope_org)) AND (owner = ( SELECT lore.scope_user() AS scope_user)) AND (EXISTS ( SELECT
   FROM lore.memories m
  WHERE ((m.org = codes.org) AND (m.key = codes.key) AND (m.owner = codes.owner) AND (codes.shared = (m.visibility = 'shared'::text)))))));

--
-- Name: feedback user_inserts; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY user_inserts ON lore.feedback FOR INSERT TO lore_user WITH CHECK (((org = ( SELECT lore.scope_org() AS scope_org)) AND (EXISTS ( SELECT
   FROM lore.memories m
  WHERE ((m.org = feedback.org) AND (m.key = feedback.key)))) AND (voter = ( SELECT lore.scope_user() AS scope_user))));

--
-- Name: history user_inserts; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY user_inserts ON lore.history FOR INSERT TO lore_user WITH CHECK (((org = ( SELECT lore.scope_org() AS scope_org)) AND (EXISTS ( SELECT
   FROM lore.memories m
  WHERE ((m.org = history.org) AND (m.key = history.key) AND (m.owner = ( SELECT lore.scope_user() AS scope_user)))))));

--
-- Name: memories user_inserts; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY user_inserts ON lore.memories FOR INSERT TO lore_user WITH CHECK (((org = ( SELECT lore.scope_org() AS scope_org)) AND (owner = ( SELECT lore.scope_user() AS scope_user))));

--
-- Name: vectors user_inserts; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY user_inserts ON lore.vectors FOR INSERT TO lore_user WITH CHECK (((org = ( SELECT lore.scope_org() AS scope_org)) AND (owner = ( SELECT lore.scope_user() AS scope_user)) AND (EXISTS ( SELECT
   FROM lore.memories m
  WHERE ((m.org = vectors.org) AND (m.key = vectors.key) AND (m.owner = vectors.owner) AND (vectors.shared = (m.visibility = 'shared'::text)))))));

--
-- Name: windows user_inserts; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY user_inserts ON lore.windows FOR INSERT TO lore_user WITH CHECK (((org = ( SELECT lore.scope_org() AS scope_org)) AND (EXISTS ( SELECT
   FROM lore.memories m
  WHERE ((m.org = windows.org) AND (m.key = windows.key) AND (m.owner = ( SELECT lore.scope_user() AS scope_user)))))));

--
-- Name: aliases user_reads; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY user_reads ON lore.aliases FOR SELECT TO lore_user USING (((org = ( SELECT lore.scope_org() AS scope_org)) AND (shared OR (owner = ( SELECT lore.scope_user() AS scope_user)))));

--
-- Name: codes user_reads; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY user_reads ON lore.codes FOR SELECT TO lore_user USING (((org = ( SELECT lore.scope_org() AS scope_org)) AND (owner = ( SELECT lore.scope_user() AS scope_user))));

--
-- Name: feedback user_reads; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY user_reads ON lore.feedback FOR SELECT TO lore_user USING (((org = ( SELECT lore.scope_org() AS scope_org)) AND (EXISTS ( SELECT
   FROM lore.memories m
  WHERE ((m.org = feedback.org) AND (m.key = feedback.key)))) AND (voter = ( SELECT lore.scope_user() AS scope_user))));

--
-- Name: history user_reads; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY user_reads ON lore.history FOR SELECT TO lore_user USING (((org = ( SELECT lore.scope_org() AS scope_org)) AND (EXISTS ( SELECT
   FROM lore.memories m
  WHERE ((m.org = history.org) AND (m.key = history.key) AND (m.owner = ( SELECT lore.scope_user() AS scope_user)))))));

--
-- Name: memories user_reads; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY user_reads ON lore.memories FOR SELECT TO lore_user USING (((org = ( SELECT lore.scope_org() AS scope_org)) AND ((visibility = 'shared'::text) OR (owner = ( SELECT lore.scope_user() AS scope_user)))));

--
-- Name: pending user_reads; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY user_reads ON lore.pending FOR SELECT TO lore_user USING (((org = ( SELECT lore.scope_org() AS scope_org)) AND (owner = ( SELECT lore.scope_user() AS scope_user))));

--
-- Name: reinforcement user_reads; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY user_reads ON lore.reinforcement FOR SELECT TO lore_user USING (((org = ( SELECT lore.scope_org() AS scope_org)) AND (EXISTS ( SELECT
   FROM lore.memories m
  WHERE ((m.org = reinforcement.org) AND (m.key = reinforcement.key))))));

--
-- Name: scope_statistics user_reads; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY user_reads ON lore.scope_statistics FOR SELECT TO lore_user USING (((org = ( SELECT lore.scope_org() AS scope_org)) AND (owner = ANY (ARRAY[''::text, ( SELECT lore.scope_user() AS scope_user)]))));

--
-- Name: terms user_reads; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY user_reads ON lore.terms FOR SELECT TO lore_user USING (((org = ( SELECT lore.scope_org() AS scope_org)) AND (owner = ANY (ARRAY[''::text, ( SELECT lore.scope_user() AS scope_user)]))));

--
-- Name: vectors user_reads; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY user_reads ON lore.vectors FOR SELECT TO lore_user USING (((org = ( SELECT lore.scope_org() AS scope_org)) AND (shared OR (owner = ( SELECT lore.scope_user() AS scope_user)))));

--
-- Name: windows user_reads; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY user_reads ON lore.windows FOR SELECT TO lore_user USING (((org = ( SELECT lore.scope_org() AS scope_org)) AND (EXISTS ( SELECT
   FROM lore.memories m
  WHERE ((m.org = windows.org) AND (m.key = windows.key))))));

--
-- Name: aliases user_updates; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY user_updates ON lore.aliases FOR UPDATE TO lore_user USING (((org = ( SELECT lore.scope_org() AS scope_org)) AND ((key IS NULL) OR (owner = ( SELECT lore.scope_user() AS scope_user))))) WITH CHECK (((org = ( SELECT lore.scope_org() AS scope_org)) AND ((key IS NULL) OR (owner = ( SELECT lore.scope_user() AS scope_user)))));

--
-- Name: codes user_updates; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY user_updates ON lore.codes FOR UPDATE TO lore_user USING (((org = ( SELECT lore.scope_org() AS scope_org)) AND (owner = ( SELECT lore.scope_user() AS scope_user)))) WITH CHECK (((org = ( SELECT lore.scope_org() AS scope_org)) AND (owner = ( SELECT lore.scope_user() AS scope_user)) AND (EXISTS ( SELECT
   FROM lore.memories m
  WHERE ((m.org = codes.org) AND (m.key = codes.key) AND (m.owner = codes.owner) AND (codes.shared = (m.visibility = 'shared'::text)))))));

--
-- Name: feedback user_updates; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY user_updates ON lore.feedback FOR UPDATE TO lore_user USING (((org = ( SELECT lore.scope_org() AS scope_org)) AND (voter = ( SELECT lore.scope_user() AS scope_user)))) WITH CHECK (((org = ( SELECT lore.scope_org() AS scope_org)) AND (voter = ( SELECT lore.scope_user() AS scope_user))));

--
-- Name: memories user_updates; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY user_updates ON lore.memories FOR UPDATE TO lore_user USING (((org = ( SELECT lore.scope_org() AS scope_org)) AND (owner = ( SELECT lore.scope_user() AS scope_user)))) WITH CHECK (((org = ( SELECT lore.scope_org() AS scope_org)) AND (owner = ( SELECT lore.scope_user() AS scope_user))));

--
-- Name: vectors user_updates; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY user_updates ON lore.vectors FOR UPDATE TO lore_user USING (((org = ( SELECT lore.scope_org() AS scope_org)) AND (owner = ( SELECT lore.scope_user() AS scope_user)))) WITH CHECK (((org = ( SELECT lore.scope_org() AS scope_org)) AND (owner = ( SELECT lore.scope_user() AS scope_user)) AND (EXISTS ( SELECT
   FROM lore.memories m
  WHERE ((m.org = vectors.org) AND (m.key = vectors.key) AND (m.owner = vectors.owner) AND (vectors.shared = (m.visibility = 'shared'::text)))))));

--
-- Name: pending user_writes; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY user_writes ON lore.pending TO lore_user USING (((org = ( SELECT lore.scope_org() AS scope_org)) AND (owner = ( SELECT lore.scope_user() AS scope_user)))) WITH CHECK (((org = ( SELECT lore.scope_org() AS scope_org)) AND (owner = ( SELECT lore.scope_user() AS scope_user)) AND (org = ( SELECT lore.scope_org() AS scope_org)) AND (EXISTS ( SELECT
   FROM lore.memories m
  WHERE ((m.org = pending.org) AND (m.key = pending.key) AND (m.owner = ( SELECT lore.scope_user() AS scope_user)))))));

--
-- Name: untranslated user_writes; Type: POLICY; Schema: lore; Owner: lore_owner
--

CREATE POLICY user_writes ON lore.untranslated TO lore_user USING (((org = ( SELECT lore.scope_org() AS scope_org)) AND (owner = ( SELECT lore.scope_user() AS scope_user)))) WITH CHECK (((org = ( SELECT lore.scope_org() AS scope_org)) AND (owner = ( SELECT lore.scope_user() AS scope_user)) AND (EXISTS ( SELECT
   FROM lore.memories m
  WHERE ((m.org = untranslated.org) AND (m.key = untranslated.key) AND (m.owner = ( SELECT lore.scope_user() AS scope_user)))))));

--
-- Name: vectors; Type: ROW SECURITY; Schema: lore; Owner: lore_owner
--

ALTER TABLE lore.vectors ENABLE ROW LEVEL SECURITY;

--
-- Name: windows; Type: ROW SECURITY; Schema: lore; Owner: lore_owner
--

ALTER TABLE lore.windows ENABLE ROW LEVEL SECURITY;

--
-- Name: SCHEMA lore; Type: ACL; Schema: -; Owner: administrator
--

GRANT USAGE ON SCHEMA lore TO lore_search;
GRANT USAGE ON SCHEMA lore TO lore_service;
GRANT USAGE ON SCHEMA lore TO lore_user;
GRANT ALL ON SCHEMA lore TO lore_owner WITH GRANT OPTION;

--
-- Name: FUNCTION add_token_key(name text, secret bytea); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.add_token_key(name text, secret bytea) FROM PUBLIC;

--
-- Name: FUNCTION alias_leg(query_text text, pool integer, allowed bigint[]); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.alias_leg(query_text text, pool integer, allowed bigint[]) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.alias_leg(query_text text, pool integer, allowed bigint[]) TO lore_service;
GRANT ALL ON FUNCTION lore.alias_leg(query_text text, pool integer, allowed bigint[]) TO lore_search;

--
-- Name: FUNCTION allowed_keys(filter jsonb, kinds text[], as_of timestamp with time zone); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.allowed_keys(filter jsonb, kinds text[], as_of timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.allowed_keys(filter jsonb, kinds text[], as_of timestamp with time zone) TO lore_service;
GRANT ALL ON FUNCTION lore.allowed_keys(filter jsonb, kinds text[], as_of timestamp with time zone) TO lore_search;
GRANT ALL ON FUNCTION lore.allowed_keys(filter jsonb, kinds text[], as_of timestamp with time zone) TO lore_user;

--
-- Name: FUNCTION bound_unsorted(); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.bound_unsorted() FROM PUBLIC;
GRANT ALL ON FUNCTION lore.bound_unsorted() TO lore_service;
GRANT ALL ON FUNCTION lore.bound_unsorted() TO lore_search;
GRANT ALL ON FUNCTION lore.bound_unsorted() TO lore_user;

--
-- Name: FUNCTION candidates(query_texts text[], query_embeddings public.halfvec[], k integer, allowed bigint[]); Type: ACL; Schema: lore; Owner: lore_search
--

REVOKE ALL ON FUNCTION lore.candidates(query_texts text[], query_embeddings public.halfvec[], k integer, allowed bigint[]) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.candidates(query_texts text[], query_embeddings public.halfvec[], k integer, allowed bigint[]) TO lore_service;
GRANT ALL ON FUNCTION lore.candidates(query_texts text[], query_embeddings public.halfvec[], k integer, allowed bigint[]) TO lore_user;

--
-- Name: FUNCTION check_mapped_role(); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.check_mapped_role() FROM PUBLIC;

--
-- Name: FUNCTION closest_codes(asked public.halfvec, in_space smallint, in_centre smallint, candidates integer, pool integer); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.closest_codes(asked public.halfvec, in_space smallint, in_centre smallint, candidates integer, pool integer) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.closest_codes(asked public.halfvec, in_space smallint, in_centre smallint, candidates integer, pool integer) TO lore_service;
GRANT ALL ON FUNCTION lore.closest_codes(asked public.halfvec, in_space smallint, in_centre smallint, candidates integer, pool integer) TO lore_search;

--
-- Name: FUNCTION closest_windows(asked public.halfvec, in_space smallint, pool integer, allowed bigint[]); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.closest_windows(asked public.halfvec, in_space smallint, pool integer, allowed bigint[]) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.closest_windows(asked public.halfvec, in_space smallint, pool integer, allowed bigint[]) TO lore_service;
GRANT ALL ON FUNCTION lore.closest_windows(asked public.halfvec, in_space smallint, pool integer, allowed bigint[]) TO lore_search;

--
-- Name: FUNCTION compile_filter(filter jsonb); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.compile_filter(filter jsonb) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.compile_filter(filter jsonb) TO lore_service;
GRANT ALL ON FUNCTION lore.compile_filter(filter jsonb) TO lore_search;
GRANT ALL ON FUNCTION lore.compile_filter(filter jsonb) TO lore_user;

--
-- Name: FUNCTION compound_forms(content text); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.compound_forms(content text) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.compound_forms(content text) TO lore_service;
GRANT ALL ON FUNCTION lore.compound_forms(content text) TO lore_search;
GRANT ALL ON FUNCTION lore.compound_forms(content text) TO lore_user;

--
-- Name: FUNCTION copy_life(); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.copy_life() FROM PUBLIC;
GRANT ALL ON FUNCTION lore.copy_life() TO lore_service;
GRANT ALL ON FUNCTION lore.copy_life() TO lore_search;
GRANT ALL ON FUNCTION lore.copy_life() TO lore_user;

--
-- Name: FUNCTION count_part(of_org text, part text, after_key bigint); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.count_part(of_org text, part text, after_key bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.count_part(of_org text, part text, after_key bigint) TO lore_service;

--
-- Name: FUNCTION counted_votes(of_org text, of_key bigint); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.counted_votes(of_org text, of_key bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.counted_votes(of_org text, of_key bigint) TO lore_service;
GRANT ALL ON FUNCTION lore.counted_votes(of_org text, of_key bigint) TO lore_search;
GRANT ALL ON FUNCTION lore.counted_votes(of_org text, of_key bigint) TO lore_user;

--
-- Name: FUNCTION decoded_part(part text); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.decoded_part(part text) FROM PUBLIC;

--
-- Name: FUNCTION enter_search(role_name text, org text, user_name text, space text, token text, query_texts text[], embedding public.halfvec, further public.halfvec[], OUT texts text[], OUT embeddings public.halfvec[]); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.enter_search(role_name text, org text, user_name text, space text, token text, query_texts text[], embedding public.halfvec, further public.halfvec[], OUT texts text[], OUT embeddings public.halfvec[]) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.enter_search(role_name text, org text, user_name text, space text, token text, query_texts text[], embedding public.halfvec, further public.halfvec[], OUT texts text[], OUT embeddings public.halfvec[]) TO lore_service;
GRANT ALL ON FUNCTION lore.enter_search(role_name text, org text, user_name text, space text, token text, query_texts text[], embedding public.halfvec, further public.halfvec[], OUT texts text[], OUT embeddings public.halfvec[]) TO lore_search;
GRANT ALL ON FUNCTION lore.enter_search(role_name text, org text, user_name text, space text, token text, query_texts text[], embedding public.halfvec, further public.halfvec[], OUT texts text[], OUT embeddings public.halfvec[]) TO lore_user;

--
-- Name: TABLE fusion_config; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT SELECT ON TABLE lore.fusion_config TO lore_user;
GRANT SELECT ON TABLE lore.fusion_config TO lore_search;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lore.fusion_config TO lore_service;

--
-- Name: FUNCTION exact_leg(query_text text, pool integer, allowed bigint[], config lore.fusion_config); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.exact_leg(query_text text, pool integer, allowed bigint[], config lore.fusion_config) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.exact_leg(query_text text, pool integer, allowed bigint[], config lore.fusion_config) TO lore_service;
GRANT ALL ON FUNCTION lore.exact_leg(query_text text, pool integer, allowed bigint[], config lore.fusion_config) TO lore_search;

--
-- Name: FUNCTION exact_query(config text, query_text text); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.exact_query(config text, query_text text) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.exact_query(config text, query_text text) TO lore_service;
GRANT ALL ON FUNCTION lore.exact_query(config text, query_text text) TO lore_search;
GRANT ALL ON FUNCTION lore.exact_query(config text, query_text text) TO lore_user;

--
-- Name: FUNCTION explain_legs(query_texts text[], query_embeddings public.halfvec[], pool integer, allowed bigint[]); Type: ACL; Schema: lore; Owner: lore_search
--

REVOKE ALL ON FUNCTION lore.explain_legs(query_texts text[], query_embeddings public.halfvec[], pool integer, allowed bigint[]) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.explain_legs(query_texts text[], query_embeddings public.halfvec[], pool integer, allowed bigint[]) TO lore_service;
GRANT ALL ON FUNCTION lore.explain_legs(query_texts text[], query_embeddings public.halfvec[], pool integer, allowed bigint[]) TO lore_user;

--
-- Name: FUNCTION explain_words(query_texts text[]); Type: ACL; Schema: lore; Owner: lore_search
--

REVOKE ALL ON FUNCTION lore.explain_words(query_texts text[]) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.explain_words(query_texts text[]) TO lore_service;
GRANT ALL ON FUNCTION lore.explain_words(query_texts text[]) TO lore_user;

--
-- Name: FUNCTION filter_column(key text); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.filter_column(key text) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.filter_column(key text) TO lore_service;
GRANT ALL ON FUNCTION lore.filter_column(key text) TO lore_search;
GRANT ALL ON FUNCTION lore.filter_column(key text) TO lore_user;

--
-- Name: FUNCTION filter_condition(program lore.filter_program, key text, operator text, operand jsonb); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.filter_condition(program lore.filter_program, key text, operator text, operand jsonb) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.filter_condition(program lore.filter_program, key text, operator text, operand jsonb) TO lore_service;
GRANT ALL ON FUNCTION lore.filter_condition(program lore.filter_program, key text, operator text, operand jsonb) TO lore_search;
GRANT ALL ON FUNCTION lore.filter_condition(program lore.filter_program, key text, operator text, operand jsonb) TO lore_user;

--
-- Name: FUNCTION filter_enter(program lore.filter_program, depth integer); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.filter_enter(program lore.filter_program, depth integer) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.filter_enter(program lore.filter_program, depth integer) TO lore_service;
GRANT ALL ON FUNCTION lore.filter_enter(program lore.filter_program, depth integer) TO lore_search;
GRANT ALL ON FUNCTION lore.filter_enter(program lore.filter_program, depth integer) TO lore_user;

--
-- Name: FUNCTION filter_entry(program lore.filter_program, name text, value jsonb, depth integer); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.filter_entry(program lore.filter_program, name text, value jsonb, depth integer) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.filter_entry(program lore.filter_program, name text, value jsonb, depth integer) TO lore_service;
GRANT ALL ON FUNCTION lore.filter_entry(program lore.filter_program, name text, value jsonb, depth integer) TO lore_search;
GRANT ALL ON FUNCTION lore.filter_entry(program lore.filter_program, name text, value jsonb, depth integer) TO lore_user;

--
-- Name: FUNCTION filter_field(program lore.filter_program, key text, value jsonb, depth integer); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.filter_field(program lore.filter_program, key text, value jsonb, depth integer) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.filter_field(program lore.filter_program, key text, value jsonb, depth integer) TO lore_service;
GRANT ALL ON FUNCTION lore.filter_field(program lore.filter_program, key text, value jsonb, depth integer) TO lore_search;
GRANT ALL ON FUNCTION lore.filter_field(program lore.filter_program, key text, value jsonb, depth integer) TO lore_user;

--
-- Name: FUNCTION filter_items(operand jsonb); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.filter_items(operand jsonb) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.filter_items(operand jsonb) TO lore_service;
GRANT ALL ON FUNCTION lore.filter_items(operand jsonb) TO lore_search;
GRANT ALL ON FUNCTION lore.filter_items(operand jsonb) TO lore_user;

--
-- Name: FUNCTION filter_list(program lore.filter_program, operator text, joined_by text, parts jsonb, depth integer); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.filter_list(program lore.filter_program, operator text, joined_by text, parts jsonb, depth integer) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.filter_list(program lore.filter_program, operator text, joined_by text, parts jsonb, depth integer) TO lore_service;
GRANT ALL ON FUNCTION lore.filter_list(program lore.filter_program, operator text, joined_by text, parts jsonb, depth integer) TO lore_search;
GRANT ALL ON FUNCTION lore.filter_list(program lore.filter_program, operator text, joined_by text, parts jsonb, depth integer) TO lore_user;

--
-- Name: FUNCTION filter_list_test(program lore.filter_program, lookup text, words text, operator text, operand jsonb); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.filter_list_test(program lore.filter_program, lookup text, words text, operator text, operand jsonb) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.filter_list_test(program lore.filter_program, lookup text, words text, operator text, operand jsonb) TO lore_service;
GRANT ALL ON FUNCTION lore.filter_list_test(program lore.filter_program, lookup text, words text, operator text, operand jsonb) TO lore_search;
GRANT ALL ON FUNCTION lore.filter_list_test(program lore.filter_program, lookup text, words text, operator text, operand jsonb) TO lore_user;

--
-- Name: FUNCTION filter_metadata_condition(program lore.filter_program, key text, operator text, operand jsonb); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.filter_metadata_condition(program lore.filter_program, key text, operator text, operand jsonb) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.filter_metadata_condition(program lore.filter_program, key text, operator text, operand jsonb) TO lore_service;
GRANT ALL ON FUNCTION lore.filter_metadata_condition(program lore.filter_program, key text, operator text, operand jsonb) TO lore_search;
GRANT ALL ON FUNCTION lore.filter_metadata_condition(program lore.filter_program, key text, operator text, operand jsonb) TO lore_user;

--
-- Name: FUNCTION filter_node(program lore.filter_program, node jsonb, depth integer); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.filter_node(program lore.filter_program, node jsonb, depth integer) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.filter_node(program lore.filter_program, node jsonb, depth integer) TO lore_service;
GRANT ALL ON FUNCTION lore.filter_node(program lore.filter_program, node jsonb, depth integer) TO lore_search;
GRANT ALL ON FUNCTION lore.filter_node(program lore.filter_program, node jsonb, depth integer) TO lore_user;

--
-- Name: FUNCTION filter_operand_problem(field text, operator text, operand jsonb); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.filter_operand_problem(field text, operator text, operand jsonb) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.filter_operand_problem(field text, operator text, operand jsonb) TO lore_service;
GRANT ALL ON FUNCTION lore.filter_operand_problem(field text, operator text, operand jsonb) TO lore_search;
GRANT ALL ON FUNCTION lore.filter_operand_problem(field text, operator text, operand jsonb) TO lore_user;

--
-- Name: FUNCTION filter_scalar_fits(field text, value jsonb); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.filter_scalar_fits(field text, value jsonb) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.filter_scalar_fits(field text, value jsonb) TO lore_service;
GRANT ALL ON FUNCTION lore.filter_scalar_fits(field text, value jsonb) TO lore_search;
GRANT ALL ON FUNCTION lore.filter_scalar_fits(field text, value jsonb) TO lore_user;

--
-- Name: FUNCTION filter_system_condition(program lore.filter_program, key text, field text, operator text, operand jsonb); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.filter_system_condition(program lore.filter_program, key text, field text, operator text, operand jsonb) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.filter_system_condition(program lore.filter_program, key text, field text, operator text, operand jsonb) TO lore_service;
GRANT ALL ON FUNCTION lore.filter_system_condition(program lore.filter_program, key text, field text, operator text, operand jsonb) TO lore_search;
GRANT ALL ON FUNCTION lore.filter_system_condition(program lore.filter_program, key text, field text, operator text, operand jsonb) TO lore_user;

--
-- Name: FUNCTION filter_text_test(program lore.filter_program, guard text, subject text, operator text, operand jsonb); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.filter_text_test(program lore.filter_program, guard text, subject text, operator text, operand jsonb) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.filter_text_test(program lore.filter_program, guard text, subject text, operator text, operand jsonb) TO lore_service;
GRANT ALL ON FUNCTION lore.filter_text_test(program lore.filter_program, guard text, subject text, operator text, operand jsonb) TO lore_search;
GRANT ALL ON FUNCTION lore.filter_text_test(program lore.filter_program, guard text, subject text, operator text, operand jsonb) TO lore_user;

--
-- Name: FUNCTION filter_time(value text); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.filter_time(value text) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.filter_time(value text) TO lore_service;
GRANT ALL ON FUNCTION lore.filter_time(value text) TO lore_search;
GRANT ALL ON FUNCTION lore.filter_time(value text) TO lore_user;

--
-- Name: FUNCTION folded_name(name text); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.folded_name(name text) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.folded_name(name text) TO lore_service;
GRANT ALL ON FUNCTION lore.folded_name(name text) TO lore_search;
GRANT ALL ON FUNCTION lore.folded_name(name text) TO lore_user;

--
-- Name: FUNCTION folded_text(content text); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.folded_text(content text) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.folded_text(content text) TO lore_service;
GRANT ALL ON FUNCTION lore.folded_text(content text) TO lore_search;
GRANT ALL ON FUNCTION lore.folded_text(content text) TO lore_user;

--
-- Name: FUNCTION forget_user(in_org text, of_user text); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.forget_user(in_org text, of_user text) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.forget_user(in_org text, of_user text) TO lore_service;
GRANT ALL ON FUNCTION lore.forget_user(in_org text, of_user text) TO lore_search;
GRANT ALL ON FUNCTION lore.forget_user(in_org text, of_user text) TO lore_user;

--
-- Name: FUNCTION fusion(); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.fusion() FROM PUBLIC;
GRANT ALL ON FUNCTION lore.fusion() TO lore_service;
GRANT ALL ON FUNCTION lore.fusion() TO lore_search;
GRANT ALL ON FUNCTION lore.fusion() TO lore_user;

--
-- Name: FUNCTION has_unsplit_script(content text); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.has_unsplit_script(content text) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.has_unsplit_script(content text) TO lore_service;
GRANT ALL ON FUNCTION lore.has_unsplit_script(content text) TO lore_search;
GRANT ALL ON FUNCTION lore.has_unsplit_script(content text) TO lore_user;

--
-- Name: FUNCTION holders_of_common_words(proposing lore.query_stem[], stems lore.query_stem[], most integer, pool integer); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.holders_of_common_words(proposing lore.query_stem[], stems lore.query_stem[], most integer, pool integer) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.holders_of_common_words(proposing lore.query_stem[], stems lore.query_stem[], most integer, pool integer) TO lore_service;
GRANT ALL ON FUNCTION lore.holders_of_common_words(proposing lore.query_stem[], stems lore.query_stem[], most integer, pool integer) TO lore_search;

--
-- Name: FUNCTION identifier_parts(names text[]); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.identifier_parts(names text[]) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.identifier_parts(names text[]) TO lore_service;
GRANT ALL ON FUNCTION lore.identifier_parts(names text[]) TO lore_search;
GRANT ALL ON FUNCTION lore.identifier_parts(names text[]) TO lore_user;

--
-- Name: FUNCTION identifiers_of(content text); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.identifiers_of(content text) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.identifiers_of(content text) TO lore_service;
GRANT ALL ON FUNCTION lore.identifiers_of(content text) TO lore_search;
GRANT ALL ON FUNCTION lore.identifiers_of(content text) TO lore_user;

--
-- Name: FUNCTION indexed_chars(config text, content text); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.indexed_chars(config text, content text) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.indexed_chars(config text, content text) TO lore_service;
GRANT ALL ON FUNCTION lore.indexed_chars(config text, content text) TO lore_search;
GRANT ALL ON FUNCTION lore.indexed_chars(config text, content text) TO lore_user;

--
-- Name: FUNCTION is_identifier(token text); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.is_identifier(token text) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.is_identifier(token text) TO lore_service;
GRANT ALL ON FUNCTION lore.is_identifier(token text) TO lore_search;
GRANT ALL ON FUNCTION lore.is_identifier(token text) TO lore_user;

--
-- Name: FUNCTION marked_window(content text, content_length integer, starts integer[], ends integer[], marks text[], weights double precision[]); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.marked_window(content text, content_length integer, starts integer[], ends integer[], marks text[], weights double precision[]) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.marked_window(content text, content_length integer, starts integer[], ends integer[], marks text[], weights double precision[]) TO lore_service;
GRANT ALL ON FUNCTION lore.marked_window(content text, content_length integer, starts integer[], ends integer[], marks text[], weights double precision[]) TO lore_search;
GRANT ALL ON FUNCTION lore.marked_window(content text, content_length integer, starts integer[], ends integer[], marks text[], weights double precision[]) TO lore_user;

--
-- Name: FUNCTION memory_identifiers(id text, content text); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.memory_identifiers(id text, content text) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.memory_identifiers(id text, content text) TO lore_service;
GRANT ALL ON FUNCTION lore.memory_identifiers(id text, content text) TO lore_search;
GRANT ALL ON FUNCTION lore.memory_identifiers(id text, content text) TO lore_user;

--
-- Name: FUNCTION memory_vector(config text, content text); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.memory_vector(config text, content text) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.memory_vector(config text, content text) TO lore_service;
GRANT ALL ON FUNCTION lore.memory_vector(config text, content text) TO lore_search;
GRANT ALL ON FUNCTION lore.memory_vector(config text, content text) TO lore_user;

--
-- Name: FUNCTION names_in(folded_query text); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.names_in(folded_query text) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.names_in(folded_query text) TO lore_service;
GRANT ALL ON FUNCTION lore.names_in(folded_query text) TO lore_search;
GRANT ALL ON FUNCTION lore.names_in(folded_query text) TO lore_user;

--
-- Name: FUNCTION newest_holders(wanted tsquery, stems text[], least_closeness real, most integer); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.newest_holders(wanted tsquery, stems text[], least_closeness real, most integer) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.newest_holders(wanted tsquery, stems text[], least_closeness real, most integer) TO lore_service;
GRANT ALL ON FUNCTION lore.newest_holders(wanted tsquery, stems text[], least_closeness real, most integer) TO lore_search;

--
-- Name: FUNCTION part_of(owner text, visibility text); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.part_of(owner text, visibility text) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.part_of(owner text, visibility text) TO lore_service;
GRANT ALL ON FUNCTION lore.part_of(owner text, visibility text) TO lore_search;
GRANT ALL ON FUNCTION lore.part_of(owner text, visibility text) TO lore_user;

--
-- Name: FUNCTION query_identifiers(query_text text); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.query_identifiers(query_text text) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.query_identifiers(query_text text) TO lore_service;
GRANT ALL ON FUNCTION lore.query_identifiers(query_text text) TO lore_search;
GRANT ALL ON FUNCTION lore.query_identifiers(query_text text) TO lore_user;

--
-- Name: FUNCTION read_stems(query_text text, memories_in_scope bigint, config lore.fusion_config); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.read_stems(query_text text, memories_in_scope bigint, config lore.fusion_config) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.read_stems(query_text text, memories_in_scope bigint, config lore.fusion_config) TO lore_service;
GRANT ALL ON FUNCTION lore.read_stems(query_text text, memories_in_scope bigint, config lore.fusion_config) TO lore_search;
GRANT ALL ON FUNCTION lore.read_stems(query_text text, memories_in_scope bigint, config lore.fusion_config) TO lore_user;

--
-- Name: FUNCTION rebuild_statistics(); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.rebuild_statistics() FROM PUBLIC;
GRANT ALL ON FUNCTION lore.rebuild_statistics() TO lore_service;

--
-- Name: FUNCTION recall(query_texts text[], query_embeddings public.halfvec[], k integer, filter jsonb, kinds text[], as_of timestamp with time zone); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.recall(query_texts text[], query_embeddings public.halfvec[], k integer, filter jsonb, kinds text[], as_of timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.recall(query_texts text[], query_embeddings public.halfvec[], k integer, filter jsonb, kinds text[], as_of timestamp with time zone) TO lore_service;
GRANT ALL ON FUNCTION lore.recall(query_texts text[], query_embeddings public.halfvec[], k integer, filter jsonb, kinds text[], as_of timestamp with time zone) TO lore_search;
GRANT ALL ON FUNCTION lore.recall(query_texts text[], query_embeddings public.halfvec[], k integer, filter jsonb, kinds text[], as_of timestamp with time zone) TO lore_user;

--
-- Name: FUNCTION refresh_reinforcement(); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.refresh_reinforcement() FROM PUBLIC;
GRANT ALL ON FUNCTION lore.refresh_reinforcement() TO lore_service;
GRANT ALL ON FUNCTION lore.refresh_reinforcement() TO lore_search;
GRANT ALL ON FUNCTION lore.refresh_reinforcement() TO lore_user;

--
-- Name: FUNCTION refresh_statistics(); Type: ACL; Schema: lore; Owner: lore_service
--

REVOKE ALL ON FUNCTION lore.refresh_statistics() FROM PUBLIC;
GRANT ALL ON FUNCTION lore.refresh_statistics() TO lore_search;
GRANT ALL ON FUNCTION lore.refresh_statistics() TO lore_user;

--
-- Name: FUNCTION reinforced(useful bigint, misleading bigint); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.reinforced(useful bigint, misleading bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.reinforced(useful bigint, misleading bigint) TO lore_service;
GRANT ALL ON FUNCTION lore.reinforced(useful bigint, misleading bigint) TO lore_search;
GRANT ALL ON FUNCTION lore.reinforced(useful bigint, misleading bigint) TO lore_user;

--
-- Name: FUNCTION relaxed_leg(query_text text, pool integer, allowed bigint[], config lore.fusion_config); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.relaxed_leg(query_text text, pool integer, allowed bigint[], config lore.fusion_config) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.relaxed_leg(query_text text, pool integer, allowed bigint[], config lore.fusion_config) TO lore_service;
GRANT ALL ON FUNCTION lore.relaxed_leg(query_text text, pool integer, allowed bigint[], config lore.fusion_config) TO lore_search;

--
-- Name: FUNCTION require_caller(known lore.caller, credential text); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.require_caller(known lore.caller, credential text) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.require_caller(known lore.caller, credential text) TO lore_search;
GRANT ALL ON FUNCTION lore.require_caller(known lore.caller, credential text) TO lore_service;
GRANT ALL ON FUNCTION lore.require_caller(known lore.caller, credential text) TO lore_user;

--
-- Name: FUNCTION role_caller(); Type: ACL; Schema: lore; Owner: lore_search
--

REVOKE ALL ON FUNCTION lore.role_caller() FROM PUBLIC;
GRANT ALL ON FUNCTION lore.role_caller() TO lore_service;
GRANT ALL ON FUNCTION lore.role_caller() TO lore_user;

--
-- Name: FUNCTION scope_org(); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.scope_org() FROM PUBLIC;
GRANT ALL ON FUNCTION lore.scope_org() TO lore_service;
GRANT ALL ON FUNCTION lore.scope_org() TO lore_search;
GRANT ALL ON FUNCTION lore.scope_org() TO lore_user;

--
-- Name: FUNCTION scope_size(OUT memories bigint, OUT mean_length double precision); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.scope_size(OUT memories bigint, OUT mean_length double precision) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.scope_size(OUT memories bigint, OUT mean_length double precision) TO lore_service;
GRANT ALL ON FUNCTION lore.scope_size(OUT memories bigint, OUT mean_length double precision) TO lore_search;
GRANT ALL ON FUNCTION lore.scope_size(OUT memories bigint, OUT mean_length double precision) TO lore_user;

--
-- Name: FUNCTION scope_user(); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.scope_user() FROM PUBLIC;
GRANT ALL ON FUNCTION lore.scope_user() TO lore_service;
GRANT ALL ON FUNCTION lore.scope_user() TO lore_search;
GRANT ALL ON FUNCTION lore.scope_user() TO lore_user;

--
-- Name: FUNCTION search_text(content text, ending boolean); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.search_text(content text, ending boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.search_text(content text, ending boolean) TO lore_service;
GRANT ALL ON FUNCTION lore.search_text(content text, ending boolean) TO lore_search;
GRANT ALL ON FUNCTION lore.search_text(content text, ending boolean) TO lore_user;

--
-- Name: TABLE embedding_space; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT SELECT ON TABLE lore.embedding_space TO lore_user;
GRANT SELECT ON TABLE lore.embedding_space TO lore_search;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lore.embedding_space TO lore_service;

--
-- Name: FUNCTION searched_space(); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.searched_space() FROM PUBLIC;
GRANT ALL ON FUNCTION lore.searched_space() TO lore_service;
GRANT ALL ON FUNCTION lore.searched_space() TO lore_search;
GRANT ALL ON FUNCTION lore.searched_space() TO lore_user;

--
-- Name: FUNCTION similar_stems(stem text, least_similarity double precision); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.similar_stems(stem text, least_similarity double precision) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.similar_stems(stem text, least_similarity double precision) TO lore_service;
GRANT ALL ON FUNCTION lore.similar_stems(stem text, least_similarity double precision) TO lore_search;

--
-- Name: FUNCTION sort_in(); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.sort_in() FROM PUBLIC;
GRANT ALL ON FUNCTION lore.sort_in() TO lore_service;
GRANT ALL ON FUNCTION lore.sort_in() TO lore_search;
GRANT ALL ON FUNCTION lore.sort_in() TO lore_user;

--
-- Name: FUNCTION split_compounds(content text); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.split_compounds(content text) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.split_compounds(content text) TO lore_service;
GRANT ALL ON FUNCTION lore.split_compounds(content text) TO lore_search;
GRANT ALL ON FUNCTION lore.split_compounds(content text) TO lore_user;

--
-- Name: FUNCTION statistics_lock(of_org text, part text); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.statistics_lock(of_org text, part text) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.statistics_lock(of_org text, part text) TO lore_service;
GRANT ALL ON FUNCTION lore.statistics_lock(of_org text, part text) TO lore_search;
GRANT ALL ON FUNCTION lore.statistics_lock(of_org text, part text) TO lore_user;

--
-- Name: FUNCTION stem_query(stem text); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.stem_query(stem text) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.stem_query(stem text) TO lore_service;
GRANT ALL ON FUNCTION lore.stem_query(stem text) TO lore_search;
GRANT ALL ON FUNCTION lore.stem_query(stem text) TO lore_user;

--
-- Name: FUNCTION text_hash(content text); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.text_hash(content text) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.text_hash(content text) TO lore_service;
GRANT ALL ON FUNCTION lore.text_hash(content text) TO lore_search;
GRANT ALL ON FUNCTION lore.text_hash(content text) TO lore_user;

--
-- Name: FUNCTION text_vector(config text, content text, ending boolean); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.text_vector(config text, content text, ending boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.text_vector(config text, content text, ending boolean) TO lore_service;
GRANT ALL ON FUNCTION lore.text_vector(config text, content text, ending boolean) TO lore_search;
GRANT ALL ON FUNCTION lore.text_vector(config text, content text, ending boolean) TO lore_user;

--
-- Name: FUNCTION token_caller(org_claim text[], user_claim text[], for_audience text); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.token_caller(org_claim text[], user_claim text[], for_audience text) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.token_caller(org_claim text[], user_claim text[], for_audience text) TO lore_search;
GRANT ALL ON FUNCTION lore.token_caller(org_claim text[], user_claim text[], for_audience text) TO lore_service;
GRANT ALL ON FUNCTION lore.token_caller(org_claim text[], user_claim text[], for_audience text) TO lore_user;

--
-- Name: FUNCTION token_claims(for_audience text); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.token_claims(for_audience text) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.token_claims(for_audience text) TO lore_search;
GRANT ALL ON FUNCTION lore.token_claims(for_audience text) TO lore_service;
GRANT ALL ON FUNCTION lore.token_claims(for_audience text) TO lore_user;

--
-- Name: FUNCTION tokens_as_typed(content text); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.tokens_as_typed(content text) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.tokens_as_typed(content text) TO lore_service;
GRANT ALL ON FUNCTION lore.tokens_as_typed(content text) TO lore_search;
GRANT ALL ON FUNCTION lore.tokens_as_typed(content text) TO lore_user;

--
-- Name: FUNCTION unsplit_bigrams(content text, ending boolean); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.unsplit_bigrams(content text, ending boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.unsplit_bigrams(content text, ending boolean) TO lore_service;
GRANT ALL ON FUNCTION lore.unsplit_bigrams(content text, ending boolean) TO lore_search;
GRANT ALL ON FUNCTION lore.unsplit_bigrams(content text, ending boolean) TO lore_user;

--
-- Name: FUNCTION use_identity(mode text, in_org_claim text[], in_user_claim text[], for_audience text); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.use_identity(mode text, in_org_claim text[], in_user_claim text[], for_audience text) FROM PUBLIC;

--
-- Name: FUNCTION vector_leg(asked public.halfvec, pool integer, allowed bigint[], config lore.fusion_config); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.vector_leg(asked public.halfvec, pool integer, allowed bigint[], config lore.fusion_config) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.vector_leg(asked public.halfvec, pool integer, allowed bigint[], config lore.fusion_config) TO lore_service;
GRANT ALL ON FUNCTION lore.vector_leg(asked public.halfvec, pool integer, allowed bigint[], config lore.fusion_config) TO lore_search;

--
-- Name: FUNCTION vote(memory_id text, is_useful boolean, in_recall text); Type: ACL; Schema: lore; Owner: lore_service
--

REVOKE ALL ON FUNCTION lore.vote(memory_id text, is_useful boolean, in_recall text) FROM PUBLIC;
GRANT ALL ON FUNCTION lore.vote(memory_id text, is_useful boolean, in_recall text) TO lore_search;
GRANT ALL ON FUNCTION lore.vote(memory_id text, is_useful boolean, in_recall text) TO lore_user;

--
-- Name: FUNCTION write_codes(); Type: ACL; Schema: lore; Owner: lore_owner
--

REVOKE ALL ON FUNCTION lore.write_codes() FROM PUBLIC;
GRANT ALL ON FUNCTION lore.write_codes() TO lore_service;
GRANT ALL ON FUNCTION lore.write_codes() TO lore_search;
GRANT ALL ON FUNCTION lore.write_codes() TO lore_user;

--
-- Name: TABLE aliases; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lore.aliases TO lore_service;
GRANT SELECT,DELETE ON TABLE lore.aliases TO lore_user;
GRANT SELECT ON TABLE lore.aliases TO lore_search;

--
-- Name: COLUMN aliases.org; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(org) ON TABLE lore.aliases TO lore_user;

--
-- Name: COLUMN aliases.folded; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(folded) ON TABLE lore.aliases TO lore_user;

--
-- Name: COLUMN aliases.name; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(name),UPDATE(name) ON TABLE lore.aliases TO lore_user;

--
-- Name: COLUMN aliases.group_no; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(group_no),UPDATE(group_no) ON TABLE lore.aliases TO lore_user;

--
-- Name: COLUMN aliases.key; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(key) ON TABLE lore.aliases TO lore_user;

--
-- Name: COLUMN aliases.owner; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(owner) ON TABLE lore.aliases TO lore_user;

--
-- Name: COLUMN aliases.shared; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(shared),UPDATE(shared) ON TABLE lore.aliases TO lore_user;

--
-- Name: COLUMN aliases.created_at; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(created_at) ON TABLE lore.aliases TO lore_user;

--
-- Name: TABLE centres; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT SELECT ON TABLE lore.centres TO lore_user;
GRANT SELECT ON TABLE lore.centres TO lore_search;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lore.centres TO lore_service;

--
-- Name: TABLE codes; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lore.codes TO lore_service;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lore.codes TO lore_user;
GRANT SELECT ON TABLE lore.codes TO lore_search;

--
-- Name: TABLE eval_runs; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lore.eval_runs TO lore_service;

--
-- Name: TABLE feedback; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lore.feedback TO lore_service;
GRANT SELECT,INSERT ON TABLE lore.feedback TO lore_user;

--
-- Name: COLUMN feedback.useful; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT UPDATE(useful) ON TABLE lore.feedback TO lore_user;

--
-- Name: COLUMN feedback.created_at; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT UPDATE(created_at) ON TABLE lore.feedback TO lore_user;

--
-- Name: TABLE history; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lore.history TO lore_service;
GRANT SELECT ON TABLE lore.history TO lore_user;

--
-- Name: COLUMN history.org; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(org) ON TABLE lore.history TO lore_user;

--
-- Name: COLUMN history.key; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(key) ON TABLE lore.history TO lore_user;

--
-- Name: COLUMN history.version; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(version) ON TABLE lore.history TO lore_user;

--
-- Name: COLUMN history.event; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(event) ON TABLE lore.history TO lore_user;

--
-- Name: COLUMN history.content; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(content) ON TABLE lore.history TO lore_user;

--
-- Name: COLUMN history.superseded_by; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(superseded_by) ON TABLE lore.history TO lore_user;

--
-- Name: COLUMN history.changed_at; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(changed_at) ON TABLE lore.history TO lore_user;

--
-- Name: TABLE kinds; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT SELECT ON TABLE lore.kinds TO lore_user;
GRANT SELECT ON TABLE lore.kinds TO lore_search;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lore.kinds TO lore_service;

--
-- Name: TABLE memories; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lore.memories TO lore_service;
GRANT SELECT,DELETE ON TABLE lore.memories TO lore_user;
GRANT SELECT ON TABLE lore.memories TO lore_search;

--
-- Name: COLUMN memories.org; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(org) ON TABLE lore.memories TO lore_user;

--
-- Name: COLUMN memories.id; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(id),UPDATE(id) ON TABLE lore.memories TO lore_user;

--
-- Name: COLUMN memories.owner; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(owner) ON TABLE lore.memories TO lore_user;

--
-- Name: COLUMN memories.visibility; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(visibility),UPDATE(visibility) ON TABLE lore.memories TO lore_user;

--
-- Name: COLUMN memories.kind; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(kind),UPDATE(kind) ON TABLE lore.memories TO lore_user;

--
-- Name: COLUMN memories.content; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(content),UPDATE(content) ON TABLE lore.memories TO lore_user;

--
-- Name: COLUMN memories.content_original; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(content_original),UPDATE(content_original) ON TABLE lore.memories TO lore_user;

--
-- Name: COLUMN memories.language; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(language),UPDATE(language) ON TABLE lore.memories TO lore_user;

--
-- Name: COLUMN memories.translation; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(translation),UPDATE(translation) ON TABLE lore.memories TO lore_user;

--
-- Name: COLUMN memories.metadata; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(metadata),UPDATE(metadata) ON TABLE lore.memories TO lore_user;

--
-- Name: COLUMN memories.pinned; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(pinned),UPDATE(pinned) ON TABLE lore.memories TO lore_user;

--
-- Name: COLUMN memories.agent; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(agent),UPDATE(agent) ON TABLE lore.memories TO lore_user;

--
-- Name: COLUMN memories.session; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(session),UPDATE(session) ON TABLE lore.memories TO lore_user;

--
-- Name: COLUMN memories.source; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(source),UPDATE(source) ON TABLE lore.memories TO lore_user;

--
-- Name: COLUMN memories.trust; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(trust),UPDATE(trust) ON TABLE lore.memories TO lore_user;

--
-- Name: COLUMN memories.created_at; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(created_at),UPDATE(created_at) ON TABLE lore.memories TO lore_user;

--
-- Name: COLUMN memories.updated_at; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(updated_at),UPDATE(updated_at) ON TABLE lore.memories TO lore_user;

--
-- Name: COLUMN memories.expires_at; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(expires_at),UPDATE(expires_at) ON TABLE lore.memories TO lore_user;

--
-- Name: COLUMN memories.invalidated_at; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(invalidated_at),UPDATE(invalidated_at) ON TABLE lore.memories TO lore_user;

--
-- Name: COLUMN memories.superseded_by; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(superseded_by),UPDATE(superseded_by) ON TABLE lore.memories TO lore_user;

--
-- Name: COLUMN memories.version; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(version),UPDATE(version) ON TABLE lore.memories TO lore_user;

--
-- Name: COLUMN memories.text_config; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(text_config),UPDATE(text_config) ON TABLE lore.memories TO lore_user;

--
-- Name: COLUMN memories.partly_embedded; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT INSERT(partly_embedded),UPDATE(partly_embedded) ON TABLE lore.memories TO lore_user;

--
-- Name: TABLE migrations; Type: ACL; Schema: lore; Owner: administrator
--

GRANT SELECT ON TABLE lore.migrations TO lore_user;
GRANT SELECT ON TABLE lore.migrations TO lore_service;

--
-- Name: TABLE pending; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lore.pending TO lore_service;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lore.pending TO lore_user;
GRANT SELECT ON TABLE lore.pending TO lore_search;

--
-- Name: TABLE reinforcement; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lore.reinforcement TO lore_service;
GRANT SELECT ON TABLE lore.reinforcement TO lore_user;
GRANT SELECT ON TABLE lore.reinforcement TO lore_search;

--
-- Name: TABLE role_identities; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lore.role_identities TO lore_service;
GRANT SELECT ON TABLE lore.role_identities TO lore_search;

--
-- Name: TABLE scope_statistics; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lore.scope_statistics TO lore_service;
GRANT SELECT ON TABLE lore.scope_statistics TO lore_user;
GRANT SELECT ON TABLE lore.scope_statistics TO lore_search;

--
-- Name: TABLE settings; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT SELECT ON TABLE lore.settings TO lore_user;
GRANT SELECT ON TABLE lore.settings TO lore_search;
GRANT SELECT ON TABLE lore.settings TO lore_service;

--
-- Name: COLUMN settings.text_config; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT UPDATE(text_config) ON TABLE lore.settings TO lore_service;

--
-- Name: COLUMN settings.next_text_config; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT UPDATE(next_text_config) ON TABLE lore.settings TO lore_service;

--
-- Name: COLUMN settings.result_budget; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT UPDATE(result_budget) ON TABLE lore.settings TO lore_service;

--
-- Name: TABLE terms; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lore.terms TO lore_service;
GRANT SELECT ON TABLE lore.terms TO lore_user;
GRANT SELECT ON TABLE lore.terms TO lore_search;

--
-- Name: TABLE untranslated; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lore.untranslated TO lore_user;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lore.untranslated TO lore_service;

--
-- Name: TABLE vectors; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lore.vectors TO lore_service;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lore.vectors TO lore_user;
GRANT SELECT ON TABLE lore.vectors TO lore_search;

--
-- Name: TABLE windows; Type: ACL; Schema: lore; Owner: lore_owner
--

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lore.windows TO lore_service;
GRANT SELECT,INSERT,DELETE ON TABLE lore.windows TO lore_user;
GRANT SELECT ON TABLE lore.windows TO lore_search;

--
-- PostgreSQL database dump complete
--
