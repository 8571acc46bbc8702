"""Checks of one condition: is the key a name, does the operator exist, does the operand fit both."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any, Final

from lore_retriever.errors import InvalidInput
from lore_retriever.filters.tree import (
    MAX_PATTERN_CHARS,
    OPERATORS,
    SYSTEM_FIELDS,
    SYSTEM_PREFIX,
    Condition,
    FieldType,
    Operand,
    Scalar,
    field_type,
    shown,
)

__all__ = ["read_condition"]

_IDENTITY: Final = frozenset({"$eq", "$ne", "$in", "$nin", "$exists", "$is_empty"})
_RANGE: Final = frozenset({"$lt", "$lte", "$gt", "$gte", "$between"})

_ALLOWED: Final[Mapping[FieldType, frozenset[str]]] = {
    "json": frozenset(OPERATORS),
    "text": frozenset(OPERATORS),
    "boolean": _IDENTITY,
    "time": _IDENTITY | _RANGE,
}

_EXPECTED: Final[Mapping[FieldType, str]] = {
    "json": "null, a boolean, a number or a string",
    "text": "a string or null",
    "boolean": "true, false or null",
    "time": "a datetime or ISO 8601 text such as '2026-01-31T09:00+01:00' (UTC if without offset), or null",
}

# The spellings that Python and PostgreSQL read alike; the SQL side holds the same expression.
_ISO_TIME: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,6})?)?"
    r"(Z|[+-](0[0-9]|1[0-5])(:?[0-5][0-9])?)?)?"
)

# Far beyond any float, far below what PostgreSQL's numeric refuses (131,072 digits).
_LARGEST_INTEGER: Final = 10**400


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an operand stands: its key, its operator as the caller spelled it, and the field's type."""

    key: str
    spelled: str
    type: FieldType

    def refusal(self, expected: str, value: object) -> InvalidInput:
        return InvalidInput(f"filter on {shown(self.key)}: {self.spelled} takes {expected}, not {shown(value)}.")


def read_condition(key: object, operator: object, operand: object, *, spelled: str | None = None) -> Condition:
    """A checked condition.

    Args:
        key: Metadata key or system field.
        operator: One of `OPERATORS`.
        operand: What to compare with; lists and tuples where the operator takes several values.
        spelled: The operator as the caller wrote it, for messages; `operator` if None.

    Raises:
        InvalidInput: Naming the key, operator or value that cannot be used, and what can.
    """
    name = _read_key(key)
    if not isinstance(operator, str) or operator not in OPERATORS:
        raise InvalidInput(
            f"filter on {shown(name)}: unknown operator {shown(operator)}. Allowed: {', '.join(OPERATORS)}."
        )
    kind = field_type(name)
    place = _Place(name, operator if spelled is None else spelled, kind)
    if operator not in _ALLOWED[kind]:
        allowed = ", ".join(known for known in OPERATORS if known in _ALLOWED[kind])
        raise InvalidInput(f"filter on {shown(name)}: {place.spelled} does not apply. Allowed: {allowed}.")
    return Condition(name, str.__str__(operator), _READERS[operator](place, operand))


def _read_key(key: object) -> str:
    if not isinstance(key, str):
        raise InvalidInput(f"filter: a key is a string, not {shown(key)}.")
    _check_text(key, f"filter key {shown(key)}")
    if key.startswith("$"):
        raise InvalidInput(
            f"filter: {shown(key)} is no key; keys that start with $ cannot be filtered. "
            'Operators stand under a key, as in {"size": {"$gt": 1}}; above keys: $and, $or, $not.'
        )
    if key.startswith(SYSTEM_PREFIX) and key not in SYSTEM_FIELDS:
        raise InvalidInput(f"filter: unknown system field {shown(key)}. Known: {', '.join(SYSTEM_FIELDS)}.")
    return str.__str__(key)


def _check_text(text: str, where: str) -> None:
    for position, character in enumerate(text):
        if character == "\0" or "\ud800" <= character <= "\udfff":
            name = "NUL" if character == "\0" else "a lone surrogate"
            raise InvalidInput(f"{where}: {name} at position {position}; no stored text holds one. Remove it.")


def _read_string(place: _Place, value: str) -> str:
    _check_text(value, f"filter on {shown(place.key)}: {place.spelled} {shown(value)}")
    # A plain str, also of a str-based enum.
    return str.__str__(value)


