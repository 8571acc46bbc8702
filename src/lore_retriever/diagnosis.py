"""What rows of the database say about its health. Pure: rows of `sql/queries/doctor.sql` in, findings out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from lore_retriever.embeddings.base import Embedder, EmbeddingSpace
from lore_retriever.errors import EmbeddingSpaceMismatch, SchemaMismatch
from lore_retriever.migrations import EXTENSIONS, LEAST_PGVECTOR, SchemaStatus
from lore_retriever.opening import embedder_of
from lore_retriever.operations.embedding import MOST_ATTEMPTS
from lore_retriever.steps import Row
from lore_retriever.types import Record

__all__ = [
    "ROLES",
    "Finding",
    "State",
    "judge_codes",
    "judge_contents",
    "judge_extensions",
    "judge_rights",
    "judge_roles",
    "judge_schema",
    "judge_security",
    "judge_server",
    "judge_space",
    "judge_statistics",
    "judge_tables",
    "judge_vectors",
]

State = Literal["ok", "warning", "broken", "unknown"]

LEAST_SERVER = 150_000
ROLES = ("lore_owner", "lore_search", "lore_service", "lore_user")

_SMALL_PAGES = 100
_DUSTY_SHARE = 0.2
_DUSTY_ROWS = 1_000


class Finding(Record):
    """One thing that was checked.

    Attributes:
        check: What was looked at.
        state: `ok`, `warning` (works, but), `broken`, or `unknown` (not to be seen with these rights).
        told: What was found.
        way_out: What to do about it, if anything.
    """

    check: str
    state: State
    told: str
    way_out: str | None = None


def judge_server(row: Row) -> Iterator[Finding]:
    """Version and encoding, from `server_facts`."""
    standby = ", a standby that answers reads only" if row["is_standby"] else ""
    if row["version_number"] < LEAST_SERVER:
        yield Finding(
            check="server",
            state="broken",
            told=f"PostgreSQL {row['version']}; 15 or newer is needed.",
            way_out="Upgrade the server, or use MemoryStore.embedded().",
        )
    else:
        yield Finding(check="server", state="ok", told=f"PostgreSQL {row['version']}{standby}")
    if row["encoding"] != "UTF8":
        yield Finding(
            check="encoding",
            state="broken",
            told=f"the database's encoding is {row['encoding']}; a store needs UTF8.",
            way_out="Create a database with ENCODING 'UTF8' TEMPLATE template0 and move there.",
        )


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


def judge_extensions(rows: Sequence[Row]) -> Iterator[Finding]:
    """What is installed and where, from `extension_facts`."""
    missing = [name for name in EXTENSIONS if name not in {row["name"] for row in rows}]
    if missing:
        yield Finding(
            check="extensions",
            state="broken",
            told=f"missing: {', '.join(missing)}.",
            way_out="Run `lore-retriever migrate` as an administrator, or CREATE EXTENSION yourself.",
        )
    places = ", ".join(f"{row['name']} {row['version']} in {row['schema']}" for row in rows)
    old = [row for row in rows if row["name"] == "vector" and _version(row["version"]) < LEAST_PGVECTOR]
    unreachable = [row for row in rows if not row["is_reachable"]]
    if old:
        yield Finding(
            check="pgvector",
            state="broken",
            told=f"pgvector is {old[0]['version']}; 0.8 or newer is needed.",
            way_out="Install it on the server, then ALTER EXTENSION vector UPDATE.",
        )
    if unreachable:
        names = ", ".join(sorted({row["schema"] for row in unreachable}))
        yield Finding(
            check="extensions",
            state="broken",
            told=f"lore_user may not use the schema {names}, where extensions live.",
            way_out=f"GRANT USAGE ON SCHEMA {names} TO lore_user, lore_search, lore_service, lore_owner.",
        )
    if rows and not (missing or old or unreachable):
        yield Finding(check="extensions", state="ok", told=places)


def judge_schema(status: SchemaStatus) -> Finding:
    """Whether the migrations fit this program."""
    try:
        status.require_current()
    except SchemaMismatch as error:
        told, _, way_out = str(error).partition(". ")
        return Finding(check="schema", state="broken", told=told + ".", way_out=way_out)
    return Finding(check="schema", state="ok", told=f"{status.schema}: {len(status.applied)} migrations, up to date")


def judge_roles(server: Row, rows: Sequence[Row]) -> Iterator[Finding]:
    """The four roles and the login role, from `role_facts` and `server_facts`."""
    missing = [name for name in ROLES if name not in {row["name"] for row in rows}]
    strong = [row["name"] for row in rows if row["is_unbounded"]]
    if missing:
        yield Finding(
            check="roles",
            state="broken",
            told=f"missing: {', '.join(missing)}.",
            way_out="Run `lore-retriever migrate`, or have an administrator run sql/migrations/0001_roles.sql.",
        )
    elif strong:
        yield Finding(
            check="roles",
            state="broken",
            told=f"{', '.join(strong)} would pass row security: superuser or BYPASSRLS.",
            way_out=f"ALTER ROLE {strong[0]} NOSUPERUSER NOBYPASSRLS.",
        )
    else:
        yield Finding(check="roles", state="ok", told=f"{', '.join(ROLES)}: none passes row security")
    yield judge_login(server, {row["name"] for row in rows if row["is_member"]})


def judge_login(server: Row, memberships: set[str]) -> Finding:
    """Whether the login role is bounded by row security when it resets its role."""
    login = server["login"]
    dropped = (
        "The library drops to lore_user in every transaction; whoever runs SQL as this role is not bounded. Applications"
        " are safer with: CREATE ROLE app LOGIN IN ROLE lore_user."
    )
    if server["is_superuser"] or server["bypasses"]:
        right = "a superuser" if server["is_superuser"] else "marked BYPASSRLS"
        return Finding(check="login role", state="warning", told=f"{login} is {right}.", way_out=dropped)
    if "lore_user" not in memberships:
        return Finding(
            check="login role",
            state="broken",
            told=f"{login} is not a member of lore_user, so it can neither read nor write.",
            way_out=f"GRANT lore_user TO {login};",
        )
    more = sorted(memberships - {"lore_user"})
    if more:
        return Finding(
            check="login role",
            state="warning",
            told=f"{login} can also become {', '.join(more)}.",
            way_out=dropped,
        )
    if ways := server.get("other_ways"):
        told = f"{login} has {', '.join(ways)}, which leads around row security."
        return Finding(check="login role", state="warning", told=told, way_out=dropped)
    return Finding(
        check="login role", state="ok", told=f"{login} is a member of lore_user and of no other of our roles"
    )


def _none_of(
    rows: Sequence[Row], check: str, fine: str, told: Callable[[str], str], way_out: str, name: str = "name"
) -> Finding:
    if not rows:
        return Finding(check=check, state="ok", told=fine)
    names = ", ".join(str(row[name]) for row in rows[:8]) + (f" and {len(rows) - 8} more" if len(rows) > 8 else "")
    return Finding(check=check, state="broken", told=told(names), way_out=way_out)


def judge_security(rows: Callable[[str], list[Row]]) -> Iterator[Finding]:
    """Row security, policies, grants to everybody, owners and pinned search paths; `rows` reads by statement name."""
    again = "Something changed it after the migration: find out what, and restore it from sql/migrations."
    yield _none_of(
        rows("unguarded_tables"),
        "row security",
        "forced, with policies, on every table of tenant data",
        lambda names: f"off, not forced, or without a policy on {names}.",
        "ALTER TABLE … ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; policies are in sql/migrations/0004_security.sql.",
    )
    yield _none_of(
        [{"name": f"{row['name']} on {row['table_name']}"} for row in rows("open_policies")],
        "policies",
        "each one of lore_user asks for the scope, none is for everybody",
        lambda names: f"these let more through than the scope: {names}.",
        again,
    )
    yield _none_of(
        [{"name": f"{row['name']} ({row['rights']})"} for row in rows("public_grants")],
        "grants to PUBLIC",
        "none",
        lambda names: f"everybody may use {names}.",
        "REVOKE ALL ON … FROM PUBLIC.",
    )
    yield _none_of(
        rows("unpinned_functions"),
        "functions",
        "those with their owner's rights pin their search_path",
        lambda names: (
            f"{names} run with their owner's rights and leave search_path to the caller, or pg_temp not last."
        ),
        again,
    )
    yield _none_of(
        [{"name": f"{row['name']} ({row['owner']})"} for row in rows("strong_owners")],
        "owners",
        "none passes row security",
        lambda names: f"owned by a role that passes row security: {names}.",
        "ALTER … OWNER TO lore_owner (candidate functions: lore_search).",
    )


def judge_rights(rows: Sequence[Row]) -> Iterator[Finding]:
    """What lore_user may do, from `user_rights`."""
    may_recall = bool(rows) and rows[0]["may_recall"]
    if not may_recall:
        yield Finding(
            check="rights",
            state="broken",
            told="lore_user may not call recall.",
            way_out="GRANT USAGE ON SCHEMA … and EXECUTE ON FUNCTION …recall TO lore_user, as in sql/migrations.",
        )
    if rows and rows[0]["may_configure"]:
        yield Finding(
            check="rights",
            state="broken",
            told="lore_user may write settings or statistics, which are the service role's.",
            way_out="REVOKE INSERT, UPDATE, DELETE, TRUNCATE on those tables FROM lore_user.",
        )
    elif may_recall:
        yield Finding(check="rights", state="ok", told="lore_user may search, and may not change settings")


def judge_tables(rows: Sequence[Row]) -> Iterator[Finding]:
    """Whether what is scanned by index alone is vacuumed, from `table_health`."""
    dusty = [
        row["name"]
        for row in rows
        if (row["pages"] > _SMALL_PAGES and row["visible_pages"] < (1 - _DUSTY_SHARE) * row["pages"])
        or (row["dead"] > _DUSTY_ROWS and row["dead"] > _DUSTY_SHARE * max(1, row["live"]))
    ]
    if dusty:
        yield Finding(
            check="vacuum",
            state="warning",
            told=f"{', '.join(dusty)}: many rows changed since the last vacuum, so searches read more than they need.",
            way_out="Run `lore-retriever maintain`, and see that autovacuum runs.",
        )
    else:
        yield Finding(check="vacuum", state="ok", told="nothing to catch up with")


def judge_space(space: EmbeddingSpace, embedder: Embedder | None) -> Finding:
    """Whether the recorded space can be embedded into from here."""
    try:
        own = (embedder or embedder_of(space)).space
    except (ImportError, EmbeddingSpaceMismatch) as error:
        told = f"{space}; this program cannot make its vectors: {error}"
        return Finding(
            check="embedding model",
            state="warning",
            told=told,
            way_out="Name it with --model, or pass embedder=… in Python; until then search is by words alone.",
        )
    if own != space:
        told = f"the database records {space}, the embedder makes {own}."
        return Finding(check="embedding model", state="broken", told=told, way_out="Use the model that is recorded.")
    return Finding(check="embedding model", state="ok", told=str(space))


def judge_contents(row: Row) -> Iterator[Finding]:
    """Memories that are found in part only, from `partial_memories`."""
    yield Finding(check="contents", state="ok", told=f"{row['memories']:,} memories")
    for column, what, why in (
        ("partly_indexed", "words", "a text index holds 1 MB of words"),
        ("partly_embedded", "meaning", "a memory has at most so many windows"),
    ):
        if row[column]:
            yield Finding(
                check="contents",
                state="warning",
                told=f"{row[column]:,} memories are found by the {what} of their first part only: {why}.",
                way_out="Split them into smaller memories.",
            )


def judge_statistics(row: Row) -> Finding:
    """Whether word frequencies are fresh, from `stale_parts`."""
    if row["stale"]:
        return Finding(
            check="statistics",
            state="warning",
            told=f"out of date in {row['stale']:,} of {row['parts']:,} parts of organisations; searches are right, but less sharp.",
            way_out="Run `lore-retriever maintain`.",
        )
    return Finding(check="statistics", state="ok", told="word frequencies are up to date")


def judge_vectors(counts: Row, lost: Row) -> Iterator[Finding]:
    """What waits for vectors, from `pending_counts` and `lost_windows`."""
    why = f" ({counts['error']})" if counts["error"] else ""
    if counts["given_up"]:
        yield Finding(
            check="vectors",
            state="broken",
            told=f"{counts['given_up']:,} memories were given up after {MOST_ATTEMPTS} failures{why}; found by words alone.",
            way_out="Mend the embedder, then run `lore-retriever embed --retry`.",
        )
    elif counts["memories"]:
        yield Finding(
            check="vectors",
            state="warning",
            told=f"{counts['windows']:,} windows of {counts['memories']:,} memories wait{why}; until then found by words alone.",
            way_out="Run `lore-retriever embed`.",
        )
    if lost["windows"]:
        yield Finding(
            check="vectors",
            state="broken",
            told=f"{lost['windows']:,} windows have no vector and do not wait for one.",
            way_out="Store their memories again, or restore the vectors from a backup.",
        )
    elif not counts["memories"]:
        yield Finding(check="vectors", state="ok", told="none is missing")


def judge_codes(row: Row) -> Finding:
    """Whether large organisations find everything, from `missing_codes`."""
    if row["missing"]:
        return Finding(
            check="codes",
            state="broken",
            told=f"{row['missing']:,} of {row['vectors']:,} vectors have no code: large organisations do not find them by meaning.",
            way_out="Store their memories again, or restore the codes from a backup.",
        )
    return Finding(check="codes", state="ok", told=f"one for each of {row['vectors']:,} vectors")
