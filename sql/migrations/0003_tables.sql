-- Tables. Locks: none that matter, everything is new.
-- Every key of tenant data starts with the organisation, so that all of it distributes by tenant. Not partitioned:
-- a covering index by organisation serves every size measured (docs/decisions).

SET LOCAL ROLE lore_owner;

-- name: settings
-- One row: what holds for the whole store.
CREATE TABLE settings (
    one              boolean PRIMARY KEY DEFAULT true CHECK (one),
    text_config      text NOT NULL DEFAULT 'english',
    next_text_config text,                       -- set while `maintain --rebuild-text` runs; searches read both
    result_budget    integer NOT NULL DEFAULT 50000 CHECK (result_budget > 0),
    identity         text NOT NULL DEFAULT 'settings' CHECK (identity IN ('settings', 'role', 'claims'))
);
INSERT INTO settings DEFAULT VALUES;

-- name: fusion_config
-- At most one row: the knobs of the search, written by the evaluation harness. No row = the defaults below.
CREATE TABLE fusion_config (
    one                   boolean PRIMARY KEY DEFAULT true CHECK (one),
    rrf_k                 integer NOT NULL DEFAULT 60 CHECK (rrf_k BETWEEN 1 AND 1000),
    pool_multiplier       integer NOT NULL DEFAULT 4 CHECK (pool_multiplier BETWEEN 1 AND 20),
    vector_weight         double precision NOT NULL DEFAULT 1 CHECK (vector_weight BETWEEN 0 AND 100),
    exact_weight          double precision NOT NULL DEFAULT 1 CHECK (exact_weight BETWEEN 0 AND 100),
    relaxed_weight        double precision NOT NULL DEFAULT 1 CHECK (relaxed_weight BETWEEN 0 AND 100),
    alias_weight          double precision NOT NULL DEFAULT 1 CHECK (alias_weight BETWEEN 0 AND 100),
    -- An identifier match outweighs first places in all three other legs together: 4/61 > 3/61.
    identifier_weight     double precision NOT NULL DEFAULT 4 CHECK (identifier_weight BETWEEN 0 AND 100),
    -- An identifier that more memories than this carry is an ordinary word.
    identifier_rows       integer NOT NULL DEFAULT 10 CHECK (identifier_rows BETWEEN 0 AND 1000),
    -- Share of the query's idf that a memory's matched stems must carry to enter the relaxed pool.
    relaxed_coverage      double precision NOT NULL DEFAULT 0.2 CHECK (relaxed_coverage BETWEEN 0 AND 1),
    -- The rarest stems propose until their document frequencies sum to this; to two thirds of it where there are few memories.
    relaxed_proposals     integer NOT NULL DEFAULT 300 CHECK (relaxed_proposals BETWEEN 10 AND 100000),
    relaxed_stems         integer NOT NULL DEFAULT 32 CHECK (relaxed_stems BETWEEN 1 AND 256),
    bm25_k1               double precision NOT NULL DEFAULT 1.2 CHECK (bm25_k1 BETWEEN 0 AND 10),
    bm25_b                double precision NOT NULL DEFAULT 0.75 CHECK (bm25_b BETWEEN 0 AND 1),
    -- Least trigram similarity of a near miss in spelling, and what its idf is multiplied with.
    near_miss_similarity  double precision NOT NULL DEFAULT 0.45 CHECK (near_miss_similarity BETWEEN 0.1 AND 1),
    near_miss_penalty     double precision NOT NULL DEFAULT 0.6 CHECK (near_miss_penalty BETWEEN 0 AND 1),
    -- Windows times dimensions that an exact scan may read; beyond, codes propose and vectors re-rank.
    scan_numbers          bigint NOT NULL DEFAULT 4000000 CHECK (scan_numbers >= 0),
    code_candidates       integer NOT NULL DEFAULT 1000 CHECK (code_candidates BETWEEN 10 AND 100000),
    accepted_run          bigint,
    accepted_at           timestamptz
);

-- name: kinds
-- One row per kind with a half-life of its own; '' stands for every other kind. NULL days: never fades.
CREATE TABLE kinds (
    kind           text COLLATE "C" PRIMARY KEY,
    half_life_days double precision CHECK (half_life_days > 0),
    recency_floor  double precision NOT NULL DEFAULT 0.85 CHECK (recency_floor BETWEEN 0 AND 1)
);
-- Floors by measurement (benchmarks/recency.py): the faster a kind fades, the more of its memories lie at the floor, and
-- the lower it must be for the newer of two alike to come first.
INSERT INTO kinds (kind, half_life_days, recency_floor) VALUES
    ('decision', 3650, 0.95), ('convention', 3650, 0.95), ('preference', 1825, 0.95), ('reference', 1825, 0.95), ('runbook', 1825, 0.95),
    ('gotcha', 1095, 0.95), ('fact', 365, 0.95), ('episode', 30, 0.85), ('task', 14, 0.8), ('open-question', 14, 0.8),
    ('document', NULL, 1), ('', 365, 0.95);

