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

-- name: spaces
-- One row per embedding space that is not dropped, the active one first.
SELECT space, model, revision, dimensions, state, centre, evidence
FROM embedding_space
WHERE state <> 'dropped'
ORDER BY (state = 'active') DESC, space

-- name: applied_migrations
-- One row per migration that this schema has.
SELECT number, name, hash FROM migrations ORDER BY number
