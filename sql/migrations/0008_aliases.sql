-- The alias leg: a person, product or team under more than one name. Locks: none.

SET LOCAL ROLE lore_owner;

-- name: folded_name
-- A name as aliases compare it: lower case, no accents, punctuation to single spaces ("C++" keeps its signs).
CREATE FUNCTION folded_name(name text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
    SET search_path FROM CURRENT
    AS $$ SELECT btrim(regexp_replace(lower(unaccent('unaccent'::regdictionary, folded_text(name))), '[^[:alnum:]+#]+', ' ', 'g')) $$;

-- name: names_in
-- Every run of one to five words of a folded query of at most 64 words: the names that it may hold.
CREATE FUNCTION names_in(folded_query text) RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
    AS $$
    WITH words AS (SELECT (string_to_array(folded_query, ' '))[1:64] AS w)
    SELECT coalesce(array_agg(DISTINCT array_to_string(w[i : i + n - 1], ' ')), '{}')
    FROM words, generate_series(1, cardinality(w)) AS i, generate_series(1, 5) AS n
    WHERE i + n - 1 <= cardinality(w)
    $$;

-- name: alias_match
-- One memory proposed by the alias leg, and the name that led to it.
CREATE TYPE alias_match AS (key bigint, rank bigint, alias text);

-- name: alias_leg
-- One row per memory, best first: memories that carry a name of the query, then memories whose text holds another
-- name of the same group. Only names and memories that the caller can see act.
CREATE FUNCTION alias_leg(query_text text, pool integer, allowed bigint[]) RETURNS SETOF alias_match
    LANGUAGE plpgsql STABLE ROWS 10
    SET search_path FROM CURRENT
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

RESET ROLE;
