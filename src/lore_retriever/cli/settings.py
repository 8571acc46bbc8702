"""What the options and the environment say: read here and nowhere below."""

from __future__ import annotations

import getpass
import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from lore_retriever.errors import InvalidInput

__all__ = ["Settings", "command", "os_user", "resolved"]

_PLACE = "Database and model"
_CALLER = "Caller"
_OUTPUT = "Output"

_DATABASE_OPTIONS: dict[str, Any] = {
    "database": Annotated[
        str | None,
        typer.Option(
            "--database",
            "-d",
            metavar="CONNINFO",
            help="Connection string of an application; without one, the built-in Postgres. Or set LORE_DATABASE.",
            rich_help_panel=_PLACE,
        ),
    ],
    "admin_database": Annotated[
        str | None,
        typer.Option(
            "--admin-database",
            metavar="CONNINFO",
            help="Connection string of an administrator, for what an application may not do. Or set LORE_ADMIN_DATABASE.",
            rich_help_panel=_PLACE,
        ),
    ],
    "folder": Annotated[
        Path | None,
        typer.Option(
            "--folder",
            help="Folder of the built-in Postgres; one in your data folder by default. Or set LORE_FOLDER.",
            rich_help_panel=_PLACE,
        ),
    ],
    "schema": Annotated[
        str | None,
        typer.Option(
            "--schema",
            help="Schema that the store lives in; lore by default. Or set LORE_SCHEMA.",
            rich_help_panel=_PLACE,
        ),
    ],
    "model": Annotated[
        str | None,
        typer.Option(
            "--model",
            help="Embedding model: offline, e5, minilm, hash (for trials), or a SentenceTransformers model (its folder, or organisation/name). Needed where"
            " a database is new, or records a model that only its name can bring back. Or set LORE_MODEL.",
            rich_help_panel=_PLACE,
        ),
    ],
}
_CALLER_OPTIONS: dict[str, Any] = {
    "org": Annotated[
        str | None,
        typer.Option(
            "--org",
            help="Organisation; where the database knows its callers itself, theirs, else default. Or set LORE_ORG.",
            rich_help_panel=_CALLER,
        ),
    ],
    "user": Annotated[
        str | None,
        typer.Option(
            "--user",
            help="User of that organisation; as the database knows you, else your login name. Or set LORE_USER.",
            rich_help_panel=_CALLER,
        ),
    ],
    "token": Annotated[
        str | None,
        typer.Option(
            "--token",
            help="Signed token that names you, where identity is claims. Better set LORE_TOKEN: others of this machine see"
            " the options of a command.",
            rich_help_panel=_CALLER,
        ),
    ],
}
_OUTPUT_OPTIONS: dict[str, Any] = {
    "as_json": Annotated[bool, typer.Option("--json", help="Print JSON, for programs.", rich_help_panel=_OUTPUT)],
    "debug": Annotated[bool, typer.Option("--debug", help="Show where an error came from.", rich_help_panel=_OUTPUT)],
}
_SHARED = _DATABASE_OPTIONS | _CALLER_OPTIONS | _OUTPUT_OPTIONS


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the store is, on whose behalf to act, and how to print.

    Attributes:
        database: Connection string of an application; None is the built-in Postgres in `folder`.
        admin_database: Connection string of an administrator; None takes `database`.
        schema: None is the default of the command, `lore` nearly everywhere.
        org, user: None is whom the database takes the caller for, or else `default` and `login`.
        token: What proves the caller, where the database asks for proof.
        login: The login name of whoever runs this process.
    """

    database: str | None = None
    admin_database: str | None = None
    folder: Path | None = None
    schema: str | None = None
    model: str | None = None
    org: str | None = None
    user: str | None = None
    token: str | None = field(default=None, repr=False)
    login: str = ""
    as_json: bool = False
    debug: bool = False

    def with_schema(self, default: str) -> Settings:
        """These, in the schema `default` where none was given."""
        return self if self.schema is not None else replace(self, schema=default)


def os_user() -> str:
    """The login name of whoever runs this process."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid-{os.getuid()}" if hasattr(os, "getuid") else "user"


def resolved(*given: Mapping[str, Any], environment: Mapping[str, str], login: str) -> Settings:
    """Settings from options, the most specific first; then the environment, then defaults. Pure.

    Raises:
        InvalidInput: If an option was given an empty text, as by a variable that is not set.
    """
    values: dict[str, Any] = {}
    for name in _SHARED:
        chosen = next((options[name] for options in given if options.get(name) not in (None, False)), None)
        if chosen == "":
            raise InvalidInput(f"--{name.replace('_', '-')} is empty. Give it a value, or leave it out.")
        if chosen is None and name not in _OUTPUT_OPTIONS:
            chosen = environment.get(f"LORE_{name.upper()}") or None
        if chosen is not None:
            values[name] = Path(chosen).expanduser() if name == "folder" else chosen
    return Settings(**values, login=login)


def shared_parameters(*, caller: bool = True) -> list[inspect.Parameter]:
    """The options that every command takes, as parameters of a function."""
    options = _DATABASE_OPTIONS | (_CALLER_OPTIONS if caller else {}) | _OUTPUT_OPTIONS
    return [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=False if name in _OUTPUT_OPTIONS else None, annotation=kind
        )
        for name, kind in options.items()
    ]


def command(
    app: typer.Typer, name: str, *, caller: bool = True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a command: its first parameter gets the `Settings`, the others are its own options.

    The shared options may stand before or after the command's name; those after it count more.

    Args:
        name: Of the command.
        caller: Whether it acts on behalf of a user of an organisation.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        own = [p.replace(annotation=hints[p.name]) for p in [*inspect.signature(function).parameters.values()][1:]]
        shared = shared_parameters(caller=caller)

        def run(ctx: typer.Context, **values: Any) -> None:
            after = {parameter.name: values.pop(parameter.name) for parameter in shared}
            before = ctx.find_root().params
            ctx.find_root().obj = {"debug": bool(after["debug"] or before.get("debug"))}
            function(resolved(after, before, environment=os.environ, login=os_user()), **values)

        context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        keyword = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
        run.__signature__ = inspect.Signature([context, *keyword, *shared])  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in [context, *keyword, *shared]}
        run.__name__ = function.__name__
        run.__doc__ = function.__doc__
        app.command(name)(run)
        return function

    return register
