"""How strong the evidence is: one word for what the legs measured."""

from __future__ import annotations

import pytest

from lore_retriever.evidence import Evidence

OFFLINE = Evidence.of_space(None, model="intfloat/multilingual-e5-small")


@pytest.mark.parametrize(
    ("similarity", "coverage", "word"),
    [(0.90, 0.8, "strong"), (0.83, 0.2, "medium"), (0.81, 0.1, "weak"), (0.78, 0.0, "none"), (None, 0.2, "none")],
)
def test_the_offline_model_s_calibration_tells_four_strengths(
    similarity: float | None, coverage: float, word: str
) -> None:
    assert OFFLINE.strength(similarity=similarity, coverage=coverage, exact_score=None, alias=None) == word


def test_an_identifier_or_an_alias_is_strong_evidence_by_itself() -> None:
    assert OFFLINE.strength(similarity=0.1, coverage=None, exact_score=1.2, alias=None) == "strong"
    assert OFFLINE.strength(similarity=0.1, coverage=None, exact_score=None, alias="k8s") == "strong"


def test_what_a_space_records_goes_before_what_ships() -> None:
    recorded = Evidence.of_space(
        {"similarity_weight": 0.0, "coverage_weight": 0.0, "bias": 9.0}, model="intfloat/multilingual-e5-small"
    )
    assert recorded.strength(similarity=0.0, coverage=0.0, exact_score=None, alias=None) == "strong"
