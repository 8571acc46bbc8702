"""Which migrations a database has, which it lacks, and applying them.

Numbered files in `sql/migrations`, one transaction each, under one advisory lock. Applied files are recorded with
their hash; a released file never changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import psycopg
from psycopg import sql

from lore_retriever.errors import InvalidInput, PermissionDenied, SchemaMismatch
from lore_retriever.queries import sql_folder

__all__ = [
    "EXTENSIONS",
    "ROLES",
    "Migration",
    "SchemaStatus",
    "apply_migrations",
    "known_migrations",
    "printed_sql",
    "schema_status",
    "search_path",
]

EXTENSIONS: tuple[str, ...] = ("vector", "pg_trgm", "btree_gin", "unaccent", "fuzzystrmatch")
"""Extensions that a store needs, wherever they live."""

ROLES: tuple[str, ...] = ("lore_owner", "lore_search", "lore_service", "lore_user")
"""Roles of the whole server that every store on it shares."""

LEAST_PGVECTOR = (0, 8)
MAX_SCHEMA_BYTES = 63
_ROLES_FILE = "0001_roles"


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file."""

    number: int
    name: str
    text: str

    @property
    def hash(self) -> str:
        """SHA-256 of the file, as recorded with a database that ran it."""
        return sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """How a database stands to this package.

    Attributes:
        state: `missing` (no store in that schema), `behind`, `current`, `ahead` (made by a newer package) or
            `edited` (an applied migration differs from the file of that number).
        applied: Names of applied migrations.
        waiting: Names of those still to apply.
        edited: Names whose hash differs.
    """

    schema: str
    state: str
    applied: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()

    def require_current(self) -> None:
        """Nothing, if the database fits this package.

        Raises:
            SchemaMismatch: Naming the state and the command that mends it.
        """
        way_out = "Run `lore-retriever migrate`, or MemoryStore.migrate() on a connection with the rights to."
        match self.state:
            case "current":
                return
            case "missing":
                raise SchemaMismatch(f"schema {self.schema!r} holds no lore-retriever store. {way_out}")
            case "behind":
                raise SchemaMismatch(
                    f"schema {self.schema!r} is behind: {', '.join(self.waiting)} not applied. {way_out}"
                )
            case "ahead":
                raise SchemaMismatch(
                    f"schema {self.schema!r} was made by a newer lore-retriever. Upgrade this package."
                )
            case _:
                raise SchemaMismatch(
                    f"schema {self.schema!r}: {', '.join(self.edited)} was applied from a file that differs from the one of"
                    " this package. Restore the database, or the package, that they came from."
                )


def known_migrations() -> list[Migration]:
    """The migrations of this package, in order."""
    found = []
    for path in sorted((sql_folder() / "migrations").glob("*.sql")):
        match = re.fullmatch(r"(\d{4})_\w+", path.stem)
        if match is None:
            raise RuntimeError(f"{path.name} is not named NNNN_what.sql")
        found.append(Migration(int(match[1]), path.stem, path.read_text(encoding="utf-8")))
    return found


def checked_schema(schema: str) -> str:
    """A name that Postgres keeps as given.

    Raises:
        InvalidInput: If it is empty, longer than 63 bytes, holds a NUL or a lone surrogate, or begins with `pg_`.
    """
    try:
        size = len(schema.encode())
    except UnicodeEncodeError:
        size = 0
    if not 1 <= size <= MAX_SCHEMA_BYTES or "\x00" in schema or schema.startswith("pg_"):
        raise InvalidInput(
            f"schema is {schema!r}; give a name of 1 to {MAX_SCHEMA_BYTES} bytes without NUL that does not begin with pg_."
        )
    return schema


