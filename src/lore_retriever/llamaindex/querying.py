"""What a `VectorStoreQuery` asks for, and its result. Pure: the search itself is an operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from llama_index.core.vector_stores.types import MetadataFilters, VectorStoreQuery, VectorStoreQueryMode

from lore_retriever.errors import InvalidInput
from lore_retriever.filters import parse_metadata_filters
from lore_retriever.filters.tree import And, Condition, Filter, Not, Or
from lore_retriever.inputs import checked_limit
from lore_retriever.limits import MAX_LIMIT
from lore_retriever.llamaindex.nodes import REF_DOC_KEY
from lore_retriever.llamaindex.operations import Legs
from lore_retriever.operations.adapters import checked_ids
from lore_retriever.types import Hit, LegName, Recall

__all__ = ["Depths", "Plan", "node_filter", "planned", "refined"]

Mode: TypeAlias = Literal["hybrid", "vector"]

_HYBRID: Final = (VectorStoreQueryMode.HYBRID, VectorStoreQueryMode.SEMANTIC_HYBRID)
_TEXT: Final = (VectorStoreQueryMode.TEXT_SEARCH, VectorStoreQueryMode.SPARSE)
_KNOWN: Final = (VectorStoreQueryMode.DEFAULT, *_HYBRID, *_TEXT, VectorStoreQueryMode.MMR)

_DOCUMENT_KEYS: Final = ("ref_doc_id", "doc_id", "document_id")
"""Names under which LlamaIndex's own stores let a filter ask for the source document."""

_LEXICAL: Final[tuple[LegName, ...]] = ("exact", "relaxed", "alias")

_RRF_K: Final = 60

_POOL_MULTIPLIER: Final = 4
"""Hits fetched for each one returned where this adapter weighs the legs itself; the legs' own multiplier."""


@dataclass(frozen=True, slots=True)
class Depths:
    """How many of its candidates each side may propose."""

    vector: int
    text: int


@dataclass(frozen=True, slots=True)
class Plan:
    """One search, and what is done with its hits.

    Attributes:
        text: The query, blank if there is none.
        vector: The query's vector, if it is to be used.
        legs: Which legs propose.
        fetch: Hits to ask the database for.
        keep: Hits to return.
        alpha: Weight of the vector leg against the text legs, strictly between 0 and 1; None leaves the store's.
        diversity: For maximal marginal relevance: weight of likeness to the query against unlikeness to other hits.
    """

    text: str
    vector: Sequence[float] | None
    legs: Legs
    fetch: int
    keep: int
    filter: Filter | None
    alpha: float | None = None
    depths: Depths | None = None
    diversity: float | None = None


def node_filter(
    filters: MetadataFilters | None, *, node_ids: Sequence[str] | None = None, doc_ids: Sequence[str] | None = None
) -> Filter | None:
    """All conditions as one tree; empty lists of ids are no condition, as in LlamaIndex's own retrievers.

    Raises:
        InvalidInput: Naming the operator, key, value or id that cannot be used.
    """
    tree = parse_metadata_filters(filters)
    parts: list[Filter] = [] if tree is None else [_with_document_keys(tree)]
    if node_ids:
        parts.append(Condition("lore_id", "$in", tuple(checked_ids(node_ids))))
    if doc_ids:
        parts.append(Condition(REF_DOC_KEY, "$in", tuple(checked_ids(doc_ids))))
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _with_document_keys(tree: Filter) -> Filter:
    """The tree, where `ref_doc_id` and its synonyms ask for the source document unless metadata has such a key."""
    match tree:
        case And(children):
            return And(tuple(map(_with_document_keys, children)))
        case Or(children):
            return Or(tuple(map(_with_document_keys, children)))
        case Not(child):
            return Not(_with_document_keys(child))
        case Condition(key, operator, operand) if key in _DOCUMENT_KEYS:
            own = Condition(key, "$exists", True)
            return Or((And((own, tree)), And((Not(own), Condition(REF_DOC_KEY, operator, operand)))))
    return tree


