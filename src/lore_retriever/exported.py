"""The lines of an export: what they are, and what of them a store can hold. No database.

The first line says what it is. Each further line is one memory with all that belongs to it (dates, the original of a
translation, other names, votes, history), or one group of names of an organisation; the last line counts them, so that
an export that was cut off is known. Exports may stand one after another in a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pydantic import Field, ValidationError

from lore_retriever.errors import InvalidInput
from lore_retriever.inputs import checked_memory, checked_text, loaded_json, utc
from lore_retriever.limits import MAX_CONTENT_CHARS, MAX_ID_CHARS, MAX_NAME_CHARS
from lore_retriever.types import Moment, NewMemory, Record

__all__ = ["FIRST_LINE", "FORMAT", "Change", "ExportedMemory", "ExportedNames", "last_line", "read_export", "storable"]

FORMAT = "lore-retriever export 1"
"""What the first line of an export names."""

FIRST_LINE = json.dumps({"format": FORMAT, "ends": True})
"""That a last line follows is said here: exports written by hand may do without."""

_MOST_VERSIONS = 1_000_000_000  # the database counts on to twice as many


class Vote(Record):
    """Somebody's vote on a memory."""

    voter: str
    recall_id: str = ""
    useful: bool
    created_at: Moment


class Change(Record):
    """One entry of a memory's history."""

    version: int = Field(ge=1, le=_MOST_VERSIONS)
    event: Literal["updated", "invalidated", "restored"]
    content: str | None = None
    superseded_by: str | None = None
    changed_at: Moment


class ExportedMemory(NewMemory):
    """One memory of an export."""

    id: str
    org: str
    owner: str
    created_at: Moment
    updated_at: Moment | None = None
    invalidated_at: Moment | None = None
    superseded_by: str | None = None
    version: int = Field(default=1, ge=1, le=_MOST_VERSIONS)
    content_original: str | None = None
    translation: Literal["done", "pending", "failed"] | None = None
    feedback: tuple[Vote, ...] = ()
    history: tuple[Change, ...] = ()


class ExportedNames(Record):
    """One group of names of an export; of nobody where a user was forgotten that had given them."""

    org: str
    names: tuple[str, ...]
    owner: str = ""


@dataclass(slots=True)
class _Extent:
    """What has come since the first line of an export, and whether its last line is still to come."""

    open: bool
    ended: bool = False
    memories: int = 0
    names: int = 0


def last_line(memories: int, names: int) -> str:
    """The line that ends an export of so many memories, and so many names in groups."""
    return json.dumps({"end": {"memories": memories, "names": names}})


def read_export(lines: Iterable[str], *, name: str = "") -> Iterator[tuple[str, ExportedMemory | ExportedNames]]:
    """What the lines of an export hold, each with its place, as in `line 7 of name`.

    Raises:
        InvalidInput: Naming the first line that is none of an export, or that the export is not whole.
    """
    of = f" of {name}" if name else ""
    extent: _Extent | None = None
    number = 0
    for number, line in enumerate(lines, start=1):
        text = line.removeprefix("\ufeff") if number == 1 else line
        if not text.strip():
            continue
        where = f"line {number}{of}"
        sort, value = _sorted_out(text, where)
        if sort == "format":
            _require_end(extent, where)
            extent = _Extent(open=bool(value))
        elif extent is None or extent.ended:
            raise InvalidInput(f"{where} comes {'after the end of' if extent else 'before'} {FIRST_LINE}.")
        elif sort == "end":
            _require_count(extent, value, where)
        else:
            read = _read(sort, value, where)
            if isinstance(read, ExportedMemory):
                extent.memories += 1
            else:
                extent.names += len(read.names)
            yield where, read
    if extent is None:
        raise InvalidInput(f"{name or 'this'} holds nothing; an export begins with {FIRST_LINE}.")
    _require_end(extent, f"the end of {name or 'this'}")


def _sorted_out(text: str, where: str) -> tuple[str, Any]:
    """Which sort of line this is and what it says; of a first line, whether a last one follows."""
    row = loaded_json(text, what=where)
    sorts = ("format", "memory", "names", "end")
    sort = next((sort for sort in sorts if isinstance(row, dict) and sort in row), None)
    if sort is None or not set(row) <= ({"format", "ends"} if sort == "format" else {sort}):
        raise InvalidInput(f"{where} is {text[:80]!r}; an export holds `format`, `memory`, `names` and `end` lines.")
    if sort == "format":
        if row["format"] != FORMAT:
            raise InvalidInput(f"{where}: the format is {row['format']!r}; this version reads {FORMAT!r}.")
        return sort, row.get("ends", False) is not False
    if not isinstance(row[sort], dict):
        raise InvalidInput(f"{where}: {sort} is {text[:80]!r}; it holds an object.")
    return sort, row[sort]


