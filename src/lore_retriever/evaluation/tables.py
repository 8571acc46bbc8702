"""The tables of `lore-retriever eval` other than reports."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from lore_retriever.config import FusionConfig
from lore_retriever.evaluation.acceptance import Verdict
from lore_retriever.evaluation.calibration import Calibration, Sample
from lore_retriever.evaluation.sweep import Trial

__all__ = ["described", "samples_table", "trials_table", "verdict_table"]


def described(config: FusionConfig) -> str:
    """The knobs that differ from the shipped defaults, for a line of a table."""
    changed = {name: value for name, value in config if value != FusionConfig.model_fields[name].default}
    return ", ".join(f"{name} {value:g}" for name, value in changed.items()) or "the shipped defaults"


def trials_table(trials: Sequence[Trial]) -> Table:
    """Settings as rows, suites as columns: R@10 / nDCG@10."""
    suites = list(dict.fromkeys(trial.suite for trial in trials))
    table = Table("settings", *suites, title="R@10 / nDCG@10", title_justify="left")
    rows: dict[str, dict[str, str]] = {}
    for trial in trials:
        point = ", ".join(f"{name} {value:g}" for name, value in trial.point.items()) or "the shipped defaults"
        means = f"{trial.means['R@10']:.3f} / {trial.means['nDCG@10']:.3f}"
        rows.setdefault(point, {})[trial.suite] = means
    for point, cells in rows.items():
        table.add_row(point, *(cells.get(suite, "") for suite in suites))
    return table


def samples_table(samples: Sequence[Sample], fitted: Calibration) -> Table:
    """Share of the hits of each suite that reach a chance of being an answer, answers and others."""
    table = Table("suite", "hits", "number", "0.25 or more", "0.5 or more", "0.75 or more")
    for group in dict.fromkeys(sample.group for sample in samples):
        for is_answer, name in ((True, "answers"), (False, "no answers")):
            kind = [each for each in samples if (each.group, each.is_answer) == (group, is_answer)]
            chances = [fitted.probability(each.similarity, each.coverage) for each in kind]
            shares = (sum(c >= least for c in chances) / max(1, len(kind)) for least in (0.25, 0.5, 0.75))
            table.add_row(group, name, str(len(kind)), *(f"{share:.2f}" for share in shares))
    return table


def verdict_table(verdict: Verdict) -> Table:
    """Each measure on each suite before and after a change of settings."""
    table = Table("suite", "measure", "before", "after", "change, 95 % interval")
    for each in verdict.comparisons:
        change = f"{each.change.mean:+.4f} [{each.change.low:+.4f}, {each.change.high:+.4f}]"
        style = "bold red" if each.is_worse else None
        table.add_row(each.suite, each.measure, f"{each.before:.4f}", f"{each.after:.4f}", change, style=style)
    return table
