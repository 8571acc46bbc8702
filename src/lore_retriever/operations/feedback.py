"""Votes on memories, and which of them ask for a review."""

from __future__ import annotations

from lore_retriever.errors import InvalidInput, NotFound
from lore_retriever.inputs import checked_id, checked_limit, checked_name
from lore_retriever.operations.common import fetch
from lore_retriever.steps import Operation
from lore_retriever.types import Misled, Reinforcement

__all__ = ["feedback", "misled"]


def feedback(id: str, *, useful: bool, recall_id: str | None) -> Operation:  # noqa: A002 (a memory's id)
    """Vote on a visible memory; how it stands then."""
    if not isinstance(useful, bool):
        raise InvalidInput(f"useful is {useful!r}; give True (it helped) or False (it misled).")
    rows = yield from fetch(
        "vote", id=checked_id(id), useful=useful, recall_id=checked_name(recall_id, what="recall_id") or ""
    )
    if not rows:
        raise NotFound(f"no memory {id!r} is visible here.")
    return Reinforcement(**rows[0])


def misled(limit: int) -> Operation:
    """Memories whose votes ask for a review, the most misleading first."""
    rows = yield from fetch("misled", limit=checked_limit(limit))
    return [Misled(**row) for row in rows]
