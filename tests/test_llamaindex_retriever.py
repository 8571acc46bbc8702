"""LoreRetriever: recall as LlamaIndex sees it, alone, fused and inside engines."""

from __future__ import annotations

import asyncio
import inspect
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Settings, StorageContext, get_response_synthesizer
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.chat_engine import CondensePlusContextChatEngine
from llama_index.core.indices.postprocessor import LongContextReorder, SimilarityPostprocessor
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.span_handlers import SimpleSpanHandler
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import HierarchicalNodeParser, get_leaf_nodes
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.query_engine import RetrieverQueryEngine, RouterQueryEngine
from llama_index.core.retrievers import AutoMergingRetriever, QueryFusionRetriever, RouterRetriever
from llama_index.core.schema import Document, IndexNode, MetadataMode, NodeWithScore, QueryBundle, TextNode
from llama_index.core.selectors import LLMSingleSelector
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.tools import QueryEngineTool, RetrieverTool
from llama_index.core.vector_stores.types import FilterOperator, MetadataFilter, MetadataFilters
from pydantic import PrivateAttr

from llamaindex_sides import CROSSED, NATURAL, Side, conversation, lent_loop, open_side
from lore_retriever import AsyncMemoryStore, InvalidInput, Memories, MemoryStore, NewMemory, Recall
from lore_retriever.llamaindex import LoreNode, LoreRetriever, LoreVectorStore
from lore_retriever.testing import HashEmbedder

SUBJECTS = ("gateway", "deploy", "invoice", "search", "backup", "alert", "queue", "cache")
EVENTS = ("restarts", "fails", "is paused", "is slow", "needs a key", "was moved")
TIMES = ("at two in the morning", "on Mondays", "after ERR-4471", "in region eu-1", "for team alpha")


def corpus() -> list[str]:
    return [f"The {a} {b} {c}." for a in SUBJECTS for b in EVENTS for c in TIMES]


@pytest.fixture(autouse=True)
def _loop() -> Iterator[None]:
    with lent_loop():
        yield


@pytest.fixture
def filled(ana: Memories) -> Memories:
    ana.remember_many(
        NewMemory(content=text, id=f"m{n}", metadata={"n": n}, kind="decision" if n % 3 else "episode")
        for n, text in enumerate(corpus())
    )
    return ana


@pytest.fixture(params=NATURAL)
def side(request: pytest.FixtureRequest, app_database: str) -> Any:
    with open_side(request.param, app_database) as opened:
        yield opened


def expected_marks(found: Recall) -> list[dict[str, Any]]:
    """What each hit's metadata must say, from the recall itself."""
    return [
        {
            "lore_id": hit.id,
            "lore_rank": place,
            "lore_score": hit.score,
            "lore_relevance": hit.relevance,
            "lore_recency": hit.recency,
            "lore_reinforcement": hit.reinforcement,
            "lore_kind": hit.kind,
            "lore_truncated": hit.truncated,
            "lore_full_length": hit.full_length,
            "lore_excerpt_start": hit.span[0],
            "lore_excerpt_end": hit.span[1],
            "lore_similarity": hit.legs["vector"].value if "vector" in hit.legs else None,
            **{
                f"lore_{leg}_rank": hit.legs[leg].rank if leg in hit.legs else None  # type: ignore[index,call-overload]
                for leg in ("vector", "exact", "relaxed", "alias")
            },
        }
        for place, hit in enumerate(found.hits, start=1)
    ]


def marks_of(nodes: list[NodeWithScore], like: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: node.metadata[key] for key in keys} for node, keys in zip(nodes, like, strict=True)]


def approximately(marks: dict[str, Any]) -> dict[str, Any]:
    fading = ("lore_score", "lore_recency")
    return {key: pytest.approx(value, rel=1e-7) if key in fading else value for key, value in marks.items()}


# --- equal to recall


def test_the_retriever_is_what_llama_index_calls_one() -> None:
    assert BaseRetriever.__name__ in [base.__name__ for base in LoreRetriever.__mro__]
    assert LoreRetriever._aretrieve is not BaseRetriever._aretrieve
    assert list(inspect.signature(LoreRetriever._aretrieve).parameters) == ["self", "query_bundle"]


