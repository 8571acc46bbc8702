"""A fused ranking is taken apart into what each leg gave."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lore_retriever.evaluation.legs import Place, combined, leg_ranking, leg_sets, shares_of
from lore_retriever.types import LegName

NOW = datetime(2026, 11, 30, tzinfo=UTC)
WEIGHTS: dict[LegName, float] = {"vector": 1.0, "exact": 1.0, "relaxed": 2.0, "alias": 1.0}


def place(name: str, relevance: float, age_days: int = 0, **ranks: int) -> Place:
    legs: dict[LegName, int] = {leg: ranks[leg] for leg in ("vector", "exact", "relaxed", "alias") if leg in ranks}
    return Place(name, NOW - timedelta(days=age_days), relevance, legs)


def test_a_leg_s_ranking_is_in_order_of_its_ranks() -> None:
    places = [place("b", 0.1, vector=2), place("c", 0.1, exact=1), place("a", 0.1, vector=1)]
    assert leg_ranking(places, "vector") == [("a", 1.0), ("b", 0.5)]
    assert leg_ranking(places, "alias") == []


def test_shares_follow_weight_and_rank_and_the_exact_leg_has_the_rest() -> None:
    # An identifier weighs 4: relevance = 1/61 + 4/61 + 2/62.
    found = place("a", 5 / 61 + 2 / 62, vector=1, exact=1, relaxed=2)
    shares = shares_of(found, WEIGHTS, rrf_k=60)
    assert shares == pytest.approx({"vector": 1 / 61, "exact": 4 / 61, "relaxed": 2 / 62})
    assert shares_of(place("b", 1 / 63, vector=3), WEIGHTS, rrf_k=60) == pytest.approx({"vector": 1 / 63})


def test_a_pair_of_legs_ranks_by_their_shares_alone() -> None:
    places = [
        place("both", 1 / 62 + 2 / 62, vector=2, relaxed=2),
        place("first", 1 / 61, vector=1),
        place("exact only", 4 / 61, exact=1),
    ]
    ranking = combined(places, ("vector", "relaxed"), WEIGHTS, rrf_k=60)
    assert [each for each, _ in ranking] == ["both", "first"]
    assert ranking[0][1] == pytest.approx(3 / 62)


def test_equal_shares_stand_newest_first_and_then_by_id() -> None:
    places = [
        place("old", 1 / 61, age_days=3, vector=1),
        place("z new", 1 / 61, vector=1),
        place("a new", 1 / 61, vector=1),
    ]
    assert [each for each, _ in combined(places, ("vector",), WEIGHTS, rrf_k=60)] == ["a new", "z new", "old"]


def test_pairs_are_formed_of_the_legs_that_found_anything() -> None:
    assert leg_sets({"relaxed", "vector"}) == {"vector+relaxed": ("vector", "relaxed")}
    four = leg_sets({"vector", "exact", "relaxed", "alias"})
    assert len(four) == 6 + 4
    assert four["all but alias"] == ("vector", "exact", "relaxed")
