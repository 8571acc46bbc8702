"""The one filter tree that every dialect is read into, and its JSON form.

A tree is `Condition`, `And`, `Or` and `Not`; `None` stands for "no filter". The JSON form is the `$`
language in full: `{"topic": {"$eq": "deploy"}}`, `{"$and": […]}`, `{"$or": […]}`, `{"$not": {…}}`. The SQL
function `allowed_keys` reads the same language, so what is printed here can be pasted into psql.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

from lore_retriever.errors import InvalidInput

__all__ = [
    "MAX_FILTER_DEPTH",
    "MAX_FILTER_NODES",
    "MAX_FILTER_VALUES",
    "MAX_PATTERN_CHARS",
    "OPERATORS",
    "SYSTEM_FIELDS",
    "SYSTEM_PREFIX",
    "And",
    "Budget",
    "Condition",
    "FieldType",
    "Filter",
    "Not",
    "Operand",
    "Or",
    "Scalar",
    "field_type",
    "shown",
    "to_json",
]

MAX_FILTER_DEPTH: Final = 16
"""Levels of a filter: a single condition is one, each `$and`, `$or` and `$not` around it one more."""

MAX_FILTER_NODES: Final = 500
"""Conditions, `$and`, `$or` and `$not` of one filter together."""

MAX_FILTER_VALUES: Final = 10_000
"""Values that one filter compares with, those in lists counted one by one."""

MAX_PATTERN_CHARS: Final = 1_000
"""Characters of a `$like` or `$ilike` pattern; PostgreSQL recurses once for each `%`."""

SYSTEM_PREFIX: Final = "lore_"
"""Keys that start so name a memory's own fields; metadata may not use it."""

FieldType = Literal["json", "text", "boolean", "time"]

SYSTEM_FIELDS: Final[Mapping[str, FieldType]] = {
    "lore_id": "text",
    "lore_kind": "text",
    "lore_visibility": "text",
    "lore_owner": "text",
    "lore_agent": "text",
    "lore_session": "text",
    "lore_source": "text",
    "lore_trust": "text",
    "lore_language": "text",
    "lore_pinned": "boolean",
    "lore_created_at": "time",
    "lore_updated_at": "time",
    "lore_expires_at": "time",
}
"""A memory's own fields and what each holds; every other key is metadata (`json`)."""

OPERATORS: Final = (
    "$eq",
    "$ne",
    "$lt",
    "$lte",
    "$gt",
    "$gte",
    "$between",
    "$in",
    "$nin",
    "$exists",
    "$is_empty",
    "$like",
    "$ilike",
    "$text_match",
    "$text_match_insensitive",
    "$contains",
    "$any",
    "$all",
)
"""Operators of a condition; `$and`, `$or` and `$not` stand above conditions."""

Scalar: TypeAlias = "str | int | float | bool | datetime | None"
Operand: TypeAlias = "Scalar | tuple[Scalar, ...]"


@dataclass(frozen=True, slots=True)
class Condition:
    """One key compared with one operand.

    Attributes:
        key: A literal top-level metadata key (dots have no meaning), or one of `SYSTEM_FIELDS`.
        operator: One of `OPERATORS`.
        operand: A scalar, or a tuple of them where the operator takes a list; times are aware, in UTC.
    """

    key: str
    operator: str
    operand: Operand


@dataclass(frozen=True, slots=True)
class And:
    """True where every child is; without children, true."""

    children: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """True where any child is; without children, false."""

    children: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """True exactly where the child is false."""

    child: Filter


Filter: TypeAlias = "Condition | And | Or | Not"


@dataclass(slots=True)
class Budget:
    """Counts a filter while it is read, so that none outgrows what the database is asked to run."""

    nodes: int = field(default=0, init=False)
    values: int = field(default=0, init=False)

    def enter(self, depth: int) -> None:
        """Count one node on level `depth` (the root is 1), before anything below it is read.

        Raises:
            InvalidInput: If the filter is too deep or has too many nodes.
        """
        if depth > MAX_FILTER_DEPTH:
            raise InvalidInput(
                f"filter: more than {MAX_FILTER_DEPTH} levels deep. Join the inner $and / $or lists into fewer levels."
            )
        self.nodes += 1
        if self.nodes > MAX_FILTER_NODES:
            raise InvalidInput(f"filter: more than {MAX_FILTER_NODES} conditions. Use $in for many values of one key.")

    def spend(self, condition: Condition) -> Condition:
        """Count the condition's values and hand it back.

        Raises:
            InvalidInput: If the filter now holds too many.
        """
        self.values += len(condition.operand) if isinstance(condition.operand, tuple) else 1
        if self.values > MAX_FILTER_VALUES:
            raise InvalidInput(
                f"filter on {shown(condition.key)}: more than {MAX_FILTER_VALUES} values in one filter. "
                "Search in several parts, or store a key that names the group."
            )
        return condition


def field_type(key: str) -> FieldType:
    """What the field behind `key` holds: `json` for metadata, else the type of the system field."""
    return SYSTEM_FIELDS.get(key, "json")


def to_json(tree: Filter | None) -> dict[str, Any] | None:
    """The tree in the `$` language, every node explicit; None for no filter.

    Returns:
        A JSON-clean dict. Times are ISO 8601 text with offset. Parsing it again gives an equal tree.
    """
    match tree:
        case None:
            return None
        case And(children):
            return {"$and": [to_json(child) for child in children]}
        case Or(children):
            return {"$or": [to_json(child) for child in children]}
        case Not(child):
            return {"$not": to_json(child)}
        case Condition(key, operator, operand):
            return {key: {operator: _operand_json(operand)}}


def _operand_json(operand: Operand) -> Any:
    if isinstance(operand, tuple):
        return [_operand_json(item) for item in operand]
    return operand.isoformat() if isinstance(operand, datetime) else operand


def shown(value: object) -> str:
    """The value as an error message prints it: its repr, kept short."""
    printer = reprlib.Repr()
    printer.maxstring = printer.maxother = printer.maxlong = 80
    try:
        return printer.repr(value)
    except ValueError:
        # Python refuses to print integers of several thousand digits.
        return f"{type(value).__name__} with too many digits to print"
