-- Document frequencies and sizes per part of an organisation. Locks: none.
-- A part is the shared memories ('') or one user's private ones, so that no score depends on rows that the caller
-- cannot see. Searches are right without them, only slower and less sharp.

SET LOCAL ROLE lore_owner;

-- name: part_of
-- The part of an organisation that a memory belongs to.
CREATE FUNCTION part_of(owner text, visibility text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT CASE visibility WHEN 'shared' THEN '' ELSE owner END $$;

-- name: statistics_lock
-- The advisory lock of one part's statistics, held until the transaction ends.
CREATE FUNCTION statistics_lock(of_org text, part text) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$ SELECT hashtextextended(concat_ws(E'\x01', 'lore statistics', current_schema(), of_org, part), 0) $$;

-- name: count_part
-- Adds the memories after `after_key` to the frequencies and sizes of one part; 0 counts all of them anew.
-- At most 200,000 stems a part, the most frequent: an unlisted stem counts as unseen, which is nearly true.
CREATE FUNCTION count_part(of_org text, part text, after_key bigint) RETURNS void
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
    SET plan_cache_mode = force_custom_plan
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

-- name: refresh_statistics
-- Brings the statistics of the caller's scope up to date where writes have outgrown them; true if it did.
-- Called after writes. Definer, because statistics are nobody's rows; it reads the scope itself.
CREATE FUNCTION refresh_statistics() RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path FROM CURRENT
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

-- name: rebuild_statistics
-- Counts every part of every organisation anew; returns how many parts. For `maintain`.
CREATE FUNCTION rebuild_statistics() RETURNS integer
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
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

RESET ROLE;
