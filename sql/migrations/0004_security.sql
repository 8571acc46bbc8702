-- Row-level security and grants. Locks: ACCESS EXCLUSIVE on new, empty tables.
-- Scope is read from the transaction's settings; none set = no rows. FORCE holds for the owner too: migrations that
-- change data must lift it and put it back. Liveness (invalidated, expired) is a predicate of queries, never a policy.

SET LOCAL ROLE lore_owner;

-- name: scope_org
-- The organisation on whose behalf this transaction reads; NULL without a scope.
CREATE FUNCTION scope_org() RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT nullif(current_setting('lore.org_id', true), '') $$;

-- name: scope_user
-- The user on whose behalf this transaction reads; NULL without a scope.
CREATE FUNCTION scope_user() RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT nullif(current_setting('lore.user_id', true), '') $$;

DO $policies$
DECLARE
    t text;
    in_scope CONSTANT text := 'org = (SELECT scope_org())';
    own CONSTANT text := in_scope || ' AND owner = (SELECT scope_user())';
    -- The memory's own policy applies inside the subquery, so a row is visible exactly when its memory is.
    of_memory CONSTANT text := in_scope || ' AND EXISTS (SELECT FROM memories AS m WHERE m.org = %1$I.org AND m.key = %1$I.key)';
    of_own_memory CONSTANT text := in_scope
        || ' AND EXISTS (SELECT FROM memories AS m WHERE m.org = %1$I.org AND m.key = %1$I.key AND m.owner = (SELECT scope_user()))';
    -- A copy may not say anything else than its memory.
    copies_memory CONSTANT text := own
        || ' AND EXISTS (SELECT FROM memories AS m WHERE m.org = %1$I.org AND m.key = %1$I.key AND m.owner = %1$I.owner'
        || ' AND %1$I.shared = (m.visibility = ''shared''))';
