"""Checks of what comes in. Pure: each returns the value as it is to be used, or raises `InvalidInput`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from pydantic import ValidationError

from lore_retriever import limits
from lore_retriever.errors import InvalidInput, ScopeMissing
from lore_retriever.types import NewMemory, Scope

__all__ = [
    "checked_flag",
    "checked_id",
    "checked_ids",
    "checked_limit",
    "checked_memory",
    "checked_metadata",
    "checked_name",
    "checked_queries",
    "checked_scope",
    "checked_text",
    "checked_version",
    "given_queries",
    "items_of",
    "loaded_json",
    "new_memory",
    "new_scope",
    "utc",
]

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
RESERVED_PREFIX = "lore_"
_LARGEST_INTEGER = 10**400  # as in filters: a larger number could not be asked for
# A day from either end of Python's calendar, so that no time zone pushes a moment out of it.
_EARLIEST = datetime.min.replace(tzinfo=UTC) + timedelta(days=1)
_LATEST = datetime.max.replace(tzinfo=UTC) - timedelta(days=1)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def checked_text(text: object, *, what: str, most: int, empty_ok: bool = False) -> str:
    """`text`, if it is a string that the database can hold.

    Raises:
        InvalidInput: If it is no string, blank, longer than `most` characters, or holds a NUL or a lone surrogate;
            the message names `what` and the position.
    """
    if not isinstance(text, str):
        raise InvalidInput(f"{what} is {_shown(text)}, of type {type(text).__name__}; give a string.")
    if not empty_ok and not text.strip():
        raise InvalidInput(f"{what} is {_shown(text)}: it holds nothing. Give at least one visible character.")
    if len(text) > most:
        raise InvalidInput(f"{what} has {len(text):,} characters, the most is {most:,}. Split it, or store a summary.")
    if found := _UNSTORABLE.search(text):
        kind = "a NUL character" if found[0] == "\x00" else "a lone surrogate"
        raise InvalidInput(
            f"{what} holds {kind} ({found[0]!r}) at position {found.start()}. The database cannot hold it: remove it."
        )
    return text


def checked_id(value: object) -> str:
    """An id of 1 to 512 storable characters.

    Raises:
        InvalidInput: If it is not.
    """
    return checked_text(value, what="the id", most=limits.MAX_ID_CHARS)


def items_of(value: Any, *, what: str, of: str) -> Iterable[Any]:
    """`value`, if it can be gone through item by item; a string or a mapping is taken for a mistake.

    Raises:
        InvalidInput: If it cannot.
    """
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise InvalidInput(f"{what} is {_shown(value)}, of type {type(value).__name__}; give a list of {of}.")
    return value


def checked_ids(ids: Iterable[str]) -> list[str]:
    """Ids as a list.

    Raises:
        InvalidInput: If one cannot be an id, or a single string was given, which would be read letter by letter.
    """
    return [checked_id(given) for given in items_of(ids, what="ids", of="ids")]


def checked_name(value: str | None, *, what: str) -> str | None:
    """A short name, or None."""
    return None if value is None else checked_text(value, what=what, most=limits.MAX_NAME_CHARS)


def new_scope(org: object, user: object) -> Scope:
    """The scope of these names.

    Raises:
        ScopeMissing: If either is None, empty or blank.
        InvalidInput: If one cannot be a name.
    """
    for what, value in (("org", org), ("user", user)):
        if value is None or value == "":
            raise ScopeMissing(f"{what} is {value!r}: a scope names an organisation and a user.")
        if not isinstance(value, str):
            raise InvalidInput(f"{what} is {_shown(value)}, of type {type(value).__name__}; give a string.")
    return checked_scope(Scope(org=str(org), user=str(user)))


def checked_scope(scope: object) -> Scope:
    """`scope`, if its names can be set in a transaction.

    Raises:
        ScopeMissing: If it is no `Scope`.
        InvalidInput: If a name is too long, or holds a NUL or a lone surrogate.
    """
    if not isinstance(scope, Scope):
        raise ScopeMissing(f"the scope is {_shown(scope)}; give Scope(org=…, user=…).")
    checked_name(scope.org, what="org")
    checked_name(scope.user, what="user")
    return scope


def utc(moment: datetime | None, *, what: str) -> datetime | None:
    """The moment in UTC; a naive datetime is read as UTC.

    Raises:
        InvalidInput: If it is no datetime, or so near either end of the calendar that some reader could not hold it.
    """
    if moment is None:
        return None
    if not isinstance(moment, datetime):
        raise InvalidInput(f"{what} is {_shown(moment)}, of type {type(moment).__name__}; give a datetime.")
    try:
        plain = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        plain = datetime.max.replace(tzinfo=UTC)
    if not _EARLIEST <= plain <= _LATEST:
        raise InvalidInput(
            f"{what} is {moment.isoformat()}; give a moment from {_EARLIEST.date()} to {_LATEST.date()}, or None."
        )
    return plain


def checked_flag(value: object, *, what: str) -> bool | None:
    """True, False or None.

    Raises:
        InvalidInput: If it is anything else.
    """
    if value is None or isinstance(value, bool):
        return value
    raise InvalidInput(f"{what} is {_shown(value)}; give True, False or None.")


def checked_version(version: object) -> int | None:
    """A memory's version, or None for any.

    Raises:
        InvalidInput: If it is no whole number from 1 on.
    """
    if version is None:
        return None
    if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version < 2**31:
        raise InvalidInput(f"version is {_shown(version)}; give the whole number that `get` shows.")
    return version


def _checked_value(value: Any, path: str, depth: int) -> Any:
    if depth > limits.MAX_METADATA_DEPTH:
        raise InvalidInput(f"{path} is nested deeper than {limits.MAX_METADATA_DEPTH} levels. Flatten it.")
    if isinstance(value, int) and not -_LARGEST_INTEGER < value < _LARGEST_INTEGER:
        raise InvalidInput(f"{path} is an integer of more than 400 digits. Store it as text.")
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInput(f"{path} is {value}, which JSON cannot hold. Use None or leave it out.")
        return value
    if isinstance(value, str):
        return checked_text(value, what=path, most=limits.MAX_METADATA_CHARS, empty_ok=True)
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {
            checked_text(key, what=f"a key of {path}", most=limits.MAX_NAME_CHARS, empty_ok=True): _checked_value(
                item, f"{path}[{key!r}]", depth + 1
            )
            for key, item in value.items()
        }
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes | bytearray):
        return [_checked_value(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
    raise InvalidInput(f"{path} is {_shown(value)}, of type {type(value).__name__}, which JSON cannot hold.")


def checked_metadata(metadata: Mapping[str, Any], *, what: str = "metadata") -> dict[str, Any]:
    """Metadata as plain JSON values; dates become ISO strings.

    Raises:
        InvalidInput: If a value is not JSON, a key starts with `lore_`, or it is too large or too deep.
    """
    if not isinstance(metadata, Mapping):
        raise InvalidInput(f"{what} is {_shown(metadata)}; give a mapping of names to JSON values.")
    plain: dict[str, Any] = _checked_value(metadata, what, 0)
    if reserved := [key for key in plain if key.startswith(RESERVED_PREFIX)]:
        raise InvalidInput(
            f"{what} has the key {reserved[0]!r}; names that start with {RESERVED_PREFIX!r} are reserved."
        )
    size = len(json.dumps(plain, ensure_ascii=False))
    if size > limits.MAX_METADATA_CHARS:
        raise InvalidInput(f"{what} has {size:,} characters as JSON, the most is {limits.MAX_METADATA_CHARS:,}.")
    return plain


def new_memory(**fields: Any) -> NewMemory:
    """A `NewMemory` of these fields.

    Raises:
        InvalidInput: Naming the first field of the wrong type.
    """
    for name, value in fields.items():
        if isinstance(value, bytes | bytearray):  # which pydantic would decode without a word
            raise InvalidInput(f"{name} is {_shown(value)}, of type {type(value).__name__}; decode it first.")
    try:
        return NewMemory(**fields)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "a field"
        raise InvalidInput(f"{where} is {_shown(first.get('input'))}: {first['msg'].lower()}.") from error


def checked_memory(memory: NewMemory, *, what: str) -> NewMemory:
    """The memory with every field storable and its metadata plain.

    Raises:
        InvalidInput: Naming `what`, the field and the value.
    """
    if not isinstance(memory, NewMemory):
        raise InvalidInput(f"{what} is {_shown(memory)}; give a NewMemory.")
    checked_text(memory.content, what=f"the content of {what}", most=limits.MAX_CONTENT_CHARS)
    if memory.id is not None:
        checked_text(memory.id, what=f"the id of {what}", most=limits.MAX_ID_CHARS)
    for field in ("kind", "agent", "session", "source", "trust", "language"):
        checked_name(getattr(memory, field), what=f"{field} of {what}")
    for alias in memory.aliases:
        checked_name(alias, what=f"an alias of {what}")
    return memory.model_copy(
        update={
            "metadata": checked_metadata(memory.metadata, what=f"metadata of {what}"),
            "created_at": utc(memory.created_at, what=f"created_at of {what}"),
            "expires_at": utc(memory.expires_at, what=f"expires_at of {what}"),
        }
    )


def loaded_json(text: str, *, what: str) -> Any:
    """What a text of JSON says.

    Raises:
        InvalidInput: If it is not JSON, names one thing of an object twice, or nests or counts beyond what can be read.
    """
    try:
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        place = f"column {error.colno}" if error.lineno == 1 else f"line {error.lineno}, column {error.colno}"
        raise InvalidInput(f"{what} is not JSON: {error.msg} ({place}).") from error
    except InvalidInput as error:
        raise InvalidInput(f"{what} is JSON that {error}") from error
    except RecursionError as error:
        raise InvalidInput(f"{what} is JSON that cannot be read: it is nested too deep.") from error
    except ValueError as error:
        raise InvalidInput(f"{what} is JSON that cannot be read: {error}.") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; of two values under one name, a reader would silently lose the first."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInput(f"names {_shown(twice)} twice in one object. Keep one.")
    return fields


def checked_limit(limit: object) -> int:
    """A number of hits from 1 to `limits.MAX_LIMIT`.

    Raises:
        InvalidInput: If it is no whole number in that range.
    """
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise InvalidInput(f"limit is {_shown(limit)}; give a whole number from 1 to {limits.MAX_LIMIT:,}.")
    if not 1 <= limit <= limits.MAX_LIMIT:
        raise InvalidInput(f"limit is {limit}; give a number from 1 to {limits.MAX_LIMIT:,}.")
    return limit


def given_queries(queries: str | Iterable[str]) -> tuple[str, ...]:
    """One query or several as a tuple.

    Raises:
        InvalidInput: If it is neither.
    """
    return (queries,) if isinstance(queries, str) else tuple(items_of(queries, what="the query", of="queries"))


def checked_queries(queries: str | Iterable[str]) -> tuple[tuple[str, ...], str | None]:
    """The queries as searched (NUL and lone surrogates removed, cut to the limit), and a note where one was cut.

    Raises:
        InvalidInput: If there is none, there are too many, or one is no string.
    """
    given = given_queries(queries)
    if not 1 <= len(given) <= limits.MAX_QUERIES:
        raise InvalidInput(f"{len(given)} queries were given; a recall takes 1 to {limits.MAX_QUERIES}.")
    note = None
    cleaned = []
    for text in given:
        if not isinstance(text, str):
            raise InvalidInput(f"a query is {_shown(text)}, of type {type(text).__name__}; give a string.")
        plain = _UNSTORABLE.sub("", text)
        if len(plain) > limits.MAX_QUERY_CHARS:
            note = f"a query of {len(plain):,} characters was cut to {limits.MAX_QUERY_CHARS:,}"
            plain = plain[: limits.MAX_QUERY_CHARS]
        cleaned.append(plain)
    return tuple(cleaned), note
