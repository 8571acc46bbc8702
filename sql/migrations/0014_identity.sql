-- Who is asking: four ways in which a transaction is known to speak for a member. Locks: ACCESS EXCLUSIVE on the tables
-- whose statistics are bounded, and on settings; for a moment.
--   settings  lore.org_id and lore.user_id, which a trusted server sets
--   role      the login role, looked up in role_identities
--   claims    a token in lore.token, whose signature is checked here
--   gateway   request.jwt.claims, which a gateway has checked and set; lore.org_id and lore.user_id where it set none
-- `use_identity` writes scope_org and scope_user anew, so that a mode costs nothing where another one is in use.

SET LOCAL ROLE lore_owner;

ALTER TABLE settings DROP CONSTRAINT settings_identity_check;
ALTER TABLE settings ADD CONSTRAINT settings_identity_check CHECK (identity IN ('settings', 'role', 'claims', 'gateway'));
-- Where in the claims the organisation and the user stand, and for whom a token must be meant (NULL: for anyone).
ALTER TABLE settings ADD COLUMN org_claim text[] NOT NULL DEFAULT '{org}' CHECK (cardinality(org_claim) BETWEEN 1 AND 8);
ALTER TABLE settings ADD COLUMN user_claim text[] NOT NULL DEFAULT '{sub}' CHECK (cardinality(user_claim) BETWEEN 1 AND 8);
ALTER TABLE settings ADD COLUMN audience text CHECK (audience <> '');
-- How callers are known is not the service role's to change, nor may what is recorded differ from what is done.
REVOKE INSERT, UPDATE, DELETE ON settings FROM lore_service;
GRANT UPDATE (text_config, next_text_config, result_budget) ON settings TO lore_service;