def planned(query: VectorStoreQuery, options: Mapping[str, Any], *, default_mode: Mode, uses_embeddings: bool) -> Plan:
    """What to search for.

    Args:
        options: Keyword arguments of `query`.
        uses_embeddings: Whether the host's vectors are known to be of the store's space.

    Raises:
        InvalidInput: Naming the field, the value, and what can be used.
    """
    mode = _mode(query, default_mode)
    text = query.query_str or ""
    has_text = bool(text.strip())
    if not has_text and (mode in _TEXT or query.query_embedding is None):
        raise InvalidInput(f"the query has no query_str{'' if mode in _TEXT else ' and no query_embedding'}; give one.")
    _refuse_idle_fields(query, options, mode)
    vector = query.query_embedding if uses_embeddings or not has_text else None
    conditions = node_filter(query.filters, node_ids=query.node_ids, doc_ids=query.doc_ids)
    keep = checked_limit(query.similarity_top_k)
    if mode in _TEXT:
        keep = checked_limit(query.sparse_top_k or keep)
        return Plan(text, None, "text", keep, keep, conditions)
    if mode == VectorStoreQueryMode.MMR:
        legs: Legs = "vector" if default_mode == "vector" else "all"
        return _diverse(query, options, Plan(text, vector, legs, keep, keep, conditions))
    if mode == VectorStoreQueryMode.DEFAULT:
        return Plan(text, vector, "vector", keep, keep, conditions)
    return _hybrid(query, Plan(text, vector, "all", keep, keep, conditions))


def _mode(query: VectorStoreQuery, default_mode: Mode) -> VectorStoreQueryMode:
    """The mode, DEFAULT read as the store's own."""
    mode = query.mode
    if mode not in _KNOWN:
        known = ", ".join(each.value for each in _KNOWN)
        raise InvalidInput(f"mode is {getattr(mode, 'value', mode)!r}; this store knows {known}.")
    if mode == VectorStoreQueryMode.DEFAULT and default_mode == "hybrid":
        return VectorStoreQueryMode.HYBRID
    return VectorStoreQueryMode(mode)


_OPTIONS: Final = ("mmr_threshold", "mmr_prefetch_factor", "mmr_prefetch_k")


def _refuse_idle_fields(query: VectorStoreQuery, options: Mapping[str, Any], mode: VectorStoreQueryMode) -> None:
    """Refuse what would have no effect."""
    if unknown := [name for name in options if name not in _OPTIONS]:
        raise InvalidInput(f"query knows no argument {unknown[0]!r}; it takes {', '.join(_OPTIONS)}.")
    for name in ("output_fields", "embedding_field"):
        if getattr(query, name):
            raise InvalidInput(
                f"{name} is {getattr(query, name)!r}; nodes come back with all of their metadata and one vector. Leave it out."
            )
    modes: dict[str, tuple[VectorStoreQueryMode, ...]] = {
        "alpha": _HYBRID,
        "hybrid_top_k": _HYBRID,
        "sparse_top_k": (*_HYBRID, *_TEXT),
        "mmr_threshold": (VectorStoreQueryMode.MMR,),
    }
    given = {name: getattr(query, name) for name in modes} | {
        name: value for name, value in options.items() if value is not None
    }
    for name, value in given.items():
        fitting = modes.get(name, modes["mmr_threshold"])
        if value is not None and mode not in fitting:
            raise InvalidInput(
                f"{name} is {value!r}, which has no meaning in mode {mode.value!r}; it works in "
                f"{', '.join(each.value for each in fitting)}."
            )


