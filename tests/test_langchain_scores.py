"""Relevance on LangChain's scale, and hits as flat metadata, worked out by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, get_args

import pytest

from lore_retriever import FusionConfig, Hit, InvalidInput, LegMatch, Recall
from lore_retriever.annotations import DERIVED_KEYS, WRITE_KEYS, annotations, refuse_excerpt, reserved_fields
from lore_retriever.diversity import diverse_order
from lore_retriever.langchain.documents import aligned_ids
from lore_retriever.langchain.scores import relevance_scores
from lore_retriever.types import LegName

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def hit(rank: int, relevance: float, **legs: int) -> Hit:
    return Hit(
        id=f"m{rank}",
        rank=rank,
        text="text",
        score=relevance,
        relevance=relevance,
        recency=1,
        reinforcement=1,
        truncated=False,
        full_length=4,
        span=(0, 4),
        legs={leg: LegMatch(rank=legs[leg]) for leg in get_args(LegName) if leg in legs},
        kind="fact",
        visibility="private",
        owner="ana",
        pinned=False,
        metadata={},
        created_at=NOON,
        updated_at=NOON,
    )


def scores(*hits: Hit, **knobs: Any) -> list[float]:
    return relevance_scores(Recall(id="r", queries=("q",), hits=hits), FusionConfig(**knobs))


def test_first_in_every_leg_that_matched_is_1() -> None:
    assert scores(hit(1, 1 / 61, vector=1)) == [1]
    assert scores(hit(1, 2 / 61, vector=1, relaxed=1), hit(2, 1 / 62, vector=2)) == pytest.approx([1, 61 / 62 / 2])


def test_a_leg_that_matched_another_hit_counts_in_the_best_possible() -> None:
    assert scores(hit(1, 1 / 61, vector=1), hit(2, 1 / 61, alias=1)) == pytest.approx([0.5, 0.5])


def test_weights_and_the_constant_are_those_of_the_search() -> None:
    knobs = {"rrf_k": 9, "vector_weight": 2, "relaxed_weight": 3}
    assert scores(hit(1, 2 / 10 + 3 / 11, vector=1, relaxed=2), **knobs) == pytest.approx([(0.2 + 3 / 11) / 0.5])


def test_an_identifier_raises_the_best_possible_by_its_own_weight() -> None:
    named = hit(1, 4 / 61 + 1 / 70, exact=1, vector=10)
    found = scores(named, hit(2, 1 / 61, vector=1))
    assert found == pytest.approx([(4 / 61 + 1 / 70) / (5 / 61), (1 / 61) / (5 / 61)])
    assert found[0] < 1


def test_nothing_found_has_no_scores_and_legs_switched_off_no_division() -> None:
    assert scores() == []
    assert scores(hit(1, 0.0, vector=1), vector_weight=0) == [0]


def test_every_key_that_is_written_on_a_document_is_known_when_it_comes_back() -> None:
    found = Recall(id="r", queries=("q",), hits=(hit(1, 1.0, vector=1),), omitted=3, degraded="no model")
    said = annotations(found.hits[0], found)
    assert (said["lore_omitted"], said["lore_degraded"], said["lore_alias_rank"]) == (3, "no model", None)
    assert set(said) <= DERIVED_KEYS | set(WRITE_KEYS)
    kept, fields = reserved_fields({**said, "team": "infra"})
    assert kept == {"team": "infra"}
    assert fields == {
        "kind": "fact",
        "visibility": "private",
        "pinned": False,
        "created_at": "2026-01-01T12:00:00+00:00",
    }
    quiet = found.model_copy(update={"omitted": 0, "degraded": None})
    assert {"lore_omitted", "lore_degraded"}.isdisjoint(annotations(found.hits[0], quiet))


def test_one_alias_may_be_written_as_a_string_and_null_is_not_given() -> None:
    assert reserved_fields({"lore_aliases": "k8s", "lore_source": None}) == ({}, {"aliases": ("k8s",)})
    with pytest.raises(InvalidInput, match="mapping"):
        reserved_fields([("a", 1)])  # type: ignore[arg-type]


def test_only_an_excerpt_under_its_memory_s_own_id_is_refused() -> None:
    cut = {"lore_truncated": True, "lore_id": "m", "lore_full_length": 5000}
    with pytest.raises(InvalidInput, match="excerpt of 5000"):
        refuse_excerpt("m", cut)
    refuse_excerpt("other", cut)
    refuse_excerpt(None, cut)
    refuse_excerpt("m", {"lore_truncated": False, "lore_id": "m"})


def test_each_text_gets_its_id_though_one_is_stored_for_several() -> None:
    assert aligned_ids(["a", None, "a", "b"], ["a", "made", "b"]) == ["a", "made", "a", "b"]


def test_diversity_picks_the_nearest_first_and_then_the_least_alike() -> None:
    near, twin, far = [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]
    assert diverse_order([1.0, 0.0], [near, twin, far], k=3, lambda_mult=0.4) == [0, 2, 1]
    assert diverse_order([1.0, 0.0], [near, twin, far], k=2, lambda_mult=1) == [0, 1]
    assert diverse_order([1.0, 0.0], [far, None, near], k=3, lambda_mult=0.5) == [2, 0, 1]
    assert diverse_order([1.0, 0.0], [], k=3, lambda_mult=0.5) == []
    for wrong in (-0.1, 1.1, True, "x", float("nan")):
        with pytest.raises(InvalidInput, match="lambda_mult"):
            diverse_order([1.0], [[1.0]], k=1, lambda_mult=wrong)  # type: ignore[arg-type]
