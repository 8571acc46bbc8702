"""How a store knows its callers, and who may be one.

Chosen at `migrate`, kept by the database: see `Identity`. In all but the first mode an application, a tool or an argument
can ask for less than the credential gives, never for more.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from lore_retriever.errors import InvalidInput, NotFound, ScopeMissing
from lore_retriever.inputs import new_scope
from lore_retriever.queries import query
from lore_retriever.types import Record, Scope

if TYPE_CHECKING:
    from lore_retriever.admin import StoreAdmin
    from lore_retriever.steps import Row

__all__ = [
    "Identity",
    "IdentityMode",
    "SignedScope",
    "add_token_key",
    "map_role",
    "mapped_roles",
    "printed_identity",
    "recorded_identity",
    "remove_token_key",
    "signed_scope",
    "token_keys",
    "unmap_role",
    "use_identity",
]

IdentityMode = Literal["settings", "role", "claims", "gateway"]

LEAST_SECRET_BYTES = 32

_Name = Annotated[str, Field(min_length=1)]


class Identity(Record):
    """Where a transaction's organisation and user come from.

    Attributes:
        mode: `settings`: a trusted server sets them (`as_user`, `as_caller`). `role`: the login role, mapped by `map_role`.
            `claims`: a token (JWT, HS256) whose signature the database checks (`signed_scope`). `gateway`: claims that
            PostgREST or Supabase has checked and set; what a trusted server sets where there are none.
        org_claim: Where the organisation stands in the claims, outermost name first.
        user_claim: Where the user stands.
        audience: Tokens must be meant for it (`aud`); None: for anyone. Only for `claims`.
    """

    mode: IdentityMode = "settings"
    org_claim: tuple[_Name, ...] = Field(default=("org",), min_length=1, max_length=8)
    user_claim: tuple[_Name, ...] = Field(default=("sub",), min_length=1, max_length=8)
    audience: str | None = Field(default=None, min_length=1)

    def __str__(self) -> str:
        if self.mode not in ("claims", "gateway"):
            return self.mode
        places = f"organisation at {'.'.join(self.org_claim)}, user at {'.'.join(self.user_claim)}"
        meant = "" if self.mode == "gateway" else f", tokens for {self.audience or 'anyone'}"
        return f"{self.mode}: {places}{meant}"


class SignedScope(Scope):
    """A scope with the token that proves it: what `as_caller` asks for where identity is `claims`."""

    token: str = Field(repr=False, exclude=True)


_MOST_TOKEN_CHARS = 16_384
"""What the database reads of a token (token_claims)."""


def signed_scope(
    token: str | None, *, org_claim: tuple[str, ...] = ("org",), user_claim: tuple[str, ...] = ("sub",)
) -> SignedScope:
    """The scope that a token names. Nothing is checked here: the database checks the token in every transaction.

    Args:
        token: A JSON Web Token, signed by HS256 with a key of the store.
        org_claim, user_claim: As the store's `Identity` has them.

    Raises:
        InvalidInput: If it is not a token, or holds no JSON.
        ScopeMissing: If there is none, or it names no organisation or no user.
    """
    if token is None or token == "":
        raise ScopeMissing("there is no token: the request came without one, or it was not read.")
    claims = _unchecked_claims(token)
    named = new_scope(_claim(claims, org_claim), _claim(claims, user_claim))
    return SignedScope(org=named.org, user=named.user, token=token)


def _unchecked_claims(token: str) -> Any:
    # Never the token itself: errors end in logs.
    refused = InvalidInput("this is not a signed token: three parts of base64url, the second of them a JSON object.")
    parts = token.split(".") if isinstance(token, str) else []
    if len(parts) != 3 or len(token) > _MOST_TOKEN_CHARS:
        raise refused
    try:
        return json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        raise refused from None  # whose context would tell of the claims


def _claim(claims: Any, path: tuple[str, ...]) -> str:
    found = claims
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    if not isinstance(found, str) or not found:
        raise ScopeMissing(f"the token has no text at {'.'.join(path)}: a scope names an organisation and a user.")
    return found


def use_identity(admin: StoreAdmin, identity: Identity) -> None:
    """Make this the way in which the store knows its callers, from the next statement on."""
    with admin.owner() as cursor:
        params = {
            "mode": identity.mode,
            "org_claim": list(identity.org_claim),
            "user_claim": list(identity.user_claim),
            "audience": identity.audience,
        }
        cursor.execute(query("use_identity"), params)


def printed_identity(identity: Identity, schema: str = "lore") -> str:
    """The same as a script for psql, for an administrator to read and run after `printed_sql`."""

    def text(value: str | None) -> str:
        return "NULL" if value is None else "'" + value.replace("'", "''") + "'"

    def path(names: tuple[str, ...]) -> str:
        return f"ARRAY[{', '.join(map(text, names))}]"

    name = '"' + schema.replace('"', '""') + '"'
    call = f"{text(identity.mode)}, {path(identity.org_claim)}, {path(identity.user_claim)}, {text(identity.audience)}"
    return f"BEGIN;\nSET LOCAL ROLE lore_owner;\nSELECT {name}.use_identity({call});\nCOMMIT;\n"


def recorded_identity(admin: StoreAdmin) -> Identity:
    """How the store knows its callers now."""
    with admin.service() as cursor:
        row = cursor.execute(query("recorded_identity")).fetchone() or {}
    return Identity(
        mode=row["identity"],
        org_claim=tuple(row["org_claim"]),
        user_claim=tuple(row["user_claim"]),
        audience=row["audience"],
    )


def map_role(admin: StoreAdmin, role: str, *, org: str, user: str) -> None:
    """Let a login role speak for a member of an organisation; whoever it spoke for before, it no longer does.

    Raises:
        ScopeMissing: If a name is empty.
        InvalidInput: If there is no such role, or row security does not hold for it (a superuser, or BYPASSRLS).
    """
    scope = new_scope(org, user)
    if not role:
        raise InvalidInput("the role's name is empty; give the name of a login role that is a member of lore_user.")
    with admin.service() as cursor:
        cursor.execute(query("map_role"), {"role_name": role, "org": scope.org, "user": scope.user})


def unmap_role(admin: StoreAdmin, role: str) -> None:
    """Let a login role speak for nobody.

    Raises:
        NotFound: If it spoke for nobody already.
    """
    with admin.service() as cursor:
        if not cursor.execute(query("unmap_role"), {"role_name": role}).rowcount:
            raise NotFound(f"the role {role!r} is not mapped to anybody.")


def mapped_roles(admin: StoreAdmin) -> list[Row]:
    """One row per login role that speaks for somebody: `role_name`, `org`, `user`, whether the role `exists`, and whether it is
    `unbounded`: row security does not hold for it."""
    with admin.service() as cursor:
        return cursor.execute(query("mapped_roles")).fetchall()


def add_token_key(admin: StoreAdmin, secret: bytes, *, name: str = "default") -> None:
    """Let tokens be signed with this secret; one of the same name is replaced. Several names serve a rotation.

    Raises:
        InvalidInput: If the secret is shorter than 32 bytes, or the name is empty.
    """
    if len(secret) < LEAST_SECRET_BYTES:
        raise InvalidInput(f"the secret has {len(secret)} bytes; HS256 needs {LEAST_SECRET_BYTES} or more.")
    if not name:
        raise InvalidInput("the key's name is empty; any word will do.")
    with admin.owner() as cursor:
        cursor.execute(query("add_token_key"), {"name": name, "secret": secret})


def remove_token_key(admin: StoreAdmin, name: str) -> None:
    """Let no token be signed with that key any more, from the next statement on.

    Raises:
        NotFound: If there is none of that name.
    """
    with admin.owner() as cursor:
        if not cursor.execute(query("remove_token_key"), {"name": name}).rowcount:
            raise NotFound(f"there is no key named {name!r}.")


def token_keys(admin: StoreAdmin) -> list[Row]:
    """One row per key that tokens may be signed with: `name`, `created_at`. The keys themselves stay where they are."""
    with admin.owner() as cursor:
        return cursor.execute(query("token_keys")).fetchall()
