"""Asks a store a suite's queries, the way an application does, and puts every system into one report."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from lore_retriever import __version__
from lore_retriever.config import FusionConfig
from lore_retriever.evaluation.baselines import Bm25, ExactVectors, fuse_convex, fuse_reciprocal, passing, tune_convex
from lore_retriever.evaluation.calibration import Sample
from lore_retriever.evaluation.laboratory import Laboratory, scope_of
from lore_retriever.evaluation.probes import unanswerable_probes
from lore_retriever.evaluation.runs import Ranked, Run, record
from lore_retriever.evaluation.suites import Query, Suite
from lore_retriever.operations.common import halfvec_text
from lore_retriever.queries import sql_folder
from lore_retriever.types import Strength
from lore_retriever.windows import split_windows

if TYPE_CHECKING:
    from lore_retriever.store import MemoryStore

__all__ = [
    "ask_store",
    "baseline_runs",
    "code_version",
    "evidence_samples",
    "fused_run",
    "handwritten_run",
    "trial_runs",
]

Progress = Callable[[int], object]
"""Called with how many queries were asked since the last call."""


@cache
def code_version() -> str:
    """Version of this package and a hash of its SQL, so that a changed leg is another version."""
    digest = hashlib.sha256()
    for path in sorted(sql_folder().rglob("*.sql")):
        digest.update(path.read_bytes())
    return f"{__version__}+sql.{digest.hexdigest()[:12]}"


def ask_store(
    suite: Suite, store: MemoryStore, *, config: FusionConfig, k: int = 10, progress: Progress | None = None
) -> Run:
    """The run `fused`: every query through `recall`, timed, with the strength of evidence that it states.

    Args:
        config: The settings in use, for the record.
        k: Hits asked for.
    """
    rankings: dict[str, tuple[Ranked, ...]] = {}
    latency_ms: dict[str, float] = {}
    evidence: dict[str, Strength] = {}
    for query in suite.queries:
        scope = scope_of(suite, query.scope)
        view = store.as_user(scope.org, scope.user)
        begun = time.perf_counter()
        found = view.recall(query.texts, limit=k, filter=query.filter, as_of=query.as_of)
        latency_ms[query.id] = (time.perf_counter() - begun) * 1000
        rankings[query.id] = tuple(Ranked(hit.id, hit.score) for hit in found.hits)
        evidence[query.id] = found.evidence
        if progress is not None:
            progress(1)
    return Run(
        suite=suite.name,
        system="fused",
        rankings=rankings,
        latency_ms=latency_ms,
        evidence=evidence,
        settings={**config.model_dump(), "k": k, "space": str(store.embedder.space)},
        data_hash=suite.fingerprint,
        code_version=code_version(),
    )


def trial_runs(suite: Suite, laboratory: Laboratory, config: FusionConfig | None = None, *, k: int = 10) -> list[Run]:
    """The fused run under these settings (or those in use), with a run for each leg and each pair of legs."""
    with laboratory.trial(config) as session:
        return session.runs(suite, k=k, code_version=code_version())


def fused_run(suite: Suite, laboratory: Laboratory, config: FusionConfig | None = None, *, k: int = 10) -> Run:
    """The fused run under these settings (or those in use), without what each leg alone found."""
    with laboratory.trial(config) as session:
        return session.fused(suite, k=k, code_version=code_version())


def baseline_runs(suite: Suite, laboratory: Laboratory) -> list[Run]:
    """BM25, exact vectors over the same windows, two ways to join them, and a statement written by hand.

    The convex combination is tuned on the suite itself, so it is an upper bound of what that form can do.
    """
    embedder = laboratory.embedder

    def pieces(text: str) -> Sequence[str]:
        windows = split_windows(text, max_tokens=embedder.max_tokens, count_tokens=embedder.count_tokens)
        return [text[window.start : window.end] for window in windows]

    version = code_version()
    lexical = record(suite, "bm25", Bm25(suite).search, settings={"k1": 1.2, "b": 0.75}, code_version=version)
    exact = ExactVectors(suite, embedder, split=pieces)
    settings = {"space": str(embedder.space)}
    vector = record(suite, "exact vectors", exact.search, settings=settings, code_version=version)
    rrf = fuse_reciprocal([lexical, vector], system="rrf bm25 + vectors")
    runs = [lexical, vector, rrf]
    if suite.judged:
        share, _ = tune_convex([(suite, lexical, vector)])
        runs.append(fuse_convex(lexical, vector, share, system="convex, tuned here"))
    return [*runs, handwritten_run(suite, laboratory)]


def handwritten_run(suite: Suite, laboratory: Laboratory, *, k: int = 10) -> Run:
    """What one SQL statement written by hand finds: all words of the query and vectors, joined by rank.

    It runs over a copy of the suite's texts with a plain `english` tsvector, and over the store's own vectors.
    """
    places = {query.scope: scope_of(suite, query.scope) for query in suite.queries}
    orgs = {"orgs": sorted({scope.org for scope in places.values()}), "owner": scope_of(suite, None).user}
    allowed: dict[str, list[int]] = {}
    with laboratory.trial() as session:
        session.rows("handwritten_corpus", orgs)

        def search(query: Query) -> list[tuple[str, float]]:
            org = places[query.scope].org
            name = json.dumps([org, query.filter], sort_keys=True, default=str)
            if query.filter and name not in allowed:
                ids = [document.id for document in passing(suite, query)]
                found = session.rows("keys_of_ids", {"org": org, "ids": ids})
                allowed[name] = [row["key"] for row in found]
            (vector,) = laboratory.embedder.embed_queries([query.text])
            asked = {"query": query.text, "embedding": halfvec_text(vector), "org": org, "k": k}
            rows = session.rows("handwritten_rrf", {**asked, "keys": allowed.get(name)})
            return [(row["id"], float(row["score"])) for row in rows]

        return record(suite, "handwritten rrf", search, settings={"k": k}, code_version=code_version())


def evidence_samples(suite: Suite, laboratory: Laboratory, strangers: Sequence[Suite]) -> list[Sample]:
    """What hits measure: the best answer of each judged query, and the closest hit of each without an answer.

    Queries without an answer are the suite's own and those of the strangers, asked of this corpus.
    """
    samples: list[Sample] = []
    asked = [suite, *(unanswerable_probes(suite, each) for each in strangers if each.name != suite.name)]
    with laboratory.trial() as session:
        for probes in asked:
            for query in (*probes.judged, *probes.unanswerable):
                answer = session.ask(query, scope_of(suite, query.scope))
                relevant = probes.relevant(query.id) if query.answerable else answer.measured
                hits = [measures for each, measures in answer.measured.items() if each in relevant]
                if hits:
                    similarity, coverage = max(hits, key=lambda hit: (hit[0] or 0.0, hit[1] or 0.0))
                    samples.append(Sample(similarity, coverage, query.answerable, suite.name))
    return samples
