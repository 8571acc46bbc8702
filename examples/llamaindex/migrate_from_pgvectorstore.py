"""Moving the nodes of LlamaIndex's PGVectorStore into memory, breaking off in the middle, and going on.

Needs: pip install "lore-retriever[quickstart,llamaindex]"
"""

import json
from tempfile import TemporaryDirectory

import psycopg
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.utils import node_to_metadata_dict

from lore_retriever import MemoryStore, embedded
from lore_retriever.llamaindex import LoreRetriever, LoreVectorStore, import_pgvectorstore

# What PGVectorStore.from_params(table_name="handbook") keeps, as far as it matters here.
TABLE = "CREATE TABLE data_handbook (id bigserial PRIMARY KEY, text varchar, metadata_ jsonb, node_id varchar)"
INSERT = "INSERT INTO data_handbook (text, metadata_, node_id) VALUES (%s, %s, %s)"


def page(number: int) -> TextNode:
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="handbook.pdf")}
    text = f"Page {number} of the handbook: restart host-{number}"
    return TextNode(id_=f"page-{number}", text=text, metadata={"page": number}, relationships=source)


def stop_half_way(done) -> None:
    print(f"{done.stored} stored so far")
    if done.stored >= 40:
        raise KeyboardInterrupt


with TemporaryDirectory() as folder, embedded.start(folder) as server, MemoryStore.embedded(folder) as store:
    source = server.conninfo(dbname="postgres")  # yours may be postgresql+psycopg2://user@host/database
    with psycopg.connect(source) as connection:
        connection.execute(TABLE)
        for node in map(page, range(1, 61)):
            connection.execute(INSERT, [node.text, json.dumps(node_to_metadata_dict(node)), node.node_id])

    ana = store.as_user(org="acme", user="ana")
    nodes = LoreVectorStore(memories=ana)
    try:
        import_pgvectorstore(source, nodes, table_name="handbook", batch_size=20, progress=stop_half_way)
    except KeyboardInterrupt:
        print("broken off")

    # The same call again does what is missing.
    done = import_pgvectorstore(source, nodes, table_name="handbook")
    print(f"{done.stored} stored, {done.unchanged} held already")

    # Where the code said PGVectorStore.from_params(...), it now says LoreVectorStore(memories=ana).
    [found] = LoreRetriever(memories=ana, similarity_top_k=1).retrieve("host-42")
    print(found.text, "from", found.node.ref_doc_id)

# 20 stored so far
# 40 stored so far
# broken off
# 20 stored, 40 held already
# Page 42 of the handbook: restart host-42 from handbook.pdf
