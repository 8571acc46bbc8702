"""One memory through both frameworks: written by one, found and filtered by the other."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.documents import Document as LangChainDocument
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import FilterOperator, MetadataFilter, MetadataFilters, VectorStoreQuery

from lore_retriever import Memories, MemoryStore
from lore_retriever import langchain as for_langchain
from lore_retriever import llamaindex as for_llamaindex

LONG = "Herons nest by the weir. " + "Filler without any meaning. " * 90

TEXTS = {
    "short": ("The gateway restarts at two after ERR-4471.", {"team": "infra", "level": 3}),
    "other": ("Invoices go out on Mondays.", {"team": "money", "level": 1}),
    "long": (LONG, {"team": "infra", "level": 9}),
}

QUERIES = ("ERR-4471", "gateway on Mondays", "herons weir", "nothing of the sort")

MARKS = (
    "lore_rank",
    "lore_relevance",
    "lore_recency",
    "lore_reinforcement",
    "lore_score",
    "lore_vector_rank",
    "lore_exact_rank",
    "lore_relaxed_rank",
    "lore_alias_rank",
    "lore_similarity",
    "lore_exact_score",
    "lore_relaxed_score",
    "lore_strength",
    "lore_truncated",
    "lore_full_length",
    "lore_excerpt_start",
    "lore_excerpt_end",
    "lore_kind",
    "lore_owner",
    "lore_created_at",
    "team",
    "level",
)


def write_through_langchain(ana: Memories) -> None:
    documents = [
        LangChainDocument(id=id_, page_content=text, metadata=metadata) for id_, (text, metadata) in TEXTS.items()
    ]
    for_langchain.LoreVectorStore(memories=ana).add_documents(documents)


def write_through_llamaindex(ana: Memories) -> None:
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="runbook")}
    nodes = [
        TextNode(id_=id_, text=text, metadata=metadata, relationships=source, start_char_idx=7)
        for id_, (text, metadata) in TEXTS.items()
    ]
    for_llamaindex.LoreVectorStore(memories=ana).add(nodes)


@pytest.fixture(params=[write_through_langchain, write_through_llamaindex], ids=["langchain", "llamaindex"])
def written(request: pytest.FixtureRequest, ana: Memories) -> Memories:
    request.param(ana)
    return ana


@pytest.mark.parametrize("query", QUERIES)
def test_both_find_the_same_memories_with_the_same_scores_and_ranks(written: Memories, query: str) -> None:
    documents = for_langchain.LoreRetriever(memories=written, k=3).invoke(query)
    nodes = for_llamaindex.LoreRetriever(memories=written, similarity_top_k=3).retrieve(query)
    assert [document.id for document in documents] == [node.node_id for node in nodes]
    assert [document.page_content for document in documents] == [node.text for node in nodes]
    for document, node in zip(documents, nodes, strict=True):
        assert {key: document.metadata[key] for key in MARKS} == {key: node.metadata[key] for key in MARKS}
        assert node.score == document.metadata["lore_score"]


def test_both_filter_alike(written: Memories) -> None:
    documents = for_langchain.LoreRetriever(
        memories=written, filter={"team": "infra", "level": {"$gte": 3}, "lore_kind": "document"}
    ).invoke("gateway herons invoices")
    filters = MetadataFilters(
        filters=[
            MetadataFilter(key="team", value="infra"),
            MetadataFilter(key="level", value=3, operator=FilterOperator.GTE),
            MetadataFilter(key="lore_kind", value="document"),
        ]
    )
    nodes = for_llamaindex.LoreRetriever(memories=written, filters=filters).retrieve("gateway herons invoices")
    assert [document.id for document in documents] == [node.node_id for node in nodes]
    assert {node.node_id for node in nodes} == {"short", "long"}


def test_both_read_the_whole_text_and_the_user_s_metadata(written: Memories) -> None:
    documents = for_langchain.LoreVectorStore(memories=written).get_by_ids(list(TEXTS))
    nodes = for_llamaindex.LoreVectorStore(memories=written).get_nodes(list(TEXTS))
    for document, node in zip(documents, nodes, strict=True):
        text, metadata = TEXTS[node.node_id]
        assert document.page_content == node.get_content() == text
        assert node.metadata == metadata
        assert document.metadata.items() >= metadata.items()


def test_what_one_deletes_is_gone_for_the_other(written: Memories) -> None:
    for_langchain.LoreVectorStore(memories=written).delete(["short"])
    store = for_llamaindex.LoreVectorStore(memories=written)
    assert [node.node_id for node in store.get_nodes()] == ["other", "long"]
    store.delete_nodes(["other"])
    found = for_langchain.LoreVectorStore(memories=written).similarity_search("gateway on Mondays", k=3)
    assert [document.id for document in found] == ["long"]


def test_a_document_of_one_can_be_stored_again_through_the_other(written: Memories) -> None:
    documents = for_langchain.LoreRetriever(memories=written, k=1).invoke("ERR-4471")
    node = for_llamaindex.LoreRetriever(memories=written, similarity_top_k=1).retrieve("ERR-4471")[0].node
    before = written.get("short")
    for_langchain.LoreVectorStore(memories=written).add_documents(documents)
    for_llamaindex.LoreVectorStore(memories=written).add([node])
    after = written.get("short")
    assert (after.content, after.kind, after.created_at) == (before.content, before.kind, before.created_at)
    assert after.metadata.items() >= TEXTS["short"][1].items()
    assert not [key for key in after.metadata if key.startswith("lore_")]


def test_both_see_only_what_the_caller_may(store: MemoryStore) -> None:
    write_through_langchain(store.as_user("acme", "ana"))
    stranger: dict[str, Any] = {"memories": store.as_user("acme", "ben")}
    query = VectorStoreQuery(query_str="ERR-4471", similarity_top_k=3)
    assert for_langchain.LoreRetriever(**stranger).invoke("ERR-4471") == []
    assert for_llamaindex.LoreRetriever(**stranger).retrieve("ERR-4471") == []
    assert for_llamaindex.LoreVectorStore(**stranger).query(query).ids == []
