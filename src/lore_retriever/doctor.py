"""Is a store sound? Looks at server, schema, roles, row security and what waits, and says what to do.

Reads; `diagnosis` judges. What the connection may not see is said to be unknown, never to be fine.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.rows import dict_row

from lore_retriever.admin import StoreAdmin
from lore_retriever.diagnosis import (
    ROLES,
    Finding,
    State,
    judge_codes,
    judge_contents,
    judge_extensions,
    judge_rights,
    judge_roles,
    judge_schema,
    judge_security,
    judge_server,
    judge_space,
    judge_statistics,
    judge_tables,
    judge_vectors,
)
from lore_retriever.embeddings.base import Embedder, EmbeddingSpace
from lore_retriever.errors import LoreError, StoreUnavailable
from lore_retriever.guarding import judge_identity, judge_keys, judge_mapping, judge_schemas
from lore_retriever.identity import mapped_roles, token_keys
from lore_retriever.migrations import EXTENSIONS, checked_schema, schema_status, search_path
from lore_retriever.operations.embedding import MOST_ATTEMPTS
from lore_retriever.queries import query
from lore_retriever.steps import Row
from lore_retriever.types import Record

__all__ = ["Finding", "Report", "State", "examine"]

_ELSEWHERE = "Give --admin-database with an administrator's connection string to check it."


class Report(Record):
    """All that was checked, in order; `exit_code` is 0 if nothing is broken, 3 if the schema is not current, else 1."""

    findings: tuple[Finding, ...]
    exit_code: int


def examine(
    conninfo: str, *, schema: str = "lore", admin: StoreAdmin | None = None, embedder: Embedder | None = None
) -> Report:
    """Check a store.

    Args:
        conninfo: As an application connects: whose rights are judged.
        admin: The keeper, for what only the service role sees; without it that is unknown.
        embedder: The one in use, where the database's record cannot name it.

    Raises:
        StoreUnavailable: If the database does not answer.
    """
    checked_schema(schema)
    try:
        with psycopg.connect(conninfo, autocommit=True) as connection:
            findings, state, space, identity = _examined(connection, schema, admin, embedder)
    except psycopg.OperationalError as error:
        raise StoreUnavailable(f"the database did not answer: {' '.join(str(error).split())}") from error
    if state in ("current", "unknown"):
        findings += [*_kept(admin, space), *_callers(admin, identity)]
        return Report(findings=tuple(findings), exit_code=int(any(each.state == "broken" for each in findings)))
    return Report(findings=tuple(findings), exit_code=3)


def _examined(
    connection: psycopg.Connection[Any], schema: str, admin: StoreAdmin | None, embedder: Embedder | None
) -> tuple[list[Finding], str, Row | None, str | None]:
    """What any connection can see; the schema's state, or `unknown`; the active space's row; how callers are known."""

    def rows(name: str) -> list[Row]:
        with connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(query(name), {"schema": schema, "names": list(EXTENSIONS)}).fetchall()

    server, extensions, roles = rows("server_facts")[0], rows("extension_facts"), rows("role_facts")
    told, state = _judged_schema(connection, schema, admin)
    findings = [*judge_server(server), *judge_extensions(extensions), told, *judge_roles(server, roles)]
    if state not in ("current", "unknown") or len(roles) < len(ROLES):
        return findings, state, None, None
    findings += judge_security(rows)
    findings.append(judge_schemas(rows("open_schemas")))
    findings += judge_rights(rows("user_rights"))
    findings += judge_tables(rows("table_health"))
    path = search_path(schema, sorted({row["schema"] for row in extensions}))
    told, space = _judged_space(connection, path, embedder)
    callers = _scoped_rows(connection, path, "identity_facts")
    if isinstance(callers, Finding):
        return [*findings, told], state, space, None
    return [*findings, judge_identity(callers[0]), told], state, space, callers[0]["identity"]


def _judged_schema(connection: psycopg.Connection[Any], schema: str, admin: StoreAdmin | None) -> tuple[Finding, str]:
    """Whether the migrations fit, and the schema's state; as the keeper where the application may not look."""
    try:
        status = schema_status(connection, schema)
    except psycopg.errors.InsufficientPrivilege as error:
        told = f"not to be read: {error.diag.message_primary}."
        if admin is None:
            return Finding(check="schema", state="unknown", told=told, way_out=_ELSEWHERE), "unknown"
        try:
            status = admin.status()
        except LoreError:
            return Finding(check="schema", state="unknown", told=told, way_out=_ELSEWHERE), "unknown"
    return judge_schema(status), status.state


def _scoped_rows(connection: psycopg.Connection[Any], path: str, name: str) -> list[Row] | Finding:
    """Rows of a statement as the user role, without a scope; a finding where that is refused."""
    params = {"search_path": path, "role": "lore_user", "org": "", "user": "", "space": ""}
    try:
        with connection.transaction(), connection.cursor(row_factory=dict_row) as cursor:
            cursor.execute(query("enter_scope"), params)
            return cursor.execute(query(name)).fetchall()
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedTable) as error:
        told = f"not to be read: {error.diag.message_primary}."
        return Finding(check="embedding model", state="unknown", told=told, way_out=_ELSEWHERE)


def _judged_space(
    connection: psycopg.Connection[Any], path: str, embedder: Embedder | None
) -> tuple[Finding, Row | None]:
    found = _scoped_rows(connection, path, "spaces")
    if isinstance(found, Finding):
        return found, None
    active = next((row for row in found if row["state"] == "active"), None)
    if active is None:
        told, way_out = "none is recorded.", "Run `lore-retriever migrate --model …`."
        return Finding(check="embedding model", state="broken", told=told, way_out=way_out), None
    return judge_space(EmbeddingSpace(active["model"], active["revision"], active["dimensions"]), embedder), active


def _kept(admin: StoreAdmin | None, space: Row | None) -> list[Finding]:
    """What only the service role sees."""
    if admin is None:
        return [Finding(check="contents", state="unknown", told="not looked at.", way_out=_ELSEWHERE)]
    try:
        with admin.service() as cursor:

            def row(name: str, **params: Any) -> Row:
                return cursor.execute(query(name), params).fetchone() or {}

            findings = [*judge_contents(row("partial_memories")), judge_statistics(row("stale_parts"))]
            if space is not None:
                number = space["space"]
                counts = row("pending_counts", space=number, most_attempts=MOST_ATTEMPTS)
                findings += judge_vectors(counts, row("lost_windows", space=number))
            if space is not None and space["centre"] is not None:
                findings.append(judge_codes(row("missing_codes", space=space["space"], centre=space["centre"])))
            return findings
    except LoreError as error:
        return [Finding(check="contents", state="unknown", told=f"not to be seen: {error}", way_out=_ELSEWHERE)]


def _callers(admin: StoreAdmin | None, identity: str | None) -> list[Finding]:
    """Who may be a caller, where the database keeps it."""
    if admin is None or identity not in ("role", "claims"):
        return []
    try:
        return [judge_mapping(mapped_roles(admin)) if identity == "role" else judge_keys(token_keys(admin))]
    except LoreError as error:
        check = "mapped roles" if identity == "role" else "token keys"
        return [Finding(check=check, state="unknown", told=f"not to be seen: {error}", way_out=_ELSEWHERE)]