-- name: embedding_space
-- One row per model that made vectors here. One space is active; another may be building beside it, others are kept
-- behind (the way back), or dropped and being cleared away.
CREATE TABLE embedding_space (
    space      smallint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    model      text NOT NULL,
    revision   text NOT NULL,
    dimensions integer NOT NULL CHECK (dimensions BETWEEN 1 AND 16000),
    state      text NOT NULL CHECK (state IN ('active', 'building', 'kept', 'dropped')),
    -- The generation of codes that searches read; NULL: every search scans vectors.
    centre     smallint,
    -- Thresholds of evidence strength, calibrated from data.
    evidence   jsonb,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- When another space took its place.
    left_at    timestamptz,
    UNIQUE (model, revision, dimensions)
);
CREATE UNIQUE INDEX embedding_space_active ON embedding_space (state) WHERE state = 'active';
CREATE UNIQUE INDEX embedding_space_building ON embedding_space (state) WHERE state = 'building';

-- name: centres
-- One row per generation of codes: the vector that is subtracted before the signs are taken. A retired one gets no
-- more codes; it goes once its codes are gone.
CREATE TABLE centres (
    space      smallint NOT NULL REFERENCES embedding_space ON DELETE CASCADE,
    centre     smallint NOT NULL,
    embedding  halfvec NOT NULL,
    retired    boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (space, centre)
);

-- name: memories
-- One row per memory. `key` never leaves the database; `id` is the owner's name for it.
CREATE TABLE memories (
    org              text COLLATE "C" NOT NULL CHECK (org <> ''),
    key              bigint GENERATED ALWAYS AS IDENTITY,
    id               text COLLATE "C" NOT NULL CHECK (length(id) BETWEEN 1 AND 512),
    owner            text COLLATE "C" NOT NULL CHECK (owner <> ''),
    visibility       text NOT NULL DEFAULT 'private' CHECK (visibility IN ('private', 'shared')),
    kind             text NOT NULL DEFAULT 'fact',
    content          text NOT NULL,
    content_original text,
    language         text,
    translation      text CHECK (translation IN ('done', 'pending', 'failed')),
    metadata         jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object'),
    pinned           boolean NOT NULL DEFAULT false,
    agent            text,
    session          text,
    source           text,
    trust            text,
    created_at       timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now(),
    expires_at       timestamptz,
    invalidated_at   timestamptz,
    superseded_by    text COLLATE "C",
    version          integer NOT NULL DEFAULT 1,
    content_hash     bytea NOT NULL GENERATED ALWAYS AS (text_hash(content)) STORED,
    full_length      integer NOT NULL GENERATED ALWAYS AS (length(content)) STORED,
    text_config      text NOT NULL DEFAULT 'english',
    tsv              tsvector NOT NULL GENERATED ALWAYS AS (memory_vector(text_config, content)) STORED,
    partly_indexed   boolean NOT NULL GENERATED ALWAYS AS (indexed_chars(text_config, content) < length(content)) STORED,
    -- Windows beyond the most that one memory may have were not embedded.
    partly_embedded  boolean NOT NULL DEFAULT false,
    identifiers      text[] COLLATE "C" NOT NULL GENERATED ALWAYS AS (memory_identifiers(id, content)) STORED,
    PRIMARY KEY (org, key),
    -- A date that a driver cannot hold would break every reader of the row.
    CONSTRAINT memories_readable_dates CHECK (
        created_at BETWEEN '0001-01-02 00:00:00+00' AND '9999-12-30 00:00:00+00'
        AND updated_at BETWEEN '0001-01-02 00:00:00+00' AND '9999-12-30 00:00:00+00'
        AND (expires_at IS NULL OR expires_at BETWEEN '0001-01-02 00:00:00+00' AND '9999-12-30 00:00:00+00'))
);
-- Texts and tsvectors of a few thousand characters stay in their rows: a search reads a hundred of them, and fetching each
-- from beside the table took a sixth of the relaxed leg's time.
ALTER TABLE memories SET (toast_tuple_target = 8160);
CREATE UNIQUE INDEX memories_own_id ON memories (org, owner, id);
CREATE UNIQUE INDEX memories_shared_id ON memories (org, id) WHERE visibility = 'shared';
CREATE INDEX memories_tsv ON memories USING gin (org, tsv) WHERE invalidated_at IS NULL;
CREATE INDEX memories_identifiers ON memories USING gin (org, identifiers) WHERE invalidated_at IS NULL;
-- Without the key: with it, the planner would take this index for look-ups by (org, key).
CREATE INDEX memories_newest ON memories (org, created_at DESC);
CREATE INDEX memories_pinned ON memories (org, owner) WHERE pinned;
CREATE INDEX memories_expiring ON memories (expires_at) WHERE expires_at IS NOT NULL;

