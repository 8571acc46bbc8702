"""What a filter means, in plain Python: the SQL of `allowed_keys` gives the same answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final

from lore_retriever.filters.tree import SYSTEM_FIELDS, SYSTEM_PREFIX, And, Condition, Filter, Not, Or

__all__ = ["evaluate"]

_MISSING: Final = object()
# A system field without a value: null to every operator, but it does not exist to $exists.
_UNSET: Final = object()


def evaluate(tree: Filter | None, memory_fields: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    """Whether a memory passes the filter.

    Args:
        tree: A parsed filter; None passes everything.
        memory_fields: The memory's own fields by their plain names (`kind`, `created_at`, …); absent ones are
            null. `Memory.model_dump()` serves. Naive times are read as UTC.
        metadata: The memory's metadata.
    """
    match tree:
        case None:
            return True
        case And(children):
            return all(evaluate(child, memory_fields, metadata) for child in children)
        case Or(children):
            return any(evaluate(child, memory_fields, metadata) for child in children)
        case Not(child):
            return not evaluate(child, memory_fields, metadata)
        case Condition(key, operator, operand):
            return _TESTS[operator](_look_up(key, memory_fields, metadata), operand)


def _look_up(key: str, memory_fields: Mapping[str, Any], metadata: Mapping[str, Any]) -> Any:
    if key not in SYSTEM_FIELDS:
        return metadata.get(key, _MISSING)
    value = memory_fields.get(key.removeprefix(SYSTEM_PREFIX))
    if isinstance(value, datetime) and value.utcoffset() is None:
        return value.replace(tzinfo=UTC)
    return _UNSET if value is None else value


def _is_null(value: Any) -> bool:
    return value is None or value is _UNSET


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _exact(number: Any) -> Decimal:
    """The number as JSON text carries it: 0.1 is a tenth, as in the database."""
    return Decimal(repr(float(number))) if isinstance(number, float) else Decimal(number)


def _same(value: Any, operand: Any) -> bool:
    """JSON equality: 1 is 1.0, but neither is true nor "1"."""
    if _is_null(value) or _is_null(operand):
        return _is_null(value) and _is_null(operand)
    if _is_number(value) and _is_number(operand):
        return _exact(value) == _exact(operand)
    if isinstance(value, list | tuple) and isinstance(operand, list | tuple):
        return len(value) == len(operand) and all(map(_same, value, operand))
    for kind in (bool, str, datetime):
        if isinstance(value, kind) and isinstance(operand, kind):
            return bool(value == operand)
    return False


def _within(value: Any, operand: Any) -> bool:
    return any(_same(value, item) for item in operand)


def _in_order(*values: Any, strictly: bool = False) -> bool:
    """Whether numbers, strings (by code point) or times rise; false for mixed and for other types."""
    if all(map(_is_number, values)):
        values = tuple(map(_exact, values))
    elif not any(all(isinstance(value, kind) for value in values) for kind in (str, datetime)):
        return False
    return all(low < high or (low == high and not strictly) for low, high in pairwise(values))


def _holds(value: Any, item: Any) -> bool:
    """Whether a list has the item, or a string the substring."""
    if isinstance(value, list | tuple):
        return any(_same(element, item) for element in value)
    return isinstance(value, str) and isinstance(item, str) and item in value


def _is_empty(value: Any) -> bool:
    return value is _MISSING or _is_null(value) or value == "" or (isinstance(value, list | tuple) and not value)


def _lower(text: str) -> str:
    """Lower case one character at a time, as the database maps it."""
    return "".join(character.lower()[0] for character in text)


def _like(text: Any, pattern: str) -> bool:
    return isinstance(text, str) and _matches(text, _pattern_tokens(pattern))


def _pattern_tokens(pattern: str) -> list[str]:
    """The pattern's steps: "%", "_", or "=" and a literal character."""
    tokens: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character in "%_":
            tokens.append(character)
        else:
            tokens.append("=" + (next(characters) if character == "\\" else character))
    return tokens


def _matches(text: str, tokens: list[str]) -> bool:
    """Wildcard match that goes back to the last "%" only, so that no pattern takes exponential time."""
    at, step, last_any, resume = 0, 0, -1, 0
    while at < len(text):
        if step < len(tokens) and tokens[step] in ("_", "=" + text[at]):
            at, step = at + 1, step + 1
        elif step < len(tokens) and tokens[step] == "%":
            last_any, resume = step, at
            step += 1
        elif last_any >= 0:
            resume += 1
            at, step = resume, last_any + 1
        else:
            return False
    return all(token == "%" for token in tokens[step:])


_TESTS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "$eq": _same,
    "$ne": lambda value, operand: not _same(value, operand),
    "$lt": lambda value, operand: _in_order(value, operand, strictly=True),
    "$lte": lambda value, operand: _in_order(value, operand),
    "$gt": lambda value, operand: _in_order(operand, value, strictly=True),
    "$gte": lambda value, operand: _in_order(operand, value),
    "$between": lambda value, operand: _in_order(operand[0], value) and _in_order(value, operand[1]),
    "$in": _within,
    "$nin": lambda value, operand: not _within(value, operand),
    "$exists": lambda value, operand: (value is not _MISSING and value is not _UNSET) == operand,
    "$is_empty": lambda value, operand: _is_empty(value) == operand,
    "$like": _like,
    "$ilike": lambda value, operand: isinstance(value, str) and _like(_lower(value), _lower(operand)),
    "$text_match": lambda value, operand: isinstance(value, str) and operand in value,
    "$text_match_insensitive": lambda value, operand: isinstance(value, str) and _lower(operand) in _lower(value),
    "$contains": _holds,
    "$any": lambda value, operand: any(_holds(value, item) for item in operand),
    "$all": lambda value, operand: (
        value is not _MISSING and not _is_null(value) and all(_holds(value, item) for item in operand)
    ),
}
