-- Owners and grants of the functions. Locks: none.

-- The candidate functions belong to a role that may only read, is not the caller and needs no BYPASSRLS.
DO $owners$
DECLARE
    schema_name CONSTANT text := quote_ident(current_schema());
BEGIN
    EXECUTE format('GRANT CREATE ON SCHEMA %s TO lore_search, lore_service', schema_name);
    ALTER FUNCTION candidates(text[], halfvec[], integer, bigint[]) OWNER TO lore_search;
    ALTER FUNCTION explain_legs(text[], halfvec[], integer, bigint[]) OWNER TO lore_search;
    ALTER FUNCTION explain_words(text[]) OWNER TO lore_search;
    ALTER FUNCTION refresh_statistics() OWNER TO lore_service;
    EXECUTE format('REVOKE CREATE ON SCHEMA %s FROM lore_search, lore_service', schema_name);
END
$owners$;

-- Nothing of ours is for PUBLIC; each role gets what it calls.
DO $grants$
DECLARE
    f record;
BEGIN
    FOR f IN SELECT p.oid::regprocedure AS signature, p.proname AS name
             FROM pg_proc AS p
             WHERE p.pronamespace = quote_ident(current_schema())::regnamespace
               AND p.proowner IN ('lore_owner'::regrole, 'lore_search'::regrole, 'lore_service'::regrole) LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f.signature);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO lore_service', f.signature);
        IF f.name IN ('vector_leg', 'exact_leg', 'relaxed_leg', 'alias_leg', 'closest_windows', 'closest_codes', 'similar_stems', 'newest_holders',
                      'holders_of_common_words') THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO lore_search', f.signature);
        ELSIF f.name NOT IN ('count_part', 'rebuild_statistics') THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO lore_search, lore_user', f.signature);
        END IF;
    END LOOP;
END
$grants$;
