"""Reads LlamaIndex `MetadataFilters`, by shape: the framework itself is not imported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lore_retriever.errors import InvalidInput
from lore_retriever.filters.operands import read_condition
from lore_retriever.filters.tree import And, Budget, Condition, Filter, Not, Or, field_type, shown

__all__ = ["LLAMAINDEX_OPERATORS", "parse_metadata_filters"]

LLAMAINDEX_OPERATORS: Final[Mapping[str, str]] = {
    "==": "$eq",
    "!=": "$ne",
    ">": "$gt",
    "<": "$lt",
    ">=": "$gte",
    "<=": "$lte",
    "in": "$in",
    "nin": "$nin",
    "any": "$any",
    "all": "$all",
    "contains": "$contains",
    "text_match": "$text_match",
    "text_match_insensitive": "$text_match_insensitive",
    "is_empty": "$is_empty",
}
"""LlamaIndex's operators and their names in the `$` language."""

_CONDITIONS: Final = ("and", "or", "not")
_MISSING: Final = object()


def parse_metadata_filters(filters: object) -> Filter | None:
    """The tree of LlamaIndex filters.

    Args:
        filters: A `MetadataFilters`, or anything of its shape: attributes or keys `filters` (a list) and
            `condition` (`and`, `or`, `not`; `and` if None), where each filter has `key`, `value` and
            `operator` (`==` if None), or nests. None is no filter.

    Returns:
        The tree; None where there is no filter. An empty list of filters matches everything under any
        condition, as LlamaIndex has it.

    Raises:
        InvalidInput: Naming the key, operator or value that cannot be used, and what can.
    """
    if filters is None:
        return None
    if _read(filters, "filters") is _MISSING:
        raise InvalidInput(f"filters: takes MetadataFilters or a dict with 'filters', not {shown(filters)}.")
    tree = _read_node(filters, 1, Budget())
    return None if tree == And(()) else tree


def _read(node: object, name: str) -> Any:
    if isinstance(node, Mapping):
        return node.get(name, _MISSING)
    return getattr(node, name, _MISSING)


def _check_names(node: object, known: tuple[str, ...]) -> None:
    """Refuse a misspelt name in dict form, which would otherwise change the filter's meaning in silence."""
    unknown = [name for name in node if name not in known] if isinstance(node, Mapping) else []
    if unknown:
        raise InvalidInput(f"filters: unknown name {shown(unknown[0])}. Allowed here: {', '.join(known)}.")


def _read_word(node: object, name: str, default: str) -> object:
    """A field that holds one of the host's enums, or its text; the default where it is absent or None."""
    word = _read(node, name)
    return default if word is _MISSING or word is None else getattr(word, "value", word)


def _read_node(node: object, depth: int, budget: Budget) -> Filter:
    if _read(node, "filters") is _MISSING:
        budget.enter(depth)
        return budget.spend(_read_filter(node))
    return _read_group(node, depth, budget)


def _read_group(node: object, depth: int, budget: Budget) -> Filter:
    _check_names(node, ("filters", "condition"))
    parts = _read(node, "filters")
    condition = _read_word(node, "condition", "and")
    if not isinstance(parts, list | tuple):
        raise InvalidInput(f"filters: takes a list of filters, not {shown(parts)}.")
    if condition not in _CONDITIONS:
        raise InvalidInput(f"filters: unknown condition {shown(condition)}. Allowed: {', '.join(_CONDITIONS)}.")
    budget.enter(depth)
    if not parts or condition == "and":
        return And(tuple(_read_node(part, depth + 1, budget) for part in parts))
    if condition == "or":
        return Or(tuple(_read_node(part, depth + 1, budget) for part in parts))
    if len(parts) == 1:
        return Not(_read_node(parts[0], depth + 1, budget))
    budget.enter(depth + 1)
    return Not(Or(tuple(_read_node(part, depth + 2, budget) for part in parts)))


def _read_filter(node: object) -> Condition:
    _check_names(node, ("key", "value", "operator"))
    key, value = _read(node, "key"), _read(node, "value")
    if key is _MISSING:
        raise InvalidInput(f"filters: each has 'key', 'value' and 'operator'; {shown(node)} has no 'key'.")
    spelled = _read_word(node, "operator", "==")
    if not isinstance(spelled, str) or spelled not in LLAMAINDEX_OPERATORS:
        allowed = ", ".join(LLAMAINDEX_OPERATORS)
        raise InvalidInput(f"filter on {shown(key)}: unknown operator {shown(spelled)}. Allowed: {allowed}.")
    if spelled == "is_empty":
        value = True
    elif value is _MISSING:
        raise InvalidInput(f"filter on {shown(key)}: no 'value' for {spelled}.")
    return read_condition(key, LLAMAINDEX_OPERATORS[spelled], _with_booleans(key, value), spelled=spelled)


def _with_booleans(key: object, value: object) -> object:
    """The value for a boolean system field: `MetadataFilter` refuses booleans, so it may say "true"."""
    if not isinstance(key, str) or field_type(key) != "boolean":
        return value
    if isinstance(value, list | tuple):
        return [_with_booleans(key, item) for item in value]
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value
