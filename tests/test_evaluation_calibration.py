"""The strength of evidence is fitted to what answers and other hits measure."""

from __future__ import annotations

import random

import pytest

from lore_retriever.errors import InvalidInput
from lore_retriever.evaluation.calibration import Sample, fit_evidence


def drawn(n: int, similarity: float, coverage: float, *, is_answer: bool, group: str = "") -> list[Sample]:
    dice = random.Random(f"{similarity}{coverage}{group}")
    return [
        Sample(dice.gauss(similarity, 0.02), min(1.0, max(0.0, dice.gauss(coverage, 0.2))), is_answer, group)
        for _ in range(n)
    ]


def test_answers_and_strangers_come_apart() -> None:
    fitted = fit_evidence(drawn(200, 0.88, 0.7, is_answer=True) + drawn(200, 0.80, 0.2, is_answer=False))
    assert fitted.similarity_weight > 0
    assert fitted.coverage_weight > 0
    assert fitted.probability(0.88, 0.7) > 0.9
    assert fitted.probability(0.80, 0.2) < 0.1
    # Means 0.08 apart with standard deviations of 0.02: nearly every pair is in order.
    assert fitted.separation > 0.99


def test_a_hit_outside_the_vector_pool_is_judged_by_its_words() -> None:
    samples = drawn(200, 0.88, 0.8, is_answer=True) + drawn(200, 0.80, 0.2, is_answer=False)
    fitted = fit_evidence(samples)
    assert fitted.unknown_similarity == pytest.approx(0.80, abs=0.01)
    assert fitted.probability(None, 0.8) == fitted.probability(fitted.unknown_similarity, 0.8)
    assert fitted.probability(None, 0.9) > fitted.probability(None, 0.1)


def test_unequal_numbers_of_answers_strangers_and_groups_do_not_move_the_middle() -> None:
    answers, strangers = drawn(40, 0.88, 0.5, is_answer=True), drawn(40, 0.80, 0.5, is_answer=False)
    balanced = fit_evidence(answers + strangers)
    skewed = fit_evidence(answers * 20 + strangers)
    assert skewed.probability(0.84, 0.5) == pytest.approx(balanced.probability(0.84, 0.5), abs=0.02)
    assert balanced.probability(0.84, 0.5) == pytest.approx(0.5, abs=0.2)


def test_a_measure_that_speaks_against_answers_is_left_out() -> None:
    fitted = fit_evidence(drawn(200, 0.88, 0.1, is_answer=True) + drawn(200, 0.80, 0.6, is_answer=False))
    assert fitted.coverage_weight == 0
    assert fitted.similarity_weight > 0


def test_too_few_samples_are_refused_with_their_numbers() -> None:
    with pytest.raises(InvalidInput, match="5 answers and 30 hits"):
        fit_evidence(drawn(5, 0.9, 0.5, is_answer=True) + drawn(30, 0.8, 0.5, is_answer=False))
