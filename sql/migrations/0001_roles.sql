-- Roles. Locks: none on tables.
-- They belong to the whole cluster; several stores of one cluster share them. `migrate --no-roles` skips this
-- file: a database administrator then runs it beforehand.
--   lore_owner    owns tables and functions; nobody logs in as it
--   lore_search   owns the candidate functions; may only read, and reads the scope itself
--   lore_service  configuration and maintenance across organisations
--   lore_user     what an application drops to before it reads or writes
DO $roles$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['lore_owner', 'lore_search', 'lore_service', 'lore_user'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL;  -- another migration of this cluster made it meanwhile
            END;
        END IF;
        -- A superuser can already do everything; whoever else installs must be able to act as each role. Who made a role
        -- may grant it but not yet act as it (from PostgreSQL 16 on), so membership is asked for in any case.
        IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
            BEGIN
                EXECUTE format('GRANT %I TO %I', wanted, current_user);
            EXCEPTION WHEN insufficient_privilege THEN
                NULL;  -- granted by an administrator beforehand, or the next file says what is missing
            END;
        END IF;
    END LOOP;
END
$roles$;
