"""Other names: groups of an organisation. Names of a single memory are written with it."""

from __future__ import annotations

from collections.abc import Sequence

from lore_retriever import limits
from lore_retriever.errors import InvalidInput, NotFound
from lore_retriever.inputs import checked_text
from lore_retriever.operations.common import fetch
from lore_retriever.steps import Body, Operation, Row, Statement, Transact

__all__ = ["add_alias", "list_aliases", "remove_alias"]


def _add(names: Sequence[str]) -> Body:
    usable = {row["name"] for row in (yield Statement("usable_names", {"names": list(names)}))}
    if unusable := [name for name in names if name not in usable]:
        raise InvalidInput(f"the alias {unusable[0]!r} holds no letter or digit, so no query could name it.")
    rows = yield Statement("merge_alias_groups", {"names": list(names)})
    yield Statement("insert_aliases", {"names": list(names), "group_no": rows[0]["group_no"]})


def add_alias(names: Sequence[str]) -> Operation:
    """Make these names one group of the organisation; groups that already hold one of them become one."""
    checked = [checked_text(name, what="an alias", most=limits.MAX_NAME_CHARS) for name in names]
    if len(set(checked)) < 2:
        raise InvalidInput(f"{checked[0]!r} is one name; an alias needs two different ones.")
    yield Transact(lambda: _add(checked))


def remove_alias(name: str) -> Operation:
    """Take a name out of its group, or NotFound."""
    checked = checked_text(name, what="an alias", most=limits.MAX_NAME_CHARS)
    removed: list[Row] = []  # over all tries: the commit of one that was cut may have arrived

    def remove() -> Body:
        removed.extend((yield Statement("remove_alias", {"alias": checked})))

    yield Transact(remove)
    if not removed:
        raise NotFound(f"no alias {name!r} is recorded for this organisation.")


def list_aliases() -> Operation:
    """The organisation's groups of names."""
    rows = yield from fetch("list_aliases")
    return [tuple(row["names"]) for row in rows]