def _share(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidInput(f"{name} is {value!r}; give a number from 0 to 1.")
    return float(value)


def _hybrid(query: VectorStoreQuery, plan: Plan) -> Plan:
    keep = checked_limit(query.hybrid_top_k or plan.keep)
    alpha = None if query.alpha is None else _share("alpha", query.alpha)
    if alpha in (0.0, 1.0):
        legs: Legs = "vector" if alpha else "text"
        depth = (query.similarity_top_k if alpha else query.sparse_top_k) if query.hybrid_top_k else None
        fetch = min(keep, depth or keep)
        return Plan(plan.text, plan.vector if alpha else None, legs, fetch, fetch, plan.filter)
    depths = None
    if query.hybrid_top_k or query.sparse_top_k:
        depths = Depths(plan.keep, checked_limit(query.sparse_top_k or plan.keep))
    wide = alpha is not None or depths is not None
    deepest = max(keep, depths.vector, depths.text) if depths else keep
    fetch = min(MAX_LIMIT, _POOL_MULTIPLIER * deepest) if wide else keep
    return Plan(plan.text, plan.vector, "all", fetch, keep, plan.filter, alpha, depths)


def _diverse(query: VectorStoreQuery, options: Mapping[str, Any], plan: Plan) -> Plan:
    given = options.get("mmr_threshold")
    threshold = query.mmr_threshold if given is None else given
    factor, exact = options.get("mmr_prefetch_factor"), options.get("mmr_prefetch_k")
    if factor is not None and exact is not None:
        raise InvalidInput("mmr_prefetch_factor and mmr_prefetch_k were both given; give one of them.")
    if exact is None:
        if factor is not None and (isinstance(factor, bool) or not isinstance(factor, int | float) or not factor >= 1):
            raise InvalidInput(f"mmr_prefetch_factor is {factor!r}; give a number of 1 or more.")
        exact = min(MAX_LIMIT, int(plan.keep * (_POOL_MULTIPLIER if factor is None else factor)))
    fetch = max(plan.keep, checked_limit(exact))
    diversity = 0.5 if threshold is None else _share("mmr_threshold", threshold)
    return Plan(plan.text, plan.vector, plan.legs, fetch, plan.keep, plan.filter, diversity=diversity)


def refined(found: Recall, plan: Plan) -> Recall:
    """The hits to return, of those that were fetched: weighed by `alpha`, or kept within the depths."""
    if plan.alpha is not None:
        return _reweighed(found, plan, plan.alpha)
    if plan.depths is not None:
        return _within_depths(found, plan.depths, plan.keep)
    return found if plan.diversity is None else _renumbered(found, found.hits, plan.keep)


def _lexical_ranks(hits: Sequence[Hit], depth: int) -> dict[int, int]:
    """Place of each hit (by its place in `hits`) among those the text legs propose, by their ranks fused."""
    sums = {
        place: sum(1 / (_RRF_K + hit.legs[leg].rank) for leg in _LEXICAL if leg in hit.legs)
        for place, hit in enumerate(hits)
    }
    found = sorted((place for place, total in sums.items() if total), key=lambda place: (-sums[place], place))
    return {place: rank for rank, place in enumerate(found[:depth], start=1)}


def _reweighed(found: Recall, plan: Plan, alpha: float) -> Recall:
    """The hits fused anew: `alpha / (60 + vector rank) + (1 - alpha) / (60 + text rank)`, times both multipliers.

    The text rank is the place among what the text legs propose, their ranks fused.
    """
    depths = plan.depths or Depths(plan.fetch, plan.fetch)
    text_ranks = _lexical_ranks(found.hits, depths.text)
    weighed = []
    for place, hit in enumerate(found.hits):
        relevance = 0.0
        if "vector" in hit.legs and hit.legs["vector"].rank <= depths.vector:
            relevance += alpha / (_RRF_K + hit.legs["vector"].rank)
        if place in text_ranks:
            relevance += (1 - alpha) / (_RRF_K + text_ranks[place])
        if relevance:
            weighed.append((relevance * hit.recency * hit.reinforcement, relevance, place))
    weighed.sort(key=lambda each: (-each[0], each[2]))
    return _renumbered(
        found,
        [
            found.hits[place].model_copy(update={"score": score, "relevance": relevance})
            for score, relevance, place in weighed[: plan.keep]
        ],
        plan.keep,
    )


def _within_depths(found: Recall, depths: Depths, keep: int) -> Recall:
    """The hits that a leg proposed within its depth, with the scores they have."""
    text_ranks = _lexical_ranks(found.hits, depths.text)
    kept = [
        hit
        for place, hit in enumerate(found.hits)
        if place in text_ranks or ("vector" in hit.legs and hit.legs["vector"].rank <= depths.vector)
    ]
    return _renumbered(found, kept[:keep], keep)


def _renumbered(found: Recall, hits: Sequence[Hit], keep: int) -> Recall:
    """The result with these hits. What the budget left out of a wider search matters only where hits are missing."""
    numbered = tuple(hit.model_copy(update={"rank": rank}) for rank, hit in enumerate(hits, start=1))
    omitted = found.omitted if len(numbered) < keep else 0
    return found.model_copy(update={"hits": numbered, "omitted": omitted})
