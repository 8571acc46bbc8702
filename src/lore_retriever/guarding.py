"""Whether callers can be who they are not. Pure: rows of `sql/queries/doctor.sql` and `identity.sql` in, findings out."""

from __future__ import annotations

from collections.abc import Sequence

from lore_retriever.diagnosis import Finding
from lore_retriever.steps import Row

__all__ = ["judge_identity", "judge_keys", "judge_mapping", "judge_schemas"]


def judge_schemas(rows: Sequence[Row]) -> Finding:
    """Whether somebody may put names of his own before ours, from `open_schemas`."""
    if not rows:
        return Finding(check="schemas", state="ok", told="no application may create anything where our functions look")
    by_users = [row for row in rows if row["role"] == "lore_user"]
    names = ", ".join(row["name"] for row in by_users or rows)
    role = (by_users or rows)[0]["role"]
    return Finding(
        check="schemas",
        state="broken" if by_users else "warning",
        told=f"{role} may create objects in {names}, where functions with more rights would find them.",
        way_out=f"REVOKE CREATE ON SCHEMA {names} FROM PUBLIC, lore_user; let no application own the database.",
    )


def judge_identity(row: Row) -> Finding:
    """How callers are known, from `identity_facts`."""
    mode, login = row["identity"], row["login"]
    if not row["is_as_recorded"]:
        return Finding(
            check="identity",
            state="broken",
            told=f"recorded is {mode}, but scope_org() and scope_user() do something else.",
            way_out=f"Run `lore-retriever migrate --identity {mode}` as an administrator, and find out what changed them.",
        )
    if mode == "role" and not (row["org"] and row["user"]):
        return Finding(
            check="identity",
            state="broken",
            told=f"role: {login} speaks for nobody, so it finds nothing.",
            way_out=f"Run `lore-retriever identity map {login} ORG USER` as an administrator.",
        )
    paths = f"organisation at {'.'.join(row['org_claim'])}, user at {'.'.join(row['user_claim'])}"
    meant = "" if row["audience"] is None else f", meant for {row['audience']}"
    told = {
        "settings": f"settings: a trusted server names its callers; whoever may run SQL as {login} can name any",
        "role": f"role: {login} speaks for {row['user']} of {row['org']}",
        "claims": f"claims: tokens signed by HS256{meant}, {paths}",
        "gateway": f"gateway: claims that a gateway has checked, {paths}; else as a trusted server says",
    }
    return Finding(check="identity", state="ok", told=told[mode])


def judge_mapping(rows: Sequence[Row]) -> Finding:
    """The login roles that speak for somebody, from `mapped_roles`."""
    if not rows:
        return Finding(
            check="mapped roles",
            state="warning",
            told="no login role speaks for anybody.",
            way_out="Run `lore-retriever identity map ROLE ORG USER` for each.",
        )
    gone = [row["role_name"] for row in rows if not row["exists"]]
    if gone:
        return Finding(
            check="mapped roles",
            state="warning",
            told=f"{', '.join(gone)}: no such role; whoever is given that name speaks for its member.",
            way_out=f"Run `lore-retriever identity unmap {gone[0]}`.",
        )
    unbounded = [row["role_name"] for row in rows if row["unbounded"]]
    if unbounded:
        return Finding(
            check="mapped roles",
            state="warning",
            told=f"{', '.join(unbounded)}: a superuser, or BYPASSRLS; reads everybody's rows, whoever it speaks for.",
            way_out=f"Take that right from it, or run `lore-retriever identity unmap {unbounded[0]}`.",
        )
    return Finding(check="mapped roles", state="ok", told=f"{len(rows):,} speak for a member each")


def judge_keys(rows: Sequence[Row]) -> Finding:
    """The keys that tokens may be signed with, from `token_keys`."""
    if not rows:
        return Finding(
            check="token keys",
            state="broken",
            told="there is none, so every token is refused.",
            way_out="Run `lore-retriever identity add-key FILE`.",
        )
    return Finding(check="token keys", state="ok", told=", ".join(row["name"] for row in rows))
