"""`export-jsonl` and `import-jsonl`: memories out of a store and into another, with all that belongs to them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from lore_retriever.cli.bars import bar
from lore_retriever.cli.opening import opened_keeper
from lore_retriever.cli.output import counted, print_json, tell_waiting
from lore_retriever.cli.settings import Settings, command
from lore_retriever.errors import InvalidInput
from lore_retriever.transfer import checked_jobs

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    command(app, "export-jsonl", caller=False)(export_jsonl)
    command(app, "import-jsonl", caller=False)(import_jsonl)


def export_jsonl(
    settings: Settings,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write; what is there is replaced.")],
    of_org: Annotated[str | None, typer.Option("--of-org", metavar="ORG", help="Only this organisation's.")] = None,
    of_user: Annotated[str | None, typer.Option("--of-user", metavar="USER", help="Only this user's.")] = None,
) -> None:
    """Write memories as JSON lines: dates, originals, aliases, votes and history with them, vectors not."""
    if str(file) == "-":
        raise InvalidInput("- is no file. Give one, or /dev/stdout.")
    with opened_keeper(settings) as keeper:
        try:
            counts = keeper.admin.export_jsonl(file, org=of_org, user=of_user)
        except OSError as error:
            raise InvalidInput(f"{file} cannot be written: {error.strerror}.") from error
    if settings.as_json:
        print_json(counts)
    else:
        print(counted(counts, "memories"))


def import_jsonl(
    settings: Settings,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `export-jsonl` wrote.")],
    on_existing: Annotated[
        Literal["keep", "replace"], typer.Option("--on-existing", help="Of a memory whose owner has one of that id.")
    ] = "keep",
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs", metavar="N", help="Connections that write at once, where the server has cores to spare."
        ),
    ] = 1,
) -> None:
    """Store what `export-jsonl` wrote, all of it or nothing. `embed` makes the vectors."""
    checked_jobs(jobs)
    with opened_keeper(settings) as keeper:
        try:
            with bar("storing", 0, counted=False, shown=not settings.as_json) as advance:
                counts = keeper.admin.import_jsonl(
                    file, on_existing=on_existing, jobs=jobs, progress=lambda line: advance(0, f"{line:,} lines")
                )
        except OSError as error:
            raise InvalidInput(f"{file} cannot be read: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise InvalidInput(f"{file} is not UTF-8: byte 0x{error.object[error.start]:02x}.") from error
        waiting = keeper.admin.waiting()["memories"] if keeper.admin.space() is not None else 0
    if settings.as_json:
        print_json(counts)
    else:
        print(counted(counts, "stored"))
    tell_waiting(waiting)