def test_order_scores_and_ranks_are_those_of_recall_for_200_queries(filled: Memories) -> None:
    retriever = LoreRetriever(memories=filled, similarity_top_k=5)
    choose = random.Random(7)
    words = [word for text in corpus() for word in text.rstrip(".").split()]
    for _ in range(200):
        query = " ".join(choose.choices(words, k=choose.randint(1, 5)))
        nodes, found = retriever.retrieve(query), filled.recall(query, limit=5)
        expected = expected_marks(found)
        # Recency is that of the moment of each search: it moves in the tenth digit.
        assert [approximately(marks) for marks in marks_of(nodes, expected)] == expected, query
        assert [node.text for node in nodes] == [hit.text for hit in found.hits]
        assert [node.score for node in nodes] == pytest.approx([hit.score for hit in found.hits])


def test_both_stores_and_both_call_styles_agree(app_database: str) -> None:
    seen = []
    for name in (*NATURAL, *CROSSED):
        with open_side(name, app_database) as side:
            if not seen:
                side.view("remember", "The gateway restarts at two.", id="g", metadata={"own": 1})
                side.view("remember", "Invoices go out on Mondays.", id="i")
            found = side.face(LoreRetriever(memories=side.ana)).retrieve("gateway on Mondays")
            seen.append([(node.node_id, node.metadata["lore_relevance"], node.text) for node in found])
    assert seen[0]
    assert seen == [seen[0]] * 4


def test_the_model_sees_the_text_and_the_user_s_metadata_only(side: Side) -> None:
    side.view("remember", "The gateway restarts at two.", metadata={"team": "infra"})
    [found] = side.face(LoreRetriever(memories=side.ana)).retrieve("gateway")
    for mode in (MetadataMode.LLM, MetadataMode.EMBED):
        assert found.node.get_content(mode) == "team: infra\n\nThe gateway restarts at two."
    assert len([key for key in found.metadata if key.startswith("lore_")]) > 20
    json.dumps(found.metadata, allow_nan=False)


def test_a_long_memory_comes_as_the_passage_that_matched(side: Side) -> None:
    text = "Filler without any meaning. " * 80 + "Herons nest by the weir. " + "More filler here. " * 40
    side.view("remember", text, id="long")
    [found] = side.face(LoreRetriever(memories=side.ana)).retrieve("herons weir")
    assert "Herons nest" in found.text
    assert found.metadata["lore_truncated"]
    assert text[found.node.start_char_idx : found.node.end_char_idx] == found.text
    assert found.metadata["lore_full_length"] == len(text)