-- name: role_identities
-- One row per login role: the member of an organisation whom it speaks for. Kept by the service role.
CREATE TABLE role_identities (
    role_name  text COLLATE "C" PRIMARY KEY CHECK (role_name <> ''),
    org        text COLLATE "C" NOT NULL CHECK (org <> ''),
    user_name  text COLLATE "C" NOT NULL CHECK (user_name <> ''),
    created_at timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE role_identities ENABLE ROW LEVEL SECURITY;
ALTER TABLE role_identities FORCE ROW LEVEL SECURITY;
CREATE POLICY service_all ON role_identities TO lore_service USING (true) WITH CHECK (true);
-- Even the function that looks a caller up sees no other row than the caller's.
CREATE POLICY search_reads ON role_identities FOR SELECT TO lore_search USING (role_name = session_user);
GRANT SELECT, INSERT, UPDATE, DELETE ON role_identities TO lore_service;
GRANT SELECT ON role_identities TO lore_search;

-- name: check_mapped_role
-- Refuses a role that nobody has, whom whoever gets the name would inherit, and one that row security does not hold for: as a
-- member it would read everybody's rows. What becomes of a role later, `lore-retriever doctor` tells.
CREATE FUNCTION check_mapped_role() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
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
CREATE TRIGGER check_mapped_role BEFORE INSERT OR UPDATE ON role_identities FOR EACH ROW EXECUTE FUNCTION check_mapped_role();

-- name: token_keys
-- One row per key that tokens may be signed with, as the two blocks that HMAC begins with. Nobody but the owner reads it.
CREATE TABLE token_keys (
    name       text COLLATE "C" PRIMARY KEY CHECK (name <> ''),
    inner_pad  bytea NOT NULL CHECK (length(inner_pad) = 64),
    outer_pad  bytea NOT NULL CHECK (length(outer_pad) = 64),
    created_at timestamptz NOT NULL DEFAULT now()
);

-- name: add_token_key
-- Lets tokens be signed with a secret of 32 bytes or more (RFC 7518, 3.2); another of that name is replaced. For the owner.
CREATE FUNCTION add_token_key(name text, secret bytea) RETURNS void
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
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

-- name: caller
-- Whom a transaction speaks for.
CREATE TYPE caller AS (org text, user_name text);

-- name: require_caller
-- The caller that a credential names. An error where the transaction asks for somebody else by lore.org_id or lore.user_id:
-- a setting can neither widen what a credential gives, nor silently mean less than it says.
CREATE FUNCTION require_caller(known caller, credential text) RETURNS caller
    LANGUAGE plpgsql STABLE PARALLEL SAFE  -- without a path of its own, which would cost more than the rest: its callers have one
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

-- name: role_caller
-- Whom the login role speaks for; nulls where it is not mapped. `session_user` stays what it was at login whatever SET ROLE
-- or a definer function does; only a superuser changes it.
CREATE FUNCTION role_caller() RETURNS caller
    LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER
    SET search_path FROM CURRENT
    AS $$
DECLARE
    known caller;
BEGIN
    SELECT i.org, i.user_name INTO known FROM role_identities AS i WHERE i.role_name = session_user;
    RETURN require_caller(known, format('the login role %I', session_user));
END
$$;

-- name: decoded_part
-- The JSON of one part of a token: base64url without padding (RFC 7515, 2).
CREATE FUNCTION decoded_part(part text) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
    AS $$ SELECT convert_from(decode(rpad(translate(part, '-_', '+/'), (length(part) + 3) / 4 * 4, '='), 'base64'), 'UTF8')::jsonb $$;

-- name: token_claims
-- The claims of the token in lore.token (JWT, HS256); NULL without one. An error unless a key of this store signed it and
-- it holds now. Nothing in it is read before its signature is known to be right.
CREATE FUNCTION token_claims(for_audience text) RETURNS jsonb
    LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER
    SET search_path FROM CURRENT
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

-- name: token_caller
-- Whom the token of this transaction speaks for; nulls without one.
CREATE FUNCTION token_caller(org_claim text[], user_claim text[], for_audience text) RETURNS caller
    LANGUAGE plpgsql STABLE PARALLEL SAFE
    SET search_path FROM CURRENT
    AS $$
DECLARE
    claims CONSTANT jsonb := token_claims(for_audience);
BEGIN
    RETURN require_caller(ROW(nullif(claims #>> org_claim, ''), nullif(claims #>> user_claim, ''))::caller,
                          CASE WHEN claims IS NULL THEN 'a transaction without a token' ELSE 'the token' END);
END
$$;

-- name: use_identity
-- Makes one of the four ways the one in which callers are known. For the owner. The bodies are parsed here and now, so that
-- no name in them depends on a caller's search_path.
CREATE FUNCTION use_identity(mode text, in_org_claim text[] DEFAULT '{org}', in_user_claim text[] DEFAULT '{sub}', for_audience text DEFAULT NULL)
    RETURNS void
    LANGUAGE plpgsql
    SET search_path FROM CURRENT
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

SELECT use_identity('settings');

-- The planner's estimates are for everybody who may use EXPLAIN, and comparisons of text are leakproof: by asking for the
-- estimate of ever narrower ranges one could read what stands in the histogram of a column, of whatever organisation. So
-- columns of text that somebody wrote have no statistics. None of them decides a plan: all are reached by key.
ALTER TABLE memories
    ALTER id SET STATISTICS 0, ALTER kind SET STATISTICS 0, ALTER content SET STATISTICS 0, ALTER content_original SET STATISTICS 0,
    ALTER content_hash SET STATISTICS 0, ALTER agent SET STATISTICS 0, ALTER session SET STATISTICS 0,
    ALTER source SET STATISTICS 0, ALTER trust SET STATISTICS 0, ALTER superseded_by SET STATISTICS 0;
ALTER TABLE history ALTER content SET STATISTICS 0, ALTER superseded_by SET STATISTICS 0;
ALTER TABLE terms ALTER stem SET STATISTICS 0;
ALTER TABLE aliases ALTER folded SET STATISTICS 0, ALTER name SET STATISTICS 0;
ALTER TABLE codes ALTER bits SET STATISTICS 0;
ALTER TABLE feedback ALTER recall_id SET STATISTICS 0;
ALTER TABLE pending ALTER error SET STATISTICS 0;
ALTER TABLE untranslated ALTER error SET STATISTICS 0;
ALTER TABLE role_identities ALTER role_name SET STATISTICS 0, ALTER user_name SET STATISTICS 0;

REVOKE ALL ON FUNCTION check_mapped_role(), add_token_key(text, bytea), require_caller(caller, text), role_caller(), decoded_part(text), token_claims(text),
    token_caller(text[], text[], text), use_identity(text, text[], text[], text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION require_caller(caller, text), role_caller(), token_claims(text), token_caller(text[], text[], text)
    TO lore_search, lore_service, lore_user;

RESET ROLE;

-- Of the mapping, the candidate functions' role sees the caller's own row and no other.
DO $owners$
DECLARE
    schema_name CONSTANT text := quote_ident(current_schema());
BEGIN
    EXECUTE format('GRANT CREATE ON SCHEMA %s TO lore_search', schema_name);
    ALTER FUNCTION role_caller() OWNER TO lore_search;
    EXECUTE format('REVOKE CREATE ON SCHEMA %s FROM lore_search', schema_name);
END
$owners$;
