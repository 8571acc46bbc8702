"""Embedding spaces as their keeper sees them: record one, build a second beside it, switch, go back, drop.

A client searches the space that it was opened on, so that a switch needs no restart; it writes vectors of that space,
and lets the memory wait for those of every other one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import psycopg
from psycopg import errors as pg

from lore_retriever.draining import Service, drain
from lore_retriever.embeddings.base import Embedder, EmbeddingSpace
from lore_retriever.errors import EmbeddingSpaceMismatch, InvalidInput, StoreUnavailable
from lore_retriever.operations.common import halfvec_text
from lore_retriever.operations.embedding import MOST_ATTEMPTS
from lore_retriever.queries import query
from lore_retriever.steps import Row

__all__ = [
    "LEAST_CODE_DIMENSIONS",
    "SpaceStatus",
    "again",
    "build",
    "clear_dropped",
    "drop",
    "identity",
    "record_space",
    "recorded",
    "status",
    "switch",
    "undo",
    "wait_for_writers",
]

LEAST_CODE_DIMENSIONS = 256
"""Below, codes have too few bits to propose with; such spaces are always scanned."""

AT_ONCE = 5_000
"""Memories queued, or cleared of a space, in one transaction."""

MOST_WAIT_S = 600.0
"""How long to wait for transactions that were writing when something changed under them."""

_TELL_AFTER_S = 5.0

MOST_TRIES = 5

_log = logging.getLogger("lore_retriever")

State = Literal["active", "building", "kept"]


@dataclass(frozen=True, slots=True)
class SpaceStatus:
    """One embedding space of a store.

    Attributes:
        number: Its number in the database.
        state: `active` (new clients search it), `building` beside it, or `kept` as the way back.
        vectors: How many it holds.
        waiting: Memories that lack some.
        waiting_windows: Windows that lack theirs; estimated for memories not yet split for this model.
        given_up: Memories of `waiting` that are tried no more; see `StoreAdmin.retry`.
        error: The last failure of one of them.
        has_codes: Whether large organisations are searched by codes.
    """

    number: int
    space: EmbeddingSpace
    state: State
    vectors: int
    waiting: int
    waiting_windows: int
    given_up: int
    error: str | None
    has_codes: bool


def identity(row: Row) -> EmbeddingSpace:
    """The space that a row names."""
    return EmbeddingSpace(row["model"], row["revision"], row["dimensions"])


def record_space(
    cursor: psycopg.Cursor[Row], embedder: Embedder, *, state: Literal["active", "building"] = "active"
) -> int:
    """Record an embedder's space, with its centre where it ships one; its number."""
    space = embedder.space
    named = {"model": space.model, "revision": space.revision, "dimensions": space.dimensions, "state": state}
    number: int = _one(cursor, "insert_space", **named)["space"]
    if embedder.centre is not None and space.dimensions >= LEAST_CODE_DIMENSIONS:
        centre = _one(cursor, "insert_centre", space=number, embedding=halfvec_text(embedder.centre))["centre"]
        cursor.execute(query("use_generation"), {"space": number, "centre": centre})
    return number


def recorded(rows: Sequence[Row], space: EmbeddingSpace) -> Row:
    """The row of a space that is recorded and not dropped.

    Raises:
        EmbeddingSpaceMismatch: If there is none; names those that are.
    """
    held = [row for row in rows if row["state"] != "dropped"]
    for row in held:
        if identity(row) == space:
            return row
    names = ", ".join(f"{identity(row)} ({row['state']})" for row in held) or "no embedding space yet"
    raise EmbeddingSpaceMismatch(
        f"the embedder makes vectors of {space}; this store has {names}. Use one of them, or build a second space with"
        " `lore-retriever embed --model …`."
    )


def status(service: Service) -> list[SpaceStatus]:
    """Every space that is not dropped, the active one first."""
    with service() as cursor:
        rows = cursor.execute(query("spaces")).fetchall()
        return [_status(cursor, row) for row in rows]


def _status(cursor: psycopg.Cursor[Row], row: Row) -> SpaceStatus:
    counts = _one(cursor, "pending_counts", space=row["space"], most_attempts=MOST_ATTEMPTS)
    return SpaceStatus(
        number=row["space"],
        space=identity(row),
        state=row["state"],
        vectors=_one(cursor, "count_vectors", space=row["space"])["vectors"],
        waiting=counts["memories"],
        waiting_windows=counts["windows"],
        given_up=counts["given_up"],
        error=counts["error"],
        has_codes=row["centre"] is not None,
    )


