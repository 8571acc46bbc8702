"""Moving a PGVector collection into memory, breaking off in the middle, and going on.

Needs: pip install "lore-retriever[quickstart,langchain]"
"""

from tempfile import TemporaryDirectory

import psycopg

from lore_retriever import MemoryStore, embedded
from lore_retriever.langchain import LoreVectorStore, import_pgvector

# What langchain-postgres keeps, as far as it matters here.
PGVECTOR = """
CREATE TABLE langchain_pg_collection (uuid uuid PRIMARY KEY, name varchar UNIQUE);
CREATE TABLE langchain_pg_embedding (id varchar PRIMARY KEY, collection_id uuid, document varchar, cmetadata jsonb);
INSERT INTO langchain_pg_collection VALUES (gen_random_uuid(), 'handbook');
INSERT INTO langchain_pg_embedding
SELECT 'page-' || n, (SELECT uuid FROM langchain_pg_collection), 'Page ' || n || ' of the handbook: restart host-' || n,
       jsonb_build_object('page', n)
FROM generate_series(1, 60) AS n;
"""


def stop_half_way(done) -> None:
    print(f"{done.stored} stored so far")
    if done.stored >= 40:
        raise KeyboardInterrupt


with TemporaryDirectory() as folder, embedded.start(folder) as server, MemoryStore.embedded(folder) as store:
    source = server.conninfo(dbname="postgres")  # yours may be postgresql+psycopg://user@host/database
    with psycopg.connect(source) as connection:
        connection.execute(PGVECTOR)

    ana = store.as_user(org="acme", user="ana")
    try:
        import_pgvector(source, ana, collection="handbook", batch_size=20, progress=stop_half_way)
    except KeyboardInterrupt:
        print("broken off")

    # The same call again does what is missing. `lore-retriever import SOURCE --pgvector handbook` is the same.
    done = import_pgvector(source, ana, collection="handbook")
    print(f"{done.stored} stored, {done.unchanged} held already")

    # Where the code said PGVector(...), it now says:
    documents = LoreVectorStore(memories=ana)
    print(documents.similarity_search("host-42", k=1)[0])

# 20 stored so far
# 40 stored so far
# broken off
# 20 stored, 40 held already
# page_content='Page 42 of the handbook: restart host-42' metadata={'page': 42}
