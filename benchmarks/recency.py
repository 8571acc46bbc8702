"""What a floor under recency costs and what it buys: the evidence behind the `kinds` table.

    python benchmarks/recency.py FOLDER…                # suites in the layout of `lore-retriever eval`

Two measures, for several half-lives and floors, on judged queries whose answers do not depend on time:

  known item   every memory gets a random age of up to `--spread` days; R@10 and nDCG@10 after the multiplier. Recency is noise
               here: what it takes away is the cost.
  newer first  every relevant memory gets a twin, one word different, that is older by 30, 90 or 365 days; the share of queries
               that show the newer one first. This is what recency is for.

Searches run once, at neutral recency (kind `document`); the multiplier of sql/migrations/0009_recall.sql,
`greatest(floor, 0.5 ^ (age / half-life))`, is applied to what they return.
"""

from __future__ import annotations

import argparse
import math
import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from figures import positive, run_command
from measured import model_of, spread_evenly

from lore_retriever import MemoryStore
from lore_retriever.admin import StoreAdmin
from lore_retriever.evaluation.laboratory import scope_of
from lore_retriever.evaluation.loading import load_suite
from lore_retriever.evaluation.specs import open_suites
from lore_retriever.evaluation.suites import Document, Query, Suite

HALF_LIVES = (14, 30, 365)
FLOORS = (0.0, 0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0)
GAPS = (30, 90, 365)
TWIN = "~older"
HITS = 50
_SEEDS = 5


@dataclass(frozen=True)
class Found:
    """One hit: its id and its relevance before any multiplier."""

    id: str
    relevance: float


def recency(age_days: float, half_life_days: float, floor: float) -> float:
    """The multiplier for age."""
    return max(floor, 0.5 ** min(age_days / half_life_days, 1000))


def twinned(suite: Suite) -> Suite:
    """The suite with an older twin of every relevant document, one word longer."""
    relevant = {document for query in suite.judged for document in suite.relevant(query.id)}
    twins = [
        replace(document, id=document.id + TWIN, text=f"{document.text} Formerly.")
        for document in suite.documents
        if document.id in relevant
    ]
    return replace(suite, documents=(*suite.documents, *twins))


def searched(suite: Suite, store: MemoryStore) -> dict[str, list[Found]]:
    """What every judged query finds."""
    found = {}
    for query in suite.judged:
        scope = scope_of(suite, query.scope)
        hits = store.as_user(scope.org, scope.user).recall(query.texts, limit=HITS, filter=query.filter).hits
        found[query.id] = [Found(hit.id, hit.relevance) for hit in hits]
    return found


def known_item(
    suite: Suite, found: dict[str, list[Found]], half_life: float, floor: float, spread: float
) -> tuple[float, float]:
    """Mean R@10 and nDCG@10 over queries and seeds, every memory of a random age."""
    recalls, gains = [], []
    for seed in range(_SEEDS):
        for query in suite.judged:
            ages = {hit.id: random.Random(f"{seed} {hit.id}").uniform(0, spread) for hit in found[query.id]}
            scored = sorted(
                found[query.id],
                key=lambda hit: (-hit.relevance * recency(ages[hit.id], half_life, floor), ages[hit.id], hit.id),
            )
            recall, gain = _measured(suite, query, [hit.id for hit in scored[:10]])
            recalls.append(recall)
            gains.append(gain)
    return fmean(recalls), fmean(gains)


def _measured(suite: Suite, query: Query, ranking: Sequence[str]) -> tuple[float, float]:
    grades = suite.relevant(query.id)
    gain = sum(grades.get(each, 0) / math.log2(place + 2) for place, each in enumerate(ranking))
    ideal = sum(grade / math.log2(place + 2) for place, grade in enumerate(sorted(grades.values(), reverse=True)[:10]))
    return sum(each in grades for each in ranking) / len(grades), gain / ideal


def newer_first(
    suite: Suite, found: dict[str, list[Found]], half_life: float, floor: float, gap: float, age: float
) -> float:
    """Share of pairs of a memory and its older twin, both found, that stand newer first."""
    right = []
    for query in suite.judged:
        scores = {hit.id: hit.relevance for hit in found[query.id]}
        for document in suite.relevant(query.id):
            if document in scores and document + TWIN in scores:
                new = scores[document] * recency(age, half_life, floor)
                old = scores[document + TWIN] * recency(age + gap, half_life, floor)
                right.append(new >= old)  # equal scores: the newer one, by the tie rule
    return fmean(right) if right else float("nan")


def report(suite: Suite, store: MemoryStore, *, spread: float) -> None:
    """Print the tables of one suite."""
    plain, twins = suite, twinned(suite)
    for each in (plain, twins):
        if load_suite(each, store):
            _maintain(store)
    found, doubled = searched(plain, store), searched(twins, store)
    print(f"\n## {suite.name}: {len(suite.judged)} queries, ages up to {spread:g} days\n")
    print("| half-life | floor | R@10 | nDCG@10 | " + " | ".join(f"newer first, {gap} d" for gap in GAPS) + " |")
    print("|--:|--:|--:|--:|" + "--:|" * len(GAPS))
    for half_life in HALF_LIVES:
        for floor in FLOORS:
            recall, gain = known_item(plain, found, half_life, floor, spread)
            shares = [newer_first(twins, doubled, half_life, floor, gap, age=3) for gap in GAPS]
            cells = " | ".join(f"{share:.3f}" for share in (recall, gain, *shares))
            print(f"| {half_life} | {floor:.2f} | {cells} |", flush=True)


_admin: list[str] = []


def _maintain(store: MemoryStore) -> None:
    if _admin:
        StoreAdmin.connect(_admin[0]).maintain()
    else:
        store.maintain()


def main() -> None:
    """Load the suites, search once, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", help="suites, as `lore-retriever eval run` takes them")
    parser.add_argument("--spread", type=float, default=365, help="greatest age, in days")
    parser.add_argument("--model", default="offline", help="offline, minilm, e5, or a sentence-transformers name")
    parser.add_argument("--cache", type=Path, help="file that keeps the vectors between runs")
    parser.add_argument("--database", help="an administrator's connection string; else a database of its own is made")
    parser.add_argument("--queries", type=positive, help="only so many judged queries, evenly spread")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        embedder = model_of(given.model, given.cache or Path(folder) / "vectors.sqlite")
        if given.database:
            _admin.append(given.database)
            StoreAdmin.connect(given.database).migrate(embedder)
            store = MemoryStore.connect(given.database, embedder=embedder)
        else:
            store = MemoryStore.embedded(f"{folder}/database", embedder=embedder)
        with store:
            for suite in open_suites(given.folders):
                report(_timeless(suite, given.queries), store, spread=given.spread)


def _timeless(suite: Suite, most: int | None) -> Suite:
    def plain(document: Document) -> Document:
        return replace(document, kind=None, created_at=None)

    documents = tuple(plain(each) for each in suite.documents)
    return replace(suite, documents=documents, queries=spread_evenly(suite.judged, most))


if __name__ == "__main__":
    run_command(main)