def build(
    service: Service,
    embedder: Embedder,
    *,
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Make every memory's windows and vectors in the embedder's space, beside those that are searched; its number.

    Goes on where an interrupted run stopped. What is written meanwhile is queued by its writers.
    """
    with service() as cursor:
        rows = cursor.execute(query("all_spaces")).fetchall()
        dropped = [row["space"] for row in rows if row["state"] == "dropped" and identity(row) == embedder.space]
    if dropped:
        clear_dropped(service)
    with service() as cursor:
        number = _number_to_build(cursor, embedder)
    # Writers that began before do not know of the space; all later ones queue for it by themselves.
    wait_for_writers(service)
    _walk(service, "queue_some", number)
    with service() as cursor:
        row = recorded(cursor.execute(query("all_spaces")).fetchall(), embedder.space)
        before = _status(cursor, row)
    tell = _Progress(before.vectors, before.vectors + before.waiting_windows, progress)
    drain(service, number, embedder, workers=workers, progress=tell.advance)
    tell.end()
    return number


class _Progress:
    """Windows done of all; the total is an estimate until the last memory is split."""

    def __init__(self, done: int, total: int, progress: Callable[[int, int], None] | None) -> None:
        self._done, self._total, self._progress = done, total, progress

    def advance(self, windows: int) -> None:
        self._done += windows
        if self._progress is not None:
            self._progress(self._done, max(self._done, self._total))

    def end(self) -> None:
        if self._progress is not None:
            self._progress(self._done, self._done)


def _number_to_build(cursor: psycopg.Cursor[Row], embedder: Embedder) -> int:
    rows = cursor.execute(query("all_spaces")).fetchall()
    same = next((row for row in rows if identity(row) == embedder.space), None)
    if same is not None and same["state"] == "active":
        raise InvalidInput(f"this store already searches {embedder.space}; `embed` makes the vectors that wait in it.")
    if same is not None:
        return int(same["space"])
    if other := next((row for row in rows if row["state"] == "building"), None):
        raise InvalidInput(
            f"{identity(other)} is being built here; switch to it, or drop it, before building {embedder.space}."
        )
    if not any(row["state"] == "active" for row in rows):
        raise EmbeddingSpaceMismatch("this store has no embedding space yet. Run migrate with this embedder instead.")
    return record_space(cursor, embedder, state="building")


def switch(service: Service, to: EmbeddingSpace | str | None, *, force: bool) -> EmbeddingSpace:
    """Make a space the one that new clients search, in one transaction; the one before is kept.

    Raises:
        InvalidInput: If there is no such space, or memories still wait in it (unless `force`).
    """
    with service() as cursor:
        rows = cursor.execute(query("all_spaces")).fetchall()
        if to is None:
            target = next((row for row in rows if row["state"] == "building"), None)
            if target is None:
                raise InvalidInput(
                    "no second space is being built here. Build one with `lore-retriever embed --model …`."
                )
        else:
            target = chosen(rows, to)
        return _activate(cursor, rows, target, force=force)


def undo(service: Service, *, force: bool) -> EmbeddingSpace:
    """Go back to the space that was active before; the one that was active is kept in its turn.

    Raises:
        InvalidInput: If none is kept, or memories written since wait in it (unless `force`).
    """
    with service() as cursor:
        rows = cursor.execute(query("all_spaces")).fetchall()
        kept = [row for row in rows if row["state"] == "kept" and row["left_at"] is not None]
        if not kept:
            raise InvalidInput("no space is kept here to go back to: none was switched away from, or it was dropped.")
        return _activate(cursor, rows, max(kept, key=lambda row: row["left_at"]), force=force)


def _activate(cursor: psycopg.Cursor[Row], rows: Sequence[Row], target: Row, *, force: bool) -> EmbeddingSpace:
    space = identity(target)
    if target["state"] == "active":
        return space
    counts = _one(cursor, "pending_counts", space=target["space"], most_attempts=MOST_ATTEMPTS)
    if counts["memories"] and not force:
        why = f" ({counts['given_up']:,} given up: {counts['error']})" if counts["given_up"] else ""
        raise InvalidInput(
            f"{counts['memories']:,} memories still wait for vectors in {space}{why}; switching now would hide them from"
            " the vector leg. Embed them first, with that model, or force the switch."
        )
    for row in rows:
        if row["state"] == "active":
            cursor.execute(query("set_space_state"), {"space": row["space"], "state": "kept"})
    cursor.execute(query("set_space_state"), {"space": target["space"], "state": "active"})
    return space


def chosen(rows: Sequence[Row], wanted: EmbeddingSpace | str) -> Row:
    """The row of a space by its identity, or by its model's name where one space alone has it.

    Raises:
        InvalidInput: If none, or several, are meant.
    """
    held = [row for row in rows if row["state"] != "dropped"]
    found = [row for row in held if wanted in (identity(row), row["model"], str(identity(row)))]
    if len(found) == 1:
        return found[0]
    names = ", ".join(f"{identity(row)} ({row['state']})" for row in held) or "none"
    told = f"{wanted} names {len(found)} spaces" if found else f"there is no space {wanted} here"
    raise InvalidInput(f"{told}. The spaces of this store: {names}.")


def drop(service: Service, wanted: EmbeddingSpace | str) -> EmbeddingSpace:
    """Remove a space with its windows, vectors and codes. Clients that were opened on it get an error from then on.

    Raises:
        InvalidInput: If it is the active one, or there is none of that name.
    """
    with service() as cursor:
        target = chosen(cursor.execute(query("all_spaces")).fetchall(), wanted)
        if target["state"] == "active":
            raise InvalidInput(f"{identity(target)} is the space that is searched; switch to another one first.")
        cursor.execute(query("set_space_state"), {"space": target["space"], "state": "dropped"})
    clear_dropped(service)
    return identity(target)


def clear_dropped(service: Service) -> int:
    """Finish what an interrupted drop left behind; how many spaces that were."""
    with service() as cursor:
        rows = cursor.execute(query("all_spaces")).fetchall()
    dropped = [row["space"] for row in rows if row["state"] == "dropped"]
    if dropped:
        wait_for_writers(service)
    for number in dropped:
        _walk(service, "clear_some", number)
        again(service, "delete_space", {"space": number})
    return len(dropped)


def wait_for_writers(service: Service, *, most_s: float = MOST_WAIT_S) -> None:
    """Wait until every transaction that is writing now has ended. Holds nobody up.

    Raises:
        StoreUnavailable: If one lasts longer than `most_s` seconds.
    """
    began = time.monotonic()
    is_told = False
    seen: set[str] | None = None
    while True:
        with service() as cursor:
            now = {row["transaction"] for row in cursor.execute(query("writers")).fetchall()}
        seen = now if seen is None else seen & now
        if not seen:
            return
        if time.monotonic() > began + _TELL_AFTER_S and not is_told:
            is_told = True
            _log.warning("waiting for %d transactions that have not finished writing", len(seen))
        if time.monotonic() > began + most_s:
            raise StoreUnavailable(
                f"{len(seen)} transactions have been writing for more than {most_s:g} s. End them (pg_stat_activity), then"
                " run this again: it goes on where it stopped."
            )
        time.sleep(0.02)


def _walk(service: Service, statement: str, number: int) -> None:
    """Run a statement over all memories in order of key, `AT_ONCE` a transaction."""
    place: dict[str, Any] = {"org": "", "key": 0}
    while True:
        last, _ = again(service, statement, {"space": number, "limit": AT_ONCE, **place})
        if last is None:
            return
        place = {"org": last["org"], "key": last["key"]}


def again(service: Service, statement: str, params: Mapping[str, Any]) -> tuple[Row | None, int]:
    """Run a statement in a transaction of its own, again where a deadlock ended it; its first row, and its row count."""
    tries = 0
    while True:
        tries += 1
        try:
            with service() as cursor:
                cursor.execute(query(statement), params)
                return cursor.fetchone() if cursor.description else None, cursor.rowcount
        except (pg.DeadlockDetected, pg.SerializationFailure):
            if tries == MOST_TRIES:
                raise


def _one(cursor: psycopg.Cursor[Row], name: str, **params: Any) -> Row:
    row = cursor.execute(query(name), params).fetchone()
    assert row is not None
    return row
