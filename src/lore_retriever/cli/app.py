"""The commands put together, and what becomes of errors."""

from __future__ import annotations

import inspect
import sys
from importlib.util import find_spec
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from lore_retriever import __version__, errors
from lore_retriever.cli import (
    adding,
    aliases,
    demonstrating,
    embedding,
    identifying,
    importing,
    keeping,
    memories,
    transferring,
)
from lore_retriever.cli.output import complain
from lore_retriever.cli.settings import shared_parameters

__all__ = ["app", "exit_code", "told"]

_EVAL = "eval"
_EVAL_HELP = "Measure retrieval on judged queries, and change settings on evidence."


def exit_code(error: BaseException) -> int:
    """The exit code that an error ends the process with: 3 unreachable or not current, 130 stopped, else 1."""
    if isinstance(error, errors.StoreUnavailable | errors.SchemaMismatch):
        return 3
    if isinstance(error, KeyboardInterrupt):
        return 130
    driver = sys.modules.get("psycopg")
    return 3 if driver is not None and isinstance(error, driver.OperationalError) else 1


def told(error: BaseException) -> str | None:
    """One line about an error that a user can act on; None for a fault of the program."""
    driver = sys.modules.get("psycopg")
    if isinstance(error, errors.LoreError | ImportError | OSError):
        return " ".join(str(error).split())
    if isinstance(error, KeyboardInterrupt):
        return "stopped."
    if driver is not None and isinstance(error, driver.Error):
        return f"the database refused: {' '.join(str(error).split())}"
    return None


class Root(TyperGroup):
    """Tells errors in one line, and loads `eval` when it is used."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (Exception, KeyboardInterrupt) as error:
            line = told(error)
            # An OSError may be a closed pipe, which is the framework's affair.
            if line is None or isinstance(error, BrokenPipeError) or (ctx.obj or ctx.params).get("debug"):
                raise
            complain(line)
            raise typer.Exit(exit_code(error)) from None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] == _EVAL and _has_eval():
            misplaced = [name for name in ("database", "admin_database", "folder", "schema") if ctx.params.get(name)]
            if misplaced:
                ctx.fail(f"give --{misplaced[0].replace('_', '-')} after `eval …`.")
            from lore_retriever.evaluation.commands import eval_app

            group = typer.main.get_command(eval_app)
            group.name = _EVAL
            return _EVAL, group, args[1:]
        return super().resolve_command(ctx, args)


def _has_eval() -> bool:
    return find_spec("lore_retriever.evaluation.commands") is not None


def _version(wanted: bool) -> None:
    if wanted:
        print(f"lore-retriever {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
    **shared: Any,
) -> None:
    """Hybrid memory search on Postgres: store what a team knows, find it by meaning and by word."""


def _with_shared_options() -> Any:
    own = inspect.signature(_root, eval_str=True).parameters["version"]
    parameters = [own.replace(kind=inspect.Parameter.KEYWORD_ONLY), *shared_parameters()]
    _root.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    _root.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return _root


app = typer.Typer(cls=Root, no_args_is_help=True, pretty_exceptions_show_locals=False, add_completion=False)
app.callback()(_with_shared_options())
demonstrating.register(app)
memories.register(app)
adding.register(app)
importing.register(app)
transferring.register(app)
aliases.register(app)
embedding.register(app)
keeping.register(app)
identifying.register(app)
if _has_eval():
    # Stands for the real group in the overview; see Root.resolve_command.
    app.add_typer(typer.Typer(help=_EVAL_HELP), name=_EVAL)
