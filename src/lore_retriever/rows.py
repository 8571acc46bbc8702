"""Rows of any Postgres table or query to memories, for moving in from another store; may be broken off and repeated.

The source is only read, in one snapshot. What is already held as it stands there is passed over, so that a second run
goes on where the first one stopped, and a third one only looks. Texts are embedded anew: vectors of another store are
not known to be of this one's space.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from lore_retriever.annotations import ADAPTER_KIND, reserved_fields
from lore_retriever.bridge import View, blocking
from lore_retriever.connecting import connected
from lore_retriever.errors import InvalidInput
from lore_retriever.ingest import is_held
from lore_retriever.inputs import checked_memory, loaded_json, new_memory
from lore_retriever.operations.common import fetch
from lore_retriever.types import NewMemory
from lore_retriever.views import Memories

__all__ = ["Columns", "Imported", "import_rows"]

_SETTABLE = frozenset(NewMemory.model_fields) - {"content", "id", "metadata"}


@dataclass(frozen=True, slots=True)
class Columns:
    """Which column of the source becomes what.

    Attributes:
        content: The text.
        id: The memory's id, as text; None makes one of the row's content, the same in every run.
        metadata: A json or jsonb column with an object.
        keys: Further columns, each a metadata key: a list of names, or names of keys to columns.
        fields: Fields of `NewMemory` (`created_at`, `kind`, `source`, …) to columns.

    Raises:
        InvalidInput: If a field of `fields` is none that a column can set.
    """

    content: str = "content"
    id: str | None = "id"
    metadata: str | None = None
    keys: Sequence[str] | Mapping[str, str] = ()
    fields: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.fields) - _SETTABLE):
            raise InvalidInput(f"a column cannot set {unknown[0]!r}; it can set {', '.join(sorted(_SETTABLE))}.")

    def key_columns(self) -> Mapping[str, str]:
        """Metadata keys to columns."""
        return self.keys if isinstance(self.keys, Mapping) else {name: name for name in self.keys}

    def names(self) -> list[str]:
        """Every column that is read, once."""
        wanted = [self.content, self.id, self.metadata, *self.key_columns().values(), *self.fields.values()]
        return list(dict.fromkeys(name for name in wanted if name is not None))


@dataclass(slots=True)
class Imported:
    """What became of the rows, counted; `refused` says why, one by one."""

    stored: int = 0
    unchanged: int = 0
    refused: list[str] = field(default_factory=list)

    @property
    def read(self) -> int:
        """Rows read so far."""
        return self.stored + self.unchanged + len(self.refused)


def import_rows(
    source: str | psycopg.Connection[Any],
    memories: View,
    *,
    table: str | Sequence[str] | None = None,
    query: str | None = None,
    params: Mapping[str, Any] | None = None,
    columns: Columns | None = None,
    defaults: Mapping[str, Any] | None = None,
    batch_size: int = 200,
    embed: bool = True,
    on_error: Literal["raise", "skip"] = "raise",
    progress: Callable[[Imported], None] | None = None,
) -> Imported:
    """Store the rows of a table or a query as memories; what became of them.

    Args:
        source: Connection string of the database to read, or an open connection to it.
        memories: View of either store to write to.
        table: A table or view, as `name`, `schema.name`, or its parts; or else
        query: a SELECT, with named parameters from `params`.
        columns: Which column becomes what; `content` and `id` of those names if None.
        defaults: Fields of `NewMemory` for every row that its columns do not set; kind `document` if it names none.
        batch_size: Rows stored in one transaction: what a break can cost at most.
        embed: False leaves the vectors to `lore-retriever embed`; the memories are found by their words at once.
        on_error: `skip` passes over rows that cannot be stored, and names them in what is returned.
        progress: Called after each batch with what has been done so far.

    Raises:
        InvalidInput: If a row cannot be stored, or a column is missing; batches before it are stored.
        StoreUnavailable: If the source cannot be reached.
    """
    if on_error not in ("raise", "skip"):
        raise InvalidInput(f"on_error is {on_error!r}; give 'raise' or 'skip'.")
    wanted = columns or Columns()
    selecting = _selecting(table, query, wanted)
    fields = {"kind": ADAPTER_KIND} | dict(defaults or {})
    new_memory(**{"content": "checked before anything is read", **fields})
    view = blocking(memories)
    done = Imported()
    for rows in _batches(source, selecting, params, batch_size):
        _store(view, _memories(rows, wanted, fields, done, on_error), done, embed=embed)
        if progress is not None:
            progress(done)
    return done


def _selecting(table: str | Sequence[str] | None, query: str | None, columns: Columns) -> sql.SQL | sql.Composed:
    if (table is None) == (query is None):
        raise InvalidInput("give either a table or a query to read from.")
    if query is not None:
        # The caller's own statement on the caller's own database.
        return sql.SQL(query)
    parts = table.split(".") if isinstance(table, str) else list(table or ())
    names = sql.SQL(", ").join(map(sql.Identifier, columns.names()))
    return sql.SQL("SELECT {} FROM {}").format(names, sql.Identifier(*parts))


def _batches(
    source: str | psycopg.Connection[Any],
    selecting: sql.SQL | sql.Composed,
    params: Mapping[str, Any] | None,
    size: int,
) -> Iterator[list[dict[str, Any]]]:
    """Rows of one snapshot, fetched a batch at a time."""
    if not isinstance(source, str):
        yield from _read(source, selecting, params, size)
        return
    with connected(source, application_name="lore-retriever-import") as connection:
        connection.read_only = True
        yield from _read(connection, selecting, params, size)


def _read(
    connection: psycopg.Connection[Any], selecting: sql.SQL | sql.Composed, params: Mapping[str, Any] | None, size: int
) -> Iterator[list[dict[str, Any]]]:
    with connection.transaction(), connection.cursor("lore_import", row_factory=dict_row) as cursor:
        try:
            cursor.execute(selecting, params)
        except (psycopg.errors.UndefinedColumn, psycopg.errors.UndefinedTable) as error:
            raise InvalidInput(f"the source cannot be read so: {error.diag.message_primary}.") from error
        while rows := cursor.fetchmany(size):
            yield rows


def _memories(
    rows: Iterable[Mapping[str, Any]],
    columns: Columns,
    defaults: Mapping[str, Any],
    done: Imported,
    on_error: Literal["raise", "skip"],
) -> list[NewMemory]:
    made: dict[str, NewMemory] = {}
    for number, row in enumerate(rows, start=done.read):
        try:
            memory = _memory(row, columns, defaults, f"row {number}")
        except InvalidInput as error:
            if on_error == "raise":
                raise
            done.refused.append(str(error))
            continue
        if memory.id in made:
            done.unchanged += 1  # the last of one id wins, as in every batch
        made[str(memory.id)] = memory
    return list(made.values())


def _memory(row: Mapping[str, Any], columns: Columns, defaults: Mapping[str, Any], what: str) -> NewMemory:
    missing = [name for name in columns.names() if name not in row]
    if missing:
        raise InvalidInput(f"the source has no column {missing[0]!r}; it has {', '.join(row)}.")
    metadata, reserved = reserved_fields(_object(row, columns.metadata, what))
    metadata |= {key: row[name] for key, name in columns.key_columns().items() if row[name] is not None}
    set_here = {name: row[column] for name, column in columns.fields.items() if row[column] is not None}
    content = row[columns.content]
    made_id = _made_id(content, metadata) if columns.id is None else row[columns.id]
    named = what if made_id is None else f"{what} ({str(made_id)!r})"
    if made_id is None:
        raise InvalidInput(f"{named}: the column {columns.id!r} is null, so it has no id.")
    try:
        memory = new_memory(
            **{**defaults, **reserved, **set_here, "content": content, "id": str(made_id), "metadata": metadata}
        )
    except InvalidInput as error:
        raise InvalidInput(f"{named}: {error}") from error
    return checked_memory(memory, what=named)


def _object(row: Mapping[str, Any], column: str | None, what: str) -> Mapping[str, Any]:
    value = None if column is None else row[column]
    if isinstance(value, str):
        value = loaded_json(value, what=f"{what}: the column {column!r}")
    if value is not None and not isinstance(value, Mapping):
        raise InvalidInput(f"{what}: the column {column!r} holds {type(value).__name__}, not a JSON object.")
    return value or {}


def _made_id(content: object, metadata: Mapping[str, Any]) -> str:
    return sha256(json.dumps([content, dict(metadata)], sort_keys=True, default=str).encode()).hexdigest()


def _store(view: Memories, batch: Sequence[NewMemory], done: Imported, *, embed: bool) -> None:
    """Store what is not held yet, in one transaction."""
    rows = view.store.perform(fetch("own_states", ids=[memory.id for memory in batch]), view.scope) if batch else []
    held = {row["id"]: row for row in rows}
    wanted = [memory for memory in batch if memory.id not in held or not is_held(memory, held[memory.id])]
    if wanted:
        view.remember_many(wanted, embed=embed)
    done.stored += len(wanted)
    done.unchanged += len(batch) - len(wanted)
