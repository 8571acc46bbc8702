"""How strong the evidence is that a hit answers its query. Pure; it states, it never filters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from lore_retriever.types import Strength

__all__ = ["Evidence"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """A logistic score over what the legs measured, with three thresholds; calibrated per embedding space.

    Attributes:
        similarity_weight: Weight of the cosine similarity of the closest window.
        coverage_weight: Weight of the share of the query's idf that the hit's words carry.
        bias: Added to both.
        weak, medium, strong: Least probability for each word.
    """

    similarity_weight: float = 8.0
    coverage_weight: float = 3.0
    bias: float = -5.0
    weak: float = 0.25
    medium: float = 0.5
    strong: float = 0.75

    @classmethod
    def of_space(cls, calibration: dict[str, Any] | None) -> Self:
        """The calibration recorded with a space, or the uncalibrated defaults."""
        return cls(**calibration) if calibration else cls()

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
        logit = self.similarity_weight * (similarity or 0) + self.coverage_weight * (coverage or 0) + self.bias
        if logit >= _logit(self.strong):
            return "strong"
        if logit >= _logit(self.medium):
            return "medium"
        return "weak" if logit >= _logit(self.weak) else "none"


def _logit(p: float) -> float:
    from math import log

    return log(p / (1 - p))
