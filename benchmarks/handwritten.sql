-- The hybrid search that one would write by hand: two CTEs, reciprocal rank fusion, row-level security.
-- Run in a database that holds `rows` (peer_rows.py); `dimensions` is put in by the caller.

CREATE TABLE documents (
    id        text PRIMARY KEY,
    org       text NOT NULL,
    owner     text NOT NULL,
    shared    boolean NOT NULL,
    memory    text NOT NULL,
    content   text NOT NULL,
    embedding halfvec({dimensions}) NOT NULL,
    fts       tsvector NOT NULL GENERATED ALWAYS AS (to_tsvector('english', content)) STORED
);
INSERT INTO documents (id, org, owner, shared, memory, content, embedding)
SELECT r.id, r.org, r.owner, r.shared = 'yes', r.memory, r.content, r.embedding FROM rows AS r;

CREATE INDEX documents_fts ON documents USING gin (fts);
CREATE INDEX documents_org ON documents (org, owner);
CREATE INDEX documents_embedding ON documents USING hnsw (embedding halfvec_cosine_ops) WITH (m = 16, ef_construction = 64);

DO $$ BEGIN CREATE ROLE peers_user NOLOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
GRANT SELECT ON documents TO peers_user;
ALTER TABLE documents ENABLE ROW LEVEL SECURITY;
CREATE POLICY reads ON documents FOR SELECT TO peers_user
    USING (org = (SELECT current_setting('app.org', true)) AND (shared OR owner = (SELECT current_setting('app.user', true))));

-- name: words_of
-- The query as a tsquery: all of its words, or any of them.
CREATE FUNCTION words_of(query_text text, any_word boolean) RETURNS tsquery
    LANGUAGE sql STABLE
    RETURN CASE WHEN any_word THEN replace(plainto_tsquery('english', query_text)::text, '&', '|')::tsquery
                ELSE websearch_to_tsquery('english', query_text) END;

-- name: hybrid_search
-- One row per document, best first.
CREATE FUNCTION hybrid_search(query_text text, query_embedding halfvec({dimensions}), match_count integer, any_word boolean)
    RETURNS TABLE (id text, memory text, content text, score double precision)
    LANGUAGE sql STABLE
    SET hnsw.iterative_scan = 'relaxed_order'
    SET hnsw.ef_search = 100
    AS $$
    WITH lexical AS (
        SELECT d.id, row_number() OVER (ORDER BY ts_rank_cd(d.fts, q.words) DESC, d.id) AS place
        FROM documents AS d, (SELECT words_of(query_text, any_word) AS words) AS q
        WHERE d.fts @@ q.words
        ORDER BY place
        LIMIT match_count * 4
    ), nearest AS (
        SELECT d.id, d.embedding <=> query_embedding AS distance
        FROM documents AS d
        ORDER BY d.embedding <=> query_embedding
        LIMIT match_count * 4
    ), semantic AS (
        SELECT n.id, row_number() OVER (ORDER BY n.distance, n.id) AS place FROM nearest AS n
    ), fused AS (
        SELECT id, coalesce(1.0 / (60 + l.place), 0) + coalesce(1.0 / (60 + s.place), 0) AS score
        FROM lexical AS l FULL JOIN semantic AS s USING (id)
        ORDER BY score DESC, id
        LIMIT match_count
    )
    SELECT d.id, d.memory, d.content, f.score::double precision
    FROM fused AS f JOIN documents AS d ON d.id = f.id
    ORDER BY f.score DESC, d.id
    $$;

-- name: nearest
-- Its semantic half alone, to see what it finds.
CREATE FUNCTION nearest(query_embedding halfvec({dimensions}), match_count integer) RETURNS TABLE (id text)
    LANGUAGE sql STABLE
    SET hnsw.iterative_scan = 'relaxed_order'
    SET hnsw.ef_search = 100
    AS $$
    SELECT n.id
    FROM (SELECT d.id, d.embedding <=> query_embedding AS distance FROM documents AS d
          ORDER BY d.embedding <=> query_embedding LIMIT match_count * 4) AS n
    ORDER BY n.distance, n.id
    LIMIT match_count
    $$;
