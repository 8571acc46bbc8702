"""What became of a memory, and a look at memories before they are written."""

from __future__ import annotations

from lore_retriever.errors import NotFound
from lore_retriever.inputs import checked_id
from lore_retriever.steps import Body, Operation, Statement, Transact
from lore_retriever.types import Change

__all__ = ["history"]


def history(id: str) -> Operation:  # noqa: A002 (a memory's id)
    """Every change of the own memory of that id, oldest first."""
    checked_id(id)

    def read() -> Body:
        if not (yield Statement("own_version", {"id": id})):
            raise NotFound(f"no memory {id!r} of your own is here.")
        rows = yield Statement("memory_history", {"id": id})
        return [Change(**row) for row in rows]

    return (yield Transact(read))