def search_path(schema: str, extension_schemas: Sequence[str]) -> str:
    """The search_path under which our SQL runs: the store's schema, those of the extensions, temporary names last."""
    names = [schema, *(name for name in extension_schemas if name not in (schema, "pg_catalog"))]
    return ", ".join([_quoted(name) for name in names] + ["pg_temp"])


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def schema_status(connection: psycopg.Connection[Any], schema: str) -> SchemaStatus:
    """Compare the database's record with this package's files."""
    table = sql.Identifier(schema, "migrations")
    exists = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [table.as_string(connection)]).fetchone()
    if exists is None or not exists[0]:
        return SchemaStatus(schema, "missing", waiting=tuple(m.name for m in known_migrations()))
    rows = connection.execute(sql.SQL("SELECT number, name, hash FROM {} ORDER BY number").format(table)).fetchall()
    return compared(schema, rows, known_migrations())


def compared(schema: str, rows: Sequence[tuple[int, str, str]], known: Sequence[Migration]) -> SchemaStatus:
    """The status that recorded rows `(number, name, hash)` have against known migrations. Pure."""
    files = {m.number: m for m in known}
    applied = tuple(name for _, name, _ in rows)
    edited = tuple(name for number, name, digest in rows if number in files and files[number].hash != digest)
    waiting = tuple(m.name for m in known if m.number not in {number for number, _, _ in rows})
    if any(number not in files for number, _, _ in rows):
        state = "ahead"
    elif edited:
        state = "edited"
    else:
        state = "behind" if waiting else "current"
    return SchemaStatus(schema, state, applied, waiting, edited)


def _extension_schemas(connection: psycopg.Connection[Any]) -> dict[str, tuple[str, str]]:
    rows = connection.execute(
        "SELECT e.extname, n.nspname, e.extversion FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace"
        " WHERE e.extname = ANY(%s)",
        [list(EXTENSIONS)],
    ).fetchall()
    return {name: (schema, version) for name, schema, version in rows}


def _create_extensions(connection: psycopg.Connection[Any]) -> list[str]:
    """Create what is missing beside pgvector (else in `public`); the schemas they all live in."""
    present = _extension_schemas(connection)
    home = present["vector"][0] if "vector" in present else "public"
    for name in EXTENSIONS:
        if name in present:
            continue
        try:
            connection.execute(
                sql.SQL("CREATE EXTENSION IF NOT EXISTS {} SCHEMA {}").format(
                    sql.Identifier(name), sql.Identifier(home)
                )
            )
        except psycopg.errors.InsufficientPrivilege as error:
            raise PermissionDenied(
                f"this connection may not create the extension {name}. Ask an administrator to run:"
                f" CREATE EXTENSION {name} SCHEMA {_quoted(home)};"
            ) from error
        except (psycopg.errors.FeatureNotSupported, psycopg.errors.UndefinedFile) as error:
            raise SchemaMismatch(
                f"the extension {name} is not installed on this server. Install pgvector 0.8 or newer and the contrib"
                " modules, or use MemoryStore.embedded()."
            ) from error
    present = _extension_schemas(connection)
    version = present["vector"][1]
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < LEAST_PGVECTOR:
        raise SchemaMismatch(f"pgvector is {version}; 0.8 or newer is needed. Run ALTER EXTENSION vector UPDATE.")
    return sorted({schema for schema, _ in present.values()})


@contextmanager
def _locked(connection: psycopg.Connection[Any], what: str) -> Iterator[None]:
    """Hold a lock of this database: a second migrator waits, then finds nothing to do."""
    key = "lore migration " + what
    connection.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", [key])
    try:
        yield
    finally:
        if not connection.closed and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            connection.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", [key])


def _prepare(connection: psycopg.Connection[Any], schema: str) -> None:
    encoding = connection.execute("SHOW server_encoding").fetchone()
    if encoding is None or encoding[0] != "UTF8":
        raise SchemaMismatch(f"the database's encoding is {encoding and encoding[0]}; a store needs UTF8.")
    with connection.transaction():
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
        connection.execute(
            sql.SQL(
                "CREATE TABLE IF NOT EXISTS {} (number integer PRIMARY KEY, name text NOT NULL, hash text NOT NULL,"
                " applied_at timestamptz NOT NULL DEFAULT now())"
            ).format(sql.Identifier(schema, "migrations"))
        )