def _read_scalar(place: _Place, value: object) -> Scalar:
    """One value that a field of this type can be compared with."""
    if value is None:
        return None
    if place.type == "time":
        return _read_time(place, value)
    if isinstance(value, str) and place.type != "boolean":
        return _read_string(place, value)
    if isinstance(value, bool) and place.type != "text":
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and place.type == "json":
        return _read_number(place, value)
    expected = _EXPECTED[place.type]
    if isinstance(value, date):
        expected += " (metadata is JSON: compare with the text that was stored)"
    raise place.refusal(expected, value)


def _read_number(place: _Place, value: int | float) -> int | float:
    if isinstance(value, int):
        if abs(value) >= _LARGEST_INTEGER:
            raise place.refusal("an integer of at most 400 digits", value)
        return int(value)
    if not math.isfinite(value):
        raise place.refusal("a finite number", value)
    return float(value)


def _read_time(place: _Place, value: object) -> datetime:
    moment: object = value
    if isinstance(value, str) and _ISO_TIME.fullmatch(value):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise place.refusal(_EXPECTED["time"], value) from None
    elif isinstance(value, date) and not isinstance(value, datetime):
        moment = datetime.combine(value, time())
    if not isinstance(moment, datetime):
        raise place.refusal(_EXPECTED["time"], value)
    if moment.utcoffset() is None:
        return moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise place.refusal("a date between the years 1 and 9999 in UTC", value) from None


def _read_list(place: _Place, value: object, expected: str) -> list[Any] | tuple[Any, ...]:
    if isinstance(value, list | tuple):
        return value
    raise place.refusal(expected, value)


def _one_or_list(place: _Place, value: object) -> Operand:
    if isinstance(value, list | tuple) and place.type == "json":
        return tuple(_read_scalar(place, item) for item in value)
    return _read_scalar(place, value)


def _many(place: _Place, value: object) -> Operand:
    return tuple(_read_scalar(place, item) for item in _read_list(place, value, "a list of values"))


def _bound(place: _Place, value: object) -> Scalar:
    scalar = _read_scalar(place, value)
    if scalar is None or isinstance(scalar, bool):
        expected = "a number or a string" if place.type == "json" else _EXPECTED[place.type]
        raise place.refusal(expected.removesuffix(" or null").removesuffix(","), value)
    return scalar


def _pair(place: _Place, value: object) -> Operand:
    expected = "a list of two bounds of one type, lowest first"
    bounds = tuple(_bound(place, item) for item in _read_list(place, value, expected))
    if len(bounds) != 2 or isinstance(bounds[0], str) != isinstance(bounds[1], str):
        raise place.refusal(expected, value)
    return bounds


def _text(place: _Place, value: object) -> str:
    if not isinstance(value, str):
        raise place.refusal("a string", value)
    return _read_string(place, value)


def _pattern(place: _Place, value: object) -> str:
    pattern = _text(place, value)
    if len(pattern) > MAX_PATTERN_CHARS:
        raise place.refusal(f"a pattern of at most {MAX_PATTERN_CHARS} characters", value)
    if (len(pattern) - len(pattern.rstrip("\\"))) % 2:
        raise place.refusal("a pattern in which a backslash escapes the next character", value)
    return pattern


def _item(place: _Place, value: object) -> Scalar:
    return _text(place, value) if place.type == "text" else _read_scalar(place, value)


def _items(place: _Place, value: object) -> Operand:
    return tuple(_item(place, item) for item in _read_list(place, value, "a list of values"))


def _flag(place: _Place, value: object) -> bool:
    if not isinstance(value, bool):
        raise place.refusal("true or false", value)
    return value


_READERS: Final[Mapping[str, Callable[[_Place, object], Operand]]] = {
    "$eq": _one_or_list,
    "$ne": _one_or_list,
    "$lt": _bound,
    "$lte": _bound,
    "$gt": _bound,
    "$gte": _bound,
    "$between": _pair,
    "$in": _many,
    "$nin": _many,
    "$exists": _flag,
    "$is_empty": _flag,
    "$like": _pattern,
    "$ilike": _pattern,
    "$text_match": _text,
    "$text_match_insensitive": _text,
    "$contains": _item,
    "$any": _items,
    "$all": _items,
}
