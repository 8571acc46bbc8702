-- What `lore-retriever doctor` and `config show` ask. Catalogues are read as whoever is connected; what only the
-- service role may see comes last.

-- name: store_settings
-- One row: what holds for the whole store.
SELECT text_config, next_text_config, result_budget, identity FROM settings

-- name: kinds_in_use
-- One row per kind with a half-life of its own; '' stands for every other kind.
SELECT kind, half_life_days, recency_floor FROM kinds ORDER BY kind = '', kind

-- name: server_facts
-- One row: the server, and the login role that this session began with.
SELECT current_setting('server_version') AS version, current_setting('server_version_num')::integer AS version_number,
       current_setting('server_encoding') AS encoding, pg_is_in_recovery() AS is_standby,
       r.rolname AS login, r.rolsuper AS is_superuser, r.rolbypassrls AS bypasses,
       -- rights that lead around row security by another way: files, the log of all writes, other roles
       (SELECT coalesce(array_agg(m.rolname::text ORDER BY 1), '{}') FROM pg_roles AS m
        WHERE m.rolname IN ('pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program', 'pg_read_all_stats', 'pg_monitor')
          AND pg_has_role(r.oid, m.oid, 'MEMBER'))
           || CASE WHEN r.rolreplication THEN ARRAY['REPLICATION'] ELSE '{}' END
           || CASE WHEN r.rolcreaterole THEN ARRAY['CREATEROLE'] ELSE '{}' END AS other_ways
FROM pg_roles AS r WHERE r.rolname = session_user

-- name: extension_facts
-- One row per extension of ours: where it lives, its version, and whether lore_user reaches it.
SELECT e.extname AS name, n.nspname AS schema, e.extversion AS version,
       coalesce((SELECT has_schema_privilege(r.oid, n.oid, 'USAGE') FROM pg_roles AS r WHERE r.rolname = 'lore_user'), true) AS is_reachable
FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace
WHERE e.extname = ANY (%(names)s::text[])
ORDER BY 1

-- name: role_facts
-- One row per role of ours: whether it may too much by itself, and whether the login role is a member.
SELECT r.rolname AS name, r.rolsuper OR r.rolbypassrls AS is_unbounded, r.rolcanlogin AS may_log_in,
       pg_has_role(session_user, r.oid, 'MEMBER') AS is_member
FROM pg_roles AS r
WHERE r.rolname IN ('lore_owner', 'lore_search', 'lore_service', 'lore_user')
ORDER BY 1

-- name: unguarded_tables
-- One row per table of tenant data (it has an `org`) whose row security is off, not forced, or without any policy.
SELECT c.relname AS name, c.relrowsecurity AS is_on, c.relforcerowsecurity AS is_forced
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s::text AND c.relkind IN ('r', 'p')
  AND EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attname = 'org' AND NOT a.attisdropped)
  AND NOT (c.relrowsecurity AND c.relforcerowsecurity AND EXISTS (SELECT FROM pg_policy AS p WHERE p.polrelid = c.oid))
ORDER BY 1

-- name: open_policies
-- One row per policy on tenant data that lets PUBLIC, or lore_user without looking at the scope, see rows.
SELECT c.relname AS table_name, p.polname AS name
FROM pg_policy AS p
JOIN pg_class AS c ON c.oid = p.polrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s::text
  AND (p.polroles = '{0}'
       OR (EXISTS (SELECT FROM pg_roles AS r WHERE r.rolname = 'lore_user' AND r.oid = ANY (p.polroles))
           AND coalesce(pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid), '') !~ 'scope_org'))
ORDER BY 1, 2

