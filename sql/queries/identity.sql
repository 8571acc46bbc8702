-- How callers are known, and who may be one (sql/migrations/0014_identity.sql).

-- name: enter_signed_scope
-- One row, of no interest: as enter_scope, with the token from which the database takes the scope.
SELECT set_config('search_path', %(search_path)s, true),
       set_config('role', %(role)s, true),
       set_config('lore.org_id', %(org)s, true),
       set_config('lore.user_id', %(user)s, true),
       set_config('lore.space', %(space)s, true),
       set_config('lore.token', %(token)s, true)

-- name: enter_role
-- One row, of no interest: acts as one of our roles, for this transaction only.
SELECT set_config('search_path', %(search_path)s, true), set_config('role', %(role)s, true)

-- name: whoami
-- One row: whom this transaction speaks for; nulls without a scope.
SELECT scope_org() AS org, scope_user() AS "user"

-- name: recorded_identity
-- One row: how callers are known.
SELECT identity, org_claim, user_claim, audience FROM settings

-- name: use_identity
-- One row, of no interest. For the owner.
SELECT use_identity(%(mode)s::text, %(org_claim)s::text[], %(user_claim)s::text[], %(audience)s::text)

-- name: map_role
-- Lets a login role speak for a member of an organisation, and for nobody else.
INSERT INTO role_identities AS i (role_name, org, user_name) VALUES (%(role_name)s::text, %(org)s::text, %(user)s::text)
ON CONFLICT (role_name) DO UPDATE SET org = excluded.org, user_name = excluded.user_name, created_at = now()

-- name: unmap_role
-- Lets a login role speak for nobody.
DELETE FROM role_identities WHERE role_name = %(role_name)s::text

-- name: mapped_roles
-- One row per login role that speaks for somebody; `exists`: whether there is such a role still; `unbounded`: whether it has
-- become one that row security does not hold for.
SELECT i.role_name, i.org, i.user_name AS "user", r.oid IS NOT NULL AS exists,
       coalesce(r.rolsuper OR r.rolbypassrls, false) AS unbounded
FROM role_identities AS i LEFT JOIN pg_roles AS r ON r.rolname = i.role_name
ORDER BY i.role_name

-- name: add_token_key
-- One row, of no interest. For the owner.
SELECT add_token_key(%(name)s::text, %(secret)s::bytea)

-- name: remove_token_key
-- Lets no token be signed with that key any more. For the owner.
DELETE FROM token_keys WHERE name = %(name)s::text

-- name: token_keys
-- One row per key that tokens may be signed with; never the key itself. For the owner.
SELECT name, created_at FROM token_keys ORDER BY name
