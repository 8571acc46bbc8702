"""May a caller trust the word for evidence? Questions with an answer, and questions that the corpus cannot answer.

    python benchmarks/evidence.py suites.toml --cache vectors.sqlite
    python benchmarks/evidence.py FOLDER… --model minilm --calibrate     # fit to these suites first, for a model without figures

Takes suites as `lore-retriever eval` does, two or more. Each corpus is asked its own judged questions and those of every
other suite, which it is taken not to answer. Printed is which word `Recall.evidence` says, in shares of the questions:
`none` or `weak` is what a caller would abstain on.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from figures import positive, run_command
from measured import database_of, model_of, spread_evenly

from lore_retriever import MemoryStore
from lore_retriever.admin import StoreAdmin
from lore_retriever.evaluation.calibration import fit_evidence
from lore_retriever.evaluation.decisions import apply_evidence
from lore_retriever.evaluation.laboratory import Laboratory
from lore_retriever.evaluation.loading import load_suite
from lore_retriever.evaluation.probes import unanswerable_probes
from lore_retriever.evaluation.runner import ask_store, evidence_samples
from lore_retriever.evaluation.specs import open_suites
from lore_retriever.evaluation.suites import Suite

WORDS = ("none", "weak", "medium", "strong")


def said(suite: Suite, store: MemoryStore, laboratory: Laboratory) -> list[str]:
    """What the search calls its evidence for each question."""
    return list(ask_store(suite, store, config=laboratory.config()).evidence.values())


def row(name: str, asked: str, words: Sequence[str]) -> str:
    """One line of the table."""
    shares = [words.count(word) / len(words) for word in WORDS]
    cells = " | ".join(f"{share:.3f}" for share in (*shares, shares[0] + shares[1]))
    return f"| {name} | {asked} | {len(words)} | {cells} |"


def abstained(words: Sequence[str]) -> float:
    """Share of `none` and `weak`."""
    return sum(word in WORDS[:2] for word in words) / len(words)


def report(suites: Sequence[Suite], store: MemoryStore, laboratory: Laboratory, *, size: int, most: int | None) -> None:
    """Print the table of these suites."""
    print(
        "| corpus | questions | number | none | weak | medium | strong | none or weak |\n|---|---|--:|--:|--:|--:|--:|--:|"
    )
    own: list[float] = []
    foreign: list[float] = []
    for suite in suites:
        words = said(replace(suite, queries=spread_evenly(suite.judged, most)), store, laboratory)
        own.append(abstained(words))
        print(row(suite.name, "its own", words), flush=True)
        for other in suites:
            if other.name != suite.name:
                words = said(unanswerable_probes(suite, other, size=size), store, laboratory)
                foreign.append(abstained(words))
                print(row(suite.name, f"of {other.name}", words), flush=True)
    print(
        f"\nnone or weak: {fmean(own):.3f} of questions with an answer, {fmean(foreign):.3f} of those without (means of the rows)"
    )


def main() -> None:
    """Load the suites, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="+", type=Path, help="suites, as `lore-retriever eval run` takes them")
    parser.add_argument("--only", action="append", default=[], help="this suite only; repeat for more")
    parser.add_argument("--model", default="offline", help="offline, minilm, e5, or a sentence-transformers name")
    parser.add_argument("--cache", type=Path, help="file that keeps the vectors between runs")
    parser.add_argument("--database", help="an administrator's connection string; a built-in Postgres if left out")
    parser.add_argument("--size", type=positive, default=100, help="questions taken of each other suite, at most")
    parser.add_argument("--queries", type=positive, help="only so many judged queries of each suite, evenly spread")
    parser.add_argument("--calibrate", action="store_true", help="fit evidence to these suites first, and record it")
    given = parser.parse_args()
    suites = open_suites(given.suites, only=given.only)
    if len(suites) < 2:
        parser.error("name two suites or more: the questions of one are asked of another's corpus")
    embedder = model_of(given.model, given.cache)
    with database_of(given.database) as conninfo:
        admin = StoreAdmin.connect(conninfo)
        admin.migrate(embedder)
        with MemoryStore.connect(conninfo, embedder=embedder) as store:
            for suite in suites:
                load_suite(suite, store)
        admin.maintain()
        laboratory = Laboratory(admin, embedder)
        if given.calibrate:
            samples = [each for suite in suites for each in evidence_samples(suite, laboratory, suites)]
            print("recorded:", apply_evidence(laboratory, fit_evidence(samples)))
        with MemoryStore.connect(conninfo, embedder=embedder) as store:
            print(f"{embedder.space}\n")
            report(suites, store, laboratory, size=given.size, most=given.queries)


if __name__ == "__main__":
    run_command(main)
