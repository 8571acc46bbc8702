"""How strong the evidence is that a hit answers its query. Pure; it states, it never filters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from lore_retriever.types import Strength

__all__ = ["SAME_WORDS", "Evidence"]

SAME_WORDS = 0.6
"""Share of words that two texts must have in common to be called near duplicates, whatever their vectors say."""


# Fitted as `lore-retriever eval calibrate` does, on answers of LoCoMo, alert names and texts, advisory ids and XQuAD against
# questions asked of another one's corpus: at least medium for 0.95 to 1.00 of answers in one language (0.3 across
# languages, whose cosines are those of no answers) and for 0.02 to 0.13 of questions without one.
_SHIPPED: dict[str, dict[str, float]] = {
    "intfloat/multilingual-e5-small": {
        "similarity_weight": 55.0,
        "coverage_weight": 1.0,
        "bias": -45.4,
        "unknown_similarity": 0.80,
    },
}


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
    ) -> Strength:
        """One word for what the legs measured of one hit.

        An identifier, an id, or all words of the query found as typed is strong evidence by itself.
        """
        if (exact_score is not None and exact_score >= 1) or alias is not None:
            return "strong"
        known = self.unknown_similarity if similarity is None else similarity
        logit = self.similarity_weight * known + self.coverage_weight * (coverage or 0) + self.bias
        if logit >= _logit(self.strong):
            return "strong"
        if logit >= _logit(self.medium):
            return "medium"
        return "weak" if logit >= _logit(self.weak) else "none"


def _logit(p: float) -> float:
    from math import log

    return log(p / (1 - p))