def apply_migrations(connection: psycopg.Connection[Any], schema: str = "lore", *, roles: bool = True) -> list[str]:
    """Bring the schema up to date; the names of what was applied.

    Args:
        connection: An administrator's, in autocommit: it creates roles, extensions, a schema and tables.
        schema: Any name of up to 63 bytes.
        roles: False where the four roles were created beforehand (`sql/migrations/0001_roles.sql`).

    Raises:
        PermissionDenied: If the connection lacks a right, or the server a role that this call does not make; names it.
        SchemaMismatch: If the database is ahead or edited, or lacks pgvector 0.8.
    """
    checked_schema(schema)
    with _locked(connection, schema):
        status = schema_status(connection, schema)
        if status.state in ("ahead", "edited"):
            status.require_current()
        waiting = [m for m in known_migrations() if m.name in status.waiting]
        if not waiting:
            return []
        if not roles or _ROLES_FILE not in status.waiting:
            _require_roles(connection)
        with _locked(connection, "extensions"):
            path = search_path(schema, _create_extensions(connection))
        _prepare(connection, schema)
        for migration in waiting:
            _apply(connection, schema, path, migration, run=roles or migration.name != _ROLES_FILE)
    return [m.name for m in waiting]


def _require_roles(connection: psycopg.Connection[Any]) -> None:
    """Nothing, if the four roles are there: they belong to the server, and may have stayed behind when a database moved."""
    missing = connection.execute(
        "SELECT string_agg(wanted, ', ' ORDER BY wanted) FROM unnest(%s::text[]) AS wanted"
        " WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted)",
        [list(ROLES)],
    ).fetchone()
    if missing is not None and missing[0]:
        raise PermissionDenied(
            f"this server lacks the roles {missing[0]}. Have an administrator run sql/migrations/0001_roles.sql first."
        )


def _apply(connection: psycopg.Connection[Any], schema: str, path: str, migration: Migration, *, run: bool) -> None:
    try:
        with connection.transaction():
            connection.execute("SELECT set_config('search_path', %s, true)", [path])
            if run:
                # Our own file, never a caller's text.
                connection.execute(migration.text)
            # Literals: beside parameters, a % in the schema's name would be read as one.
            values = sql.SQL(", ").join(map(sql.Literal, (migration.number, migration.name, migration.hash)))
            connection.execute(
                sql.SQL("INSERT INTO {} (number, name, hash) VALUES ({})").format(
                    sql.Identifier(schema, "migrations"), values
                )
            )
    except psycopg.errors.InsufficientPrivilege as error:
        raise PermissionDenied(
            f"migration {migration.name} was refused: {error.diag.message_primary}. Use a connection that may create roles"
            " (CREATEROLE) and schemas, or have an administrator run `lore-retriever migrate --print-sql`."
        ) from error


def printed_sql(schema: str = "lore", *, extension_schema: str = "public", roles: bool = True) -> str:
    """All of it as one script for psql, for an administrator to read and run."""
    name = _quoted(checked_schema(schema))
    home = _quoted(extension_schema)
    path = search_path(schema, [extension_schema])
    parts = [f"CREATE EXTENSION IF NOT EXISTS {extension} SCHEMA {home};" for extension in EXTENSIONS]
    parts += [
        f"CREATE SCHEMA IF NOT EXISTS {name};",
        f"CREATE TABLE IF NOT EXISTS {name}.migrations (number integer PRIMARY KEY, name text NOT NULL, hash text NOT NULL,"
        " applied_at timestamptz NOT NULL DEFAULT now());",
    ]
    for migration in known_migrations():
        parts += ["BEGIN;", f"SET LOCAL search_path = {path};"]
        if roles or migration.name != _ROLES_FILE:
            parts.append(migration.text.rstrip())
        parts += [
            f"INSERT INTO {name}.migrations (number, name, hash) VALUES ({migration.number}, '{migration.name}', '{migration.hash}');",  # noqa: S608 (our own names and hashes)
            "COMMIT;",
        ]
    return "\n".join(parts) + "\n"
