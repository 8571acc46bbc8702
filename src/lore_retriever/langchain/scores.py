"""Relevance on LangChain's scale, 0 to 1. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from lore_retriever.config import FusionConfig
from lore_retriever.types import Hit, LegName, Recall

__all__ = ["clamped", "relevance_scores"]


def clamped(score: float) -> float:
    """`score`, brought between 0 and 1."""
    return min(1.0, max(0.0, score))


def relevance_scores(found: Recall, config: FusionConfig) -> list[float]:
    """The relevance of each hit as a share of the best that the legs which matched could give; 1 is best.

    It grows with `Hit.relevance`, and like it is made of ranks: it says where a hit stands among what was found, not
    how well it answers. `lore_similarity` and `lore_strength` speak of that.

    Args:
        found: The result of one query.
        config: The knobs it was fused with.
    """
    weights = _weights(config)
    best = sum(_best_weight(leg, found, config, weights) for leg in weights if _matched(leg, found)) / (
        config.rrf_k + 1
    )
    return [clamped(hit.relevance / best) if best > 0 else 0.0 for hit in found.hits]


def _weights(config: FusionConfig) -> dict[LegName, float]:
    return {
        "vector": config.vector_weight,
        "exact": config.exact_weight,
        "relaxed": config.relaxed_weight,
        "alias": config.alias_weight,
    }


def _matched(leg: LegName, found: Recall) -> bool:
    return any(leg in hit.legs for hit in found.hits)


def _best_weight(leg: LegName, found: Recall, config: FusionConfig, weights: Mapping[LegName, float]) -> float:
    """A leg's weight; that of identifiers for the exact leg where one matched, which is read off the relevance."""
    if leg != "exact":
        return weights[leg]
    return max(
        [weights[leg], *(_exact_weight(hit, config, weights) for hit in found.hits if leg in hit.legs)],
    )


def _exact_weight(hit: Hit, config: FusionConfig, weights: Mapping[LegName, float]) -> float:
    """What the exact leg counted for in one hit: what the other legs do not account for."""
    others = sum(weights[leg] / (config.rrf_k + match.rank) for leg, match in hit.legs.items() if leg != "exact")
    return (hit.relevance - others) * (config.rrf_k + hit.legs["exact"].rank)