BEGIN
    FOREACH t IN ARRAY ARRAY['memories', 'windows', 'vectors', 'codes', 'pending', 'terms', 'scope_statistics', 'aliases',
                             'feedback', 'reinforcement', 'history'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY service_all ON %I TO lore_service USING (true) WITH CHECK (true)', t);
        EXECUTE format('CREATE POLICY search_reads ON %I FOR SELECT TO lore_search USING (true)', t);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO lore_service', t);
    END LOOP;

    EXECUTE format('CREATE POLICY user_reads ON memories FOR SELECT TO lore_user USING (%s AND (visibility = ''shared'' OR owner = (SELECT scope_user())))', in_scope);
    EXECUTE format('CREATE POLICY user_reads ON aliases FOR SELECT TO lore_user USING (%s AND (shared OR owner = (SELECT scope_user())))', in_scope);
    EXECUTE format('CREATE POLICY user_reads ON terms FOR SELECT TO lore_user USING (%s AND owner IN ('''', (SELECT scope_user())))', in_scope);
    EXECUTE format('CREATE POLICY user_reads ON scope_statistics FOR SELECT TO lore_user USING (%s AND owner IN ('''', (SELECT scope_user())))', in_scope);
    EXECUTE format('CREATE POLICY user_reads ON vectors FOR SELECT TO lore_user USING (%s AND (shared OR owner = (SELECT scope_user())))', in_scope);
    EXECUTE format('CREATE POLICY user_reads ON codes FOR SELECT TO lore_user USING (%s)', own);
    EXECUTE format('CREATE POLICY user_reads ON pending FOR SELECT TO lore_user USING (%s)', own);
    FOREACH t IN ARRAY ARRAY['windows', 'reinforcement'] LOOP
        EXECUTE format('CREATE POLICY user_reads ON %1$I FOR SELECT TO lore_user USING (' || of_memory || ')', t);
    END LOOP;
    -- The owner's only: a text replaced while its memory was private stays private when the memory is shared.
    EXECUTE format('CREATE POLICY user_reads ON %1$I FOR SELECT TO lore_user USING (' || of_own_memory || ')', 'history');
    EXECUTE format('CREATE POLICY user_reads ON feedback FOR SELECT TO lore_user USING (' || of_memory || ' AND voter = (SELECT scope_user()))', 'feedback');

    EXECUTE format('CREATE POLICY user_inserts ON memories FOR INSERT TO lore_user WITH CHECK (%s)', own);
    EXECUTE format('CREATE POLICY user_updates ON memories FOR UPDATE TO lore_user USING (%1$s) WITH CHECK (%1$s)', own);
    EXECUTE format('CREATE POLICY user_deletes ON memories FOR DELETE TO lore_user USING (%s)', own);
    FOREACH t IN ARRAY ARRAY['vectors', 'codes'] LOOP
        EXECUTE format('CREATE POLICY user_inserts ON %1$I FOR INSERT TO lore_user WITH CHECK (' || copies_memory || ')', t);
        EXECUTE format('CREATE POLICY user_updates ON %1$I FOR UPDATE TO lore_user USING (' || own || ') WITH CHECK (' || copies_memory || ')', t);
        EXECUTE format('CREATE POLICY user_deletes ON %1$I FOR DELETE TO lore_user USING (' || own || ')', t);
    END LOOP;
    FOREACH t IN ARRAY ARRAY['windows', 'history'] LOOP
        EXECUTE format('CREATE POLICY user_inserts ON %1$I FOR INSERT TO lore_user WITH CHECK (' || of_own_memory || ')', t);
    END LOOP;
    EXECUTE format('CREATE POLICY user_deletes ON %1$I FOR DELETE TO lore_user USING (' || of_own_memory || ')', 'windows');
    EXECUTE format('CREATE POLICY user_writes ON %1$I TO lore_user USING (' || own || ') WITH CHECK (' || own || ' AND ' || of_own_memory || ')', 'pending');
    -- Names of the organisation may be given by any member; names of a memory by its owner.
    EXECUTE format('CREATE POLICY user_inserts ON %1$I FOR INSERT TO lore_user WITH CHECK (' || own
        || ' AND (key IS NULL OR EXISTS (SELECT FROM memories AS m WHERE m.org = %1$I.org AND m.key = %1$I.key'
        || ' AND m.owner = %1$I.owner AND %1$I.shared = (m.visibility = ''shared''))))', 'aliases');
    EXECUTE format('CREATE POLICY user_updates ON aliases FOR UPDATE TO lore_user USING (%1$s AND (key IS NULL OR owner = (SELECT scope_user()))) WITH CHECK (%1$s AND (key IS NULL OR owner = (SELECT scope_user())))', in_scope);
    EXECUTE format('CREATE POLICY user_deletes ON aliases FOR DELETE TO lore_user USING (%s AND (key IS NULL OR owner = (SELECT scope_user())))', in_scope);
    EXECUTE format('CREATE POLICY user_inserts ON %1$I FOR INSERT TO lore_user WITH CHECK (' || of_memory || ' AND voter = (SELECT scope_user()))', 'feedback');
    EXECUTE format('CREATE POLICY user_updates ON %1$I FOR UPDATE TO lore_user USING (%2$s AND voter = (SELECT scope_user())) WITH CHECK (%2$s AND voter = (SELECT scope_user()))', 'feedback', in_scope);
END
$policies$;

GRANT SELECT ON memories, windows, vectors, codes, pending, terms, scope_statistics, aliases, feedback, reinforcement, history,
    settings, fusion_config, kinds, embedding_space, centres TO lore_user;
GRANT DELETE ON memories, windows, vectors, codes, pending, aliases TO lore_user;
GRANT INSERT ON windows, vectors, codes, pending, feedback TO lore_user;
-- By column, so that nobody chooses a surrogate key: a clash would tell of rows that he cannot see.
GRANT INSERT (org, id, owner, visibility, kind, content, content_original, language, translation, metadata, pinned, agent, session,
    source, trust, created_at, updated_at, expires_at, invalidated_at, superseded_by, version, text_config, partly_embedded)
    ON memories TO lore_user;
GRANT INSERT (org, key, version, event, content, superseded_by, changed_at) ON history TO lore_user;
GRANT INSERT (org, folded, name, group_no, key, owner, shared, created_at) ON aliases TO lore_user;
GRANT UPDATE ON vectors, codes, pending TO lore_user;
GRANT UPDATE (useful, created_at) ON feedback TO lore_user;
GRANT UPDATE (group_no, name, shared) ON aliases TO lore_user;
-- Never owner, org or key: a memory stays with who wrote it.
GRANT UPDATE (id, visibility, kind, content, content_original, language, translation, metadata, pinned, agent, session, source, trust,
    created_at, updated_at, expires_at, invalidated_at, superseded_by, version, text_config, partly_embedded) ON memories TO lore_user;
GRANT SELECT ON memories, windows, vectors, codes, pending, terms, scope_statistics, aliases, reinforcement,
    settings, fusion_config, kinds, embedding_space, centres TO lore_search;
GRANT SELECT, INSERT, UPDATE, DELETE ON settings, fusion_config, kinds, embedding_space, centres, eval_runs TO lore_service;

-- name: copy_life
-- Keeps the copies of a memory's visibility and life in step, whoever changes them.
CREATE FUNCTION copy_life() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
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
CREATE TRIGGER copy_life AFTER UPDATE ON memories FOR EACH ROW
    WHEN (OLD.visibility IS DISTINCT FROM NEW.visibility OR OLD.invalidated_at IS DISTINCT FROM NEW.invalidated_at
          OR OLD.expires_at IS DISTINCT FROM NEW.expires_at OR OLD.created_at IS DISTINCT FROM NEW.created_at)
    EXECUTE FUNCTION copy_life();

-- name: write_codes
-- Adds the codes of new vectors, for every generation of their space that is in use or being built.
CREATE FUNCTION write_codes() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$
BEGIN
    INSERT INTO codes (org, space, centre, key, ordinal, owner, shared, live, expires_at, created_at, bits)
    SELECT n.org, n.space, c.centre, n.key, n.ordinal, n.owner, n.shared, n.live, n.expires_at, n.created_at,
           binary_quantize(n.embedding - c.embedding)
    FROM new_vectors AS n JOIN centres AS c ON c.space = n.space AND NOT c.retired;
    RETURN NULL;
END
$$;
CREATE TRIGGER write_codes AFTER INSERT ON vectors REFERENCING NEW TABLE AS new_vectors
    FOR EACH STATEMENT EXECUTE FUNCTION write_codes();

-- name: bound_unsorted
-- A full-text index gathers new entries before it sorts them in, and every look-up reads through what it has gathered: of 4 MB,
-- as is usual, a search takes 5 ms instead of 2.4, of 512 kB 2.5. Writing many memories costs a third more by that bound, so a
-- transaction that sets `lore.bulk` gathers more, and calls `sort_in` at the end.
CREATE FUNCTION bound_unsorted() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
    AS $$
BEGIN
    PERFORM set_config('gin_pending_list_limit', CASE current_setting('lore.bulk', true) WHEN 'on' THEN '8MB' ELSE '512kB' END, true);
    RETURN NULL;
END
$$;
CREATE TRIGGER bound_unsorted BEFORE INSERT OR UPDATE ON memories FOR EACH STATEMENT EXECUTE FUNCTION bound_unsorted();

-- name: sort_in
-- Sorts in what the indexes of words have gathered, whoever wrote it. Definer, because only their owner may.
CREATE FUNCTION sort_in() RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path FROM CURRENT
    AS $$
BEGIN
    PERFORM gin_clean_pending_list(i.indexrelid)
    FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid JOIN pg_am AS a ON a.oid = c.relam
    WHERE i.indrelid = 'memories'::regclass AND a.amname = 'gin';
END
$$;

RESET ROLE;

GRANT SELECT ON migrations TO lore_user, lore_service;
