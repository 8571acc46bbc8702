"""Memories out of a store and into another, as JSON lines; and a user out of it for good. As the service role.

The first line of an export says what it is. Each further line is one memory with all that belongs to it (dates, the
original of a translation, other names, votes, history), or one group of names of an organisation. Vectors are not
exported: they belong to a model, and are made anew.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal
from zlib import crc32

from pydantic import Field, ValidationError

from lore_retriever.errors import InvalidInput
from lore_retriever.inputs import checked_memory, checked_text, utc
from lore_retriever.limits import MAX_NAME_CHARS
from lore_retriever.operations.common import BeforeWrite
from lore_retriever.queries import query
from lore_retriever.shares import Shares
from lore_retriever.types import NewMemory, Record

if TYPE_CHECKING:
    import psycopg

    from lore_retriever.admin import StoreAdmin

__all__ = ["FORMAT", "OnExisting", "export_lines", "forget_user", "import_lines"]

_log = logging.getLogger("lore_retriever")

FORMAT = "lore-retriever export 1"
"""What the first line of an export names."""

_FIRST_LINE = json.dumps({"format": FORMAT})

OnExisting = Literal["keep", "replace"]

_PAGE = 500
_BATCH = 200
_MOST_JOBS = 32
_MOST_VERSIONS = 1_000_000_000  # the database counts on to twice as many


class _Vote(Record):
    voter: str
    recall_id: str = ""
    useful: bool
    created_at: datetime


class _Change(Record):
    version: int = Field(ge=1, le=_MOST_VERSIONS)
    event: Literal["updated", "invalidated", "restored"]
    content: str | None = None
    superseded_by: str | None = None
    changed_at: datetime


class _Line(NewMemory):
    """One memory of an export."""

    id: str
    org: str
    owner: str
    created_at: datetime
    updated_at: datetime | None = None
    invalidated_at: datetime | None = None
    superseded_by: str | None = None
    version: int = Field(default=1, ge=1, le=_MOST_VERSIONS)
    content_original: str | None = None
    translation: Literal["done", "pending", "failed"] | None = None
    feedback: tuple[_Vote, ...] = ()
    history: tuple[_Change, ...] = ()


class _Names(Record):
    """One group of names of an export."""

    org: str
    names: tuple[str, ...]
    owner: str = ""


@dataclass(slots=True)
class _Batch:
    """Lines that are stored at once."""

    memories: list[dict[str, Any]] = field(default_factory=list)
    names: list[_Names] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.memories) + len(self.names)


class _Imported:
    """What an import has done, counted by the threads that did it; the parts of organisations that changed with it."""

    def __init__(self) -> None:
        self.counts = {"stored": 0, "kept": 0, "refused": 0, "names": 0}
        self.parts: set[tuple[str, str]] = set()
        self._lock = Lock()

    def add(self, counts: Mapping[str, int], parts: set[tuple[str, str]]) -> None:
        with self._lock:
            self.parts |= parts
            for name, count in counts.items():
                self.counts[name] += count


def export_lines(admin: StoreAdmin, *, org: str | None = None, user: str | None = None) -> Iterator[str]:
    """The lines of an export: everything, one organisation, or one user's memories; each without a line break.

    Groups of names go with an organisation, not with a user. Memories that change meanwhile are exported before or
    after their change; each is whole.
    """
    yield _FIRST_LINE
    place: dict[str, Any] = {"after_org": "", "after_key": 0}
    while True:
        with admin.service() as cursor:
            rows = cursor.execute(
                query("export_memories"), place | {"org": org, "owner": user, "limit": _PAGE}
            ).fetchall()
        yield from (json.dumps({"memory": row["line"]}, ensure_ascii=False) for row in rows)
        if len(rows) < _PAGE:
            break
        place = {"after_org": rows[-1]["org"], "after_key": rows[-1]["key"]}
    if user is None:
        with admin.service() as cursor:
            groups = cursor.execute(query("export_alias_groups"), {"org": org}).fetchall()
        yield from (json.dumps({"names": row["line"]}, ensure_ascii=False) for row in groups)


def import_lines(
    admin: StoreAdmin,
    lines: Iterable[str],
    *,
    on_existing: OnExisting = "keep",
    before_write: BeforeWrite | None = None,
    jobs: int = 1,
    progress: Callable[[int], None] | None = None,
) -> dict[str, int]:
    """Store what an export holds, all of it or nothing; how many memories were stored, kept and refused, and names.

    Ids, dates, originals, other names, votes and history come as they were. Vectors wait for `embed`.

    Args:
        on_existing: What happens to a memory whose owner has one of that id: `keep` what is there, or `replace` it.
            One whose id a colleague shares already is kept out either way.
        before_write: Looks at each memory; returns it, another in its place, or None to leave it out. It is asked of the
            original of a translation and of earlier texts, too, each in the place of the content: a memory whose
            original it refuses is left out, and so is an entry of the history.
        jobs: Connections that write at once, 1 to 32; the server uses a core for each. They commit together.
        progress: Called with the number of the line that was read last, every few hundred lines.

    Raises:
        InvalidInput: Naming the first line that cannot be stored, or an argument out of its bounds.
        StoreUnavailable: While another import is writing into the store.
    """
    if on_existing not in ("keep", "replace"):
        raise InvalidInput(f"on_existing is {on_existing!r}; give 'keep' or 'replace'.")
    if isinstance(jobs, bool) or not isinstance(jobs, int) or not 1 <= jobs <= _MOST_JOBS:
        raise InvalidInput(f"jobs is {jobs!r}; give a number of connections from 1 to {_MOST_JOBS}.")
    done = _Imported()
    with Shares[_Batch](admin, jobs, lambda cursor, batch: _store(cursor, batch, on_existing, done)) as shares:
        waiting = [_Batch() for _ in range(jobs)]
        for number, read in _records(lines):
            share = 0
            if isinstance(read, _Names):
                waiting[share].names.append(read)
            elif (ready := _ready(read, before_write, f"line {number}")) is None:
                done.add({"refused": 1}, set())
            else:
                share = _share_of(ready, jobs)
                waiting[share].memories.append(ready)
            if len(waiting[share]) >= _BATCH:
                shares.give(share, waiting[share])
                waiting[share] = _Batch()
                if progress is not None:
                    progress(number)
        for share, batch in enumerate(waiting):
            shares.give(share, batch)
    _count(admin, done)
    return done.counts


def _share_of(memory: Mapping[str, Any], jobs: int) -> int:
    """The same for one id of an organisation, whoever owns it, so that shares never wait for each other's rows."""
    return crc32(f"{memory['org']}\0{memory['id']}".encode()) % jobs


