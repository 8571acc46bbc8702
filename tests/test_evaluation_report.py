"""Reports say what each system and each leg gave; worse settings are refused."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from lore_retriever.errors import InvalidInput
from lore_retriever.evaluation.acceptance import compare_settings
from lore_retriever.evaluation.measures import query_differences
from lore_retriever.evaluation.report import (
    build_report,
    differences_table,
    evidence_shares,
    report_table,
    side_by_side,
)
from lore_retriever.evaluation.runs import Ranked, Run
from lore_retriever.evaluation.suites import Document, Query, Suite
from lore_retriever.types import Strength


@pytest.fixture
def suite() -> Suite:
    documents = tuple(Document(each, f"text {each}") for each in "abcdef")
    queries = (Query("q1", ("one",)), Query("q2", ("two",)), Query("q3", ("three",), answerable=False))
    return Suite("s", documents, queries, {"q1": {"a": 1, "b": 1}, "q2": {"c": 1}})


def run(suite: Suite, system: str, first: str, second: str, **more: dict[str, float]) -> Run:
    rankings = {"q1": tuple(Ranked(d, 1.0) for d in first), "q2": tuple(Ranked(d, 1.0) for d in second)}
    return Run(suite="s", system=system, rankings=rankings, data_hash=suite.fingerprint, **more)


def shown(renderable: object) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()


def test_a_report_measures_every_system_and_what_each_leg_alone_gave(suite: Suite) -> None:
    fused = run(suite, "fused", "abd", "ecf", latency_ms={"q1": 2.0, "q2": 4.0})
    legs = [run(suite, "vector", "ad", "e"), run(suite, "relaxed", "db", "c")]
    report = build_report(suite, [fused, *legs], legs=["vector", "relaxed"])
    assert report.queries == 2
    assert report.row("fused").means["R@10"] == 1.0
    assert report.row("fused").latency_ms == {"p50": 3.0, "p95": pytest.approx(3.9), "mean": 3.0}
    assert report.row("vector").means["R@10"] == 0.25
    assert report.row("vector").ahead["R@10"].mean == 0.75
    assert report.row("fused").ahead == {}
    assert report.kept == 1.0
    vector, relaxed = report.contributions
    # Of a, b and c in the fused first ten, only the vector leg had a, only the relaxed leg b and c;
    # of d, e and f, the vector leg alone had e.
    assert (vector.found, vector.alone, vector.misled) == pytest.approx((1 / 3, 1 / 3, 1 / 3))
    assert (relaxed.found, relaxed.kept) == pytest.approx((2 / 3, 2 / 3))
    assert (relaxed.alone, relaxed.misled) == pytest.approx((2 / 3, 0))
    json.dumps(report.as_json())


def test_a_system_that_finds_nothing_is_called_empty(suite: Suite) -> None:
    report = build_report(suite, [run(suite, "fused", "a", "c"), run(suite, "exact", "a", "")])
    assert [row.empty for row in report.rows] == [0.0, 0.5]


def test_the_table_names_systems_intervals_legs_and_leaks(suite: Suite) -> None:
    leaking = run(suite, "fused", "a", "cx")
    report = build_report(suite, [leaking, run(suite, "vector", "a", "c")], legs=["vector"])
    text = shown(report_table(report))
    for part in ("s: 2 queries", "fused", "vector", "nDCG@10", "1 LEAKS", "kept in the first ten"):
        assert part in text
    assert report.leaks[0].document_id == "x"


def test_evidence_is_counted_apart_for_queries_with_and_without_an_answer(suite: Suite) -> None:
    said: dict[str, Strength] = {"q1": "strong", "q2": "weak", "q3": "none"}
    fused = run(suite, "fused", "a", "c").model_copy(update={"evidence": said})
    assert evidence_shares(suite, fused) == {"answer": {"strong": 0.5, "weak": 0.5}, "none": {"none": 1.0}}
    assert "no answer: none 1.00" in shown(report_table(build_report(suite, [fused])))


def test_a_report_refuses_other_data_and_an_absent_reference(suite: Suite) -> None:
    with pytest.raises(InvalidInput, match="'fused'"):
        build_report(suite, [run(suite, "vector", "a", "c")])
    with pytest.raises(InvalidInput, match="other data"):
        build_report(suite.clip(2), [run(suite, "fused", "a", "c")])
    with pytest.raises(InvalidInput, match="'absent'"):
        build_report(suite, [run(suite, "fused", "a", "c")]).row("absent")


def test_rankings_stand_side_by_side_with_the_relevant_marked(suite: Suite) -> None:
    before, after = run(suite, "before", "da", "c"), run(suite, "after", "ad", "c")
    (difference,) = query_differences(suite, before, after)
    assert side_by_side(difference) == (["  1 d", "* 2 a"], ["* 1 a", "  2 d"])
    text = shown(differences_table([difference], ("before", "after")))
    assert "* 1 a" in text
    assert "q1" in text


def test_settings_that_are_no_worse_are_accepted(suite: Suite) -> None:
    old, new = run(suite, "fused", "da", "c"), run(suite, "fused", "ab", "c")
    verdict = compare_settings([suite], {"s": old}, {"s": new})
    assert verdict.is_accepted
    gain = next(each for each in verdict.comparisons if each.measure == "R@10")
    assert (gain.before, gain.after) == (0.75, 1.0)
    assert compare_settings([suite], {"s": old}, {"s": old}).is_accepted


def test_settings_that_are_worse_on_any_suite_are_refused_with_the_figures(suite: Suite) -> None:
    old, new = run(suite, "fused", "ab", "c"), run(suite, "fused", "ba", "dc")
    verdict = compare_settings([suite], {"s": old}, {"s": new})
    assert not verdict.is_accepted
    assert len(verdict.reasons) == 1
    assert "s: nDCG@10 falls from 1.0000 to 0.8155" in verdict.reasons[0]


def test_a_loss_within_the_tolerance_passes_unless_it_is_more_than_chance(suite: Suite) -> None:
    old, new = run(suite, "fused", "ab", "c"), run(suite, "fused", "ab", "dc")
    assert compare_settings([suite], {"s": old}, {"s": new}, tolerance=0.2).is_accepted
    both = run(suite, "fused", "dab", "dc")
    assert not compare_settings([suite], {"s": old}, {"s": both}, tolerance=0.5).is_accepted


def test_a_leak_refuses_settings_however_good_they_are(suite: Suite) -> None:
    old, new = run(suite, "fused", "da", "c"), run(suite, "fused", "abx", "c")
    verdict = compare_settings([suite], {"s": old}, {"s": new})
    assert "1 leaks" in verdict.reasons[0]


def test_verdicts_need_runs_on_the_very_data_of_each_suite(suite: Suite) -> None:
    kept = run(suite, "fused", "ab", "c")
    with pytest.raises(InvalidInput, match="was not run"):
        compare_settings([suite], {}, {"s": kept})
    with pytest.raises(InvalidInput, match="has changed"):
        compare_settings([suite.clip(3)], {"s": kept}, {"s": kept})
    with pytest.raises(InvalidInput, match="0 suites"):
        compare_settings([], {}, {})
