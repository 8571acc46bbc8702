"""Moving in from a PGVectorStore's table, made here as that store makes it."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import psycopg
import pytest
from llama_index.core.schema import MetadataMode, NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import VectorStoreQuery
from llama_index.core.vector_stores.utils import node_to_metadata_dict

from lore_retriever import InvalidInput, Memories, StoreUnavailable
from lore_retriever.llamaindex import LoreVectorStore, as_llamaindex_embedding, import_pgvectorstore
from lore_retriever.rows import Imported
from lore_retriever.testing import HashEmbedder


def nodes() -> list[TextNode]:
    source = RelatedNodeInfo(node_id="runbook", metadata={"file": "runbook.md"})
    made = [
        TextNode(
            id_=f"n{n}",
            text=f"Step {n} of the gateway's restart.",
            metadata={"step": n, "file": "runbook.md"},
            relationships={NodeRelationship.SOURCE: source},
            excluded_llm_metadata_keys=["file"],
            start_char_idx=100 * n,
        )
        for n in range(5)
    ]
    for before, after in pairwise(made):
        before.relationships[NodeRelationship.NEXT] = RelatedNodeInfo(node_id=after.node_id)
        after.relationships[NodeRelationship.PREVIOUS] = RelatedNodeInfo(node_id=before.node_id)
    return made


def insert(database: str, node: TextNode, metadata: dict[str, Any] | None = None) -> None:
    vector = HashEmbedder(32).embed_texts([node.get_content(MetadataMode.EMBED)])[0]
    about = node_to_metadata_dict(node, remove_text=True) if metadata is None else metadata
    with psycopg.connect(database) as connection:
        connection.execute(
            "INSERT INTO public.data_notes (text, metadata_, node_id, embedding) VALUES (%s, %s, %s, %s)",
            [node.text, json.dumps(about), node.node_id, json.dumps(list(vector))],
        )


@pytest.fixture
def source(database: str) -> str:
    """A database with a PGVectorStore of the name Notes, whose first node was added twice."""
    with psycopg.connect(database) as connection:
        connection.execute(
            "CREATE TABLE public.data_notes (id bigserial PRIMARY KEY, text varchar NOT NULL, metadata_ json,"
            " node_id varchar, embedding vector(32))"
        )
    first, *rest = nodes()
    insert(database, first.model_copy(update={"text": "An older wording."}))
    for node in [first, *rest]:
        insert(database, node)
    return database


def test_nodes_arrive_as_they_were_with_their_relationships(source: str, ana: Memories) -> None:
    into = LoreVectorStore(memories=ana)
    assert import_pgvectorstore(source, into, table_name="Notes") == Imported(stored=5)
    assert into.get_nodes() == nodes()
    result = into.query(VectorStoreQuery(query_str="step 3 gateway", similarity_top_k=1))
    assert result.ids == ["n3"]
    assert result.nodes
    assert result.nodes[0].ref_doc_id == "runbook"
    into.delete("runbook")
    assert into.get_nodes() == []


def test_a_second_run_stores_only_what_is_missing(source: str, ana: Memories) -> None:
    into, seen = LoreVectorStore(memories=ana), []
    import_pgvectorstore(source, into, table_name="Notes")
    into.delete_nodes(["n2"])
    ana.update("n4", content="Step 4 was changed here.")
    done = import_pgvectorstore(
        source, into, table_name="Notes", batch_size=2, progress=lambda so_far: seen.append(so_far.read)
    )
    assert (done.stored, done.unchanged) == (2, 3)
    assert seen == [2, 4, 5]
    assert into.get_nodes(["n2", "n4"]) == [nodes()[2], nodes()[4]]


def test_rows_that_llama_index_did_not_write_arrive_as_text(source: str, ana: Memories) -> None:
    insert(source, TextNode(id_="by hand", text="Written by hand."), {"team": "infra", "doc_id": "None"})
    into = LoreVectorStore(memories=ana)
    import_pgvectorstore(source, into, table_name="Notes")
    [found] = into.get_nodes(["by hand"])
    assert (found.get_content(), found.metadata) == ("Written by hand.", {"team": "infra"})


def test_vectors_are_taken_over_only_from_the_store_s_own_model(source: str, ana: Memories) -> None:
    with psycopg.connect(source) as connection:
        vector = HashEmbedder(32).embed_queries(["a query of its own"])[0]
        connection.execute("UPDATE data_notes SET embedding = %s WHERE node_id = 'n1'", [json.dumps(list(vector))])
    query = VectorStoreQuery(query_str="a query of its own", similarity_top_k=1)
    for model, taken_over in ((None, False), (as_llamaindex_embedding(HashEmbedder(32)), True)):
        into = LoreVectorStore(memories=ana, embed_model=model, default_mode="vector")
        into.clear()
        import_pgvectorstore(source, into, table_name="Notes")
        [first] = into.query(query).nodes or []
        assert (first.metadata["lore_similarity"] > 0.99) is taken_over


def test_what_is_not_there_is_named(source: str, ana: Memories) -> None:
    into = LoreVectorStore(memories=ana)
    with pytest.raises(InvalidInput, match=r"'nothing'.*data_nothing"):
        import_pgvectorstore(source, into, table_name="nothing")
    with pytest.raises(StoreUnavailable, match="did not answer"):
        import_pgvectorstore("postgresql+psycopg2://nobody@127.0.0.1:1/nowhere", into)