def _count(admin: StoreAdmin, done: _Imported) -> None:
    """Bring up to date what is derived from what was stored. All is stored, so that a failure is only told."""
    try:
        with admin.service() as cursor:
            cursor.execute(query("sort_in"))
            cursor.execute("SELECT refresh_reinforcement()")
            for org, part in sorted(done.parts):
                cursor.execute("SELECT pg_advisory_xact_lock(statistics_lock(%s, %s))", [org, part])
                cursor.execute("SELECT count_part(%s, %s, 0)", [org, part])
    except Exception as error:  # a deadlock too: nothing that goes wrong from here on takes back what is stored
        _log.warning("all is stored, and not yet counted: %s `lore-retriever maintain` does it.", error)


def forget_user(admin: StoreAdmin, org: str, user: str) -> dict[str, int]:
    """Remove every trace of a user of an organisation; how many rows of each sort that were."""
    names = {
        "org": checked_text(org, what="org", most=MAX_NAME_CHARS),
        "owner": checked_text(user, what="user", most=MAX_NAME_CHARS),
    }
    with admin.service() as cursor:
        rows = cursor.execute(query("forget_user"), names).fetchall()
    return {row["place"]: row["rows"] for row in rows}


def _records(lines: Iterable[str]) -> Iterator[tuple[int, _Line | _Names]]:
    """What an export holds, each with the number of its line."""
    begun = False
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        read = _read(line, number)
        if read is None:
            begun = True
        elif begun:
            yield number, read
        else:
            raise InvalidInput(f"line {number} comes before {_FIRST_LINE}, with which an export begins.")
    if not begun:
        raise InvalidInput(f"this holds nothing; an export begins with {_FIRST_LINE}.")


