"""Metadata filters of LlamaIndex: what its own in-memory store answers, wherever it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.simple import SimpleVectorStore
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)
from llama_index.core.vector_stores.utils import build_metadata_filter_fn

from lore_retriever import InvalidInput, MemoryStore
from lore_retriever.llamaindex import LoreRetriever, LoreVectorStore, as_llamaindex_embedding
from lore_retriever.testing import HashEmbedder

VALUES: dict[str, list[Any]] = {
    "city": ["Ulm", "ulm", "Köln", "", "São Paulo", "O'Brien", "x') OR 1=1 --"],
    "size": [0, 1, 2, 9, 10, 100, -3, 2.5, 1e3],
    "tags": [["a"], ["a", "b"], [], ["b", "c", "O'Brien"], ["1", "2"]],
    "note": [None, "text", ""],
}


def corpus() -> list[TextNode]:
    """Every value of every key once, the other keys filled in turn, and one node without any."""
    nodes = [TextNode(id_="bare", text="bare")]
    for key, values in VALUES.items():
        for n, value in enumerate(values):
            others = {
                other: VALUES[other][(n + shift) % len(VALUES[other])]
                for shift, other in enumerate(VALUES)
                if other != key and (n + shift) % 3
            }
            nodes.append(TextNode(id_=f"{key} {n}", text=f"{key} number {n}", metadata={key: value} | others))
    return nodes


cities = st.sampled_from(["Ulm", "ulm", "Köln", "", "Paulo", "O'Brien", "x') OR 1=1 --", "m", "' OR '1'='1"])
numbers = st.sampled_from([0, 1, 2, 9, 10, 2.5, 1000, -3, 7])
items = st.sampled_from(["a", "b", "c", "O'Brien", "none"])


def on(key: str, operators: list[str], values: st.SearchStrategy[Any]) -> st.SearchStrategy[MetadataFilter]:
    return st.builds(
        lambda operator, value: MetadataFilter(key=key, value=value, operator=FilterOperator(operator)),
        st.sampled_from(operators),
        values,
    )


single = st.one_of(
    on("city", ["==", "!=", "<", ">", "<=", ">=", "contains", "text_match", "text_match_insensitive"], cities),
    on("city", ["in", "nin", "any", "all"], st.lists(cities, max_size=3)),
    on("size", ["==", "!=", "<", ">", "<=", ">="], numbers),
    on("size", ["in", "nin"], st.lists(st.sampled_from([0, 1, 9, 10, 7]), max_size=3)),
    on("tags", ["contains"], items),
    on("tags", ["any", "all"], st.lists(items, max_size=3)),
    on("tags", ["==", "!="], st.lists(items, min_size=1, max_size=2)),
    on("city", ["is_empty"], st.none()),
    on("tags", ["is_empty"], st.none()),
    on("note", ["is_empty", "!="], st.none()).filter(lambda f: f.operator == FilterOperator.IS_EMPTY),
    on("note", ["==", "!="], st.sampled_from(["text", ""])),
    on("missing", ["==", "!=", ">", "in", "nin", "contains", "is_empty"], st.just("x")).map(
        lambda f: f.model_copy(update={"value": ["x"] if f.operator.value in ("in", "nin") else "x"})
    ),
)
filters = st.builds(
    lambda parts, condition: MetadataFilters(filters=parts, condition=condition),
    st.lists(single, max_size=3),
    st.sampled_from([*FilterCondition, None]),
)


@pytest.fixture(scope="module")
def stores(
    create_database: Callable[..., str], template: str
) -> Iterator[tuple[LoreVectorStore, SimpleVectorStore, LoreRetriever]]:
    """Ours and LlamaIndex's, with the same nodes; and a retriever over ours."""
    nodes = corpus()
    as_llamaindex_embedding(HashEmbedder(32))(nodes)
    simple = SimpleVectorStore()
    simple.add(nodes)
    with MemoryStore.connect(create_database(template), embedder=HashEmbedder(32)) as store:
        ana = store.as_user("acme", "ana")
        ours = LoreVectorStore(memories=ana)
        ours.add(nodes)
        yield ours, simple, LoreRetriever(memories=ana, similarity_top_k=100)


def lookup(nodes: list[TextNode]) -> Callable[[str], dict[str, Any]]:
    by_id = {node.node_id: node.metadata for node in nodes}
    return by_id.__getitem__


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(filters=filters)
def test_filters_answer_as_the_framework_s_own(
    stores: tuple[LoreVectorStore, SimpleVectorStore, LoreRetriever], filters: MetadataFilters
) -> None:
    ours, simple, _ = stores
    passes = build_metadata_filter_fn(lookup(corpus()), filters)
    try:
        expected = sorted(node.node_id for node in corpus() if passes(node.node_id))
    except TypeError:
        assume(False)
    vector = list(HashEmbedder(32).embed_queries(["number"])[0])
    query = VectorStoreQuery(query_embedding=vector, query_str="number", similarity_top_k=100, filters=filters)
    assert sorted(simple.query(query).ids or []) == expected
    assert sorted(ours.query(query).ids or []) == expected
    assert sorted(node.node_id for node in ours.get_nodes(filters=filters)) == expected


