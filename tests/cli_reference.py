"""Writes the reference of the command line from the commands themselves: `python tests/cli_reference.py` renews it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from lore_retriever.cli.app import app
from lore_retriever.cli.settings import shared_parameters
from lore_retriever.evaluation.commands import eval_app

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "command-line.md"
MARK = "<!-- what follows is made by tests/cli_reference.py -->\n"
_SHARED = {parameter.name for parameter in shared_parameters()}


def commands() -> Iterator[tuple[str, Any]]:
    """Every command that can be typed, with its full name."""
    root = typer.main.get_command(app)
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        group = typer.main.get_command(eval_app) if name == "eval" else command
        inner = getattr(group, "commands", None)
        if inner is None:
            yield name, group
        else:
            yield from ((f"{name} {each}", sub) for each, sub in inner.items())


def section(name: str, command: Any) -> str:
    """One command: how to call it, what it does, its own options."""
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and _is_own(name, p)]
    usage = " ".join([name, *(_argument(p) for p in arguments)])
    parts = [f"### `lore-retriever {usage}`\n", inspect.cleandoc(command.help or "") + "\n"]
    rows = [f"| `{_metavar(p)}` | {_told(p)} |" for p in arguments if p.help]
    rows += [f"| {_option(p)} | {_told(p)} |" for p in options]
    if rows:
        parts.append("\n".join(["| | |", "|---|---|", *rows]) + "\n")
    return "\n".join(parts)


def _is_own(name: str, parameter: Any) -> bool:
    return parameter.name != "help" and (name.startswith("eval ") or parameter.name not in _SHARED)


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name).upper()


def _argument(parameter: Any) -> str:
    text = _metavar(parameter) + ("…" if parameter.nargs == -1 else "")
    return text if parameter.required else f"[{text}]"


def _option(parameter: Any) -> str:
    flags = [*parameter.opts, *parameter.secondary_opts]
    value = "" if parameter.is_flag else f" {(parameter.metavar or parameter.name).upper().replace('_', '-')}"
    return ", ".join(f"`{flag}{value}`" for flag in flags)


def _told(parameter: Any) -> str:
    text = re.sub(r"\s+", " ", parameter.help or "").strip().replace("|", "\\|")
    default = parameter.default
    if parameter.param_type_name == "option" and not parameter.is_flag and isinstance(default, str | int | float):
        text += f" Default: `{default}`."
    return text + (" Repeatable." if getattr(parameter, "multiple", False) and "epeat" not in text else "")


def made() -> str:
    """All of it."""
    return "\n".join(section(name, command) for name, command in commands())


if __name__ == "__main__":
    head, _, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    PAGE.write_text(head + MARK + "\n" + made(), encoding="utf-8")
