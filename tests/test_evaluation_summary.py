"""One table over all suites says where the fusion stands behind another system, and by how much."""

from __future__ import annotations

import pytest
from rich.console import Console

from lore_retriever.evaluation.measures import Interval
from lore_retriever.evaluation.report import Report, Row
from lore_retriever.evaluation.summary import find_lost, summary_markdown, summary_table, verdict


def interval(mean: float, spread: float) -> Interval:
    return Interval(mean, mean - spread, mean + spread, 0.5)


def report(suite: str, **ahead: tuple[float, float]) -> Report:
    """A report on a suite; per system how far the fusion is ahead in both measures, and the half width of the interval."""
    names = ("R@10", "nDCG@10")
    rows = [Row("fused", dict.fromkeys(names, 0.5), {}, 0.0, None)]
    for system, (mean, spread) in ahead.items():
        rows.append(
            Row(system, dict.fromkeys(names, 0.5 - mean), dict.fromkeys(names, interval(mean, spread)), 0, None)
        )
    return Report(suite, 100, "hash", "code", "fused", tuple(rows), (), None, (), {})


@pytest.mark.parametrize(
    ("mean", "spread", "is_lost"),
    [
        (0.02, 0.01, False),  # ahead
        (-0.005, 0.02, False),  # behind by chance, and little
        (-0.005, 0.001, True),  # little, and by more than chance
        (-0.02, 0.1, True),  # by chance, and much
        (-0.01, 0.1, False),  # exactly what is allowed
    ],
)
def test_the_fusion_is_behind_by_more_than_chance_or_by_more_than_is_allowed(
    mean: float, spread: float, is_lost: bool
) -> None:
    assert bool(find_lost([report("one", bm25=(mean, spread))])) is is_lost


def test_the_verdict_names_every_system_and_the_places_where_it_is_ahead() -> None:
    reports = [report("one", bm25=(0.1, 0.01), vector=(-0.02, 0.1)), report("two", bm25=(0.1, 0.01))]
    assert verdict(reports) == [
        "bm25: nowhere ahead of the fusion by more than chance or by more than 0.01.",
        "vector: ahead of the fusion on one R@10 +0.0200 [-0.0800, +0.1200]; one nDCG@10 +0.0200 [-0.0800, +0.1200].",
    ]


def test_the_table_has_a_row_for_each_system_and_leaves_out_what_did_not_run() -> None:
    reports = [report("one", bm25=(0.1, 0.01), vector=(-0.02, 0.001)), report("two", bm25=(0.1, 0.01))]
    assert summary_markdown(reports).splitlines()[:5] == [
        "| system | one (100) | two (100) |",
        "| --- | --- | --- |",
        "| fused | 0.500 / 0.500 | 0.500 / 0.500 |",
        "| bm25 | 0.400 / 0.400 | 0.400 / 0.400 |",
        "| vector | 0.520 / 0.520 †‡ |  |",
    ]
    console = Console(width=120)
    with console.capture() as capture:
        console.print(summary_table(reports))
    assert "0.520 / 0.520 †‡" in capture.get()
    assert "† the fusion is behind, by more than chance" in capture.get()
