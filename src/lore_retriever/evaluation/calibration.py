"""Fits the strength of evidence to data: what answers measure, against what questions without an answer measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lore_retriever.errors import InvalidInput

__all__ = ["Calibration", "Sample", "fit_evidence"]

_LEAST = 20
"""Samples of either kind below which a fit would say more about chance than about the model."""

_STEPS = 50
_PENALTY = 1e-3


@dataclass(frozen=True, slots=True)
class Sample:
    """What one hit measured, and whether it answered its query.

    Attributes:
        similarity: Cosine of its closest window; None where the vector leg did not propose it.
        coverage: Share of the query's idf that its words carry, 0 to 1; None where they carry none.
        group: Samples of one group count together as much as those of any other.
    """

    similarity: float | None
    coverage: float | None
    is_answer: bool
    group: str = ""


@dataclass(frozen=True, slots=True)
class Calibration:
    """`P(answer) = sigmoid(similarity_weight · similarity + coverage_weight · coverage + bias)`.

    Attributes:
        unknown_similarity: What stands for the cosine of a hit that the vector leg did not propose: the
            middle of those that answer nothing.
        separation: Chance that an answer scores above what is none (area under the ROC curve).
    """

    similarity_weight: float
    coverage_weight: float
    bias: float
    unknown_similarity: float
    separation: float

    def probability(self, similarity: float | None, coverage: float | None) -> float:
        """How likely a hit with these measures answers its query, in [0, 1]."""
        from math import exp

        known = self.unknown_similarity if similarity is None else similarity
        logit = self.similarity_weight * known + self.coverage_weight * (coverage or 0.0) + self.bias
        return 1 / (1 + exp(-max(-500.0, min(500.0, logit))))


def fit_evidence(samples: Sequence[Sample]) -> Calibration:
    """A logistic regression over both measures, answers and the rest counting the same, whatever their number.

    Neither weight comes out negative: a measure that speaks against answers in these samples is left out.

    Raises:
        InvalidInput: If there are fewer than 20 samples of either kind, or none with a cosine that is no answer.
    """
    import numpy as np

    answers = sum(sample.is_answer for sample in samples)
    strangers = [s.similarity for s in samples if not s.is_answer and s.similarity is not None]
    if min(answers, len(samples) - answers) < _LEAST or not strangers:
        raise InvalidInput(
            f"{answers} answers and {len(samples) - answers} hits without one: calibrate on {_LEAST} of each or more."
        )
    unknown = float(np.median(strangers))
    rows = [(unknown if s.similarity is None else s.similarity, s.coverage or 0.0) for s in samples]
    measured = np.asarray(rows, dtype=np.float64)
    labels = np.asarray([sample.is_answer for sample in samples], dtype=np.float64)
    weights = np.asarray(_group_weights(samples), dtype=np.float64)
    used = [0, 1]
    fitted = _logistic(measured, labels, weights)
    if (negative := [i for i in used if fitted[i] < 0]) and len(negative) < len(used):
        used = [i for i in used if i not in negative]
        fitted = _logistic(measured[:, used], labels, weights)
    found = {0: 0.0, 1: 0.0} | {i: max(0.0, value) for i, value in zip(used, fitted[:-1], strict=True)}
    scores = measured @ np.asarray([found[0], found[1]])
    return Calibration(found[0], found[1], fitted[-1], unknown, _separation(scores.tolist(), labels.tolist()))


def _group_weights(samples: Sequence[Sample]) -> list[float]:
    sizes: dict[tuple[str, bool], int] = {}
    for sample in samples:
        key = (sample.group, sample.is_answer)
        sizes[key] = sizes.get(key, 0) + 1
    kinds = {kind: sum(1 for _, answer in sizes if answer == kind) for kind in (True, False)}
    return [100.0 / (sizes[s.group, s.is_answer] * kinds[s.is_answer]) for s in samples]


def _logistic(measured: object, labels: object, weights: object) -> list[float]:
    """Weights and, last, the bias, by Newton's method; measures are centred so that it converges."""
    import numpy as np

    x, y, w = np.asarray(measured), np.asarray(labels), np.asarray(weights)
    middle = x.mean(axis=0)
    design = np.column_stack([x - middle, np.ones(len(x))])
    penalty = _PENALTY * np.eye(design.shape[1])
    found = np.zeros(design.shape[1])
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(design @ found, -30, 30)))
        slope = design.T @ (w * (y - chance)) - penalty @ found
        curve = (design * (w * chance * (1 - chance))[:, None]).T @ design + penalty
        found = found + np.clip(np.linalg.solve(curve, slope), -20, 20)
    bias = float(found[-1] - found[:-1] @ middle)
    return [*(float(value) for value in found[:-1]), bias]


def _separation(scores: Sequence[float], labels: Sequence[float]) -> float:
    """Share of pairs in which the answer scores above the other, ties counting half."""
    import numpy as np

    order, label = np.asarray(scores), np.asarray(labels) > 0
    good, bad = np.sort(order[label]), np.sort(order[~label])
    below = np.searchsorted(bad, good, side="left") + np.searchsorted(bad, good, side="right")
    return float(below.mean() / (2 * len(bad)))
