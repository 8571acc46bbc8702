"""All suites in one table, and whether the fusion stands up to every other system on every one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lore_retriever.evaluation.acceptance import ACCEPTED_MEASURES
from lore_retriever.evaluation.measures import Interval
from lore_retriever.evaluation.report import Report

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["ALLOWED_LOSS", "Standing", "find_lost", "standings", "summary_markdown", "summary_table", "verdict"]

ALLOWED_LOSS = 0.01
"""How far a mean may stay behind another system's before that alone counts as lost."""

_WORSE, _BEHIND = "†", "‡"
_KEY = f"{_WORSE} the fusion is behind, by more than chance (95 %); {_BEHIND} by more than {ALLOWED_LOSS}"


@dataclass(frozen=True)
class Standing:
    """The fusion beside one system, in one measure on one suite.

    Attributes:
        ahead: How far the fusion is ahead over the same queries, with its paired bootstrap interval.
    """

    suite: str
    system: str
    measure: str
    ahead: Interval

    @property
    def is_lost(self) -> bool:
        """True where the fusion is behind by more than chance, or by more than `ALLOWED_LOSS`."""
        return self.ahead.is_worse or self.is_far_behind

    @property
    def is_far_behind(self) -> bool:
        """True where the fusion is behind by more than `ALLOWED_LOSS`, chance or not."""
        return self.ahead.mean < -ALLOWED_LOSS


def standings(reports: Sequence[Report]) -> list[Standing]:
    """The fusion beside every other system of every report, in R@10 and nDCG@10."""
    return [
        Standing(report.suite, row.system, name, row.ahead[name])
        for report in reports
        for row in report.rows
        for name in ACCEPTED_MEASURES
        if name in row.ahead
    ]


def find_lost(reports: Sequence[Report]) -> list[Standing]:
    """Where the fusion is behind another system by more than chance or by more than `ALLOWED_LOSS`."""
    return [each for each in standings(reports) if each.is_lost]


def verdict(reports: Sequence[Report]) -> list[str]:
    """One sentence for each system: behind it nowhere, or where and by how much."""
    lost = find_lost(reports)
    systems = dict.fromkeys(each.system for each in standings(reports))
    return [_sentence(system, [each for each in lost if each.system == system]) for system in systems]


def summary_table(reports: Sequence[Report]) -> Table:
    """Systems as rows, suites as columns, R@10 / nDCG@10 in the cells; marked where the fusion is behind."""
    from rich.table import Table

    header, *rows = _cells(reports)
    table = Table(*header, title="R@10 / nDCG@10", title_justify="left", caption=_KEY, caption_justify="left")
    for row in rows:
        table.add_row(*row, style="bold" if row[0] == reports[0].reference else None)
    return table


def summary_markdown(reports: Sequence[Report]) -> str:
    """The same as Markdown, with the verdict as a list below."""
    header, *rows = _cells(reports)
    lines = [_line(header), _line(["---"] * len(header)), *map(_line, rows)]
    told = [f"- {sentence}" for sentence in verdict(reports)]
    return "\n".join([*lines, "", f"{_KEY}.", "", *told, ""])


def _cells(reports: Sequence[Report]) -> Iterator[list[str]]:
    yield ["system", *(f"{report.suite} ({report.queries})" for report in reports)]
    for system in dict.fromkeys(row.system for report in reports for row in report.rows):
        yield [system, *(_cell(report, system) for report in reports)]


def _cell(report: Report, system: str) -> str:
    row = next((each for each in report.rows if each.system == system), None)
    if row is None:
        return ""
    against = [each for each in standings([report]) if each.system == system]
    is_worse, is_far = any(each.ahead.is_worse for each in against), any(each.is_far_behind for each in against)
    mark = (_WORSE if is_worse else "") + (_BEHIND if is_far else "")
    return " / ".join(f"{row.means[name]:.3f}" for name in ACCEPTED_MEASURES) + (f" {mark}" if mark else "")


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _sentence(system: str, lost: Sequence[Standing]) -> str:
    if not lost:
        return f"{system}: nowhere ahead of the fusion by more than chance or by more than {ALLOWED_LOSS}."
    places = "; ".join(
        f"{each.suite} {each.measure} {-each.ahead.mean:+.4f} [{-each.ahead.high:+.4f}, {-each.ahead.low:+.4f}]"
        for each in lost
    )
    return f"{system}: ahead of the fusion on {places}."
