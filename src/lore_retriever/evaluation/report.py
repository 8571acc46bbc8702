"""One suite's systems side by side: a table for people, JSON for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lore_retriever.errors import InvalidInput
from lore_retriever.evaluation.measures import (
    DEFAULT_MEASURES,
    Interval,
    Leak,
    QueryDifference,
    compare_paired,
    find_leaks,
    kept_share,
    latency_summary,
    measure,
)
from lore_retriever.evaluation.runs import Run
from lore_retriever.evaluation.suites import Suite

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

__all__ = [
    "Contribution",
    "Report",
    "Row",
    "build_report",
    "differences_table",
    "evidence_shares",
    "report_table",
    "side_by_side",
]


_GROUPS = {"answer": "an answer", "none": "no answer"}


@dataclass(frozen=True)
class Row:
    """One system in a table.

    Attributes:
        means: Mean per measure.
        ahead: Per measure, how far the reference is ahead of this system, with its interval; empty for the
            reference itself.
        empty: Share of the judged queries for which it found nothing.
        latency_ms: `p50`, `p95` and `mean`, or None where it was not timed.
    """

    system: str
    means: dict[str, float]
    ahead: dict[str, Interval]
    empty: float
    latency_ms: dict[str, float] | None


@dataclass(frozen=True)
class Contribution:
    """What one leg gives to the fusion.

    Attributes:
        found: Share of all relevant documents that the leg's pool holds.
        kept: Share of the relevant documents in the fused first ten that the leg had proposed.
        alone: Share of them that no other leg had proposed: what would be lost without it.
        misled: Share of the other documents in the fused first ten that only this leg had proposed.
    """

    leg: str
    found: float
    kept: float
    alone: float
    misled: float


@dataclass(frozen=True)
class Report:
    """All systems on one suite.

    Attributes:
        queries: How many queries the means are over.
        reference: The system that the others are compared with.
        rows: In the order of the runs.
        contributions: One per leg.
        kept: Of the relevant documents in the union of the legs' pools, the share in the fused first ten.
        leaks: What the reference must not have returned; a run with any has failed.
        evidence: Share of each evidence strength, for queries with an answer and without.
    """

    suite: str
    queries: int
    data_hash: str
    code_version: str
    reference: str
    rows: tuple[Row, ...]
    contributions: tuple[Contribution, ...]
    kept: float | None
    leaks: tuple[Leak, ...]
    evidence: dict[str, dict[str, float]]

    def row(self, system: str) -> Row:
        """The row of one system.

        Raises:
            InvalidInput: If there is none of that name.
        """
        for row in self.rows:
            if row.system == system:
                return row
        names = [row.system for row in self.rows]
        raise InvalidInput(f"no system is called {system!r}; there are {names!r}.")

    def as_json(self) -> dict[str, Any]:
        """The report as plain dictionaries, lists, texts and numbers."""
        return asdict(self)


def build_report(
    suite: Suite,
    runs: Sequence[Run],
    *,
    reference: str = "fused",
    legs: Sequence[str] = (),
    names: Sequence[str] = DEFAULT_MEASURES,
    draws: int = 10_000,
) -> Report:
    """Measure every run and compare it with the reference, query by query.

    Args:
        reference: System that the others are compared with; one of the runs.
        legs: Systems among the runs whose pools the reference fused.
        draws: Resamples for each interval; the seed is fixed.

    Raises:
        InvalidInput: If the reference is not among the runs, a run is of another suite, or a run cannot be
            measured.
    """
    by_system = {run.system: run for run in runs}
    if reference not in by_system:
        raise InvalidInput(f"no run is called {reference!r}; there are {sorted(by_system)!r}.")
    for run in runs:
        if run.data_hash and run.data_hash != suite.fingerprint:
            raise InvalidInput(f"run {run.system!r} was made on other data than suite {suite.name!r} holds.")
    main = by_system[reference]
    pools = [by_system[leg] for leg in legs if leg in by_system]
    base = measure(suite, main, names)
    rows = []
    for run in runs:
        measured = base if run is main else measure(suite, run, names)
        ahead = {n: compare_paired(base.values(n), measured.values(n), draws=draws) for n in names}
        rows.append(
            Row(
                run.system,
                measured.mean,
                {} if run is main else ahead,
                _empty(suite, run),
                latency_summary(run),
            )
        )
    return Report(
        suite=suite.name,
        queries=len(suite.judged),
        data_hash=suite.fingerprint,
        code_version=main.code_version,
        reference=reference,
        rows=tuple(rows),
        contributions=tuple(_contribution(suite, leg, pools, main) for leg in pools),
        kept=kept_share(suite, pools, main) if pools else None,
        leaks=tuple(find_leaks(suite, main)),
        evidence=evidence_shares(suite, main),
    )


def evidence_shares(suite: Suite, run: Run) -> dict[str, dict[str, float]]:
    """Share of each strength that the run states: queries with an `answer`, queries with `none`."""
    groups = {"answer": suite.judged, "none": suite.unanswerable}
    shares: dict[str, dict[str, float]] = {}
    for name, queries in groups.items():
        said = Counter(run.evidence[query.id] for query in queries if query.id in run.evidence)
        if total := said.total():
            shares[name] = {strength: said[strength] / total for strength in sorted(said)}
    return shares


def report_table(report: Report) -> RenderableType:
    """The report for a terminal: systems as rows; then what the legs gave, what fusion kept, and leaks."""
    from rich.console import Group
    from rich.text import Text

    notes = []
    if report.kept is not None:
        notes.append(Text(f"relevant documents of the pools' union kept in the first ten: {report.kept:.3f}"))
    for kind, shares in report.evidence.items():
        said = ", ".join(f"{strength} {share:.2f}" for strength, share in shares.items())
        notes.append(Text(f"evidence where there is {_GROUPS[kind]}: {said}"))
    if report.leaks:
        notes.append(Text(f"{len(report.leaks)} LEAKS, first: {report.leaks[0]}", style="bold red"))
    parts: list[RenderableType] = [_systems_table(report)]
    if report.contributions:
        parts.append(_contributions_table(report.contributions))
    return Group(*parts, *notes)


def differences_table(differences: Sequence[QueryDifference], names: tuple[str, str]) -> RenderableType:
    """Queries on which two runs differ, each with both rankings side by side; relevant ids stand out."""
    from rich.table import Table

    table = Table("query", names[0], names[1], show_lines=True)
    for each in differences:
        left, right = side_by_side(each)
        table.add_row(
            f"{each.query_id}\n{each.text[:200]}",
            f"{each.first:.3f}\n" + "\n".join(left),
            f"{each.second:.3f}\n" + "\n".join(right),
        )
    return table


def side_by_side(difference: QueryDifference) -> tuple[list[str], list[str]]:
    """Both rankings as lines, `*` before what is relevant."""

    def lines(ids: Sequence[str]) -> list[str]:
        marked = [("*" if each in difference.relevant else " ", each) for each in ids]
        return [f"{mark}{rank:>2} {each}" for rank, (mark, each) in enumerate(marked, start=1)]

    return lines(difference.first_ids), lines(difference.second_ids)


def _empty(suite: Suite, run: Run) -> float:
    judged = suite.judged
    return sum(not run.rankings.get(query.id) for query in judged) / len(judged)


def _contribution(suite: Suite, leg: Run, pools: Sequence[Run], fused: Run, depth: int = 10) -> Contribution:
    relevant_total = held = shown = proposed = only = noise = only_noise = 0
    for query in suite.judged:
        relevant = suite.relevant(query.id).keys()
        mine = set(leg.ids(query.id))
        others = {each for pool in pools if pool is not leg for each in pool.ids(query.id)}
        first = fused.ids(query.id)[:depth]
        good = [each for each in first if each in relevant]
        bad = [each for each in first if each not in relevant]
        relevant_total += len(relevant)
        held += len(mine & relevant)
        shown += len(good)
        proposed += sum(each in mine for each in good)
        only += sum(each in mine and each not in others for each in good)
        noise += len(bad)
        only_noise += sum(each in mine and each not in others for each in bad)
    return Contribution(
        leg=leg.system,
        found=_share(held, relevant_total),
        kept=_share(proposed, shown),
        alone=_share(only, shown),
        misled=_share(only_noise, noise),
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _systems_table(report: Report) -> Table:
    from rich.table import Table

    names = list(report.rows[0].means)
    table = Table(title=f"{report.suite}: {report.queries} queries", title_justify="left")
    table.add_column("system")
    for name in names:
        table.add_column(name, justify="right")
    ahead = [name for name in names if name in ("R@10", "nDCG@10")]
    for name in ahead:
        table.add_column(f"{report.reference} ahead, {name}", justify="right")
    table.add_column("empty", justify="right")
    table.add_column("p50 / p95 ms", justify="right")
    for row in report.rows:
        table.add_row(
            row.system,
            *(f"{row.means[name]:.3f}" for name in names),
            *(_ahead(row.ahead.get(name)) for name in ahead),
            f"{row.empty:.2f}",
            _latency(row.latency_ms),
            style="bold" if row.system == report.reference else None,
        )
    return table


def _contributions_table(contributions: Sequence[Contribution]) -> Table:
    from rich.table import Table

    table = Table("leg", "found", "of the kept", "alone", "misled alone")
    for each in contributions:
        shares = (each.found, each.kept, each.alone, each.misled)
        table.add_row(each.leg, *(f"{share:.3f}" for share in shares))
    return table


def _ahead(interval: Interval | None) -> str:
    if interval is None:
        return ""
    mark = " worse" if interval.is_worse else " better" if interval.is_better else ""
    return f"{interval.mean:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]{mark}"


def _latency(summary: Mapping[str, float] | None) -> str:
    return f"{summary['p50']:.1f} / {summary['p95']:.1f}" if summary else ""
