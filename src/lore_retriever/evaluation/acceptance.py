"""Whether settings may replace those in use: only on evidence, and never for the worse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lore_retriever.errors import InvalidInput
from lore_retriever.evaluation.measures import Interval, compare_paired, find_leaks, measure
from lore_retriever.evaluation.runs import Run
from lore_retriever.evaluation.suites import Suite

__all__ = ["ACCEPTED_MEASURES", "Comparison", "Verdict", "compare_settings"]

ACCEPTED_MEASURES = ("R@10", "nDCG@10")
"""Measures that decide. Others are recorded, and decide nothing."""

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Comparison:
    """One measure on one suite, before and after.

    Attributes:
        change: After minus before over the same queries, with its interval.
        is_worse: Whether this alone refuses the change.
    """

    suite: str
    measure: str
    before: float
    after: float
    change: Interval
    is_worse: bool


@dataclass(frozen=True)
class Verdict:
    """Whether new settings may be accepted, and why not.

    Attributes:
        comparisons: Every measure on every suite.
        reasons: Why they are refused, a sentence each; empty when they are accepted.
    """

    comparisons: tuple[Comparison, ...]
    reasons: tuple[str, ...]

    @property
    def is_accepted(self) -> bool:
        """True when nothing speaks against the new settings."""
        return not self.reasons


def compare_settings(
    suites: Sequence[Suite],
    before: Mapping[str, Run],
    after: Mapping[str, Run],
    *,
    tolerance: float = 0.0,
    names: Sequence[str] = ACCEPTED_MEASURES,
) -> Verdict:
    """Judge new settings against those in use, on every suite named.

    They are refused where a mean falls by more than `tolerance`, where a loss of any size is more than chance
    (95 % paired bootstrap), and where anything leaks.

    Args:
        before, after: Fused run per suite name, with the settings in use and with the new ones.
        tolerance: How far a mean may fall, 0 or more; 0 by default.

    Raises:
        InvalidInput: If no suite is named, a suite lacks a run, or a run was made on other data.
    """
    if not suites or tolerance < 0:
        raise InvalidInput(f"{len(suites)} suites, tolerance {tolerance}: name a suite, tolerate 0 or more.")
    comparisons: list[Comparison] = []
    reasons: list[str] = []
    for suite in suites:
        old, new = _run_of(suite, before, "in use"), _run_of(suite, after, "new")
        if leaks := find_leaks(suite, new):
            reasons.append(f"{suite.name}: {len(leaks)} leaks, the first is {leaks[0]}.")
        first, second = measure(suite, old, names), measure(suite, new, names)
        for name in names:
            change = compare_paired(second.values(name), first.values(name))
            worse = change.is_worse or change.mean < -tolerance - _ROUNDING
            comparison = Comparison(suite.name, name, first.mean[name], second.mean[name], change, worse)
            comparisons.append(comparison)
            if worse:
                reasons.append(_reason(comparison))
    return Verdict(tuple(comparisons), tuple(reasons))


def _run_of(suite: Suite, runs: Mapping[str, Run], which: str) -> Run:
    run = runs.get(suite.name)
    if run is None:
        raise InvalidInput(f"suite {suite.name!r} was not run with the settings that are {which}.")
    if run.data_hash != suite.fingerprint:
        raise InvalidInput(f"suite {suite.name!r} has changed since it was run with the settings {which}.")
    return run


def _reason(comparison: Comparison) -> str:
    change = comparison.change
    return (
        f"{comparison.suite}: {comparison.measure} falls from {comparison.before:.4f} "
        f"to {comparison.after:.4f} ({change.mean:+.4f}, 95 % [{change.low:+.4f}, {change.high:+.4f}])."
    )
