-- What a search sees: every leg's proposals, the words it looked for, the time it took. Locks: none.
-- Definer functions as `candidates` is; whoever calls them joins the keys under row security.

SET LOCAL ROLE lore_owner;

-- name: explain_legs
-- One row per query, leg and memory it proposed, in the leg's order; `took_ms` is the leg's time, on each of its rows.
-- A leg that proposes nothing has one row without a key.
CREATE FUNCTION explain_legs(query_texts text[], query_embeddings halfvec[], pool integer, allowed bigint[])
    RETURNS TABLE (query_no integer, leg text, key bigint, rank bigint, value double precision, matched text[], took_ms double precision)
    LANGUAGE plpgsql SECURITY DEFINER ROWS 160
    SET search_path FROM CURRENT
    SET jit = off
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
    SET max_parallel_workers_per_gather = 0
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

-- name: explain_words
-- One row per query and stem that the relaxed leg looked for, rarest first; `asked` differs from `stem` for a near
-- miss in spelling.
CREATE FUNCTION explain_words(query_texts text[])
    RETURNS TABLE (query_no integer, stem text, asked text, df bigint, idf double precision)
    LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 20
    SET search_path FROM CURRENT
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off
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

RESET ROLE;