def _read(line: str, number: int) -> _Line | _Names | None:
    """What a line says; None for the first one, which says what the rest is."""
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise InvalidInput(f"line {number} is not JSON: {error}.") from error
    if not isinstance(row, dict) or len(row) != 1 or not {"format", "memory", "names"} & set(row):
        raise InvalidInput(f"line {number} is {line[:80]!r}; an export holds `format`, `memory` and `names` lines.")
    if "format" in row:
        if row["format"] != FORMAT:
            raise InvalidInput(f"line {number}: the format is {row['format']!r}; this version reads {FORMAT!r}.")
        return None
    try:
        return _Line(**row["memory"]) if "memory" in row else _Names(**row["names"])
    except (ValidationError, TypeError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": str(error)}
        where = ".".join(str(part) for part in first["loc"]) or "it"
        why = str(first["msg"]).lower()
        raise InvalidInput(f"line {number}: {where} cannot be read: {why}.") from error


def _ready(line: _Line, before_write: BeforeWrite | None, what: str) -> dict[str, Any] | None:
    """The line as the database takes it, or None where it is refused."""
    given: NewMemory | None = NewMemory(**line.model_dump(include=set(NewMemory.model_fields)))
    if before_write is not None and given is not None:
        original = _let_through(given, line.content_original, before_write)
        if line.content_original is not None and original is None:
            return None
        line = line.model_copy(
            update={"content_original": original, "history": _past(given, line.history, before_write)}
        )
        given = before_write(given)
    if given is None:
        return None
    checked = checked_memory(given, what=what)
    for name in ("org", "owner"):
        checked_text(getattr(line, name), what=f"{name} of {what}", most=MAX_NAME_CHARS)
    for name in ("content_original", "superseded_by"):
        if (value := getattr(line, name)) is not None:
            checked_text(value, what=f"{name} of {what}", most=len(value))
    ready = line.model_dump(mode="json") | checked.model_dump(mode="json")
    dates = {name: _dated(getattr(line, name), name) for name in ("updated_at", "invalidated_at")}
    return ready | dates | {"id": line.id, "created_at": _dated(line.created_at, "created_at")}


def _let_through(given: NewMemory, text: str | None, before_write: BeforeWrite) -> str | None:
    """What a hook makes of another text of a memory; None where there is none, or it is refused."""
    seen = None if text is None else before_write(given.model_copy(update={"content": text}))
    return None if seen is None else seen.content


def _past(given: NewMemory, history: Sequence[_Change], before_write: BeforeWrite) -> tuple[_Change, ...]:
    """A memory's history without what a hook refuses."""
    kept = []
    for change in history:
        text = _let_through(given, change.content, before_write)
        if change.content is None or text is not None:
            kept.append(change.model_copy(update={"content": text}))
    return tuple(kept)


def _dated(moment: datetime | None, what: str) -> str | None:
    aware = utc(moment, what=what)
    return None if aware is None else aware.isoformat()


def _store(cursor: psycopg.Cursor[Any], batch: _Batch, on_existing: OnExisting, done: _Imported) -> None:
    # The last of several lines with one id wins, as it does for `remember_many`.
    latest: Mapping[tuple[str, str, str], dict[str, Any]] = {
        (line["org"], line["owner"], line["id"]): line for line in batch.memories
    }
    lines = json.dumps(list(latest.values()), ensure_ascii=False)
    gone = cursor.execute(query("delete_exported"), {"lines": lines}).fetchall() if on_existing == "replace" else []
    stored = cursor.execute(query("import_memories"), {"lines": lines}).fetchall()
    names = sum(_store_names(cursor, group) for group in batch.names)
    counts = {"stored": len(stored), "kept": len(batch.memories) - len(stored), "names": names}
    done.add(counts, {(row["org"], row["part"]) for row in [*gone, *stored]})


def _store_names(cursor: psycopg.Cursor[Any], group: _Names) -> int:
    names = [checked_text(name, what="a name", most=MAX_NAME_CHARS) for name in group.names]
    cursor.execute(
        "SELECT set_config('lore.org_id', %s, true), set_config('lore.user_id', %s, true)", [group.org, group.owner]
    )
    row = cursor.execute(query("merge_alias_groups"), {"names": names}).fetchone()
    cursor.execute(query("insert_aliases"), {"names": names, "group_no": row["group_no"] if row else None})
    return max(0, cursor.rowcount)