-- name: windows
-- One row per span that a space embeds: code points [window_start, window_end) of a memory's content. Every space has
-- its own, since models differ in how much they read.
CREATE TABLE windows (
    org          text COLLATE "C" NOT NULL,
    space        smallint NOT NULL REFERENCES embedding_space ON DELETE CASCADE,
    key          bigint NOT NULL,
    ordinal      integer NOT NULL CHECK (ordinal >= 0),
    window_start integer NOT NULL CHECK (window_start >= 0),
    window_end   integer NOT NULL,
    PRIMARY KEY (org, key, space, ordinal),
    FOREIGN KEY (org, key) REFERENCES memories ON DELETE CASCADE,
    CHECK (window_end >= window_start)
);

-- name: vectors
-- One row per window. Owner, visibility and life are copies of the memory's, kept by trigger, so that a
-- scan needs no join. No typed dimension: spaces of different width live side by side. Vectors stay in the row while
-- it fits a page (up to about 4,000 dimensions), uncompressed: 5 ms for 4,773 windows instead of 23 from TOAST.
CREATE TABLE vectors (
    org        text COLLATE "C" NOT NULL,
    space      smallint NOT NULL,
    key        bigint NOT NULL,
    ordinal    integer NOT NULL,
    owner      text COLLATE "C" NOT NULL,
    shared     boolean NOT NULL,
    live       boolean NOT NULL,
    expires_at timestamptz,
    created_at timestamptz NOT NULL,
    embedding  halfvec NOT NULL,
    PRIMARY KEY (org, space, key, ordinal),
    FOREIGN KEY (org, key, space, ordinal) REFERENCES windows ON DELETE CASCADE
);
ALTER TABLE vectors ALTER COLUMN embedding SET STORAGE EXTERNAL;
ALTER TABLE vectors SET (toast_tuple_target = 8160);

-- name: codes
-- One row per vector and generation of codes: the signs of (vector - centre). Derived; read by index only.
CREATE TABLE codes (
    org        text COLLATE "C" NOT NULL,
    space      smallint NOT NULL,
    centre     smallint NOT NULL,
    key        bigint NOT NULL,
    ordinal    integer NOT NULL,
    owner      text COLLATE "C" NOT NULL,
    shared     boolean NOT NULL,
    live       boolean NOT NULL,
    expires_at timestamptz,
    created_at timestamptz NOT NULL,
    bits       bit varying NOT NULL,
    PRIMARY KEY (org, space, key, ordinal, centre),
    FOREIGN KEY (org, space, key, ordinal) REFERENCES vectors ON DELETE CASCADE,
    FOREIGN KEY (space, centre) REFERENCES centres ON DELETE CASCADE
);
-- Two, so that a scan reads what its asker may see and nothing else, and each as narrow as can be: every column is read for
-- every code. One uncovered column would end the index-only scan (4 ms become 24 to 51).
CREATE INDEX codes_shared ON codes (org, space, centre) INCLUDE (expires_at, key, ordinal, bits) WHERE live AND shared;
CREATE INDEX codes_private ON codes (org, space, centre, owner) INCLUDE (expires_at, key, ordinal, bits) WHERE live AND NOT shared;
ALTER TABLE codes SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02);

-- name: pending
-- One row per memory that lacks windows or vectors in a space: work for the next write and for `lore-retriever embed`.
CREATE TABLE pending (
    org        text COLLATE "C" NOT NULL,
    space      smallint NOT NULL REFERENCES embedding_space ON DELETE CASCADE,
    key        bigint NOT NULL,
    owner      text COLLATE "C" NOT NULL,
    attempts   integer NOT NULL DEFAULT 0,
    next_at    timestamptz NOT NULL DEFAULT now(),
    error      text,
    PRIMARY KEY (org, space, key),
    FOREIGN KEY (org, key) REFERENCES memories ON DELETE CASCADE
);
CREATE INDEX pending_next ON pending (space, next_at);

