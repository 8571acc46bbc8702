"""The baselines rank as their definitions say."""

from __future__ import annotations

import math

import pytest

from lore_retriever.errors import InvalidInput
from lore_retriever.evaluation.baselines import (
    Bm25,
    ExactVectors,
    analyse,
    fuse_convex,
    fuse_reciprocal,
    tune_convex,
)
from lore_retriever.evaluation.runs import Ranked, Run, record
from lore_retriever.evaluation.suites import Document, Query, Suite
from lore_retriever.testing import HashEmbedder

QUERY = Query("q", ("gateway restarts",))


def suite_of(*documents: Document, query: Query = QUERY) -> Suite:
    return Suite("s", documents, (query,), {"q": {documents[0].id: 1}})


def run(system: str, *places: tuple[str, float]) -> Run:
    return Run(suite="s", system=system, rankings={"q": tuple(Ranked(*place) for place in places)})


def test_terms_are_stems_with_compounds_and_their_parts_and_bigrams() -> None:
    assert analyse("The gateways restarted") == ["gateway", "restart"]
    assert analyse("ERR-4471") == ["err-4471", "err", "4471"]
    assert analyse("部署する go") == ["部署", "署す", "する", "go"]
    assert analyse("猫") == ["猫"]


def test_bm25_scores_are_those_of_the_formula() -> None:
    suite = suite_of(
        Document("a", "gateway restarts nightly"),
        Document("b", "gateway gateway daily"),
        Document("c", "unrelated words entirely"),
    )
    (first, score), (second, _) = Bm25(suite).search(QUERY)
    assert (first, second) == ("a", "b")

    def part(df: int, tf: int, length: int) -> float:
        idf = math.log(1 + (3 - df + 0.5) / (df + 0.5))
        return idf * tf / (tf + 1.2 * (1 - 0.75 + 0.75 * length / 3))

    # bm25s leaves out the constant factor k1 + 1, which changes no order.
    assert score == pytest.approx(part(2, 1, 3) + part(1, 1, 3), rel=1e-4)


def test_bm25_counts_words_of_the_query_s_own_scope_only() -> None:
    suite = suite_of(
        Document("a", "gateway", scope="x"),
        Document("b", "gateway restarts", scope="y"),
        Document("c", "gateway restarts", scope="x", owner="colleague"),
        query=Query("q", ("gateway restarts",), scope="x"),
    )
    assert [each for each, _ in Bm25(suite).search(suite.queries[0])] == ["a"]


@pytest.mark.parametrize("condition", [{"lang": "en"}, {"lang": {"$ne": "de"}}, {"lore_kind": "gotcha"}])
def test_baselines_search_what_the_filter_lets_through(condition: dict[str, object]) -> None:
    documents = (
        Document("a", "gateway", metadata={"lang": "de"}),
        Document("b", "gateway", metadata={"lang": "en"}, kind="gotcha"),
    )
    suite = suite_of(*documents, query=Query("q", ("gateway",), filter=condition))
    assert [each for each, _ in Bm25(suite).search(suite.queries[0])] == ["b"]


def test_a_query_of_unknown_words_or_of_an_empty_scope_finds_nothing() -> None:
    suite = suite_of(Document("a", "gateway", scope="x"))
    assert Bm25(suite).search(Query("q", ("gateway",), scope="nowhere")) == []
    assert Bm25(suite_of(Document("a", "gateway"))).search(Query("q", ("zebra",))) == []


def test_exact_vectors_count_a_text_by_its_closest_piece() -> None:
    suite = suite_of(Document("a", "other words|gateway restarts"), Document("b", "gateway"))
    embedder = HashEmbedder(64)
    (best, cosine), *_ = ExactVectors(suite, embedder, split=lambda text: text.split("|")).search(QUERY)
    assert best == "a"
    assert cosine == pytest.approx(1.0, abs=1e-5)
    whole = dict(ExactVectors(suite, embedder).search(QUERY))
    assert whole["a"] < 0.99


def test_reciprocal_rank_fusion_adds_weight_over_constant_plus_rank() -> None:
    first = run("lexical", ("a", 9.0), ("b", 8.0))
    second = run("vector", ("b", 0.9), ("c", 0.8))
    fused = fuse_reciprocal([first, second])
    assert dict(fused.rankings["q"]) == pytest.approx({"b": 1 / 62 + 1 / 61, "a": 1 / 61, "c": 1 / 62})
    assert fused.ids("q") == ["b", "a", "c"]
    assert fused.system == "rrf:lexical+vector"
    weighted = fuse_reciprocal([first, second], weights=[3, 1])
    assert weighted.ids("q") == ["b", "a", "c"]
    assert fuse_reciprocal([first, second], weights=[3, 1], pool=1).ids("q") == ["a", "b"]


def test_fusion_refuses_runs_of_two_suites_and_missing_weights() -> None:
    other = Run(suite="t", system="x", rankings={})
    with pytest.raises(InvalidInput, match="of one suite"):
        fuse_reciprocal([run("x", ("a", 1.0)), other])
    with pytest.raises(InvalidInput, match="1 weights for 2 runs"):
        fuse_reciprocal([run("x"), run("y")], weights=[1])


def test_a_convex_combination_scales_each_pool_and_mixes_by_share() -> None:
    lexical = run("lexical", ("a", 10.0), ("b", 5.0), ("c", 0.0))
    vector = run("vector", ("c", 0.9), ("a", 0.7))
    fused = dict(fuse_convex(lexical, vector, 0.4).rankings["q"])
    assert fused == pytest.approx({"a": 0.6, "b": 0.3, "c": 0.4})
    with pytest.raises(InvalidInput, match=r"weight is 1\.2"):
        fuse_convex(lexical, vector, 1.2)


def test_tuning_picks_the_share_that_measures_best() -> None:
    suite = suite_of(Document("a", "x"), Document("b", "y"))
    lexical = run("lexical", ("b", 2.0), ("a", 1.0))
    vector = run("vector", ("a", 0.9), ("b", 0.1))
    share, means = tune_convex([(suite, lexical, vector)], name="RR@10", steps=4)
    assert share == 0.5
    assert means[0.0] == 0.5
    assert means[1.0] == 1.0
    with pytest.raises(InvalidInput, match="0 suites"):
        tune_convex([])


def test_a_recorded_baseline_asks_every_query_in_order() -> None:
    suite = suite_of(Document("a", "gateway restarts"))
    assert record(suite, "bm25", Bm25(suite).search).ids("q") == ["a"]
