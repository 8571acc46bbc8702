-- Signals: feedback becomes reinforcement; what leaves with a user. Locks: SHARE on memories while its index is built.

SET LOCAL ROLE lore_owner;

-- Open tasks and questions stand in every briefing; they are few.
CREATE INDEX memories_open_tasks ON memories (org, created_at DESC, key DESC) WHERE kind IN ('task', 'open-question');

-- name: reinforced
-- The multiplier of `useful` confirmed uses and `misleading` ones: 1 + 0.15 ln(1 + u) - 0.25 ln(1 + m), within 0.5 and 1.4.
CREATE FUNCTION reinforced(useful bigint, misleading bigint) RETURNS double precision
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT least(1.4, greatest(0.5, 1 + 0.15 * ln((1 + useful)::double precision) - 0.25 * ln((1 + misleading)::double precision))) $$;

-- name: counted_votes
-- One row: a memory's votes of the last 90 days and the multiplier they make.
CREATE FUNCTION counted_votes(of_org text, of_key bigint) RETURNS TABLE (useful integer, misleading integer, multiplier double precision)
    LANGUAGE sql STABLE
    SET search_path FROM CURRENT
    AS $$
    SELECT c.u::integer, c.m::integer, reinforced(c.u, c.m)
    FROM (SELECT count(*) FILTER (WHERE f.useful) AS u, count(*) FILTER (WHERE NOT f.useful) AS m
          FROM feedback AS f
          WHERE f.org = of_org AND f.key = of_key AND f.created_at > now() - interval '90 days') AS c
    $$;

-- name: vote
-- One row: how a memory stands after the caller's vote on it; none where no memory of that id is visible. A second vote of
-- the same caller for the same recall replaces the first. Definer, because a voter may not write a multiplier; it reads
-- the scope itself. One's own memory wins over a shared one of the same id.
-- Locks in this order: the memory against removal, its row of reinforcement against other voters, so that 64 voters at
-- once neither deadlock nor lose a vote: each counts after the one before it has committed.
CREATE FUNCTION vote(memory_id text, is_useful boolean, in_recall text DEFAULT '')
    RETURNS TABLE (useful integer, misleading integer, multiplier double precision)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path FROM CURRENT
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

-- name: refresh_reinforcement
-- Counts the votes of every memory anew, since votes leave the window of 90 days; returns how many multipliers changed.
-- For `maintain`, as the service role. Rows are locked before they are counted, so that no vote is lost meanwhile.
CREATE FUNCTION refresh_reinforcement() RETURNS integer
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
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

-- name: forget_user
-- One row per table that held something of a user of an organisation: how many rows are gone, or no longer name the user.
-- Memories go with their windows, vectors, votes, names and history; the user's votes on others' memories go, and those
-- are counted anew; names that the user gave to the organisation stay and lose the giver. For the service role.
CREATE FUNCTION forget_user(in_org text, of_user text) RETURNS TABLE (place text, rows bigint)
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
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

RESET ROLE;

-- Votes are written by the service role, on behalf of a caller who may not.
DO $owners$
DECLARE
    schema_name CONSTANT text := quote_ident(current_schema());
BEGIN
    EXECUTE format('GRANT CREATE ON SCHEMA %s TO lore_service', schema_name);
    ALTER FUNCTION vote(text, boolean, text) OWNER TO lore_service;
    EXECUTE format('REVOKE CREATE ON SCHEMA %s FROM lore_service', schema_name);
END
$owners$;
