"""Storing many memories: only what is missing, then the vectors that wait. Shared by `add`, `embed` and `demo`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lore_retriever.errors import IdTaken
from lore_retriever.ingest import is_held
from lore_retriever.types import NewMemory

if TYPE_CHECKING:
    from lore_retriever.cli.bars import Bar
    from lore_retriever.views import Memories

__all__ = ["Tally", "embed_own", "store_missing", "waiting"]


@dataclass(slots=True)
class Tally:
    """What became of the memories that were read, counted; `refused` says why, one by one."""

    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    invalidated: int = 0
    embedded: int = 0
    waiting: int = 0
    refused: list[str] = field(default_factory=list)

    @property
    def read(self) -> int:
        """How many memories could be used."""
        return self.added + self.replaced + self.unchanged + self.invalidated


def store_missing(memories: Memories, batch: Sequence[NewMemory], tally: Tally) -> list[str]:
    """Store, without vectors, those of a batch that the store lacks or holds otherwise; new refusals.

    Memories need ids. What was invalidated and is added unchanged stays invalidated.
    """
    from lore_retriever.operations.common import fetch

    rows = memories.store.perform(fetch("own_states", ids=[memory.id for memory in batch]), memories.scope)
    held: dict[str, Any] = {row["id"]: row for row in rows}
    wanted = []
    for memory in batch:
        row = held.get(memory.id or "")
        if row is None or not is_held(memory, row):
            wanted.append(memory)
        elif row["invalidated_at"] is not None:
            tally.invalidated += 1
        else:
            tally.unchanged += 1
    refused: list[str] = []
    for memory in _stored(memories, wanted, refused):
        if memory.id in held:
            tally.replaced += 1
        else:
            tally.added += 1
    tally.refused += refused
    return refused


def _stored(memories: Memories, wanted: Sequence[NewMemory], refused: list[str]) -> list[NewMemory]:
    """Those that were stored: all at once, or one by one where a colleague has shared one of the ids."""
    if not wanted:
        return []
    try:
        memories.remember_many(wanted, embed=False)
        return list(wanted)
    except IdTaken as error:
        if len(wanted) == 1:
            refused.append(str(error))
            return []
    return [memory for each in wanted for memory in _stored(memories, [each], refused)]


def waiting(memories: Memories) -> tuple[int, int]:
    """How many memories and windows of the caller wait for vectors."""
    from lore_retriever.operations.embedding import pending_counts

    row = memories.store.perform(pending_counts(memories.store.space.number), memories.scope)
    return row["memories"], row["windows"]


def embed_own(memories: Memories, advance: Bar) -> int:
    """Embed all of the caller's memories that are due; how many windows were."""
    from lore_retriever.operations.embedding import embed_waiting

    total, claimed = 0, 1
    while claimed:
        done, claimed = memories.store.perform(embed_waiting(memories.store.space, progress=advance), memories.scope)
        total += done
    return total
