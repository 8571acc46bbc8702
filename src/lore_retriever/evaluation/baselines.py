"""What a search must beat: BM25, exact vectors, and two ways to join them, all outside the database."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lore_retriever.embeddings.base import Embedder
from lore_retriever.errors import InvalidInput
from lore_retriever.evaluation.extra import needed
from lore_retriever.evaluation.measures import measure
from lore_retriever.evaluation.runs import Ranked, Run
from lore_retriever.evaluation.suites import Document, Query, Suite
from lore_retriever.filters.evaluate import evaluate
from lore_retriever.filters.langchain_dialect import parse_filter

__all__ = ["Bm25", "ExactVectors", "analyse", "fuse_convex", "fuse_reciprocal", "passing", "tune_convex"]

_WORD = re.compile(r"\w+(?:[-_.:/@']\w+)*")
_PART = re.compile(r"[^\W_]+")
# Hiragana, Katakana, Han, Hangul and Thai: scripts that do not put spaces between words, or glue to them.
_UNSPLIT = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+")


class Bm25:
    """BM25 over stems, by bm25s; every scope has an index and document frequencies of its own.

    Only documents that hold at least one of the query's stems are returned; ties stand in order of id.
    """

    def __init__(self, suite: Suite, *, k1: float = 1.2, b: float = 0.75) -> None:
        self._k1, self._b = k1, b
        self._shelves = {scope: self._shelve(documents) for scope, documents in _shelves(suite).items()}

    def search(self, query: Query, *, k: int = 40) -> list[tuple[str, float]]:
        """Up to `k` documents with their BM25 scores, best first; several short queries add up."""
        shelf = self._shelves.get(_shelf_of(query))
        if shelf is None:
            return []
        index, ids = shelf
        stems = [stem for text in query.texts for stem in analyse(text) if stem in index.vocab_dict]
        if not stems:
            return []
        scores = index.get_scores(stems)
        found = [(ids[i], float(scores[i])) for i in scores.nonzero()[0]]
        return sorted(found, key=_best_first)[:k]

    def _shelve(self, documents: Sequence[Document]) -> tuple[Any, list[str]]:
        bm25s = needed("bm25s")
        index = bm25s.BM25(k1=self._k1, b=self._b, method="lucene")
        index.index([analyse(document.text) or [""] for document in documents], show_progress=False)
        return index, [document.id for document in documents]


class ExactVectors:
    """Cosine over every vector of the scope, no index; a document counts with the closest of its pieces.

    Args:
        split: Cuts a text into the pieces that get a vector each; None gives the whole text one.
    """

    def __init__(
        self, suite: Suite, embedder: Embedder, *, split: Callable[[str], Sequence[str]] | None = None
    ) -> None:
        self._embedder = embedder
        self._shelves = {s: self._shelve(documents, split) for s, documents in _shelves(suite).items()}

    def search(self, query: Query, *, k: int = 40) -> list[tuple[str, float]]:
        """Up to `k` documents with their cosine, best first; of several queries the closest counts."""
        import numpy as np

        shelf = self._shelves.get(_shelf_of(query))
        if shelf is None:
            return []
        matrix, owners, ids = shelf
        asked = np.asarray(self._embedder.embed_queries(query.texts), dtype=np.float32)
        closest = (matrix @ asked.T).max(axis=1)
        best = np.full(len(ids), -np.inf, dtype=np.float32)
        np.maximum.at(best, owners, closest)
        found = [(each, float(score)) for each, score in zip(ids, best, strict=True)]
        return sorted(found, key=_best_first)[:k]

    def _shelve(
        self, documents: Sequence[Document], split: Callable[[str], Sequence[str]] | None
    ) -> tuple[Any, Any, list[str]]:
        import numpy as np

        pieces = [split(document.text) if split else [document.text] for document in documents]
        texts = [piece for each in pieces for piece in each]
        owners = np.repeat(np.arange(len(documents)), [len(each) for each in pieces])
        matrix = np.asarray(self._embedder.embed_texts(texts), dtype=np.float32)
        return matrix, owners, [document.id for document in documents]


def analyse(text: str) -> list[str]:
    """A text's terms: English stems, no stop words; compounds whole and in parts; CJK and Thai bigrams."""
    stop_words, stemmers = needed("bm25s.stopwords").STOPWORDS_EN_PLUS, needed("Stemmer")
    lowered = text.lower()
    terms: list[str] = []
    for run in _UNSPLIT.findall(lowered):
        terms += [run[i : i + 2] for i in range(max(1, len(run) - 1))]
    words: list[str] = []
    for word in _WORD.findall(_UNSPLIT.sub(" ", lowered)):
        parts = _PART.findall(word)
        if len(parts) > 1:
            terms.append(word)
        words += [part for part in parts if part not in stop_words]
    return terms + list(stemmers.Stemmer("english").stemWords(words))


