"""What became of a memory, and a look at memories before they are written: a hook, and near duplicates."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from lore_retriever.context.duplicates import word_resemblance
from lore_retriever.errors import InvalidInput, NotFound
from lore_retriever.inputs import checked_id, checked_memory, new_memory
from lore_retriever.operations.common import BeforeWrite, OpenSpace, fetch
from lore_retriever.operations.storing import Item
from lore_retriever.steps import Body, HalfVector, Operation, Statement, Transact
from lore_retriever.types import Change, NewMemory, Similar

__all__ = ["NEIGHBOURS_ASKED_FOR", "guarded", "guarded_changes", "history", "look_for_similar"]

NEIGHBOURS_ASKED_FOR = 8
"""Most new texts of one write that are compared with what is stored: a note is, an import is not."""

_log = logging.getLogger("lore_retriever")

_GUARDED = frozenset(NewMemory.model_fields) - {"id", "aliases", "verbatim"}
"""Fields that a hook sees of a memory that is being changed; its other names only where they change."""


def history(id: str) -> Operation:  # noqa: A002 (a memory's id)
    """Every change of the own memory of that id, oldest first."""
    checked_id(id)

    def read() -> Body:
        if not (yield Statement("own_version", {"id": id})):
            raise NotFound(f"no memory {id!r} of your own is here.")
        rows = yield Statement("memory_history", {"id": id})
        return [Change(**row) for row in rows]

    return (yield Transact(read))


def guarded(memory: NewMemory, before_write: BeforeWrite | None, *, what: str) -> NewMemory:
    """The memory as the hook lets it pass, checked again where the hook changed it. Pure but for the hook.

    Raises:
        InvalidInput: If the hook refuses it, or returns what cannot be stored.
    """
    if before_write is None:
        return memory
    passed = before_write(memory)
    if passed is None:
        raise InvalidInput(f"{what} was refused by the store's before_write.")
    return memory if passed is memory else checked_memory(passed, what=f"what before_write made of {what}")


def guarded_changes(id: str, changes: Mapping[str, Any], before_write: BeforeWrite) -> Operation:  # noqa: A002
    """The changes of an own memory as the hook lets them pass: it sees the whole memory as it would become."""
    rows = yield from fetch("own_memory", id=id)
    if not rows:
        return changes
    stored = rows[0]
    held = {name: stored[name] for name in _GUARDED}
    if stored["content_original"] is not None:
        held["content"] = stored["content_original"]
    what = f"memory {id!r}"
    before = checked_memory(new_memory(**(held | {"id": id} | dict(changes))), what=what)
    after = guarded(before, before_write, what=what)
    if after.id != id:
        raise InvalidInput(f"before_write made {after.id!r} of the id {id!r}; a change keeps the id.")
    changed = {name: getattr(after, name) for name in NewMemory.model_fields if name != "id"}
    return dict(changes) | {name: value for name, value in changed.items() if value != getattr(before, name)}


def look_for_similar(space: OpenSpace, items: Sequence[Item]) -> Body:
    """Visible memories that say nearly what these new texts say, by their vectors and by their words; logged."""
    found: list[Similar] = []
    for item in items if len(items) <= NEIGHBOURS_ASKED_FOR else ():
        vector = item.vectors[0] if item.vectors else None
        if vector is None:
            continue
        start, end = item.windows[0].start, item.windows[0].end
        rows = yield Statement("nearest_memories", {"embedding": HalfVector(vector), "limit": 4})
        for row in rows:
            if row["is_own"] and row["id"] == item.id:
                continue
            alike = word_resemblance(item.memory.content[start:end], row["content_excerpt"])
            if space.evidence.is_near_duplicate(row["similarity"], alike):
                one = Similar(
                    id=item.id, other=row["id"], owner=row["owner"], similarity=row["similarity"], resemblance=alike
                )
                _log.warning("%s", one)
                found.append(one)
    return tuple(found)