-- name: terms
-- One row per stem and part of an organisation ('' the shared memories, else one user's private ones):
-- in how many memories it stands. Bounded; refreshed after writes in bulk and by `maintain`.
CREATE TABLE terms (
    org    text COLLATE "C" NOT NULL,
    owner  text COLLATE "C" NOT NULL,
    stem   text COLLATE "C" NOT NULL,
    df     integer NOT NULL CHECK (df > 0),
    PRIMARY KEY (org, owner, stem)
);
ALTER TABLE terms SET (fillfactor = 70);  -- room for counts to change in place
CREATE INDEX terms_spelling ON terms USING gin (org, stem gin_trgm_ops);

-- name: scope_statistics
-- One row per part of an organisation ('' the shared memories, else one user's private ones), as of its refresh.
CREATE TABLE scope_statistics (
    org          text COLLATE "C" NOT NULL,
    owner        text COLLATE "C" NOT NULL,
    memories     bigint NOT NULL,
    characters   bigint NOT NULL,
    windows      bigint NOT NULL,
    stems        bigint NOT NULL,
    last_key     bigint NOT NULL,
    refreshed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org, owner)
);

-- name: aliases
-- One row per other name. With a `key` it names that memory; without, it is one of the names of a group of the
-- organisation ("Kubernetes" and "k8s").
CREATE TABLE aliases (
    org        text COLLATE "C" NOT NULL,
    alias      bigint GENERATED ALWAYS AS IDENTITY,
    folded     text COLLATE "C" NOT NULL CHECK (folded <> ''),
    name       text NOT NULL,
    group_no   bigint,
    key        bigint,
    owner      text COLLATE "C" NOT NULL,
    shared     boolean NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org, alias),
    FOREIGN KEY (org, key) REFERENCES memories ON DELETE CASCADE,
    CHECK ((group_no IS NULL) <> (key IS NULL)),
    CHECK (key IS NOT NULL OR shared)
);
CREATE UNIQUE INDEX aliases_group_name ON aliases (org, folded) WHERE key IS NULL;
CREATE UNIQUE INDEX aliases_memory_name ON aliases (org, key, folded) WHERE key IS NOT NULL;
CREATE INDEX aliases_folded ON aliases (org, folded);
CREATE INDEX aliases_group ON aliases (org, group_no) WHERE group_no IS NOT NULL;

-- name: feedback
-- One row per vote: one for each memory, voter and recall.
CREATE TABLE feedback (
    org        text COLLATE "C" NOT NULL,
    key        bigint NOT NULL,
    voter      text COLLATE "C" NOT NULL,
    recall_id  text COLLATE "C" NOT NULL DEFAULT '',
    useful     boolean NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org, key, voter, recall_id),
    FOREIGN KEY (org, key) REFERENCES memories ON DELETE CASCADE
);

-- name: reinforcement
-- One row per memory with votes in the window: its multiplier, computed off the read path. Absent = 1.
CREATE TABLE reinforcement (
    org          text COLLATE "C" NOT NULL,
    key          bigint NOT NULL,
    multiplier   double precision NOT NULL CHECK (multiplier BETWEEN 0.5 AND 1.4),
    useful       integer NOT NULL,
    misleading   integer NOT NULL,
    refreshed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org, key),
    FOREIGN KEY (org, key) REFERENCES memories ON DELETE CASCADE
);

-- name: history
-- One row per text that an update replaced, and per invalidation: what replaced what, and when.
CREATE TABLE history (
    org              text COLLATE "C" NOT NULL,
    key              bigint NOT NULL,
    version          integer NOT NULL,
    event            text NOT NULL CHECK (event IN ('updated', 'invalidated', 'restored')),
    content          text,
    superseded_by    text COLLATE "C",
    changed_at       timestamptz NOT NULL DEFAULT now(),
    entry            bigint GENERATED ALWAYS AS IDENTITY,
    PRIMARY KEY (org, key, entry),
    FOREIGN KEY (org, key) REFERENCES memories ON DELETE CASCADE
);

-- name: eval_runs
-- One row per recorded run of the evaluation harness.
CREATE TABLE eval_runs (
    run          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    created_at   timestamptz NOT NULL DEFAULT now(),
    suite        text NOT NULL,
    data_hash    text NOT NULL,
    code_version text NOT NULL,
    config       jsonb NOT NULL,
    measures     jsonb NOT NULL,
    detail       jsonb
);

-- Plans are made once for all organisations. By their mean size, a thousand small ones would have a large one read whole where
-- a few of its rows are wanted, or its words be looked for row by row while a GIN index has not sorted in what was written last
-- (48 ms instead of 7). Told that there is one, the planner expects the largest.
ALTER TABLE memories ALTER org SET (n_distinct = 1);
ALTER TABLE windows ALTER org SET (n_distinct = 1);
ALTER TABLE vectors ALTER org SET (n_distinct = 1);
ALTER TABLE codes ALTER org SET (n_distinct = 1);
ALTER TABLE terms ALTER org SET (n_distinct = 1);
ALTER TABLE aliases ALTER org SET (n_distinct = 1);

RESET ROLE;
