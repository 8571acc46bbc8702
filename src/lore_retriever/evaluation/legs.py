"""Takes a fused ranking apart: what each leg, and each set of legs, would have answered by itself. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations

from lore_retriever.types import LEGS, LegName

__all__ = ["Place", "combined", "leg_ranking", "leg_sets", "shares_of"]


@dataclass(frozen=True, slots=True)
class Place:
    """One memory that at least one leg proposed.

    Attributes:
        created_at: Breaks ties of score: the newer first, then the smaller id.
        relevance: Fused reciprocal ranks over all legs.
        ranks: Its place in each leg that proposed it, from 1.
    """

    id: str
    created_at: datetime
    relevance: float
    ranks: Mapping[LegName, int]


def leg_ranking(places: Iterable[Place], leg: LegName) -> list[tuple[str, float]]:
    """What one leg proposed, best first; the score is the reciprocal of the rank."""
    ranked = sorted((place.ranks[leg], place.id) for place in places if leg in place.ranks)
    return [(each, 1 / rank) for rank, each in ranked]


def combined(
    places: Iterable[Place], legs: Collection[LegName], weights: Mapping[LegName, float], *, rrf_k: int
) -> list[tuple[str, float]]:
    """What these legs together would have answered, by their shares of the relevance."""
    scored = []
    for place in places:
        shares = shares_of(place, weights, rrf_k=rrf_k)
        if any(leg in shares for leg in legs):
            scored.append((place, sum(shares.get(leg, 0.0) for leg in legs)))
    by_age = sorted(scored, key=lambda item: item[0].id)
    by_age.sort(key=lambda item: item[0].created_at, reverse=True)
    # Rounded, since shares that are taken out of a sum differ in the last digits.
    by_age.sort(key=lambda item: round(item[1], 12), reverse=True)
    return [(place.id, score) for place, score in by_age]


def shares_of(place: Place, weights: Mapping[LegName, float], *, rrf_k: int) -> dict[LegName, float]:
    """How much each leg added to a memory's relevance.

    The exact leg weighs an identifier more than plain words, which its rank does not show; so its share is
    what the other legs leave over.
    """
    others: dict[LegName, float] = {
        leg: weights[leg] / (rrf_k + rank) for leg, rank in place.ranks.items() if leg != "exact"
    }
    if "exact" not in place.ranks:
        return others
    return {**others, "exact": place.relevance - sum(others.values())}


def leg_sets(present: Collection[LegName]) -> dict[str, tuple[LegName, ...]]:
    """Every pair of the legs that found anything, and all of them but one, by the name a table shows."""
    legs = [leg for leg in LEGS if leg in present]
    pairs: dict[str, tuple[LegName, ...]] = {"+".join(pair): pair for pair in combinations(legs, 2)}
    if len(legs) < 4:
        return pairs
    without: dict[str, tuple[LegName, ...]] = {f"all but {leg}": _without(legs, leg) for leg in legs}
    return pairs | without


def _without(legs: Sequence[LegName], leg: LegName) -> tuple[LegName, ...]:
    return tuple(each for each in legs if each != leg)
