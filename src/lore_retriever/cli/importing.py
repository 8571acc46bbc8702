"""`import`: rows of another Postgres become memories; the same command again goes on where it was broken off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lore_retriever.cli.bars import bar
from lore_retriever.cli.opening import opened_memories
from lore_retriever.cli.output import counted, print_json, status_line, tell_waiting
from lore_retriever.cli.settings import Settings, command
from lore_retriever.cli.storing import embed_own, waiting
from lore_retriever.errors import InvalidInput

if TYPE_CHECKING:
    from lore_retriever.rows import Imported
    from lore_retriever.views import Memories

__all__ = ["register"]

MOST_TOLD = 20
"""Refusals told one by one; beyond, they are counted."""


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    command(app, "import")(import_)


def import_(
    settings: Settings,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="Connection string of the database to read; give a password by PGPASSWORD or .pgpass.",
        ),
    ],
    pgvector: Annotated[
        str | None, typer.Option("--pgvector", metavar="COLLECTION", help="A collection of LangChain's PGVector.")
    ] = None,
    pgvectorstore: Annotated[
        str | None, typer.Option("--pgvectorstore", metavar="TABLE", help="A table of LangChain's PGVectorStore.")
    ] = None,
    table: Annotated[str | None, typer.Option("--table", help="Any table or view, as name or schema.name.")] = None,
    query: Annotated[str | None, typer.Option("--query", metavar="SQL", help="Any SELECT.")] = None,
    content: Annotated[str | None, typer.Option("--content", metavar="COLUMN", help="The text; content.")] = None,
    id_: Annotated[
        str | None, typer.Option("--id", metavar="COLUMN", help="The memory's id; id. '' makes one of the row.")
    ] = None,
    metadata: Annotated[
        str | None, typer.Option("--metadata", metavar="COLUMN", help="A json or jsonb column with an object.")
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="COLUMN", help="A column to keep as a metadata key; repeatable."),
    ] = None,
    field: Annotated[
        list[str] | None,
        typer.Option("--field", metavar="FIELD=COLUMN", help="A memory's field, as in created_at=written; repeatable."),
    ] = None,
    kind: Annotated[str, typer.Option("--kind", help="Kind of what does not name its own.")] = "document",
    visibility: Annotated[
        str, typer.Option("--visibility", help="private, or shared with the organisation.")
    ] = "private",
    embed: Annotated[
        bool, typer.Option("--embed/--no-embed", help="Make the vectors too, or leave them to `embed`.")
    ] = True,
) -> None:
    """Store rows of another Postgres as memories: LangChain's stores, any table, any query.

    The source is only read. The same command again does only what is missing, so it may be broken off at any time.
    Vectors are made anew, by this store's model.
    """
    defaults = {"kind": kind, "visibility": visibility}
    chosen = {"pgvector": pgvector, "pgvectorstore": pgvectorstore, "table": table, "query": query}
    mapped = _columns(content, id_, metadata, key or [], field or [])
    with opened_memories(settings) as memories:
        try:
            done = _import(source, memories, {name: given for name, given in chosen.items() if given}, mapped, defaults)
            if embed:
                _embed(memories)
        except KeyboardInterrupt:
            status_line("stopped; what is stored stays. The same command goes on from here.")
            raise typer.Exit(130) from None
        left = waiting(memories)[0]
    _report(settings, done, left)


def _columns(
    content: str | None, id_: str | None, metadata: str | None, keys: Sequence[str], fields: Sequence[str]
) -> dict[str, Any]:
    """What was said of columns, and only that."""
    pairs = [given.partition("=") for given in fields]
    if wrong := [name + sign + column for name, sign, column in pairs if not (name and column)]:
        raise InvalidInput(f"--field is {wrong[0]!r}; give FIELD=COLUMN, as in created_at=written.")
    said = {
        "content": content,
        "id": id_,
        "metadata": metadata,
        "keys": list(keys),
        "fields": {name: column for name, _, column in pairs},
    }
    return {name: value for name, value in said.items() if value or value == ""}


def _import(
    source: str, memories: Memories, chosen: Mapping[str, str], columns: Mapping[str, Any], defaults: Mapping[str, Any]
) -> Imported:
    from lore_retriever.rows import Columns, import_rows

    if len(chosen) != 1:
        raise InvalidInput("give one of --pgvector, --pgvectorstore, --table and --query.")
    [(what, name)] = chosen.items()
    told = 0

    def tell(done: Imported) -> None:
        nonlocal told
        for message in done.refused[told:MOST_TOLD]:
            status_line(f"refused: {message}")
        told = len(done.refused)
        advance(0, f"{done.read:,} rows")

    options: dict[str, Any] = {"defaults": defaults, "embed": False, "on_error": "skip", "progress": tell}
    with bar("reading", 0, counted=False) as advance:
        if what in ("table", "query"):
            given = {**columns, **({"id": None} if columns.get("id") == "" else {})}
            return import_rows(source, memories, columns=Columns(**given), **{what: name, **options})
        return _from_langchain(source, memories, what, name, columns, options)


def _from_langchain(
    source: str, memories: Memories, what: str, name: str, columns: Mapping[str, Any], options: Mapping[str, Any]
) -> Imported:
    from lore_retriever.moving import import_pgvector, import_pgvectorstore

    if what == "pgvector":
        if columns:
            raise InvalidInput(
                "--pgvector knows its columns; leave --content, --id, --metadata, --key and --field out."
            )
        return import_pgvector(source, memories, collection=name, **options)
    if "fields" in columns:
        raise InvalidInput("--field goes with --table and --query; a PGVectorStore has --key.")
    names = {
        "content": "content_column",
        "id": "id_column",
        "metadata": "metadata_json_column",
        "keys": "metadata_columns",
    }
    schema, _, table = name.rpartition(".")
    given = {names[each]: value for each, value in columns.items()}
    return import_pgvectorstore(source, memories, table=table, schema=schema or "public", **given, **options)


def _embed(memories: Memories) -> None:
    _, windows = waiting(memories)
    if windows:
        with bar("embedding", windows) as advance:
            embed_own(memories, advance)


def _report(settings: Settings, done: Imported, left: int) -> None:
    if settings.as_json:
        print_json({"stored": done.stored, "unchanged": done.unchanged, "refused": done.refused, "waiting": left})
    else:
        counts = {"stored": done.stored, "unchanged": done.unchanged, "refused": len(done.refused)}
        print(counted(counts, "stored"))
    tell_waiting(left)
    if done.refused:
        raise typer.Exit(1)
