"""Rows of the database to records. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lore_retriever.evidence import Evidence, is_name
from lore_retriever.steps import Row
from lore_retriever.types import Hit, LegMatch, LegName, Memory, Recall, Strength

__all__ = ["memory_from_row", "recall_from_rows"]

_ORDER: dict[Strength, int] = {"none": 0, "weak": 1, "medium": 2, "strong": 3}


def _legs(row: Row) -> dict[LegName, LegMatch]:
    legs: dict[LegName, LegMatch] = {}
    if row["vector_rank"] is not None:
        legs["vector"] = LegMatch(rank=row["vector_rank"], value=row["similarity"])
    if row["exact_rank"] is not None:
        legs["exact"] = LegMatch(rank=row["exact_rank"], value=row["exact_score"])
    if row["relaxed_rank"] is not None:
        legs["relaxed"] = LegMatch(rank=row["relaxed_rank"], value=row["relaxed_score"])
    if row["alias_rank"] is not None:
        legs["alias"] = LegMatch(rank=row["alias_rank"], matched=row["alias"])
    return legs


def _hit(row: Row, rank: int, evidence: Evidence, asked_names: Sequence[bool]) -> Hit:
    return Hit(
        id=row["id"],
        rank=rank,
        text=row["content_excerpt"],
        score=row["score"],
        relevance=row["relevance"],
        recency=row["recency"],
        reinforcement=row["reinforcement"],
        truncated=row["truncated"],
        full_length=row["full_length"],
        span=(row["excerpt_start"], row["excerpt_end"]),
        legs=_legs(row),
        kind=row["kind"],
        visibility=row["visibility"],
        owner=row["owner"],
        pinned=row["pinned"],
        metadata=row["metadata"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        query=row["query_no"],
        strength=evidence.strength(
            similarity=row["similarity"],
            coverage=row["coverage"],
            exact_score=row["exact_score"],
            alias=row["alias"],
            asked_name=asked_names[row["query_no"]] if asked_names else False,
        ),
    )


def recall_from_rows(
    rows: Sequence[Row], *, recall_id: str, queries: tuple[str, ...], degraded: str | None, evidence: Evidence
) -> Recall:
    """The rows of `recall`, in their order, as a `Recall`."""
    names = [is_name(query) for query in queries]
    hits = tuple(_hit(row, rank, evidence, names) for rank, row in enumerate(rows, start=1))
    return Recall(
        id=recall_id,
        queries=queries,
        hits=hits,
        omitted=rows[0]["omitted"] if rows else 0,
        degraded=degraded,
        evidence=max((hit.strength for hit in hits), key=_ORDER.__getitem__, default="none"),
    )


def memory_from_row(row: Mapping[str, Any]) -> Memory:
    """One row of `get_memory` or `list_memories`."""
    return Memory(**row)
