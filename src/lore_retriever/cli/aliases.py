"""`alias`: the other names under which people, products and teams are known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lore_retriever.cli.opening import opened_memories
from lore_retriever.cli.output import print_json, shown, status_line
from lore_retriever.cli.settings import Settings, command
from lore_retriever.ingest import read_glossary

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(help="Other names of the same thing; either finds the other.", no_args_is_help=True)
    command(group, "add")(add)
    command(group, "import")(import_)
    command(group, "list")(list_)
    command(group, "remove")(remove)
    app.add_typer(group, name="alias")


def add(
    settings: Settings,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name.")],
    others: Annotated[list[str], typer.Argument(metavar="OTHER", help="Other names of the same thing.")],
) -> None:
    """Record for the whole organisation that these are names of one thing."""
    with opened_memories(settings) as memories:
        memories.add_alias(name, *others)
    if settings.as_json:
        print_json({"names": [name, *others]})
    else:
        print(" = ".join(shown(each) for each in (name, *others)))


def import_(
    settings: Settings,
    file: Annotated[Path, typer.Argument(help="Lines of names of one thing, as in: Kubernetes, k8s, kube")],
) -> None:
    """Record the names of a glossary file (CSV, one thing a line; lines that begin with # are passed over)."""
    groups = read_glossary(file)
    with opened_memories(settings) as memories:
        for names in groups:
            memories.add_alias(*names)
    if settings.as_json:
        print_json({"groups": groups})
    else:
        print(f"{len(groups):,} groups of names recorded.")


def list_(settings: Settings) -> None:
    """List the organisation's groups of names."""
    with opened_memories(settings) as memories:
        groups = memories.aliases()
    if settings.as_json:
        print_json({"groups": [list(names) for names in groups]})
        return
    for names in groups:
        print(" = ".join(shown(name) for name in names))
    if not groups:
        status_line("no aliases.")


def remove(settings: Settings, name: Annotated[str, typer.Argument(metavar="NAME", help="A name.")]) -> None:
    """Take a name out of its group."""
    with opened_memories(settings) as memories:
        memories.remove_alias(name)
    if settings.as_json:
        print_json({"removed": name})
    else:
        print(f"removed {shown(name)}")