def test_a_retriever_s_filters_are_those_of_the_store(
    stores: tuple[LoreVectorStore, SimpleVectorStore, LoreRetriever],
) -> None:
    ours, _, retriever = stores
    chosen = MetadataFilters(filters=[MetadataFilter(key="size", value=9, operator=FilterOperator.GTE)])
    found = LoreRetriever(memories=ours.client, similarity_top_k=100, filters=chosen).retrieve("number")
    assert {node.node_id for node in found} == {node.node_id for node in ours.get_nodes(filters=chosen)}
    assert len(found) < len(retriever.retrieve("number"))


def test_nested_filters_work_which_the_framework_refuses(
    stores: tuple[LoreVectorStore, SimpleVectorStore, LoreRetriever],
) -> None:
    ours, _, _ = stores
    inner = MetadataFilters(
        filters=[MetadataFilter(key="city", value="Ulm"), MetadataFilter(key="city", value="ulm")],
        condition=FilterCondition.OR,
    )
    outer = MetadataFilters(
        filters=[inner, MetadataFilters(filters=[MetadataFilter(key="size", value=0)], condition=FilterCondition.NOT)]
    )
    by_hand = {
        node.node_id
        for node in corpus()
        if node.metadata.get("city") in ("Ulm", "ulm") and node.metadata.get("size") != 0
    }
    assert {node.node_id for node in ours.get_nodes(filters=outer)} == by_hand
    assert by_hand


@pytest.mark.parametrize(
    "injection",
    [
        MetadataFilter(key="author' = 'x' OR '1'='1' --", value="y"),
        MetadataFilter(key="city') = 'a' OR 1=1 --", value="y"),
        MetadataFilter(key="city", value="x' OR '1'='1"),
        MetadataFilter(key="city", value=["') OR 1=1 --"], operator=FilterOperator.IN),
        MetadataFilter(key="city", value="12:30 :x", operator=FilterOperator.TEXT_MATCH),
        MetadataFilter(key="city", value="%", operator=FilterOperator.CONTAINS),
    ],
)
def test_neither_keys_nor_values_become_part_of_the_statement(
    stores: tuple[LoreVectorStore, SimpleVectorStore, LoreRetriever], injection: MetadataFilter
) -> None:
    ours, _, _ = stores
    chosen = MetadataFilters(filters=[injection])
    for mode in (VectorStoreQueryMode.DEFAULT, VectorStoreQueryMode.SPARSE):
        query = VectorStoreQuery(query_str="number", similarity_top_k=100, filters=chosen, mode=mode)
        assert ours.query(query).ids == []
    assert ours.get_nodes(filters=chosen) == []
    ours.delete_nodes(filters=chosen)
    assert len(ours.get_nodes()) == len(corpus())


def test_a_filter_is_applied_before_ranking_so_that_no_hit_is_lost(
    stores: tuple[LoreVectorStore, SimpleVectorStore, LoreRetriever],
) -> None:
    ours, _, _ = stores
    chosen = MetadataFilters(filters=[MetadataFilter(key="city", value="Köln")])
    wanted = {node.node_id for node in corpus() if node.metadata.get("city") == "Köln"}
    for mode in (VectorStoreQueryMode.DEFAULT, VectorStoreQueryMode.MMR):
        query = VectorStoreQuery(query_str="tags", similarity_top_k=len(wanted), filters=chosen, mode=mode)
        assert set(ours.query(query).ids or []) == wanted


@pytest.mark.parametrize(
    "filters",
    [
        [MetadataFilter(key="city", value="abc", operator=FilterOperator.IN)],
        [MetadataFilter(key="city", value=["a"], operator=FilterOperator.GT)],
        [MetadataFilter(key="lore_nothing", value="a")],
        [MetadataFilter(key="$city", value="a")],
    ],
)
def test_filters_that_mean_nothing_are_refused(
    stores: tuple[LoreVectorStore, SimpleVectorStore, LoreRetriever], filters: list[Any]
) -> None:
    ours, _, _ = stores
    with pytest.raises(InvalidInput, match="filter"):
        ours.query(VectorStoreQuery(query_str="x", similarity_top_k=1, filters=MetadataFilters(filters=filters)))
