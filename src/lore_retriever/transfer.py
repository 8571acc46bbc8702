"""Memories out of a store and into another, as JSON lines; and a user out of it for good. As the service role.

What the lines hold says `exported`. Vectors are not among it: they belong to a model, and are made anew.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal
from zlib import crc32

from lore_retriever.errors import InvalidInput
from lore_retriever.exported import FIRST_LINE, Change, ExportedMemory, ExportedNames, last_line, read_export, storable
from lore_retriever.inputs import checked_name, checked_text
from lore_retriever.limits import MAX_NAME_CHARS
from lore_retriever.operations.common import BeforeWrite
from lore_retriever.queries import query
from lore_retriever.shares import Shares
from lore_retriever.types import NewMemory

if TYPE_CHECKING:
    import psycopg

    from lore_retriever.admin import StoreAdmin

__all__ = ["OnExisting", "checked_jobs", "export_lines", "forget_user", "import_lines"]

_log = logging.getLogger("lore_retriever")

OnExisting = Literal["keep", "replace"]

_PAGE = 500
_BATCH = 200
_MOST_JOBS = 32


@dataclass(slots=True)
class _Batch:
    """Lines that are stored at once."""

    memories: list[dict[str, Any]] = field(default_factory=list)
    names: list[ExportedNames] = field(default_factory=list)

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

    Raises:
        InvalidInput: If an organisation or a user is named of whom there is nothing, before the last line.
    """
    checked_name(org, what="org")
    checked_name(user, what="user")
    memories = names = 0
    yield FIRST_LINE
    place: dict[str, Any] = {"after_org": "", "after_key": 0}
    while True:
        with admin.service() as cursor:
            rows = cursor.execute(
                query("export_memories"), place | {"org": org, "owner": user, "limit": _PAGE}
            ).fetchall()
        memories += len(rows)
        yield from (json.dumps({"memory": row["line"]}, ensure_ascii=False) for row in rows)
        if len(rows) < _PAGE:
            break
        place = {"after_org": rows[-1]["org"], "after_key": rows[-1]["key"]}
    if user is None:
        with admin.service() as cursor:
            groups = cursor.execute(query("export_alias_groups"), {"org": org}).fetchall()
        names = sum(len(row["line"]["names"]) for row in groups)
        yield from (json.dumps({"names": row["line"]}, ensure_ascii=False) for row in groups)
    if not memories + names and (org is not None or user is not None):
        whose = " of ".join(f"{what} {name!r}" for what, name in (("user", user), ("org", org)) if name is not None)
        raise InvalidInput(f"there is nothing of {whose} here. Check the spelling; no export is made.")
    yield last_line(memories, names)


def import_lines(
    admin: StoreAdmin,
    lines: Iterable[str],
    *,
    on_existing: OnExisting = "keep",
    before_write: BeforeWrite | None = None,
    jobs: int = 1,
    progress: Callable[[int], None] | None = None,
    name: str = "",
) -> dict[str, int]:
    """Store what an export holds, all of it or nothing; how many memories were stored, kept and refused, and names.

    Ids, dates, originals, other names, votes and history come as they were. Vectors wait for `embed`. Of several lines
    with one owner and id the last is stored, and the others are not counted.

    Args:
        on_existing: What happens to a memory whose owner has one of that id: `keep` what is there, or `replace` it.
            One whose id a colleague shares already is kept out either way.
        before_write: Looks at each memory; returns it, another in its place, or None to leave it out. It is asked of the
            original of a translation and of earlier texts, too, each in the place of the content: a memory whose
            original it refuses is left out, and so is an entry of the history.
        jobs: Connections that write at once, 1 to 32; the server uses a core for each. They commit together.
        progress: Called with the number of lines read so far, every few hundred.
        name: Of the file, for messages.

    Raises:
        InvalidInput: Naming the first line that cannot be stored, or an argument out of its bounds.
        StoreUnavailable: While another import is writing into the store.
    """
    if on_existing not in ("keep", "replace"):
        raise InvalidInput(f"on_existing is {on_existing!r}; give 'keep' or 'replace'.")
    checked_jobs(jobs)
    done = _Imported()
    with Shares[_Batch](admin, jobs, lambda cursor, batch: _store(cursor, batch, on_existing, done)) as shares:
        waiting = [_Batch() for _ in range(jobs)]
        for number, (where, read) in enumerate(read_export(lines, name=name), start=2):
            share = 0
            if isinstance(read, ExportedNames):
                waiting[share].names.append(read)
            elif (ready := _ready(read, before_write, where)) is None:
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


def checked_jobs(jobs: object) -> int:
    """A number of connections that write at once.

    Raises:
        InvalidInput: If it is out of its bounds.
    """
    if isinstance(jobs, bool) or not isinstance(jobs, int) or not 1 <= jobs <= _MOST_JOBS:
        raise InvalidInput(f"jobs is {jobs!r}; give a number of connections from 1 to {_MOST_JOBS}.")
    return jobs


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


def _ready(line: ExportedMemory, before_write: BeforeWrite | None, where: str) -> dict[str, Any] | None:
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
    return None if given is None else storable(line, given, where)


def _let_through(given: NewMemory, text: str | None, before_write: BeforeWrite) -> str | None:
    """What a hook makes of another text of a memory; None where there is none, or it is refused."""
    seen = None if text is None else before_write(given.model_copy(update={"content": text}))
    return None if seen is None else seen.content


def _past(given: NewMemory, history: Sequence[Change], before_write: BeforeWrite) -> tuple[Change, ...]:
    """A memory's history without what a hook refuses."""
    kept = []
    for change in history:
        text = _let_through(given, change.content, before_write)
        if change.content is None or text is not None:
            kept.append(change.model_copy(update={"content": text}))
    return tuple(kept)


def _store(cursor: psycopg.Cursor[Any], batch: _Batch, on_existing: OnExisting, done: _Imported) -> None:
    latest: Mapping[tuple[str, str, str], dict[str, Any]] = {
        (line["org"], line["owner"], line["id"]): line for line in batch.memories
    }
    keys = [{name: line[name] for name in ("org", "owner", "id", "visibility")} for line in latest.values()]
    gone = cursor.execute(
        query("delete_exported"), {"lines": json.dumps(keys), "replace": on_existing == "replace"}
    ).fetchall()
    lines = json.dumps(list(latest.values()), ensure_ascii=False)
    stored = cursor.execute(query("import_memories"), {"lines": lines}).fetchall()
    names = sum(_store_names(cursor, group) for group in batch.names)
    again = sum(row["is_ours"] for row in gone)
    counts = {"stored": len(stored) - again, "kept": len(latest) - len(stored), "names": names}
    done.add(counts, {(row["org"], row["part"]) for row in [*gone, *stored]})


def _store_names(cursor: psycopg.Cursor[Any], group: ExportedNames) -> int:
    names = list(group.names)
    cursor.execute(
        "SELECT set_config('lore.org_id', %s, true), set_config('lore.user_id', %s, true)", [group.org, group.owner]
    )
    row = cursor.execute(query("merge_alias_groups"), {"names": names}).fetchone()
    cursor.execute(query("insert_aliases"), {"names": names, "group_no": row["group_no"] if row else None})
    return max(0, cursor.rowcount)
