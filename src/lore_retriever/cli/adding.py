"""`add`: files and folders become memories, searchable by their words at once; their vectors follow."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lore_retriever.cli.bars import Bar, bar
from lore_retriever.cli.opening import opened_memories
from lore_retriever.cli.output import counted, print_json, status_line, tell_waiting
from lore_retriever.cli.settings import Settings, command
from lore_retriever.cli.storing import Tally, embed_own, store_missing, waiting
from lore_retriever.errors import InvalidInput
from lore_retriever.ingest import Defaults, Piece, Source, find_sources, read_source
from lore_retriever.types import NewMemory

if TYPE_CHECKING:
    from lore_retriever.views import Memories

__all__ = ["register"]

BATCH_MEMORIES = 64
BATCH_CHARS = 400_000
"""One transaction's worth: what an interruption can lose."""

MOST_TOLD = 20
"""Refusals told one by one; beyond, they are counted."""


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    command(app, "add")(add)


def add(
    settings: Settings,
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH", help="Markdown, text or JSONL files, and folders of them.")
    ],
    kind: Annotated[str, typer.Option("--kind", help="Kind of what does not name its own.")] = "document",
    visibility: Annotated[
        str, typer.Option("--visibility", help="private, or shared with the organisation.")
    ] = "private",
    base: Annotated[
        Path | None,
        typer.Option("--base", help="Folder that ids of files are paths from; your home folder by default."),
    ] = None,
    embed: Annotated[
        bool, typer.Option("--embed/--no-embed", help="Make the vectors too, or leave them to `embed`.")
    ] = True,
) -> None:
    """Store files as memories; the same command again does only what is missing.

    A Markdown or text file is one memory, named by its path. A JSONL file holds one a line: {"text": "…", "id": "…",
    "meta": {…}}, where id and meta may be absent.
    """
    defaults = Defaults(kind, _checked_visibility(visibility))
    sources = list(find_sources(paths, base=base or Path.home()))
    tally = Tally()
    with opened_memories(settings) as memories:
        try:
            _store(memories, sources, defaults, tally)
            if embed and tally.read:
                _embed(memories, tally)
        except KeyboardInterrupt:
            status_line("stopped; what is stored stays. The same command goes on from here.")
            raise typer.Exit(130) from None
        tally.waiting = waiting(memories)[0]
    _report(settings, tally, embed=embed)


def _checked_visibility(value: str) -> Literal["private", "shared"]:
    if value == "shared":
        return "shared"
    if value != "private":
        raise InvalidInput(f"--visibility is {value!r}; give private or shared.")
    return "private"


def _store(memories: Memories, sources: Sequence[Source], defaults: Defaults, tally: Tally) -> None:
    started = time.monotonic()
    size = sum(source.size for source in sources)
    with bar("storing", size, counted=False, shown=size > 0) as advance:
        for batch in _batches(_pieces(sources, defaults), advance, tally):
            _tell(store_missing(memories, batch, tally), tally)
            advance(0, f"{tally.added + tally.replaced:,} stored")
    if stored := tally.added + tally.replaced:
        status_line(f"{stored:,} stored in {time.monotonic() - started:.1f} s, searchable by their words from now on")


def _pieces(sources: Sequence[Source], defaults: Defaults) -> Iterator[Piece]:
    """What the files hold; an id that comes twice is refused the second time."""
    seen: dict[str, str] = {}
    for source in sources:
        for piece in read_source(source, defaults):
            given = piece.memory.id if piece.memory is not None else None
            if given is not None and given in seen:
                yield Piece(piece.size, refusal=f"{piece.where} repeats the id {given!r} of {seen[given]}.")
                continue
            if given is not None:
                seen[given] = piece.where
            yield piece


def _batches(pieces: Iterator[Piece], advance: Bar, tally: Tally) -> Iterator[list[NewMemory]]:
    """Memories, as many at a time as one transaction stores; what was refused is told on the way."""
    batch: list[NewMemory] = []
    chars = size = 0
    for piece in pieces:
        size += piece.size
        if piece.memory is None:
            tally.refused.append(piece.refusal or "")
            _tell([piece.refusal or ""], tally)
            continue
        batch.append(piece.memory)
        chars += len(piece.memory.content)
        if len(batch) >= BATCH_MEMORIES or chars >= BATCH_CHARS:
            yield batch
            advance(size)
            batch, chars, size = [], 0, 0
    if batch:
        yield batch
    advance(size)


def _tell(refused: Sequence[str], tally: Tally) -> None:
    for message in refused:
        if len(tally.refused) <= MOST_TOLD:
            status_line(f"refused: {message}")


def _embed(memories: Memories, tally: Tally) -> None:
    _, windows = waiting(memories)
    if windows:
        with bar("embedding", windows) as advance:
            tally.embedded = embed_own(memories, advance)


def _report(settings: Settings, tally: Tally, *, embed: bool) -> None:
    if settings.as_json:
        print_json(asdict(tally))
    else:
        counts = {
            "added": tally.added,
            "replaced": tally.replaced,
            "unchanged": tally.unchanged,
            "left invalidated": tally.invalidated,
            "refused": len(tally.refused),
        }
        print(counted(counts, "added"))
    tell_waiting(tally.waiting, "tries again" if embed else "makes them")
    if tally.refused:
        raise typer.Exit(1)
