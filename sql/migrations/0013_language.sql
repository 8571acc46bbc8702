-- Memories that wait for a translation. Locks: none that matter, the table is new.

SET LOCAL ROLE lore_owner;

-- name: untranslated
-- One row per memory that was stored as it was given because its translation failed: work for the next write of a client
-- with a translator, and for the keeper.
CREATE TABLE untranslated (
    org      text COLLATE "C" NOT NULL,
    key      bigint NOT NULL,
    owner    text COLLATE "C" NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    next_at  timestamptz NOT NULL DEFAULT now(),
    error    text,
    PRIMARY KEY (org, key),
    FOREIGN KEY (org, key) REFERENCES memories ON DELETE CASCADE
);
CREATE INDEX untranslated_next ON untranslated (next_at);

ALTER TABLE untranslated ENABLE ROW LEVEL SECURITY;
ALTER TABLE untranslated FORCE ROW LEVEL SECURITY;
CREATE POLICY service_all ON untranslated TO lore_service USING (true) WITH CHECK (true);
CREATE POLICY user_writes ON untranslated TO lore_user
    USING (org = (SELECT scope_org()) AND owner = (SELECT scope_user()))
    WITH CHECK (org = (SELECT scope_org()) AND owner = (SELECT scope_user())
                AND EXISTS (SELECT FROM memories AS m
                            WHERE m.org = untranslated.org AND m.key = untranslated.key AND m.owner = (SELECT scope_user())));
GRANT SELECT, INSERT, UPDATE, DELETE ON untranslated TO lore_user, lore_service;

RESET ROLE;
