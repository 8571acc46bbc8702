"""Reads the `$` language: LangChain's dict filters, which every surface but LlamaIndex's takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lore_retriever.errors import InvalidInput
from lore_retriever.filters.operands import read_condition
from lore_retriever.filters.tree import And, Budget, Filter, Not, Or, shown

__all__ = ["parse_filter"]


def parse_filter(filter: Mapping[str, Any] | None) -> Filter | None:  # noqa: A002 (the hosts' own name)
    """The tree of a filter in the `$` language.

    Args:
        filter: For example `{"topic": "deploy", "size": {"$gt": 3, "$lte": 9}, "lore_kind": "fact"}`. Several
            keys, and several operators on one key, must all hold. A bare value means `$eq`.

    Returns:
        The tree, or None for None and `{}` (no filter).

    Raises:
        InvalidInput: Naming the key, operator or value that cannot be used, and what can.
    """
    if filter is None:
        return None
    root = _as_mapping(filter, "filter")
    return _read_mapping(root, 1, Budget()) if root else None


def _as_mapping(value: object, where: str) -> Mapping[Any, Any]:
    if isinstance(value, Mapping):
        return value
    raise InvalidInput(f'{where}: takes a dict such as {{"topic": "deploy"}}, not {shown(value)}.')


def _read_mapping(node: Mapping[Any, Any], depth: int, budget: Budget) -> Filter:
    if len(node) == 1:
        ((key, value),) = node.items()
        return _read_entry(key, value, depth, budget)
    budget.enter(depth)
    return And(tuple(_read_entry(key, value, depth + 1, budget) for key, value in node.items()))


def _read_entry(key: object, value: object, depth: int, budget: Budget) -> Filter:
    match key:
        case "$and":
            budget.enter(depth)
            return And(_read_list("$and", value, depth + 1, budget))
        case "$or":
            budget.enter(depth)
            return Or(_read_list("$or", value, depth + 1, budget))
        case "$not":
            budget.enter(depth)
            return Not(_read_negated(value, depth + 1, budget))
        case _:
            return _read_field(key, value, depth, budget)


def _read_list(operator: str, value: object, depth: int, budget: Budget) -> tuple[Filter, ...]:
    if not isinstance(value, list | tuple):
        raise InvalidInput(f"filter: {operator} takes a list of filters, not {shown(value)}.")
    where = f"filter: each part of {operator}"
    return tuple(_read_mapping(_as_mapping(item, where), depth, budget) for item in value)


def _read_negated(value: object, depth: int, budget: Budget) -> Filter:
    if isinstance(value, list | tuple):
        # A list means that none of them holds.
        budget.enter(depth)
        return Or(_read_list("$not", value, depth + 1, budget))
    return _read_mapping(_as_mapping(value, "filter: $not"), depth, budget)


def _read_field(key: object, value: object, depth: int, budget: Budget) -> Filter:
    if not isinstance(value, Mapping):
        value = {"$eq": value}
    elif not value:
        raise InvalidInput(f'filter on {shown(key)}: {{}} names no operator, as in {{"$gt": 1}}.')
    budget.enter(depth)
    if len(value) == 1:
        ((operator, operand),) = value.items()
        return budget.spend(read_condition(key, operator, operand))
    conditions = []
    for operator, operand in value.items():
        budget.enter(depth + 1)
        conditions.append(budget.spend(read_condition(key, operator, operand)))
    return And(tuple(conditions))
