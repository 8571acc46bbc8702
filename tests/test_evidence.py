"""How strong the evidence is: one word for what the legs measured."""

from __future__ import annotations

from typing import Any

import pytest

from lore_retriever.evidence import Evidence, is_name

OFFLINE = Evidence.of_space(None, model="intfloat/multilingual-e5-small")


@pytest.mark.parametrize(
    ("similarity", "coverage", "word"),
    [
        (0.90, 0.8, "strong"),
        (0.83, 0.2, "medium"),
        (0.81, 0.1, "weak"),
        (0.78, 0.0, "none"),
        (None, 0.2, "none"),
    ],
)
def test_the_offline_model_s_calibration_tells_four_strengths(
    similarity: float | None, coverage: float, word: str
) -> None:
    assert OFFLINE.strength(similarity=similarity, coverage=coverage, exact_score=None, alias=None) == word


def judged(
    *, exact_score: float | None = None, coverage: float | None = None, similarity: float = 0.1, **fields: Any
) -> str:
    given = {"alias": None, **fields}
    return OFFLINE.strength(similarity=similarity, coverage=coverage, exact_score=exact_score, **given)


def test_an_id_an_alias_a_name_as_typed_and_most_of_the_query_are_strong_evidence_by_themselves() -> None:
    assert judged(exact_score=1000.0) == "strong"
    assert judged(alias="k8s") == "strong"
    assert judged(exact_score=4.2, asked_name=True) == "strong"
    assert judged(exact_score=1.2, coverage=0.9) == "strong"


def test_a_year_inside_a_question_proves_nothing() -> None:
    assert judged(exact_score=4.2, coverage=0.25, similarity=0.81) == "weak"
    assert judged(exact_score=4.2, coverage=None, similarity=0.79) == "none"


def test_a_name_that_was_not_found_as_typed_has_weak_evidence_at_best() -> None:
    assert judged(similarity=0.88) == "strong"
    assert judged(similarity=0.88, asked_name=True) == "weak"
    assert judged(similarity=0.78, asked_name=True) == "none"
    assert judged(similarity=0.88, asked_name=True, coverage=0.9) == "strong"  # in another spelling


@pytest.mark.parametrize(
    "text", ["ERR-4471", "KubePodCrashLooping", "src/app.py", "v1.2.3", "ana@example.org", "web_01"]
)
def test_a_name_is_told_from_words(text: str) -> None:
    assert is_name(text)
    assert is_name(f" {text}\n")
    assert not is_name(f"why {text}")


@pytest.mark.parametrize(
    "text", ["", "deployment", "Kubernetes", "NATO", "\u90e8\u7f72\u65b9\u6848", "Stra\u00dfe", "why?", "-"]
)
def test_a_word_is_no_name(text: str) -> None:
    assert not is_name(text)


def test_minilm_ships_a_calibration_of_its_own() -> None:
    minilm = Evidence.of_space(None, model="sentence-transformers/all-MiniLM-L6-v2")
    said = [
        minilm.strength(similarity=similarity, coverage=coverage, exact_score=None, alias=None)
        for similarity, coverage in ((0.7, 0.8), (0.6, 0.1), (0.25, 0.1), (None, 0.9))
    ]
    assert said == ["strong", "strong", "none", "strong"]


def test_what_a_space_records_goes_before_what_ships() -> None:
    recorded = Evidence.of_space(
        {"similarity_weight": 0.0, "coverage_weight": 0.0, "bias": 9.0}, model="intfloat/multilingual-e5-small"
    )
    assert recorded.strength(similarity=0.0, coverage=0.0, exact_score=None, alias=None) == "strong"
