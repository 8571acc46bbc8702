"""LoreVectorStore: nodes in and out, every query mode, over both stores and both call styles."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from llama_index.core import Document, MockEmbedding, SimpleDirectoryReader, StorageContext, VectorStoreIndex
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import (
    ImageNode,
    IndexNode,
    MediaResource,
    MetadataMode,
    Node,
    NodeRelationship,
    ObjectType,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores.simple import SimpleVectorStore
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)

from llamaindex_sides import CROSSED, NATURAL, Side, open_side
from lore_retriever import (
    AsyncMemoryStore,
    EmbeddingSpaceMismatch,
    InvalidInput,
    Memories,
    MemoryStore,
    StoreUnavailable,
)
from lore_retriever.llamaindex import LoreNode, LoreVectorStore, as_llamaindex_embedding
from lore_retriever.testing import HashEmbedder

MODES = ("default", "hybrid", "semantic_hybrid", "text_search", "sparse", "mmr")

TEXTS = {
    "gateway": "The gateway restarts at two in the morning.",
    "deploy": "Deploys stop when ERR-4471 shows up in the log.",
    "billing": "Billing sends invoices on the first of the month.",
    "search": "The search service reindexes every night.",
}


@pytest.fixture(params=NATURAL)
def side(request: pytest.FixtureRequest, app_database: str) -> Iterator[Side]:
    with open_side(request.param, app_database) as opened:
        yield opened


def nodes() -> list[TextNode]:
    return [TextNode(id_=id_, text=text, metadata={"topic": id_}) for id_, text in TEXTS.items()]


def asked(text: str | None = None, **fields: Any) -> VectorStoreQuery:
    return VectorStoreQuery(query_str=text, **{"similarity_top_k": 3} | fields)


def ranks(node: Any) -> dict[str, int | None]:
    return {leg: node.metadata[f"lore_{leg}_rank"] for leg in ("vector", "exact", "relaxed", "alias")}


def linked_node() -> TextNode:
    """A node with everything that LlamaIndex attaches to one, metadata keys in no alphabetical order."""
    about = {"zone": "eu", "file": "runbook.md", "pages": [1, 2], "draft": False, "weight": 0.5}
    return TextNode(
        id_="linked",
        text="Restart the gateway with care.",
        metadata=about,
        excluded_llm_metadata_keys=["file"],
        excluded_embed_metadata_keys=["file", "pages"],
        relationships={
            NodeRelationship.SOURCE: RelatedNodeInfo(
                node_id="runbook", node_type=ObjectType.DOCUMENT, metadata=about, hash="h1"
            ),
            NodeRelationship.PREVIOUS: RelatedNodeInfo(node_id="before", node_type=ObjectType.TEXT, hash="h2"),
            NodeRelationship.NEXT: RelatedNodeInfo(node_id="after", metadata={"zone": "us"}),
            NodeRelationship.PARENT: RelatedNodeInfo(node_id="parent"),
            NodeRelationship.CHILD: [RelatedNodeInfo(node_id="child 1"), RelatedNodeInfo(node_id="child 2")],
        },
        start_char_idx=120,
        end_char_idx=150,
        mimetype="text/markdown",
        metadata_template="{key}={value}",
        metadata_separator="; ",
        text_template="{content} ({metadata_str})",
    )


def without_marks(node: Any) -> dict[str, Any]:
    """The fields of a node, without what a search adds."""
    fields = node.model_dump(exclude={"embedding"})
    fields["metadata"] = {key: value for key, value in node.metadata.items() if not key.startswith("lore_")}
    for name in ("excluded_llm_metadata_keys", "excluded_embed_metadata_keys"):
        fields[name] = [key for key in fields[name] if not key.startswith("lore_")]
    return fields


# --- nodes in and out


def test_the_store_is_what_llama_index_calls_a_vector_store() -> None:
    assert BasePydanticVectorStore.__name__ in [base.__name__ for base in LoreVectorStore.__mro__]


def test_every_asynchronous_method_is_its_own() -> None:
    inherited = [
        name
        for name in ("async_add", "adelete", "adelete_nodes", "aclear", "aget_nodes", "aquery")
        if getattr(LoreVectorStore, name) is getattr(BasePydanticVectorStore, name)
    ]
    assert inherited == []


def test_add_returns_the_ids_in_order(side: Side) -> None:
    assert side.store().add(nodes()) == list(TEXTS)
    assert side.store().add([]) == []


def test_nodes_come_back_as_they_were_written(side: Side) -> None:
    store, node = side.store(), linked_node()
    store.add([node])
    [found] = store.get_nodes(["linked"])
    assert found == node
    assert type(found) is TextNode
    assert list(found.metadata) == list(node.metadata)
    assert found.ref_doc_id == "runbook"
    assert found.get_content(MetadataMode.LLM) == node.get_content(MetadataMode.LLM)


def test_a_search_returns_the_same_node_with_marks(side: Side) -> None:
    store, node = side.store(), linked_node()
    store.add([node])
    [found] = store.query(asked("gateway")).nodes
    assert isinstance(found, LoreNode)
    assert without_marks(found) == without_marks(node)
    assert found.get_content(MetadataMode.LLM) == node.get_content(MetadataMode.LLM)
    assert found.get_content(MetadataMode.EMBED) == node.get_content(MetadataMode.EMBED)
    assert found.metadata["lore_id"] == "linked"
    assert found.metadata["lore_vector_rank"] == 1
    assert found.metadata["lore_kind"] == "document"


@pytest.mark.parametrize(
    "node",
    [
        IndexNode(id_="n", text="Ask the billing index.", index_id="billing", metadata={"a": 1}),
        IndexNode(id_="n", text="A part of it.", index_id="part", obj=TextNode(id_="whole", text="All of it.")),
        ImageNode(id_="n", text="A chart of invoices.", image_path="/charts/1.png"),
        Node(
            id_="n",
            text_resource=MediaResource(text="A picture and words."),
            image_resource=MediaResource(url="http://localhost/p.png"),
        ),
        Document(id_="n", text="A whole document.", metadata={"b": 2, "a": 1}),
    ],
    ids=lambda node: type(node).__name__,
)
def test_other_types_of_node_survive(store: MemoryStore, node: Any) -> None:
    vectors = LoreVectorStore(memories=store.as_user("acme", "ana"))
    vectors.add([node])
    assert vectors.get_nodes(["n"]) == [node]
    result = vectors.query(asked("document billing invoices picture part"))
    assert isinstance(result.nodes[0], type(node))
    assert without_marks(result.nodes[0]) == without_marks(node)


def test_adding_a_node_again_replaces_it(side: Side) -> None:
    store = side.store()
    store.add([TextNode(id_="n", text="The old wording speaks of penguins.", metadata={"old": 1})])
    store.add([TextNode(id_="n", text="The new wording speaks of herons.", metadata={"new": 2})])
    [found] = store.get_nodes()
    assert (found.text, found.metadata) == ("The new wording speaks of herons.", {"new": 2})
    assert store.query(asked("penguins", mode=VectorStoreQueryMode.TEXT_SEARCH)).ids == []
    assert store.query(asked("herons", mode=VectorStoreQueryMode.TEXT_SEARCH)).ids == ["n"]


def test_of_one_id_given_twice_the_last_is_stored(side: Side) -> None:
    store = side.store()
    twice = [TextNode(id_="n", text="first"), TextNode(id_="m", text="other"), TextNode(id_="n", text="last")]
    assert store.add(twice) == ["n", "m", "n"]
    assert [(node.node_id, node.text) for node in store.get_nodes(["n", "m"])] == [("n", "last"), ("m", "other")]


def test_a_batch_is_stored_whole_or_not_at_all(side: Side) -> None:
    store = side.store()
    with pytest.raises(InvalidInput, match=r"'bad'.*NUL character.*position 1"):
        store.add([*nodes(), TextNode(id_="bad", text="a\x00b")])
    with pytest.raises(InvalidInput, match=r"bad"):
        store.add([*nodes(), TextNode(id_="bad", text="ab", metadata={"k": "a\x00b"})])
    assert store.get_nodes() == []


def test_nodes_are_not_changed_by_storing_them(side: Side) -> None:
    node = linked_node()
    before = node.model_dump()
    side.store().add([node])
    assert node.model_dump() == before


def test_reserved_metadata_keys_set_the_memory_s_fields(side: Side) -> None:
    about = {"lore_kind": "decision", "lore_visibility": "shared", "lore_pinned": True, "lore_source": "wiki", "own": 1}
    side.store().add([TextNode(id_="n", text="We use Postgres.", metadata=about)])
    memory = side.view("get", "n")
    assert (memory.kind, memory.visibility, memory.pinned, memory.source) == ("decision", "shared", True, "wiki")
    assert memory.metadata == {"own": 1}
    [found] = side.store().get_nodes(["n"])
    assert found.metadata == {"own": 1, **about}


def test_what_a_search_returned_can_be_stored_again(side: Side) -> None:
    store = side.store()
    store.add([linked_node()])
    [found] = store.query(asked("gateway")).nodes
    store.add([found])
    assert store.get_nodes(["linked"])[0].relationships == linked_node().relationships
    assert store.get_nodes(["linked"])[0].excluded_llm_metadata_keys[0] == "file"
    assert side.view("get", "linked").metadata.keys() >= {"zone", "_ref_doc_id"}
    assert not [key for key in side.view("get", "linked").metadata if key.startswith("lore_")]


def test_an_excerpt_is_not_stored_over_its_memory(side: Side) -> None:
    store = side.store()
    store.add([TextNode(id_="long", text="A sentence about herons. " * 100, start_char_idx=1000, end_char_idx=3500)])
    [found] = store.query(asked("herons", similarity_top_k=1)).nodes
    assert found.metadata["lore_truncated"]
    assert len(found.text) <= 1200
    with pytest.raises(InvalidInput, match="excerpt"):
        store.add([found])


def test_an_excerpt_tells_where_it_stands_in_the_source_document(side: Side) -> None:
    text = "Filler without any meaning at all. " * 60 + "Herons nest by the weir." + " More filler follows here." * 30
    side.store().add([TextNode(id_="long", text=text, start_char_idx=1000, end_char_idx=1000 + len(text))])
    [found] = side.store().query(asked("herons weir", mode=VectorStoreQueryMode.TEXT_SEARCH)).nodes
    assert "Herons nest" in found.text
    assert text[found.start_char_idx - 1000 : found.end_char_idx - 1000] == found.text
    assert found.metadata["lore_excerpt_start"] == found.start_char_idx - 1000
    assert side.store().get_nodes()[0].text == text


def test_memories_that_were_never_nodes_come_as_text_nodes(side: Side) -> None:
    side.view("remember", "Ana prefers tea.", id="tea", kind="preference", metadata={"who": "ana"})
    [found] = side.store().query(asked("tea")).nodes
    assert (found.text, found.metadata["who"], found.metadata["lore_kind"]) == ("Ana prefers tea.", "ana", "preference")
    assert side.store().get_nodes()[0].metadata == {"who": "ana", "lore_kind": "preference"}


@pytest.mark.parametrize(
    "content",
    [
        "text",
        [1],
        {"type": 7, "relationships": []},
        {"relationships": {"1": 5}},
        {"start_char_idx": "x"},
        {"text_template": "{content:>999999999}{metadata_str}"},
        {"text_template": "{content.__class__}"},
        {"text_template": "{secret}"},
        {"metadata_template": "{key!r}"},
        {"metadata_template": "{"},
    ],
)
def test_metadata_that_only_looks_like_a_node_s_is_shown_as_text(ana: Memories, content: Any) -> None:
    ana.remember("Ana prefers tea.", id="tea", metadata={"_node_content": content, "who": "ana"})
    store = LoreVectorStore(memories=ana)
    [found] = store.query(asked("tea")).nodes
    assert (found.text, found.metadata["who"]) == ("Ana prefers tea.", "ana")
    assert found.get_content(MetadataMode.LLM) == "who: ana\n\nAna prefers tea."
    assert store.get_nodes()[0].text == "Ana prefers tea."


def test_a_template_that_does_more_than_put_texts_together_is_refused(ana: Memories) -> None:
    store = LoreVectorStore(memories=ana)
    with pytest.raises(InvalidInput, match=r"text_template of node 'n'.*content and metadata_str"):
        store.add([TextNode(id_="n", text="x", text_template="{content:>999999999}")])
    assert store.get_nodes() == []


# --- get and delete


def test_get_nodes_follows_the_ids_and_leaves_out_unknown_ones(side: Side) -> None:
    store = side.store()
    store.add(nodes())
    assert [node.node_id for node in store.get_nodes(["search", "nobody", "gateway"])] == ["search", "gateway"]
    assert [node.node_id for node in store.get_nodes()] == list(TEXTS)
    assert store.get_nodes([]) == []


def test_get_nodes_filters(side: Side) -> None:
    store = side.store()
    store.add(nodes())
    filters = MetadataFilters(filters=[MetadataFilter(key="topic", value=["search", "deploy"], operator="in")])
    assert [node.node_id for node in store.get_nodes(filters=filters)] == ["deploy", "search"]
    assert [node.node_id for node in store.get_nodes(["gateway", "search"], filters)] == ["search"]


def test_delete_goes_by_source_document(side: Side) -> None:
    store = side.store()
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="doc '1'")}
    store.add([*nodes(), *(TextNode(id_=f"part {n}", text=f"part {n}", relationships=source) for n in range(3))])
    store.delete("doc '1'")
    store.delete("a document that never was")
    assert [node.node_id for node in store.get_nodes()] == list(TEXTS)


def test_delete_also_forgets_invalidated_parts(side: Side, admin_connection: psycopg.Connection[Any]) -> None:
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="doc")}
    side.store().add([TextNode(id_="part", text="part", relationships=source)])
    side.view("invalidate", "part")
    side.store().delete("doc")
    assert admin_connection.execute("SELECT count(*) FROM memories").fetchone() == (0,)


def test_delete_nodes_by_ids_and_filters(side: Side) -> None:
    store = side.store()
    store.add(nodes())
    store.delete_nodes([])
    store.delete_nodes(["gateway", "unknown"])
    store.delete_nodes(filters=MetadataFilters(filters=[MetadataFilter(key="topic", value="deploy")]))
    store.delete_nodes(["search"], MetadataFilters(filters=[MetadataFilter(key="topic", value="billing")]))
    assert [node.node_id for node in store.get_nodes()] == ["billing", "search"]


def test_deleting_everything_has_to_be_said(side: Side) -> None:
    store = side.store()
    store.add(nodes())
    with pytest.raises(InvalidInput, match="delete_all=True"):
        store.delete_nodes()
    assert len(store.get_nodes()) == 4
    store.delete_nodes(delete_all=True)
    assert store.get_nodes() == []


def test_clear_forgets_one_s_own_and_leaves_colleagues_memories(store: MemoryStore) -> None:
    ana, ben = (LoreVectorStore(memories=store.as_user("acme", name)) for name in ("ana", "ben"))
    ana.add(nodes())
    ben.add([TextNode(id_="shared", text="For all.", metadata={"lore_visibility": "shared"})])
    ana.clear()
    assert [node.node_id for node in ana.get_nodes()] == ["shared"]
    ana.delete_nodes(["shared"])
    ana.delete_nodes(filters=MetadataFilters(filters=[MetadataFilter(key="lore_id", value="shared")]))
    assert [node.node_id for node in ben.get_nodes()] == ["shared"]


def test_nobody_else_s_private_nodes_are_seen(store: MemoryStore) -> None:
    ana, ben, eve = (
        LoreVectorStore(memories=store.as_user(org, user))
        for org, user in (("acme", "ana"), ("acme", "ben"), ("other", "ana"))
    )
    ana.add(nodes())
    for stranger in (ben, eve):
        assert stranger.get_nodes() == []
        for mode in MODES:
            assert stranger.query(asked("gateway ERR-4471", mode=VectorStoreQueryMode(mode))).ids == []
    assert ben.get_nodes(["gateway"]) == []
    ben.delete_nodes(["gateway"])
    assert len(ana.get_nodes()) == 4


def test_of_two_memories_with_one_id_get_nodes_shows_one_s_own(store: MemoryStore) -> None:
    ana, ben = (LoreVectorStore(memories=store.as_user("acme", name)) for name in ("ana", "ben"))
    ben.add([TextNode(id_="n", text="Ben's, for all.", metadata={"lore_visibility": "shared"})])
    assert [node.text for node in ana.get_nodes(["n"])] == ["Ben's, for all."]
    ana.add([TextNode(id_="n", text="Ana's own.")])
    assert [node.text for node in ana.get_nodes(["n"])] == ["Ana's own."]


def test_visibility_is_the_store_s_unless_a_node_says_it(ana: Memories) -> None:
    store = LoreVectorStore(memories=ana, visibility="shared")
    store.add([TextNode(id_="a", text="a"), TextNode(id_="b", text="b", metadata={"lore_visibility": "private"})])
    assert (ana.get("a").visibility, ana.get("b").visibility) == ("shared", "private")


# --- queries


def test_modes_search_with_the_legs_that_they_name(side: Side) -> None:
    store = side.store()
    store.add(nodes())
    for mode in ("default", "hybrid", "semantic_hybrid"):
        first = store.query(asked("why ERR-4471", mode=VectorStoreQueryMode(mode))).nodes[0]
        assert first.node_id == "deploy"
        assert None not in (ranks(first)["vector"], ranks(first)["exact"], ranks(first)["relaxed"])
    for mode in ("text_search", "sparse"):
        [only] = store.query(asked("why ERR-4471", mode=VectorStoreQueryMode(mode))).nodes
        assert (only.node_id, ranks(only)["vector"]) == ("deploy", None)
    dense = side.store(default_mode="vector").query(asked("why ERR-4471"))
    assert [ranks(node) for node in dense.nodes] == [
        {"vector": place, "exact": None, "relaxed": None, "alias": None} for place in (1, 2, 3)
    ]


def test_hybrid_is_recall(side: Side) -> None:
    store = side.store()
    store.add(nodes())
    for text in ("gateway night", "ERR-4471", "invoices", "nothing of the sort"):
        found, result = side.view("recall", text, limit=3), store.query(asked(text))
        assert result.ids == [hit.id for hit in found.hits]
        assert result.similarities == [hit.score for hit in found.hits]
        assert [node.metadata["lore_similarity"] for node in result.nodes] == [
            hit.legs["vector"].value for hit in found.hits
        ]


def test_alpha_weighs_the_vector_leg_against_the_text_legs(side: Side) -> None:
    store = side.store()
    store.add(nodes())
    text = "the search service and the gateway"
    dense = side.store(default_mode="vector").query(asked(text, similarity_top_k=4)).ids
    lexical = store.query(asked(text, similarity_top_k=4, mode=VectorStoreQueryMode.TEXT_SEARCH)).ids
    hybrid = {
        alpha: store.query(asked(text, similarity_top_k=4, mode=VectorStoreQueryMode.HYBRID, alpha=alpha))
        for alpha in (0.0, 0.25, 1.0)
    }
    assert hybrid[1.0].ids == dense
    assert hybrid[0.0].ids == lexical
    expected = {
        id_: 0.25 / (60 + dense.index(id_) + 1) + (0.75 / (60 + lexical.index(id_) + 1) if id_ in lexical else 0)
        for id_ in dense
    }
    assert hybrid[0.25].similarities == pytest.approx(sorted(expected.values(), reverse=True))
    assert dict(zip(hybrid[0.25].ids, hybrid[0.25].similarities, strict=True)) == pytest.approx(expected)
    assert [node.metadata["lore_rank"] for node in hybrid[0.25].nodes] == [1, 2, 3, 4]
    assert [node.metadata["lore_score"] for node in hybrid[0.25].nodes] == hybrid[0.25].similarities


def test_alpha_never_returns_more_than_was_asked_for(ana: Memories) -> None:
    store = LoreVectorStore(memories=ana)
    store.add([TextNode(id_=str(n), text=f"gateway number {n}") for n in range(30)])
    result = store.query(asked("gateway number 7", mode=VectorStoreQueryMode.HYBRID, alpha=0.5, similarity_top_k=4))
    assert len(result.ids) == len(set(result.ids)) == 4
    assert result.similarities == sorted(result.similarities, reverse=True)


def test_top_k_fields_bound_each_side_and_the_result(ana: Memories) -> None:
    store = LoreVectorStore(memories=ana)
    store.add([TextNode(id_=f"gateway {n}", text="gateway " * (n + 1) + "restart") for n in range(6)])
    store.add([TextNode(id_=f"other {n}", text=f"unlike words {n}") for n in range(6)])

    def search(**fields: Any) -> list[Any]:
        return list(store.query(asked("gateway restart", **{"mode": VectorStoreQueryMode.HYBRID} | fields)).nodes)

    assert len(search(similarity_top_k=5)) == 5
    assert len(search(similarity_top_k=4, hybrid_top_k=3)) == 3
    few = search(similarity_top_k=1, sparse_top_k=2, hybrid_top_k=10)
    assert 2 <= len(few) <= 3
    assert all(node.metadata["lore_vector_rank"] == 1 or node.metadata["lore_relaxed_rank"] for node in few)
    assert len(search(mode=VectorStoreQueryMode.SPARSE, sparse_top_k=4, similarity_top_k=1)) == 4
    weighed = search(similarity_top_k=2, sparse_top_k=2, hybrid_top_k=10, alpha=0.5)
    assert 2 <= len(weighed) <= 4


def test_mmr_prefers_unlike_hits(ana: Memories) -> None:
    store = LoreVectorStore(memories=ana)
    same = "The gateway restarts at two in the morning"
    store.add([TextNode(id_=f"same {n}", text=f"{same}{'.' * n}") for n in range(4)])
    store.add([TextNode(id_="unlike", text="The gateway team eats at noon.")])
    mode = VectorStoreQueryMode.MMR
    plain = store.query(asked(same, mode=mode, similarity_top_k=2, mmr_threshold=1.0))
    mixed = store.query(asked(same, mode=mode, similarity_top_k=2, mmr_threshold=0.2))
    assert "unlike" not in plain.ids
    assert mixed.ids[1] == "unlike"
    assert store.query(asked(same, mode=mode, similarity_top_k=2), mmr_threshold=0.2).ids == mixed.ids
    narrow = store.query(asked(same, mode=mode, similarity_top_k=2), mmr_threshold=0.2, mmr_prefetch_factor=1)
    assert "unlike" not in narrow.ids
    assert [node.metadata["lore_rank"] for node in mixed.nodes] == [1, 2]


def test_dense_mode_and_mmr_order_as_the_in_memory_store_does(ana: Memories) -> None:
    embedder = HashEmbedder(32)
    model = as_llamaindex_embedding(embedder)
    texts = [f"{a} {b}" for a in ("gateway", "billing", "search") for b in ("restart", "invoice", "index", "night")]
    given = [TextNode(id_=text, text=text) for text in texts]
    model(given)
    simple, ours = SimpleVectorStore(), LoreVectorStore(memories=ana, default_mode="vector")
    simple.add(given)
    ours.add(given)
    for text in ("gateway night", "invoice for billing", "index"):
        query = asked(text, similarity_top_k=5, query_embedding=model.get_query_embedding(text))
        theirs, result = simple.query(query), ours.query(query)
        cosines = [node.metadata["lore_similarity"] for node in result.nodes]
        assert cosines == pytest.approx(theirs.similarities, abs=2e-3)
        same = dict(zip(theirs.ids, theirs.similarities, strict=True))
        # Equal cosines may come in either order.
        assert [round(same.get(id_, cosine), 2) for id_, cosine in zip(result.ids, cosines, strict=True)] == [
            round(cosine, 2) for cosine in theirs.similarities
        ]
    query = asked("gateway night", similarity_top_k=1, query_embedding=model.get_query_embedding("gateway night"))
    assert ours.query(query).ids == simple.query(query).ids


def test_doc_ids_and_node_ids_narrow_a_search(side: Side) -> None:
    store = side.store()
    for name in ("one", "two"):
        source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=name)}
        store.add([TextNode(id_=f"{name} {n}", text=f"gateway {n}", relationships=source) for n in range(2)])
    for mode in MODES:
        query = {"mode": VectorStoreQueryMode(mode), "similarity_top_k": 10}
        assert sorted(store.query(asked("gateway", doc_ids=["two"], **query)).ids) == ["two 0", "two 1"]
        assert sorted(store.query(asked("gateway", node_ids=["one 1", "two 0"], **query)).ids) == ["one 1", "two 0"]
        assert store.query(asked("gateway", node_ids=["one 1"], doc_ids=["two"], **query)).ids == []
        assert len(store.query(asked("gateway", node_ids=[], doc_ids=[], **query)).ids) == 4


@pytest.mark.parametrize("key", ["ref_doc_id", "doc_id", "document_id"])
def test_filters_know_the_source_document_by_llama_index_s_names(ana: Memories, key: str) -> None:
    store = LoreVectorStore(memories=ana)
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="one")}
    store.add([TextNode(id_="part", text="gateway", relationships=source), TextNode(id_="loose", text="gateway")])
    store.add([TextNode(id_="own", text="gateway", relationships=source, metadata={key: "mine"})])

    def found(value: str, operator: str) -> list[str]:
        filters = MetadataFilters(filters=[MetadataFilter(key=key, value=value, operator=operator)])
        return sorted(store.query(asked("gateway", filters=filters)).ids)

    assert found("one", "==") == ["part"]
    assert found("mine", "==") == ["own"]
    assert found("one", "!=") == ["loose", "own"]


def test_a_query_may_bring_nothing_but_a_vector(side: Side) -> None:
    store = side.store()
    store.add(nodes())
    vector = HashEmbedder(32).embed_queries([TEXTS["billing"]])[0]
    for mode in ("default", "hybrid", "mmr"):
        result = store.query(asked(query_embedding=list(vector), mode=VectorStoreQueryMode(mode)))
        assert result.ids[0] == "billing"
        assert ranks(result.nodes[0])["exact"] is None


def test_a_host_s_vector_is_not_used_where_there_is_a_text(side: Side) -> None:
    store = side.store(default_mode="vector")
    store.add(nodes())
    foreign = list(HashEmbedder(32).embed_queries([TEXTS["billing"]])[0])
    assert store.query(asked(TEXTS["gateway"], query_embedding=foreign)).ids[0] == "gateway"
    assert store.query(asked(TEXTS["gateway"], query_embedding=[0.5] * 1536)).ids[0] == "gateway"


def test_a_host_s_vector_is_used_where_its_model_is_the_store_s(side: Side) -> None:
    store = side.store(default_mode="vector", embed_model=as_llamaindex_embedding(HashEmbedder(32)))
    store.add(nodes())
    other = list(HashEmbedder(32).embed_queries([TEXTS["billing"]])[0])
    assert store.query(asked(TEXTS["gateway"], query_embedding=other)).ids[0] == "billing"


def test_a_model_of_another_space_is_refused_before_anything_is_written(side: Side) -> None:
    store = side.store(embed_model=MockEmbedding(embed_dim=32))
    with pytest.raises(EmbeddingSpaceMismatch, match=r"MockEmbedding@unversioned.*hash@1"):
        store.add([TextNode(id_="n", text="x", embedding=[1.0] + [0.0] * 31)])
    with pytest.raises(EmbeddingSpaceMismatch):
        store.query(asked("x"))
    assert side.store().get_nodes() == []


def test_a_vector_of_another_length_is_one_error_with_both_numbers(side: Side) -> None:
    with pytest.raises(EmbeddingSpaceMismatch, match=r"768.*32"):
        side.store().query(asked(query_embedding=[0.1] * 768))
    store = side.store(embed_model=as_llamaindex_embedding(HashEmbedder(32)))
    with pytest.raises(EmbeddingSpaceMismatch, match=r"'n'.*768.*32"):
        store.add([TextNode(id_="n", text="x", embedding=[0.1] * 768)])
    assert side.store().get_nodes() == []


@pytest.mark.parametrize("bad", [[0.0] * 32, [float("nan")] * 32, [float("inf")] + [0.0] * 31])
def test_vectors_without_a_direction_are_refused_by_the_node_s_id(ana: Memories, bad: list[float]) -> None:
    store = LoreVectorStore(memories=ana, embed_model=as_llamaindex_embedding(HashEmbedder(32)))
    with pytest.raises(InvalidInput, match="'n'"):
        store.add([TextNode(id_="n", text="x", embedding=bad)])
    with pytest.raises(InvalidInput, match="the query"):
        store.query(asked(query_embedding=bad))
    assert store.get_nodes() == []


class CountingEmbedder(HashEmbedder):
    """Counts the texts it embeds."""

    def __init__(self, dimensions: int) -> None:
        super().__init__(dimensions)
        self.seen: list[str] = []

    def embed_texts(self, texts: Any, /) -> Any:
        self.seen += texts
        return super().embed_texts(texts)


@pytest.fixture
def counting(app_database: str) -> Iterator[tuple[CountingEmbedder, Memories]]:
    embedder = CountingEmbedder(32)
    with MemoryStore.connect(app_database, embedder=embedder) as store:
        yield embedder, store.as_user("acme", "ana")


def test_nodes_own_vectors_are_taken_only_from_the_store_s_model(counting: tuple[CountingEmbedder, Memories]) -> None:
    embedder, ana = counting
    own = list(embedder.embed_texts(["elsewhere"])[0])
    embedder.seen.clear()
    LoreVectorStore(memories=ana).add([TextNode(id_="a", text="embedded here", embedding=[1.0] * 7)])
    assert embedder.seen == ["embedded here"]
    trusting = LoreVectorStore(memories=ana, default_mode="vector", embed_model=as_llamaindex_embedding(embedder))
    trusting.add([TextNode(id_="b", text="taken as it is", embedding=own), TextNode(id_="c", text="has no vector")])
    assert embedder.seen == ["embedded here", "has no vector"]
    [first, *_] = trusting.query(asked(query_embedding=own)).nodes
    assert (first.node_id, first.metadata["lore_similarity"]) == ("b", pytest.approx(1, abs=1e-3))


def test_nodes_own_vectors_are_not_taken_where_text_was_cut_off(counting: tuple[CountingEmbedder, Memories]) -> None:
    embedder, ana = counting
    store = LoreVectorStore(memories=ana, embed_model=as_llamaindex_embedding(embedder))
    own = list(embedder.embed_texts(["elsewhere"])[0])
    embedder.seen.clear()
    store.add([TextNode(id_="long", text="herons by the weir. " * 100, embedding=own)])
    assert len(embedder.seen) == 2
    embedder.seen.clear()
    store.add([TextNode(id_="about", text="short", metadata={"about": "much " * 300}, embedding=own)])
    assert embedder.seen == ["short"]


def test_one_text_with_two_vectors_is_embedded_here(counting: tuple[CountingEmbedder, Memories]) -> None:
    embedder, ana = counting
    one, two = (list(vector) for vector in embedder.embed_texts(["one", "two"]))
    embedder.seen.clear()
    store = LoreVectorStore(memories=ana, embed_model=as_llamaindex_embedding(embedder))
    store.add([TextNode(id_="a", text="same", embedding=one), TextNode(id_="b", text="same", embedding=two)])
    assert set(embedder.seen) == {"same"}


def test_a_failing_embedder_answers_from_the_text_legs_and_says_so(app_database: str) -> None:
    class Failing(HashEmbedder):
        def embed_queries(self, texts: Any, /) -> Any:
            raise RuntimeError("out of order")

    with MemoryStore.connect(app_database, embedder=Failing(32)) as store:
        ana = store.as_user("acme", "ana")
        LoreVectorStore(memories=ana).add(nodes())
        for mode in ("default", "mmr", "hybrid"):
            for default in ("hybrid", "vector"):
                found = LoreVectorStore(memories=ana, default_mode=default)
                [only] = found.query(asked("ERR-4471", mode=VectorStoreQueryMode(mode))).nodes
                assert only.node_id == "deploy"
                assert "out of order" in only.metadata["lore_degraded"]


@pytest.mark.parametrize(
    ("fields", "options", "message"),
    [
        ({"mode": VectorStoreQueryMode.SVM}, {}, "svm.*default, hybrid"),
        ({"mode": VectorStoreQueryMode.LOGISTIC_REGRESSION}, {}, "logistic_regression"),
        ({"query_str": None}, {}, "no query_str and no query_embedding"),
        ({"query_str": " ", "mode": VectorStoreQueryMode.SPARSE}, {}, "no query_str"),
        ({"similarity_top_k": 0}, {}, "limit is 0"),
        ({"similarity_top_k": -1}, {}, "limit is -1"),
        ({"similarity_top_k": 2.5}, {}, "limit is 2.5"),
        ({"similarity_top_k": 100_000}, {}, "limit is 100000"),
        ({"alpha": 1.5}, {}, "alpha is 1.5"),
        ({"alpha": "half"}, {}, "alpha is 'half'"),
        ({"alpha": 0.5, "mode": VectorStoreQueryMode.SPARSE}, {}, "alpha is 0.5.*'sparse'"),
        ({"sparse_top_k": 3, "mode": VectorStoreQueryMode.MMR}, {}, "sparse_top_k is 3.*'mmr'"),
        ({"mmr_threshold": 0.5}, {}, "mmr_threshold is 0.5.*'hybrid'"),
        ({"mmr_threshold": 5, "mode": VectorStoreQueryMode.MMR}, {}, "mmr_threshold is 5"),
        ({"mode": VectorStoreQueryMode.MMR}, {"mmr_prefetch_factor": 0.5}, "mmr_prefetch_factor is 0.5"),
        ({"mode": VectorStoreQueryMode.MMR}, {"mmr_prefetch_factor": 2, "mmr_prefetch_k": 9}, "one of them"),
        ({"output_fields": ["a"]}, {}, "output_fields"),
        ({"embedding_field": "v2"}, {}, "embedding_field"),
        ({}, {"hnsw_ef_search": 100}, "hnsw_ef_search"),
        ({"node_ids": "gateway"}, {}, "gateway"),
        ({"filters": MetadataFilters(filters=[MetadataFilter(key="lore_knd", value="x")])}, {}, "lore_knd"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name_before_the_database_is_asked(
    fields: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    query = VectorStoreQuery(**{"query_str": "x"} | fields)
    with pytest.raises(InvalidInput, match=message):
        LoreVectorStore(memories=_view()).query(query, **options)


def test_any_text_can_be_asked(ana: Memories) -> None:
    store = LoreVectorStore(memories=ana)
    store.add(nodes())
    odd = [
        "a & b | !c:* (d) <-> 'e'",
        "What's your password?",
        '"',
        "\\",
        ":*",
        "' OR 1=1 --",
        "a\x00b",
        "🦆",
        "%",
        "\ud800",
    ]
    for text in odd:
        for mode in MODES:
            assert len(store.query(asked(text, mode=VectorStoreQueryMode(mode))).ids) <= 3
    huge = store.query(asked("gateway " * 80_000))
    assert "cut" in huge.nodes[0].metadata["lore_degraded"]


# --- inside LlamaIndex


def test_an_index_over_the_store_inserts_finds_and_deletes(ana: Memories) -> None:
    model = as_llamaindex_embedding(HashEmbedder(32))
    store = LoreVectorStore(memories=ana)
    index = VectorStoreIndex.from_vector_store(store, embed_model=model)
    index.insert(Document(id_="doc", text="The gateway restarts at two.", metadata={"team": "infra"}))
    index.insert_nodes([TextNode(id_="loose", text="Invoices go out on Mondays.")])
    [first, *_] = index.as_retriever(similarity_top_k=2).retrieve("gateway restarts")
    assert (first.text, first.node.ref_doc_id, first.metadata["team"]) == (
        "The gateway restarts at two.",
        "doc",
        "infra",
    )
    [only] = index.as_retriever(vector_store_query_mode="text_search").retrieve("invoices")
    assert only.node_id == "loose"
    index.delete_ref_doc("doc")
    index.delete_nodes(["loose"])
    assert store.get_nodes() == []


async def test_an_index_over_an_asynchronous_view_works_awaited_and_called(async_store: AsyncMemoryStore) -> None:
    store = LoreVectorStore(memories=async_store.as_user("acme", "ana"))
    index = VectorStoreIndex.from_vector_store(store, embed_model=as_llamaindex_embedding(HashEmbedder(32)))
    await index.ainsert_nodes(nodes())
    retriever = index.as_retriever(similarity_top_k=2)
    awaited = await retriever.aretrieve("gateway restarts")
    called = retriever.retrieve("gateway restarts")
    assert [found.node_id for found in awaited] == [found.node_id for found in called]
    await index.adelete_nodes(list(TEXTS))
    assert await store.aget_nodes() == []


def test_storage_context_and_from_documents(ana: Memories, tmp_path: Path) -> None:
    (tmp_path / "runbook.md").write_text("# Gateway\n\nRestart the gateway at two.\n")
    documents = SimpleDirectoryReader(str(tmp_path)).load_data()
    store = LoreVectorStore(memories=ana)
    context = StorageContext.from_defaults(vector_store=store)
    index = VectorStoreIndex.from_documents(
        documents, storage_context=context, embed_model=as_llamaindex_embedding(HashEmbedder(32))
    )
    [found] = index.as_retriever().retrieve("restart the gateway")
    assert found.metadata["file_name"] == "runbook.md"
    assert found.node.source_node.node_id == documents[0].id_
    context.persist(str(tmp_path / "storage"))


@pytest.mark.parametrize("awaited", [False, True])
async def test_an_ingestion_pipeline_replaces_changed_documents(ana: Memories, awaited: bool) -> None:
    store = LoreVectorStore(memories=ana, embed_model=as_llamaindex_embedding(HashEmbedder(32)))
    pipeline = IngestionPipeline(
        transformations=[SentenceSplitter(chunk_size=64, chunk_overlap=0), as_llamaindex_embedding(HashEmbedder(32))],
        vector_store=store,
        docstore=SimpleDocumentStore(),
        docstore_strategy=DocstoreStrategy.UPSERTS,
    )

    async def ingest(text: str) -> None:
        documents = [Document(id_="doc", text=text)]
        await pipeline.arun(documents=documents) if awaited else pipeline.run(documents=documents)

    await ingest("Penguins live here. " * 30)
    before = store.get_nodes()
    await ingest("Penguins live here. " * 30)
    assert store.get_nodes() == before
    await ingest("Herons live here. " * 30)
    after = store.get_nodes()
    assert len(before) > 1
    assert {node.ref_doc_id for node in after} == {"doc"}
    assert not [node for node in after if "Penguins" in node.get_content()]
    [first, second, *_] = after
    assert first.next_node.node_id == second.node_id


@pytest.mark.parametrize("name", CROSSED)
def test_either_store_serves_the_other_call_style(app_database: str, name: str) -> None:
    with open_side(name, app_database) as side:
        store = side.store()
        store.add([*nodes(), linked_node()])
        assert store.query(asked("ERR-4471")).ids[0] == "deploy"
        assert store.query(asked("gateway", mode=VectorStoreQueryMode.MMR)).ids
        store.delete("runbook")
        store.delete_nodes(["gateway"])
        assert [node.node_id for node in store.get_nodes()] == ["deploy", "billing", "search"]
        store.clear()
        assert store.get_nodes() == []


# --- what must not happen


def test_neither_repr_nor_serialisation_shows_the_connection(app_database: str) -> None:
    with MemoryStore.connect(app_database, embedder=HashEmbedder(32)) as opened:
        store = LoreVectorStore(memories=opened.as_user("acme", "ana"), default_mode="vector")
        shown = f"{store!r} {store} {store.to_dict()} {store.to_json()} {store.model_dump()}"
        assert "password" not in shown
        assert "lore_test_app" not in shown
        again = LoreVectorStore.from_dict(store.to_dict(), memories=opened.as_user("acme", "ana"))
        assert (again.default_mode, again.class_name()) == ("vector", "LoreVectorStore")
        assert store.client is not None


def test_a_pickled_store_says_that_it_needs_a_view(ana: Memories) -> None:
    restored = pickle.loads(pickle.dumps(LoreVectorStore(memories=ana)))
    with pytest.raises(StoreUnavailable, match="memories="):
        restored.get_nodes()


def test_a_view_is_asked_for_by_name() -> None:
    with pytest.raises(InvalidInput, match="as_user"):
        LoreVectorStore(memories="postgresql://…")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="default_mode"):
        LoreVectorStore(memories=_view(), default_mode="dense")


def _view() -> Memories:
    return Memories(None, lambda: None)  # type: ignore[arg-type,return-value]


def test_hybrid_fuses_its_legs_and_keeps_to_the_number_asked_for(ana: Memories) -> None:
    store = LoreVectorStore(memories=ana)
    store.add([TextNode(id_=f"dense {n}", text=f"gateway gateway {n}") for n in range(4)])
    store.add([TextNode(id_=f"text {n}", text=f"{n} restarts of something else entirely") for n in range(4)])
    result = store.query(
        asked("gateway restarts", similarity_top_k=2, sparse_top_k=2, mode=VectorStoreQueryMode.HYBRID, alpha=0.5)
    )
    assert len(result.ids) == 2
    assert result.similarities == sorted(result.similarities, reverse=True)
    # Two unlike scales side by side would differ by orders of magnitude; fused ranks lie close together.
    assert 0.5 / (60 + 8) < result.similarities[-1] <= result.similarities[0] <= 1 / 61


def test_no_setting_outlives_a_search(app_database: str) -> None:
    with psycopg.connect(app_database, autocommit=True) as watcher:
        untouched = watcher.execute(SESSION_SETTINGS).fetchall()
    with MemoryStore.connect(app_database, embedder=HashEmbedder(32), min_size=1, max_size=1) as opened:
        store = LoreVectorStore(memories=opened.as_user("acme", "ana"))
        store.add(nodes())
        for mode in MODES:
            store.query(asked("gateway", mode=VectorStoreQueryMode(mode)))
        with pytest.raises(InvalidInput):
            store.add([TextNode(text="a\x00b")])
        with opened._driver.pool.connection() as connection:
            assert connection.execute(SESSION_SETTINGS).fetchall() == untouched
            assert connection.execute("SELECT current_user, current_setting('lore.org_id', true)").fetchone() == (
                "lore_test_app",
                "",
            )


SESSION_SETTINGS = """
    SELECT name, setting FROM pg_settings
    WHERE source = 'session' AND name NOT LIKE 'lore.%' AND name <> 'application_name' ORDER BY name
"""


def test_one_query_is_one_search_statement(ana: Memories, record_statements: Callable[[], list[str]]) -> None:
    store = LoreVectorStore(memories=ana)
    store.add(nodes())
    for mode, alpha in [*((mode, None) for mode in MODES if mode != "mmr"), ("hybrid", 0.5)]:
        seen = record_statements()
        store.query(asked("gateway", mode=VectorStoreQueryMode(mode), alpha=alpha))
        assert seen == ["recall_at_once"]


@pytest.fixture
def record_statements(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Starts a list of the names of the statements that operations run."""
    from lore_retriever import driver, steps

    lists: list[list[str]] = []
    plain = steps.Statement.sql.fget
    assert plain is not None

    def noting(statement: steps.Statement) -> str:
        for names in lists:
            names.append(statement.name)
        return plain(statement)

    def noting_at_once(schema: str, name: str) -> bytes:
        for names in lists:
            names.append(name)
        return query_in(schema, name)

    query_in = driver.query_in
    monkeypatch.setattr(steps.Statement, "sql", property(noting))
    monkeypatch.setattr(driver, "query_in", noting_at_once)

    def start() -> list[str]:
        lists.clear()
        lists.append([])
        return lists[0]

    return start
