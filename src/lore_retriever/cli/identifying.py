"""`identity`: how a store knows its callers, and who may be one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from lore_retriever.cli.opening import opened_keeper
from lore_retriever.cli.output import print_json, shown, status_line
from lore_retriever.cli.settings import Settings, command
from lore_retriever.errors import InvalidInput

__all__ = ["chosen_identity", "register"]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(help="How callers are known, and who may be one.", no_args_is_help=True)
    command(group, "show", caller=False)(show)
    command(group, "map", caller=False)(map_)
    command(group, "unmap", caller=False)(unmap)
    command(group, "add-key", caller=False)(add_key)
    command(group, "remove-key", caller=False)(remove_key)
    app.add_typer(group, name="identity")


def chosen_identity(mode: str | None, org_claim: str, user_claim: str, audience: str | None) -> Any:
    """What `migrate` was told of callers; None if nothing.

    Raises:
        InvalidInput: If there is no such way to know them, or claims are named without one.
    """
    from typing import get_args

    from lore_retriever.identity import Identity, IdentityMode

    if mode is None:
        if (org_claim, user_claim, audience) != ("org", "sub", None):
            raise InvalidInput("--org-claim, --user-claim and --audience need --identity claims or gateway.")
        return None
    if mode not in get_args(IdentityMode):
        raise InvalidInput(f"--identity is {mode!r}; give one of {', '.join(get_args(IdentityMode))}.")
    if mode in ("settings", "role") and (org_claim, user_claim, audience) != ("org", "sub", None):
        raise InvalidInput(f"--org-claim, --user-claim and --audience mean nothing with --identity {mode}.")
    if not all([*org_claim.split("."), *user_claim.split("."), audience != ""]):
        raise InvalidInput("--org-claim and --user-claim are names with dots between, such as app_metadata.org.")
    return Identity(
        mode=mode,  # type: ignore[arg-type]
        org_claim=tuple(org_claim.split(".")),
        user_claim=tuple(user_claim.split(".")),
        audience=audience,
    )


def show(settings: Settings) -> None:
    """How callers are known; the login roles that speak for somebody, or the names of the keys that sign tokens."""
    from lore_retriever.identity import mapped_roles, recorded_identity, token_keys

    with opened_keeper(settings) as keeper:
        identity = recorded_identity(keeper.admin)
        roles = mapped_roles(keeper.admin)
        keys = [row["name"] for row in token_keys(keeper.admin)]
    if settings.as_json:
        print_json({"identity": identity.model_dump(), "mapped_roles": roles, "token_keys": keys})
        return
    print(f"identity {identity}")
    for row in roles:
        gone = "" if row["exists"] else "  (no such role)"
        print(f"role {shown(row['role_name'])} speaks for {shown(row['user'])} of {shown(row['org'])}{gone}")
    for name in keys:
        print(f"key {shown(name)}")


def map_(
    settings: Settings,
    role: Annotated[str, typer.Argument(metavar="ROLE", help="A login role that is a member of lore_user.")],
    org: Annotated[str, typer.Argument(metavar="ORG", help="The organisation.")],
    user: Annotated[str, typer.Argument(metavar="USER", help="The user of that organisation.")],
) -> None:
    """Let a login role speak for one member of an organisation, and for nobody else."""
    from lore_retriever.identity import map_role, recorded_identity

    with opened_keeper(settings) as keeper:
        map_role(keeper.admin, role, org=org, user=user)
        mode = recorded_identity(keeper.admin).mode
    if settings.as_json:
        print_json({"role": role, "org": org, "user": user})
    else:
        print(f"{shown(role)} speaks for {shown(user)} of {shown(org)}")
    if mode != "role":
        status_line(f"identity is {mode}: the mapping counts after `lore-retriever migrate --identity role`.")


def unmap(settings: Settings, role: Annotated[str, typer.Argument(metavar="ROLE", help="A login role.")]) -> None:
    """Let a login role speak for nobody."""
    from lore_retriever.identity import unmap_role

    with opened_keeper(settings) as keeper:
        unmap_role(keeper.admin, role)
    if settings.as_json:
        print_json({"unmapped": role})
    else:
        print(f"{shown(role)} speaks for nobody")


def add_key(
    settings: Settings,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Holds the secret, byte for byte; - reads standard input.")
    ],
    name: Annotated[str, typer.Option("--name", help="Of the key; one of that name is replaced.")] = "default",
) -> None:
    """Let tokens be signed with a secret of 32 bytes or more (HS256). One line end after it is left out."""
    from lore_retriever.identity import add_token_key

    secret = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    secret = secret.removesuffix(b"\n").removesuffix(b"\r")
    with opened_keeper(settings) as keeper:
        add_token_key(keeper.admin, secret, name=name)
    if settings.as_json:
        print_json({"key": name})
    else:
        print(f"key {shown(name)} signs tokens from now on")


def remove_key(settings: Settings, name: Annotated[str, typer.Argument(metavar="NAME", help="Of the key.")]) -> None:
    """Let no token be signed with a key any more."""
    from lore_retriever.identity import remove_token_key

    with opened_keeper(settings) as keeper:
        remove_token_key(keeper.admin, name)
    if settings.as_json:
        print_json({"removed": name})
    else:
        print(f"key {shown(name)} is gone")
