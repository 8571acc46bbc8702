"""How good a ranking is, and whether a difference is more than chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from lore_retriever.errors import InvalidInput
from lore_retriever.evaluation.extra import needed
from lore_retriever.evaluation.runs import Run
from lore_retriever.evaluation.suites import Suite

__all__ = [
    "DEFAULT_MEASURES",
    "Interval",
    "Leak",
    "Measured",
    "QueryDifference",
    "bootstrap_mean",
    "compare_paired",
    "find_leaks",
    "kept_share",
    "latency_summary",
    "measure",
    "query_differences",
]

DEFAULT_MEASURES = ("R@10", "nDCG@10", "RR@10", "Success@1")
"""What a table shows. Any name that ir-measures knows may be asked for."""

_DRAWS_AT_ONCE = 500
"""Resamples held in memory together: 500 × 10,000 queries are 40 MB."""


@dataclass(frozen=True)
class Measured:
    """Measures of one run.

    Attributes:
        per_query: Value per measure name, per judged query, in the suite's order.
        mean: Mean over all judged queries, per measure name; a query without a ranking counts 0.
    """

    per_query: dict[str, dict[str, float]]
    mean: dict[str, float]

    def values(self, measure: str) -> list[float]:
        """One measure's values in the suite's order of queries."""
        return [row[measure] for row in self.per_query.values()]


@dataclass(frozen=True)
class Interval:
    """A mean with its bootstrap interval.

    Attributes:
        mean: The mean itself.
        low: Lower end.
        high: Upper end.
        p_worse: Share of resamples whose mean is below 0 (half of those at 0): of a difference, how often
            the first would come out worse.
    """

    mean: float
    low: float
    high: float
    p_worse: float

    @property
    def is_worse(self) -> bool:
        """True when the whole interval lies below 0."""
        return self.high < 0

    @property
    def is_better(self) -> bool:
        """True when the whole interval lies above 0."""
        return self.low > 0


@dataclass(frozen=True)
class QueryDifference:
    """One query on which two runs differ, with both rankings.

    Attributes:
        first, second: The measure's value in either run.
        first_ids, second_ids: Their first places.
        relevant: Grades of what should be found.
    """

    query_id: str
    text: str
    first: float
    second: float
    first_ids: tuple[str, ...]
    second_ids: tuple[str, ...]
    relevant: Mapping[str, int]

    @property
    def gain(self) -> float:
        """Second minus first: above 0 where the second run is better."""
        return self.second - self.first


@dataclass(frozen=True)
class Leak:
    """A document that must never have come back.

    Attributes:
        reason: `forbidden` (the query names it so), `scope` (not visible to the query's scope) or
            `unknown` (no document of the suite).
    """

    query_id: str
    document_id: str
    rank: int
    reason: str


def measure(suite: Suite, run: Run, names: Sequence[str] = DEFAULT_MEASURES) -> Measured:
    """Measure a run over every judged query of the suite.

    Args:
        names: Measures as ir-measures spells them: `R@10`, `nDCG@10`, `RR`, `Success@1` …

    Raises:
        InvalidInput: If a ranking repeats a document, the suite judges no query, or a name is unknown.
    """
    asked = {name: _parse(name) for name in names}
    judged = [query.id for query in suite.judged]
    if not judged:
        raise InvalidInput(f"suite {suite.name!r} judges no query: nothing can be measured.")
    per_query = {each: dict.fromkeys(names, 0.0) for each in judged}
    spelt = {parsed: name for name, parsed in asked.items()}
    qrels, places = _irm_rows(suite, run, judged)
    for metric in needed("ir_measures").iter_calc(list(asked.values()), qrels, places):
        per_query[judged[int(metric.query_id)]][spelt[metric.measure]] = float(metric.value)
    mean = {name: sum(row[name] for row in per_query.values()) / len(judged) for name in names}
    return Measured(per_query, mean)


def compare_paired(
    first: Sequence[float],
    second: Sequence[float],
    *,
    level: float = 0.95,
    draws: int = 10_000,
    seed: int = 0,
) -> Interval:
    """How much `first` is above `second` on the same queries, with a paired bootstrap interval.

    Raises:
        InvalidInput: If the two differ in length or are empty.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, percentile interval; queries are
    drawn with replacement, both systems keep their pairs.
    """
    if len(first) != len(second):
        raise InvalidInput(f"{len(first)} values against {len(second)}: compare runs over the same queries.")
    differences = [a - b for a, b in zip(first, second, strict=True)]
    return bootstrap_mean(differences, level=level, draws=draws, seed=seed)


def bootstrap_mean(values: Sequence[float], *, level: float = 0.95, draws: int = 10_000, seed: int = 0) -> Interval:
    """The mean of `values` with its percentile bootstrap interval; the same seed gives the same interval.

    Raises:
        InvalidInput: If `values` is empty, `level` is not inside (0, 1), or `draws` is below 1.
    """
    import numpy as np

    if not values:
        raise InvalidInput("there are no values: an interval needs at least one query.")
    if not 0 < level < 1 or draws < 1:
        raise InvalidInput(f"level is {level}, draws is {draws}: use a level inside (0, 1) and 1 draw or more.")
    array = np.asarray(values, dtype=np.float64)
    generator = np.random.default_rng(seed)
    means = np.empty(draws)
    for start in range(0, draws, _DRAWS_AT_ONCE):
        size = min(_DRAWS_AT_ONCE, draws - start)
        chosen = generator.integers(len(array), size=(size, len(array)))
        means[start : start + size] = array[chosen].mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    worse = float((means < 0).mean() + (means == 0).mean() / 2)
    return Interval(float(array.mean()), float(low), float(high), worse)


def query_differences(
    suite: Suite, first: Run, second: Run, *, name: str = "nDCG@10", depth: int = 10
) -> list[QueryDifference]:
    """Every judged query on which two runs differ in one measure, the largest difference first.

    Raises:
        InvalidInput: If the measure is unknown or a ranking repeats a document.
    """
    before = measure(suite, first, [name]).per_query
    after = measure(suite, second, [name]).per_query
    found = [
        QueryDifference(
            query_id=query.id,
            text=query.text,
            first=before[query.id][name],
            second=after[query.id][name],
            first_ids=tuple(first.ids(query.id)[:depth]),
            second_ids=tuple(second.ids(query.id)[:depth]),
            relevant=suite.relevant(query.id),
        )
        for query in suite.judged
    ]
    differing = [each for each in found if abs(each.gain) > 1e-9]
    return sorted(differing, key=lambda each: (-abs(each.gain), each.query_id))


def find_leaks(suite: Suite, run: Run) -> list[Leak]:
    """Every place of a run that the query's scope should not have seen. An empty list is the only pass."""
    known = {document.id for document in suite.documents}
    visible: dict[str | None, frozenset[str]] = {}
    leaks: list[Leak] = []
    for query in suite.queries:
        allowed = visible.setdefault(query.scope, suite.visible(query))
        for rank, each in enumerate(run.ids(query.id), start=1):
            if each in query.forbidden:
                leaks.append(Leak(query.id, each, rank, "forbidden"))
            elif each not in known:
                leaks.append(Leak(query.id, each, rank, "unknown"))
            elif each not in allowed:
                leaks.append(Leak(query.id, each, rank, "scope"))
    return leaks


def kept_share(suite: Suite, pools: Sequence[Run], fused: Run, *, depth: int = 10) -> float:
    """Of the relevant documents that any pool holds, the share that the fused first `depth` keep.

    A query whose pools hold more relevant documents than `depth` counts `depth` of them. 0.0 when no pool
    holds any.
    """
    held = kept = 0
    for query in suite.judged:
        relevant = suite.relevant(query.id).keys()
        union = {each for pool in pools for each in pool.ids(query.id)} & relevant
        held += min(len(union), depth)
        kept += len(union.intersection(fused.ids(query.id)[:depth]))
    return kept / held if held else 0.0


def latency_summary(run: Run) -> dict[str, float] | None:
    """Median, 95th percentile and mean in milliseconds (`p50`, `p95`, `mean`); None if none was measured."""
    import numpy as np

    if not run.latency_ms:
        return None
    times = np.asarray(list(run.latency_ms.values()))
    p50, p95 = np.percentile(times, [50, 95])
    return {"p50": float(p50), "p95": float(p95), "mean": float(times.mean())}


def _irm_rows(suite: Suite, run: Run, judged: Sequence[str]) -> tuple[list[Any], list[Any]]:
    irm, fresh = needed("ir_measures"), count()
    # Numbers stand for ids, so that no id can upset the tool, and scores fall with rank, so that it cannot
    # reorder ties.
    numbers: dict[str, str] = {}

    def number(document: str) -> str:
        if document not in numbers:
            numbers[document] = str(next(fresh))
        return numbers[document]

    qrels, places = [], []
    for index, query in enumerate(judged):
        qrels += [irm.Qrel(str(index), number(d), g) for d, g in suite.qrels[query].items()]
        ids = run.ids(query)
        if len(ids) != len(set(ids)):
            raise InvalidInput(f"run {run.system!r}, query {query!r}: a document comes twice in the ranking.")
        places += [irm.ScoredDoc(str(index), number(d), -float(rank)) for rank, d in enumerate(ids)]
    return qrels, places


def _parse(name: str) -> Any:
    try:
        return needed("ir_measures").parse_measure(name)
    except (ValueError, NameError, SyntaxError) as error:
        raise InvalidInput(f"{name!r} is no measure: write R@10, nDCG@10, RR, Success@1 and the like.") from error