def _require_end(extent: _Extent | None, where: str) -> None:
    if extent is not None and extent.open:
        raise InvalidInput(
            f"{where} comes after {extent.memories:,} memories and {extent.names:,} names, without the last line that the"
            " first one promises: the export was cut off. Export again; nothing is stored."
        )


def _require_count(extent: _Extent, told: Mapping[str, Any], where: str) -> None:
    counted = {"memories": extent.memories, "names": extent.names}
    if told != counted:
        raise InvalidInput(
            f"{where} counts {json.dumps(told)}, and {json.dumps(counted)} came before it: the export is not whole. Export"
            f" again; if you changed it yourself, leave out this line, and `ends` in the first one. Nothing is stored."
        )
    extent.open, extent.ended = False, True


def _read(sort: str, value: Mapping[str, Any], where: str) -> ExportedMemory | ExportedNames:
    try:
        return _storable_names(ExportedNames(**value), where) if sort == "names" else ExportedMemory(**value)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "it"
        why = str(first["msg"]).lower()
        raise InvalidInput(f"{where}: {place} cannot be read: {why}.") from error


def _storable_names(group: ExportedNames, where: str) -> ExportedNames:
    checked_text(group.org, what=f"org of {where}", most=MAX_NAME_CHARS)
    checked_text(group.owner, what=f"owner of {where}", most=MAX_NAME_CHARS, empty_ok=True)
    for name in group.names:
        checked_text(name, what=f"a name of {where}", most=MAX_NAME_CHARS)
    if not group.names:
        raise InvalidInput(f"{where}: names is empty; a group has at least one.")
    return group


def storable(memory: ExportedMemory, given: NewMemory, where: str) -> dict[str, Any]:
    """A memory as the database takes it, with the fields of `given`, which a hook may have changed.

    Raises:
        InvalidInput: Naming the place and the first thing that no store can hold.
    """
    checked = checked_memory(given, what=where)
    for name in ("org", "owner"):
        checked_text(getattr(memory, name), what=f"{name} of {where}", most=MAX_NAME_CHARS)
    _check(memory, where, content_original=MAX_CONTENT_CHARS, superseded_by=MAX_ID_CHARS)
    votes = [_storable_vote(vote, f"a vote of {where}") for vote in memory.feedback]
    _require_one_vote_each(memory.feedback, where)
    dates = {name: _dated(getattr(memory, name), f"{name} of {where}") for name in _DATES}
    return (
        memory.model_dump(mode="json", exclude={"feedback", "history"})
        | checked.model_dump(mode="json")
        | dates
        | {"id": memory.id, "feedback": votes}
        | {"history": [_storable_change(change, f"the history of {where}") for change in memory.history]}
    )


_DATES = ("created_at", "updated_at", "invalidated_at")


def _storable_vote(vote: Vote, what: str) -> dict[str, Any]:
    checked_text(vote.voter, what=f"the voter in {what}", most=MAX_NAME_CHARS)
    checked_text(vote.recall_id, what=f"recall_id in {what}", most=MAX_NAME_CHARS, empty_ok=True)
    return vote.model_dump(mode="json") | {"created_at": _dated(vote.created_at, f"created_at in {what}")}


def _require_one_vote_each(votes: Sequence[Vote], where: str) -> None:
    seen: set[tuple[str, str]] = set()
    for vote in votes:
        if (place := (vote.voter, vote.recall_id)) in seen:
            raise InvalidInput(f"{where}: {vote.voter!r} votes twice in the recall {vote.recall_id!r}. Keep one vote.")
        seen.add(place)


def _storable_change(change: Change, what: str) -> dict[str, Any]:
    _check(change, what, content=MAX_CONTENT_CHARS, superseded_by=MAX_ID_CHARS)
    return change.model_dump(mode="json") | {"changed_at": _dated(change.changed_at, f"changed_at in {what}")}


def _check(record: Record, what: str, **most: int) -> None:
    for name, chars in most.items():
        if (value := getattr(record, name)) is not None:
            checked_text(value, what=f"{name} of {what}", most=chars)


def _dated(moment: datetime | None, what: str) -> str | None:
    aware = utc(moment, what=what)
    return None if aware is None else aware.isoformat()
