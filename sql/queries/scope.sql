-- Application statements: named parameters, bound by the driver.

-- name: enter_scope
-- One row, of no interest: drops to the user role and sets the scope, for this transaction only.
SELECT set_config('search_path', %(search_path)s, true),
       set_config('role', %(role)s, true),
       set_config('lore.org_id', %(org)s, true),
       set_config('lore.user_id', %(user)s, true),
       set_config('lore.space', %(space)s, true)

-- name: extension_schemas
-- One row per schema that an extension of ours lives in.
SELECT DISTINCT n.nspname AS name
FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace
WHERE e.extname IN ('vector', 'pg_trgm', 'btree_gin', 'unaccent', 'fuzzystrmatch')
ORDER BY 1

-- name: may_enter
-- One row: whether the login role itself may call what searches in one round trip.
SELECT has_schema_privilege(session_user, n.oid, 'USAGE')
       AND bool_and(has_function_privilege(session_user, p.oid, 'EXECUTE')) AS may_enter
FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
WHERE n.nspname = current_schema() AND p.proname IN ('enter_search', 'recall')
GROUP BY n.oid

-- name: spaces
-- One row per embedding space that is not dropped, the active one first.
SELECT space, model, revision, dimensions, state, centre, evidence
FROM embedding_space
WHERE state <> 'dropped'
ORDER BY (state = 'active') DESC, space

-- name: applied_migrations
-- One row per migration that this schema has.
SELECT number, name, hash FROM migrations ORDER BY number