-- name: public_grants
-- One row per table, column, function or schema of ours that everybody may use.
SELECT c.relname::text AS name, string_agg(DISTINCT a.privilege_type, ', ') AS rights
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace CROSS JOIN LATERAL aclexplode(c.relacl) AS a
WHERE n.nspname = %(schema)s::text AND a.grantee = 0
GROUP BY c.relname
UNION ALL
SELECT c.relname || '.' || t.attname, string_agg(DISTINCT a.privilege_type, ', ')
FROM pg_attribute AS t JOIN pg_class AS c ON c.oid = t.attrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
CROSS JOIN LATERAL aclexplode(t.attacl) AS a
WHERE n.nspname = %(schema)s::text AND a.grantee = 0
GROUP BY c.relname, t.attname
UNION ALL
SELECT p.proname || '()', string_agg(DISTINCT a.privilege_type, ', ')
FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
CROSS JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a
WHERE n.nspname = %(schema)s::text AND a.grantee = 0
  AND NOT EXISTS (SELECT FROM pg_depend AS d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')
GROUP BY p.proname
ORDER BY 1

-- name: unpinned_functions
-- One row per function of ours that runs with its owner's rights and leaves its search_path to the caller, or puts
-- temporary names before others.
SELECT p.proname AS name
FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
WHERE n.nspname = %(schema)s::text AND p.prosecdef
  AND NOT EXISTS (SELECT FROM unnest(p.proconfig) AS setting
                  WHERE setting ~ '^search_path=' AND setting ~ 'pg_temp"?$')
ORDER BY 1

-- name: open_schemas
-- One row per schema in which functions of ours look up names, and in which a role may create objects that they would
-- find: lore_user, or a login role that is none of ours otherwise.
SELECT n.nspname AS name, CASE WHEN has_schema_privilege('lore_user', n.oid, 'CREATE') THEN 'lore_user' ELSE session_user END AS role
FROM pg_namespace AS n
WHERE (n.nspname = %(schema)s::text
       OR n.oid IN (SELECT e.extnamespace FROM pg_extension AS e WHERE e.extname = ANY (%(names)s::text[])))
  AND (has_schema_privilege('lore_user', n.oid, 'CREATE')
       OR (has_schema_privilege(session_user, n.oid, 'CREATE') AND NOT pg_has_role(session_user, 'lore_owner', 'MEMBER')))
ORDER BY 1

-- name: identity_facts
-- One row: how callers are known, whether the scope functions do what is recorded, and whom this session speaks for.
SELECT s.identity, s.org_claim, s.user_claim, s.audience, session_user::text AS login, scope_org() AS org, scope_user() AS "user",
       (SELECT bool_and(coalesce(pg_get_function_sqlbody(p.oid), '') ~ CASE s.identity
                            WHEN 'settings' THEN '^RETURN NULLIF.current_setting..lore[.](org|user)_id'
                            WHEN 'role' THEN '^RETURN .([^ ]*[.])?role_caller'
                            WHEN 'claims' THEN '^RETURN .([^ ]*[.])?token_caller'
                            ELSE '^RETURN\s+CASE\s+WHEN .NULLIF.current_setting..request[.]jwt[.]claims' END)
        FROM pg_proc AS p WHERE p.oid IN ('scope_org()'::regprocedure, 'scope_user()'::regprocedure)) AS is_as_recorded
FROM settings AS s

-- name: strong_owners
-- One row per table or function of ours whose owner is a superuser or bypasses row security.
SELECT c.relname::text AS name, r.rolname AS owner
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace JOIN pg_roles AS r ON r.oid = c.relowner
WHERE n.nspname = %(schema)s::text AND c.relkind IN ('r', 'p') AND c.relname <> 'migrations' AND (r.rolsuper OR r.rolbypassrls)
UNION ALL
SELECT p.proname || '()', r.rolname
FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace JOIN pg_roles AS r ON r.oid = p.proowner
WHERE n.nspname = %(schema)s::text AND p.prosecdef AND (r.rolsuper OR r.rolbypassrls)
ORDER BY 1

-- name: user_rights
-- One row: whether lore_user may search, and whether it may write what is the service role's alone.
SELECT has_schema_privilege('lore_user', n.oid, 'USAGE')
           AND coalesce(bool_and(has_function_privilege('lore_user', p.oid, 'EXECUTE')), false) AS may_recall,
       (SELECT coalesce(bool_or(has_table_privilege('lore_user', c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')), false)
        FROM pg_class AS c
        WHERE c.relnamespace = n.oid AND c.relname IN ('fusion_config', 'settings', 'kinds', 'embedding_space', 'centres', 'terms', 'scope_statistics',
                                                      'role_identities', 'token_keys'))
           AS may_configure
FROM pg_namespace AS n LEFT JOIN pg_proc AS p ON p.pronamespace = n.oid AND p.proname = 'recall'
WHERE n.nspname = %(schema)s::text
GROUP BY n.oid

-- name: table_health
-- One row per table that searches scan by index alone: pages, those known to be visible to all, dead rows.
SELECT c.relname AS name, c.relpages AS pages, c.relallvisible AS visible_pages, coalesce(s.n_dead_tup, 0) AS dead,
       coalesce(s.n_live_tup, 0) AS live
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_stat_all_tables AS s ON s.relid = c.oid
WHERE n.nspname = %(schema)s::text AND c.relname IN ('codes', 'vectors', 'memories')
ORDER BY 1

-- name: stale_parts
-- One row: parts of organisations, and those whose counts are off by more than a tenth and more than 20 memories.
WITH counted AS (
    SELECT m.org, part_of(m.owner, m.visibility) AS owner, count(*) AS memories
    FROM memories AS m WHERE m.invalidated_at IS NULL GROUP BY 1, 2
)
SELECT count(*) AS parts,
       count(*) FILTER (WHERE abs(coalesce(c.memories, 0) - coalesce(s.memories, 0)) > greatest(20, coalesce(c.memories, 0) / 10)) AS stale
FROM counted AS c FULL JOIN scope_statistics AS s ON s.org = c.org AND s.owner = c.owner

-- name: partial_memories
-- One row: memories whose text is too rich to be indexed, or too long to be embedded, as a whole.
SELECT count(*) AS memories, count(*) FILTER (WHERE m.partly_indexed) AS partly_indexed,
       count(*) FILTER (WHERE m.partly_embedded) AS partly_embedded
FROM memories AS m

-- name: lost_windows
-- One row: windows that have no vector in a space, and memories that have no window there, although they do not wait.
SELECT (SELECT count(*) FROM memories AS m
        WHERE NOT EXISTS (SELECT FROM windows AS i WHERE i.org = m.org AND i.key = m.key AND i.space = %(space)s::smallint)
          AND NOT EXISTS (SELECT FROM pending AS p WHERE p.org = m.org AND p.space = %(space)s::smallint AND p.key = m.key))
       + count(*) AS windows
FROM windows AS w
WHERE w.space = %(space)s::smallint
  AND NOT EXISTS (SELECT FROM vectors AS v WHERE v.org = w.org AND v.space = %(space)s::smallint AND v.key = w.key AND v.ordinal = w.ordinal)
  AND NOT EXISTS (SELECT FROM pending AS p WHERE p.org = w.org AND p.space = %(space)s::smallint AND p.key = w.key)

-- name: missing_codes
-- One row: vectors of a space, and those without a code in the generation that searches read.
SELECT count(*) AS vectors,
       count(*) FILTER (WHERE NOT EXISTS (
           SELECT FROM codes AS c WHERE c.org = v.org AND c.space = v.space AND c.key = v.key AND c.ordinal = v.ordinal AND c.centre = %(centre)s::smallint
       )) AS missing
FROM vectors AS v WHERE v.space = %(space)s::smallint
