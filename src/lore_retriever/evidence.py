"""How strong the evidence is that a hit answers its query. Pure; it states, it never filters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import log
from typing import Any, Self

from lore_retriever.types import Strength

__all__ = ["SAME_WORDS", "Evidence", "is_name"]

SAME_WORDS = 0.6
"""Share of words that two texts must have in common to be called near duplicates, whatever their vectors say."""


# Fitted to what whole results say, on LoCoMo, alert names and texts, advisory ids, XQuAD and SciFact, each asked its own
# questions and those of the others (`benchmarks/evidence.py` prints what comes of it).
_SHIPPED: dict[str, dict[str, float]] = {
    "intfloat/multilingual-e5-small": {
        "similarity_weight": 55.0,
        "coverage_weight": 1.0,
        "bias": -45.4,
        "unknown_similarity": 0.80,
    },
    # `benchmarks/evidence.py --calibrate` on advisory ids, SciFact and runbooks
    "sentence-transformers/all-MiniLM-L6-v2": {
        "similarity_weight": 19.2,
        "coverage_weight": 14.3,
        "bias": -11.5,
        "unknown_similarity": 0.30,
    },
}

_SAME_ID = 1000
"""Least score of the exact leg for a memory whose id is the query."""

_MOSTLY = 0.5
"""Share of a query's idf that an exact match must carry to be strong evidence by itself: a year is an identifier too."""

_NAME = re.compile(r"(?=\S*(?:\d|[a-z][A-Z]|\w[-_./:@#]\w))[!-~]{3,}")


def is_name(query: str) -> bool:
    """Whether a query is one name (`ERR-4471`, `src/app.py`, `KubePodCrashLooping`) and no word of a language."""
    return _NAME.fullmatch(query.strip()) is not None


@dataclass(frozen=True, slots=True)
class Evidence:
    """A logistic score over what the legs measured, with three thresholds; calibrated per embedding space.

    Attributes:
        similarity_weight: Weight of the cosine similarity of the closest window.
        coverage_weight: Weight of the share of the query's idf that the hit's words carry.
        bias: Added to both.
        weak, medium, strong: Least probability for each word.
        near_duplicate: Least cosine of two stored texts that may say the same.
        unknown_similarity: Stands for the cosine of a hit that the vector leg did not propose.
    """

    similarity_weight: float = 8.0
    coverage_weight: float = 3.0
    bias: float = -5.0
    weak: float = 0.25
    medium: float = 0.5
    strong: float = 0.75
    near_duplicate: float = 0.9
    unknown_similarity: float = 0.0

    @classmethod
    def of_space(cls, calibration: dict[str, Any] | None, *, model: str = "") -> Self:
        """The calibration recorded with a space, else the one shipped for its model, else uncalibrated defaults."""
        return cls(**(calibration or _SHIPPED.get(model, {})))

    def is_near_duplicate(self, similarity: float, resemblance: float) -> bool:
        """Whether two stored texts say nearly the same: close vectors and mostly the same words.

        Args:
            resemblance: Share of their words that both have.
        """
        return similarity >= self.near_duplicate and resemblance >= SAME_WORDS

    def strength(
        self,
        *,
        similarity: float | None,
        coverage: float | None,
        exact_score: float | None,
        alias: str | None,
        asked_name: bool = False,
    ) -> Strength:
        """One word for what the legs measured of one hit.

        The memory's id, an alias, a name found as typed, and an exact match that carries most of the query are strong
        evidence by themselves. Where a name was asked for and not found as typed, its likeness to others is weak at best:
        models find all names alike.

        Args:
            asked_name: Whether the query is one name and nothing else.
        """
        exact = exact_score or 0.0
        if alias is not None or exact >= _SAME_ID:
            return "strong"
        if exact >= 1 and (asked_name or (coverage or 0) >= _MOSTLY):
            return "strong"
        known = self.unknown_similarity if similarity is None else similarity
        logit = self.similarity_weight * known + self.coverage_weight * (coverage or 0) + self.bias
        if asked_name and (coverage or 0) < _MOSTLY:
            return "weak" if logit >= _logit(self.weak) else "none"
        if logit >= _logit(self.strong):
            return "strong"
        if logit >= _logit(self.medium):
            return "medium"
        return "weak" if logit >= _logit(self.weak) else "none"


def _logit(p: float) -> float:
    return log(p / (1 - p))