def fuse_reciprocal(
    runs: Sequence[Run],
    *,
    rrf_k: int = 60,
    weights: Sequence[float] | None = None,
    pool: int = 40,
    k: int = 40,
    system: str | None = None,
) -> Run:
    """Reciprocal rank fusion: each run adds `weight / (rrf_k + rank)` for its first `pool` places.

    Raises:
        InvalidInput: If there is no run, the suites differ, or the weights are not one a run.

    Source: Cormack, Clarke and Büttcher, SIGIR 2009.
    """
    chosen = list(weights) if weights is not None else [1.0] * len(runs)
    if len(chosen) != len(runs):
        raise InvalidInput(f"{len(chosen)} weights for {len(runs)} runs: give one each.")

    def combine(query_id: str) -> Mapping[str, float]:
        scores: dict[str, float] = defaultdict(float)
        for run, weight in zip(runs, chosen, strict=True):
            for rank, each in enumerate(run.ids(query_id)[:pool], start=1):
                scores[each] += weight / (rrf_k + rank)
        return scores

    settings = {"rrf_k": rrf_k, "weights": chosen, "pool": pool}
    return _fused(runs, combine, k, system or "rrf:" + "+".join(run.system for run in runs), settings)


def fuse_convex(
    lexical: Run,
    vector: Run,
    weight: float,
    *,
    pool: int = 40,
    k: int = 40,
    system: str = "convex",
) -> Run:
    """`weight · vector + (1 - weight) · lexical`, both scaled to [0, 1] over their own pool, per query.

    A document that a pool does not hold gets 0 from it. A pool of equal scores gives 1 to each.

    Raises:
        InvalidInput: If `weight` is not in [0, 1] or the suites differ.

    Source: Bruch, Gai and Ingber, TOIS 42(1), 2023, with min-max scaling.
    """
    if not 0 <= weight <= 1:
        raise InvalidInput(f"weight is {weight}: it is the vector's share, in [0, 1].")

    def combine(query_id: str) -> Mapping[str, float]:
        scores: dict[str, float] = defaultdict(float)
        for run, share in ((vector, weight), (lexical, 1 - weight)):
            for each, scaled in _scale(run.rankings.get(query_id, ())[:pool]).items():
                scores[each] += share * scaled
        return scores

    settings = {"weight": weight, "pool": pool, "scaling": "min-max"}
    return _fused([vector, lexical], combine, k, system, settings)


def tune_convex(
    runs: Sequence[tuple[Suite, Run, Run]], *, name: str = "nDCG@10", steps: int = 20
) -> tuple[float, dict[float, float]]:
    """The vector's share that gives the best mean of one measure over the suites, each counting the same.

    Args:
        runs: Per suite, its lexical and its vector run.
        steps: Shares tried: 0, 1 / steps, … 1.

    Returns:
        The best share (the smaller of equals) and the mean for every share tried.

    Raises:
        InvalidInput: If there is nothing to tune on.
    """
    if not runs or steps < 1:
        raise InvalidInput(f"{len(runs)} suites, {steps} steps: tune on one suite or more, in one step or more.")
    means: dict[float, float] = {}
    for step in range(steps + 1):
        weight = step / steps
        values = [measure(suite, fuse_convex(lex, vec, weight), [name]).mean[name] for suite, lex, vec in runs]
        means[weight] = sum(values) / len(values)
    return max(means, key=lambda weight: (means[weight], -weight)), means


def _scale(places: Sequence[Ranked]) -> dict[str, float]:
    if not places:
        return {}
    scores = [place.score for place in places]
    low, span = min(scores), max(scores) - min(scores)
    return {place.id: (place.score - low) / span if span else 1.0 for place in places}


def _best_first(place: tuple[str, float]) -> tuple[float, str]:
    return -place[1], place[0]


def _shelves(suite: Suite) -> dict[str, list[Document]]:
    """The documents that each pair of scope and filter may see: what one query is compared with."""
    shelves: dict[str, list[Document]] = {}
    for query in suite.queries:
        name = _shelf_of(query)
        if name not in shelves:
            shelves[name] = passing(suite, query)
    return {name: documents for name, documents in shelves.items() if documents}


def passing(suite: Suite, query: Query) -> list[Document]:
    """The documents that a query may find: its scope's, and of those what its filter lets through."""
    condition = parse_filter(query.filter)
    visible = (d for d in suite.documents if d.scope == query.scope and d.owner is None)
    return [d for d in visible if evaluate(condition, _fields(d), d.metadata)]


def _shelf_of(query: Query) -> str:
    return json.dumps([query.scope, query.filter], sort_keys=True, default=str)


def _fields(document: Document) -> dict[str, Any]:
    return {"kind": document.kind or "document", "created_at": document.created_at}


def _fused(
    runs: Sequence[Run],
    combine: Callable[[str], Mapping[str, float]],
    k: int,
    system: str,
    settings: Mapping[str, Any],
) -> Run:
    if not runs or len({(run.suite, run.data_hash) for run in runs}) != 1:
        raise InvalidInput(f"runs on {sorted({run.suite for run in runs})!r}: fuse runs of one suite.")
    rankings = {
        query: tuple(Ranked(*place) for place in sorted(combine(query).items(), key=_best_first)[:k])
        for query in runs[0].rankings
    }
    return Run(
        suite=runs[0].suite,
        system=system,
        rankings=rankings,
        settings=dict(settings),
        data_hash=runs[0].data_hash,
        code_version=runs[0].code_version,
    )
