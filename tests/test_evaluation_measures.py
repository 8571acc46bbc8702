"""Measures agree with hand-worked values, and differences come with their uncertainty."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from lore_retriever.errors import InvalidInput
from lore_retriever.evaluation.measures import (
    bootstrap_mean,
    compare_paired,
    find_leaks,
    kept_share,
    latency_summary,
    measure,
    query_differences,
)
from lore_retriever.evaluation.runs import Ranked, Run, load_runs, record, save_runs, to_trec
from lore_retriever.evaluation.suites import Document, Query, Suite


def ranked(*ids: str) -> tuple[Ranked, ...]:
    return tuple(Ranked(each, 1.0) for each in ids)


@pytest.fixture
def suite() -> Suite:
    documents = tuple(Document(each, f"text {each}") for each in "abcde")
    queries = (
        Query("q1", ("one",)),
        Query("q2", ("two",), forbidden=frozenset({"e"})),
        Query("q3", ("three",), answerable=False),
    )
    return Suite("s", documents, queries, {"q1": {"a": 2, "b": 1}, "q2": {"c": 1}, "q3": {"d": 1}})


def run(system: str = "fused", **rankings: tuple[Ranked, ...]) -> Run:
    return Run(suite="s", system=system, rankings=rankings)


def test_measures_are_those_worked_out_by_hand(suite: Suite) -> None:
    measured = measure(suite, run(q1=ranked("d", "b", "a"), q2=ranked("c")))
    ideal = 2 / math.log2(2) + 1 / math.log2(3)
    gained = 1 / math.log2(3) + 2 / math.log2(4)
    first = measured.per_query["q1"]
    assert first["nDCG@10"] == pytest.approx(gained / ideal)
    assert first["RR@10"] == pytest.approx(0.5)
    assert first["R@10"] == 1.0
    assert first["Success@1"] == 0.0
    assert measured.mean["Success@1"] == 0.5
    assert measured.values("RR@10") == pytest.approx([0.5, 1.0])


def test_equal_scores_keep_the_order_of_the_ranking(suite: Suite) -> None:
    assert measure(suite, run(q1=ranked("a", "d"), q2=ranked("c"))).mean["RR@10"] == 1.0
    assert measure(suite, run(q1=ranked("d", "a"), q2=ranked("c"))).mean["RR@10"] == 0.75


def test_a_query_without_a_ranking_counts_0_and_one_without_answer_not_at_all(suite: Suite) -> None:
    measured = measure(suite, run(q1=ranked("a", "b"), q3=ranked("d")))
    assert measured.per_query.keys() == {"q1", "q2"}
    assert measured.mean["R@10"] == 0.5


def test_ids_with_spaces_are_measured(suite: Suite) -> None:
    odd = Suite("s", (Document("a b", "x"),), (Query("q 1", ("x",)),), {"q 1": {"a b": 1}})
    assert measure(odd, Run(suite="s", system="x", rankings={"q 1": ranked("a b")})).mean["RR@10"] == 1.0


def test_repeated_documents_unknown_measures_and_unjudged_suites_are_refused(suite: Suite) -> None:
    with pytest.raises(InvalidInput, match="twice"):
        measure(suite, run(q1=ranked("a", "a")))
    with pytest.raises(InvalidInput, match="'accuracy@x'"):
        measure(suite, run(), ["accuracy@x"])
    with pytest.raises(InvalidInput, match="judges no query"):
        measure(Suite("empty", (), (), {}), run())


def test_a_constant_difference_has_an_interval_of_no_width() -> None:
    interval = compare_paired([0.5, 0.7, 0.9], [0.4, 0.6, 0.8])
    assert interval.mean == pytest.approx(0.1)
    assert interval.low == pytest.approx(0.1)
    assert interval.high == pytest.approx(0.1)
    assert interval.is_better
    assert not interval.is_worse


def test_the_interval_narrows_with_the_number_of_queries_and_repeats_with_its_seed() -> None:
    few = bootstrap_mean([0.0, 1.0] * 10, seed=3)
    many = bootstrap_mean([0.0, 1.0] * 1000, seed=3)
    assert few.low < many.low < 0.5 < many.high < few.high
    # The normal approximation of a proportion of 0.5 over 20 queries: ± 0.219.
    assert few.low == pytest.approx(0.281, abs=0.05)
    assert bootstrap_mean([0.0, 1.0] * 10, seed=3) == few


def test_a_consistent_loss_is_called_worse_and_noise_is_not() -> None:
    assert compare_paired([0.1, 0.2, 0.1, 0.3] * 5, [0.3, 0.4, 0.2, 0.4] * 5).is_worse
    noise = compare_paired([0.1, 0.3] * 10, [0.3, 0.1] * 10)
    assert not noise.is_worse
    assert noise.p_worse == pytest.approx(0.5, abs=0.1)


def test_comparisons_of_unequal_length_and_empty_values_are_refused() -> None:
    with pytest.raises(InvalidInput, match="3 values against 2"):
        compare_paired([1, 2, 3], [1, 2])
    with pytest.raises(InvalidInput, match="no values"):
        bootstrap_mean([])
    with pytest.raises(InvalidInput, match=r"level is 1\.5"):
        bootstrap_mean([1.0], level=1.5)


def test_differences_show_both_rankings_the_largest_first(suite: Suite) -> None:
    before = run("before", q1=ranked("a", "b"), q2=ranked("d", "c"))
    after = run("after", q1=ranked("a", "b"), q2=ranked("c"))
    (only,) = query_differences(suite, before, after, name="RR@10")
    assert only.query_id == "q2"
    assert only.gain == pytest.approx(0.5)
    assert only.first_ids == ("d", "c")
    assert only.second_ids == ("c",)
    assert only.relevant == {"c": 1}


def test_forbidden_foreign_and_unknown_documents_are_leaks(suite: Suite) -> None:
    foreign = Suite("s", (*suite.documents, Document("z", "theirs", scope="other")), suite.queries, suite.qrels)
    leaks = find_leaks(foreign, run(q1=ranked("a", "z"), q2=ranked("e", "c", "ghost")))
    assert [(leak.query_id, leak.document_id, leak.rank, leak.reason) for leak in leaks] == [
        ("q1", "z", 2, "scope"),
        ("q2", "e", 1, "forbidden"),
        ("q2", "ghost", 3, "unknown"),
    ]
    assert find_leaks(suite, run(q1=ranked("a"))) == []


def test_the_kept_share_counts_relevant_documents_of_the_pools_only(suite: Suite) -> None:
    legs = [run("vector", q1=ranked("a", "d")), run("relaxed", q1=ranked("b"), q2=ranked("d"))]
    assert kept_share(suite, legs, run(q1=ranked("a", "d", "e"))) == 0.5
    assert kept_share(suite, legs, run(q1=ranked("d", "a", "b")), depth=2) == 0.5
    assert kept_share(suite, [run("vector")], run()) == 0.0


def test_latency_is_summed_up_by_its_middle_and_its_tail() -> None:
    timed = Run(suite="s", system="x", rankings={}, latency_ms={str(n): float(n) for n in range(1, 102)})
    assert latency_summary(timed) == {"p50": 51.0, "p95": 96.0, "mean": 51.0}
    assert latency_summary(run()) is None


def test_runs_come_back_from_a_file_as_they_were(suite: Suite, tmp_path: Path) -> None:
    kept = record(suite, "mine", lambda query: [("a", 0.5), ("ü b", 0.25)], settings={"rrf_k": 60})
    assert kept.data_hash == suite.fingerprint
    save_runs([kept], tmp_path / "runs.json")
    assert load_runs(tmp_path / "runs.json") == [kept]
    (tmp_path / "other.json").write_text('{"a": 1}')
    with pytest.raises(InvalidInput, match="holds no runs"):
        load_runs(tmp_path / "other.json")
    with pytest.raises(InvalidInput, match=r"absent\.json"):
        load_runs(tmp_path / "absent.json")


def test_a_trec_export_has_six_columns_and_falling_scores() -> None:
    odd = Run(suite="s", system="my leg", rankings={"q 1": ranked("a", "b c")})
    assert to_trec(odd) == "q%201 Q0 a 1 2 my%20leg\nq%201 Q0 b%20c 2 1 my%20leg\n"
