"""Vectors: `embed` makes what waits or builds another model's space, `space` shows, switches and drops spaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table

from lore_retriever.cli.bars import bar
from lore_retriever.cli.opening import Keeper, named_model, opened_keeper, opened_memories
from lore_retriever.cli.output import console, print_json, shown, status_line
from lore_retriever.cli.settings import Settings, command
from lore_retriever.cli.storing import embed_own, waiting
from lore_retriever.errors import InvalidInput

if TYPE_CHECKING:
    from lore_retriever.embeddings import Embedder
    from lore_retriever.spaces import SpaceStatus

__all__ = ["register"]

Force = Annotated[bool, typer.Option("--force", help="Although memories still wait for their vectors in it.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    command(app, "embed")(embed)
    spaces = typer.Typer(help="Embedding spaces: one for each model that made vectors here.", no_args_is_help=True)
    command(spaces, "list", caller=False)(list_)
    command(spaces, "switch", caller=False)(switch)
    command(spaces, "undo", caller=False)(undo)
    command(spaces, "drop", caller=False)(drop)
    app.add_typer(spaces, name="space")


def embed(
    settings: Settings,
    retry: Annotated[
        bool, typer.Option("--retry", help="Also what was postponed after a failure, or given up; an administrator's.")
    ] = False,
    workers: Annotated[
        int, typer.Option("--workers", help="Threads at work; more than one helps with models behind a network.")
    ] = 1,
) -> None:
    """Make the vectors that wait: of everybody with an administrator's connection, else your own.

    With --model, and another model than the one in use, builds its space beside; `space switch` then uses it.
    """
    if not 1 <= workers <= 64:
        raise InvalidInput(f"--workers is {workers}; give a number from 1 to 64.")
    if settings.database is not None and settings.admin_database is None and settings.model is None and not retry:
        _embed_own(settings)
        return
    with opened_keeper(settings) as keeper:
        model = named_model(settings)
        if model is not None and model.space != keeper.admin.space():
            _build(settings, keeper, model, workers)
            return
        windows = keeper.admin.waiting()["windows"]
        with bar("embedding", windows, shown=windows > 0) as advance:
            done = keeper.admin.embed(model, retry=retry, workers=workers, progress=advance)
        after = keeper.admin.waiting()
    _report_embedding(settings, done, after["memories"], given_up=after["given_up"], why=after["error"])


def _embed_own(settings: Settings) -> None:
    with opened_memories(settings) as memories:
        _, windows = waiting(memories)
        with bar("embedding", windows, shown=windows > 0) as advance:
            done = embed_own(memories, advance)
        left, _ = waiting(memories)
    _report_embedding(settings, done, left)


def _report_embedding(settings: Settings, done: int, left: int, *, given_up: int = 0, why: str | None = None) -> None:
    if settings.as_json:
        print_json({"embedded": done, "waiting": left, "given_up": given_up, "error": why})
    else:
        print(f"{done:,} windows embedded.")
    if left:
        status_line(
            f"{left:,} memories still wait, {given_up:,} of them given up{f' ({why})' if why else ''};"
            " `embed --retry` tries all of them again."
        )


def _build(settings: Settings, keeper: Keeper, model: Embedder, workers: int) -> None:
    with bar("building", 0) as advance:
        before = 0

        def told(done: int, total: int) -> None:
            nonlocal before
            advance(done - before, total=total)
            before = done

        built = keeper.admin.build_space(model, workers=workers, progress=told)
    if settings.as_json:
        print_json(_facts(built))
    else:
        print(f"{built.vectors:,} vectors of {built.space}, beside those in use.")
        status_line("`lore-retriever space switch` makes it the one that is searched.")


def list_(settings: Settings) -> None:
    """List the embedding spaces, the active one first."""
    with opened_keeper(settings) as keeper:
        found = keeper.admin.spaces()
    if settings.as_json:
        print_json({"spaces": [_facts(each) for each in found]})
        return
    table = Table("state", "model", "vectors", "memories that wait", "codes", box=box.SIMPLE_HEAD, show_edge=False)
    for each in found:
        codes = "yes" if each.has_codes else "no"
        table.add_row(each.state, shown(str(each.space)), f"{each.vectors:,}", f"{each.waiting:,}", codes)
    console().print(table)


def _facts(space: SpaceStatus) -> dict[str, Any]:
    return {
        "model": space.space.model,
        "revision": space.space.revision,
        "dimensions": space.space.dimensions,
        "state": space.state,
        "vectors": space.vectors,
        "waiting": space.waiting,
        "waiting_windows": space.waiting_windows,
        "given_up": space.given_up,
        "error": space.error,
        "has_codes": space.has_codes,
    }


def switch(
    settings: Settings,
    to: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="Model of the space; the one that was built by default.")
    ] = None,
    force: Force = False,
) -> None:
    """Search another space from now on; the one before is kept."""
    with opened_keeper(settings) as keeper:
        space = keeper.admin.switch_space(to, force=force)
    _done(settings, "active", str(space))


def undo(settings: Settings, force: Force = False) -> None:
    """Go back to the space that was searched before the switch."""
    with opened_keeper(settings) as keeper:
        space = keeper.admin.undo_switch(force=force)
    _done(settings, "active", str(space))


def drop(
    settings: Settings, space: Annotated[str, typer.Argument(metavar="MODEL", help="Model of the space.")]
) -> None:
    """Remove a space that is not searched, with all its vectors."""
    with opened_keeper(settings) as keeper:
        gone = keeper.admin.drop_space(space)
    _done(settings, "dropped", str(gone))


def _done(settings: Settings, what: str, space: str) -> None:
    if settings.as_json:
        print_json({what: space})
    else:
        print(f"{what}: {shown(space)}")