def test_filters_and_top_k_hold(filled: Memories) -> None:
    filters = MetadataFilters(
        filters=[
            MetadataFilter(key="n", value=100, operator=FilterOperator.LT),
            MetadataFilter(key="lore_kind", value="episode"),
        ]
    )
    retriever = LoreRetriever(memories=filled, similarity_top_k=40, filters=filters)
    found = retriever.retrieve("gateway")
    assert len(found) == 34
    assert all(node.metadata["n"] < 100 and node.metadata["lore_kind"] == "episode" for node in found)
    retriever.similarity_top_k = 3
    assert (len(retriever.retrieve("gateway")), retriever.similarity_top_k) == (3, 3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"similarity_top_k": 0}, "limit is 0"),
        ({"similarity_top_k": True}, "limit is True"),
        ({"memories": "acme"}, "as_user"),
        ({"filters": MetadataFilters(filters=[MetadataFilter(key="lore_knd", value="x")])}, "lore_knd"),
        ({"filters": {"topic": "x"}}, "filters"),
    ],
)
def test_settings_are_checked_when_they_are_made(ana: Memories, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        LoreRetriever(**{"memories": ana} | settings)


# --- query bundles


def vector_of(text: str) -> list[float]:
    return list(HashEmbedder(32).embed_queries([text])[0])


def test_an_embedding_in_the_bundle_is_used(side: Side) -> None:
    side.view("remember", "penguins", id="p")
    side.view("remember", "herons", id="h")
    retriever = side.face(LoreRetriever(memories=side.ana))
    for text, first in (("", "p"), ("unrelated words", "p")):
        found = retriever.retrieve(QueryBundle(text, embedding=vector_of("penguins")))
        assert found[0].node_id == first
        assert found[0].metadata["lore_similarity"] == pytest.approx(1, abs=1e-3)


def test_an_embedding_of_another_model_s_length_is_made_anew(side: Side) -> None:
    side.view("remember", "penguins", id="p")
    side.view("remember", "herons", id="h")
    retriever = side.face(LoreRetriever(memories=side.ana))
    bundle = QueryBundle("herons", embedding=[0.1] * 1536)
    assert retriever.retrieve(bundle)[0].node_id == "h"
    assert len(bundle.embedding or ()) == 1536
    with pytest.raises(Exception, match=r"1536.*32"):
        retriever.retrieve(QueryBundle("", embedding=[0.1] * 1536))


def test_texts_to_embed_instead_of_the_query_are_used(side: Side) -> None:
    side.view("remember", "penguins", id="p")
    side.view("remember", "herons", id="h")
    found = side.face(LoreRetriever(memories=side.ana)).retrieve(
        QueryBundle("unrelated words", custom_embedding_strs=["herons", "herons"])
    )
    assert found[0].node_id == "h"
    assert found[0].metadata["lore_similarity"] == pytest.approx(1, abs=1e-3)


def test_a_blank_query_finds_nothing(side: Side) -> None:
    side.view("remember", "penguins")
    assert side.face(LoreRetriever(memories=side.ana)).retrieve("") == []
    assert side.face(LoreRetriever(memories=side.ana)).retrieve("\n ") == []


def test_no_search_sees_anything_of_the_one_before(filled: Memories) -> None:
    retriever = LoreRetriever(memories=filled, similarity_top_k=5)
    alone = {query: [node.node_id for node in retriever.retrieve(query)] for query in ("invoice", "ERR-4471", "queue")}

    async def at_once() -> list[list[str]]:
        found = await asyncio.gather(*(retriever.aretrieve(query) for query in [*alone] * 5))
        return [[node.node_id for node in nodes] for nodes in found]

    assert asyncio.run(at_once()) == [*alone.values()] * 5


def test_a_retriever_tool_s_form_of_the_query_is_undone(ana: Memories) -> None:
    ana.remember("Penguins need the deploy key.", id="p")
    tool = RetrieverTool.from_defaults(LoreRetriever(memories=ana), name="lookup", description="looks up")
    plain = LoreRetriever(memories=ana).retrieve("what is the deploy key")
    for output in (tool(input="what is the deploy key"), tool.call("what is the deploy key")):
        [found] = output.raw_output
        assert found.metadata["lore_relevance"] == plain[0].metadata["lore_relevance"]


# --- fusion


def fused(*retrievers: BaseRetriever, **settings: Any) -> QueryFusionRetriever:
    return QueryFusionRetriever(
        [*retrievers], llm=MockLLM(), mode="reciprocal_rerank", num_queries=1, similarity_top_k=10, **settings
    )


def test_one_memory_has_one_hash_whatever_found_it(side: Side) -> None:
    long = "Herons nest by the weir. " + "Filler without any meaning. " * 90 + "Penguins live by the sea. "
    side.view("remember", long, id="long")
    retriever = side.face(LoreRetriever(memories=side.ana))
    [one], [two] = retriever.retrieve("herons weir"), retriever.retrieve("penguins sea")
    assert one.text != two.text
    assert one.node.hash == two.node.hash
    assert isinstance(one.node, LoreNode)
    side.view("update", "long", content="Herons moved to the pond.")
    [three] = retriever.retrieve("herons weir")
    assert three.node.hash != one.node.hash


def test_a_node_whose_marks_were_removed_hashes_as_any_text_node() -> None:
    assert LoreNode(text="a", metadata={"b": 1}).hash == TextNode(text="a", metadata={"b": 1}).hash


@pytest.mark.parametrize("awaited", [False, True])
async def test_fusion_adds_up_the_ranks_of_one_memory(store: MemoryStore, awaited: bool) -> None:
    ana = store.as_user("acme", "ana")
    ana.remember("The gateway restarts at two.", id="g")
    ana.remember("Invoices go out on Mondays.", id="i")
    both = fused(LoreRetriever(memories=ana, similarity_top_k=1), LoreRetriever(memories=ana, similarity_top_k=2))
    # A retrieve inside a running loop makes a thread with a loop of its own.
    found = await both.aretrieve("gateway") if awaited else both.retrieve("gateway")
    assert [(node.node_id, round(node.score or 0, 6)) for node in found] == [
        ("g", round(1 / 60 + 1 / 60, 6)),
        ("i", round(1 / 61, 6)),
    ]


@pytest.mark.parametrize("mode", ["simple", "relative_score", "dist_based_score"])
def test_every_way_of_fusing_sees_one_memory_once(filled: Memories, mode: str) -> None:
    both = QueryFusionRetriever(
        [LoreRetriever(memories=filled, similarity_top_k=4), LoreRetriever(memories=filled, similarity_top_k=6)],
        llm=MockLLM(),
        mode=mode,  # type: ignore[arg-type]
        num_queries=1,
        similarity_top_k=20,
    )
    ids = [node.node_id for node in both.retrieve("gateway restarts")]
    assert len(ids) == len(set(ids)) == 6


async def test_fusion_over_asynchronous_views_works_from_every_loop(async_store: AsyncMemoryStore) -> None:
    ana = async_store.as_user("acme", "ana")
    await ana.remember("The gateway restarts at two.", id="g")
    both = fused(LoreRetriever(memories=ana), LoreRetriever(memories=ana))
    for _ in range(20):
        assert [node.node_id for node in both.retrieve("gateway")] == ["g"]
    results = await asyncio.gather(*(both.aretrieve("gateway") for _ in range(20)))
    assert [[node.node_id for node in nodes] for nodes in results] == [["g"]] * 20


# --- instrumentation


class _Events(BaseEventHandler):
    _seen: list[Any] = PrivateAttr(default_factory=list)

    @classmethod
    def class_name(cls) -> str:
        return "Events"

    def handle(self, event: Any, **kwargs: Any) -> None:
        self._seen.append(event.class_name())


@pytest.fixture
def watching() -> Any:
    """Spans and events of everything that happens meanwhile."""
    root = get_dispatcher()
    spans, events = SimpleSpanHandler(), _Events()
    before = [*root.span_handlers], [*root.event_handlers]
    root.add_span_handler(spans)
    root.add_event_handler(events)
    yield spans, events._seen
    root.span_handlers, root.event_handlers = before


def test_each_search_is_one_span_with_its_events(side: Side, watching: Any) -> None:
    spans, events = watching
    side.view("remember", "penguins")
    side.face(LoreRetriever(memories=side.ana)).retrieve("penguins")
    inner = "_aretrieve" if side.awaited else "_retrieve"
    names = [span.id_.split("-")[0] for span in spans.completed_spans]
    assert names.count(f"LoreRetriever.{inner}") == 1
    assert events == ["RetrievalStartEvent", "RetrievalEndEvent"]


def test_callbacks_see_the_query_and_the_nodes(ana: Memories) -> None:
    ana.remember("penguins", id="p")
    debug = LlamaDebugHandler(print_trace_on_end=False)
    LoreRetriever(memories=ana, callback_manager=CallbackManager([debug])).retrieve("penguins")
    [(start, end)] = debug.get_event_pairs(CBEventType.RETRIEVE)
    assert start.payload == {"query_str": "penguins"}
    assert [node.node_id for node in end.payload["nodes"]] == ["p"]


# --- engines, routers, parents, postprocessors


def test_a_query_engine_answers_from_memory(side: Side) -> None:
    side.view("remember", "The gateway restarts at two.", metadata={"team": "infra"})
    engine = RetrieverQueryEngine.from_args(LoreRetriever(memories=side.ana), llm=MockLLM())
    response = side.run(engine.aquery("gateway")) if side.awaited else engine.query("gateway")
    assert "The gateway restarts at two." in str(response)
    assert "team: infra" in str(response)
    assert "lore_" not in str(response)
    assert response.source_nodes[0].metadata["lore_rank"] == 1


def test_a_chat_engine_answers_from_memory(ana: Memories, tmp_path: Path) -> None:
    ana.remember("The gateway restarts at two.")
    engine = CondensePlusContextChatEngine.from_defaults(
        LoreRetriever(memories=ana), llm=MockLLM(), memory=conversation(tmp_path)
    )
    response = engine.chat("When does the gateway restart?")
    assert [node.text for node in response.source_nodes] == ["The gateway restarts at two."]


def test_routers_choose_among_retrievers_and_engines(ana: Memories) -> None:
    ana.remember("The gateway restarts at two.", id="g")
    choice = ScriptedLLM(['[{"choice": 1, "reason": "memory"}]'] * 2)
    retriever = LoreRetriever(memories=ana)
    router = RouterRetriever(
        selector=LLMSingleSelector.from_defaults(choice),
        retriever_tools=[RetrieverTool.from_defaults(retriever, name="memory", description="what was learnt")],
        llm=choice,
    )
    assert [node.node_id for node in router.retrieve("gateway")] == ["g"]
    engine = RouterQueryEngine(
        selector=LLMSingleSelector.from_defaults(choice),
        query_engine_tools=[
            QueryEngineTool.from_defaults(
                RetrieverQueryEngine.from_args(retriever, llm=MockLLM()), name="memory", description="what was learnt"
            )
        ],
        llm=MockLLM(),
    )
    assert "restarts at two" in str(engine.query("gateway"))


class ScriptedLLM(MockLLM):
    """Completes with one line of a script after the other."""

    _script: list[str] = PrivateAttr()

    def __init__(self, script: list[str]) -> None:
        super().__init__()
        self._script = list(script)

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        from llama_index.core.llms import CompletionResponse

        return CompletionResponse(text=self._script.pop(0))


def test_leaves_merge_into_their_parents(ana: Memories) -> None:
    parser = HierarchicalNodeParser.from_defaults(chunk_sizes=[256, 64], chunk_overlap=0)
    text = " ".join(f"Sentence {n} speaks of herons by the weir." for n in range(40))
    nodes = parser.get_nodes_from_documents([Document(text=text)])
    docstore = SimpleDocumentStore()
    docstore.add_documents(nodes)
    LoreVectorStore(memories=ana).add(get_leaf_nodes(nodes))
    merging = AutoMergingRetriever(
        LoreRetriever(memories=ana, similarity_top_k=12), StorageContext.from_defaults(docstore=docstore)
    )
    merged = merging.retrieve("herons by the weir")
    leaves = {node.node_id for node in get_leaf_nodes(nodes)}
    assert merged
    assert not leaves & {node.node_id for node in merged[:1]}


def test_index_nodes_lead_to_their_objects(ana: Memories) -> None:
    LoreVectorStore(memories=ana).add([IndexNode(id_="n", text="Everything about herons.", index_id="herons")])
    detail = TextNode(text="Herons nest by the weir.")
    [found] = LoreRetriever(memories=ana, object_map={"herons": detail}).retrieve("herons")
    assert found.text == "Herons nest by the weir."


def test_postprocessors_work_on_the_nodes(filled: Memories) -> None:
    engine = RetrieverQueryEngine(
        LoreRetriever(memories=filled, similarity_top_k=6),
        response_synthesizer=get_response_synthesizer(llm=MockLLM()),
        node_postprocessors=[LongContextReorder()],
    )
    nodes = LoreRetriever(memories=filled, similarity_top_k=6).retrieve("gateway restarts")
    scores = [node.score for node in nodes]
    reordered = [node.score for node in engine.query("gateway restarts").source_nodes]
    assert sorted(reordered, reverse=True) == pytest.approx(scores)
    assert reordered[0] < reordered[-1] or reordered[1] < reordered[-1]
    # Scores are sums of reciprocal ranks: a cutoff made for cosines leaves nothing.
    assert SimilarityPostprocessor(similarity_cutoff=0.7).postprocess_nodes(nodes) == []
    cutoff = SimilarityPostprocessor(similarity_cutoff=scores[2]).postprocess_nodes(nodes)
    assert [node.node_id for node in cutoff] == [node.node_id for node in nodes[:3]]
    reranked = LLMRerank(llm=ScriptedLLM(["Doc: 2, Relevance: 9\nDoc: 1, Relevance: 3"]), top_n=2).postprocess_nodes(
        nodes, query_str="gateway"
    )
    assert [node.node_id for node in reranked] == [nodes[1].node_id, nodes[0].node_id]


def test_settings_without_an_embedding_model_are_never_asked(ana: Memories, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Any) -> Any:
        raise AssertionError("the default embedding model was asked for")

    monkeypatch.setattr(type(Settings), "embed_model", property(refuse))
    ana.remember("penguins", id="p")
    LoreVectorStore(memories=ana).add([TextNode(text="herons")])
    assert len(LoreRetriever(memories=ana).retrieve("penguins")) == 2
