"""The SQL that ships with the package, by name. `sql/` is the pipeline itself; this module only finds it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import LiteralString, cast

__all__ = ["query", "query_in", "sql_folder"]

_HEADER = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def sql_folder() -> Path:
    """The folder with the SQL files: inside an installed package, or beside `src/` in a checkout."""
    installed = Path(__file__).parent / "sql"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "sql"


@cache
def _queries() -> dict[str, LiteralString]:
    found: dict[str, LiteralString] = {}
    for path in sorted((sql_folder() / "queries").glob("*.sql")):
        parts = _HEADER.split(path.read_text(encoding="utf-8"))
        for name, body in zip(parts[1::2], parts[2::2], strict=True):
            if name in found:
                raise RuntimeError(f"two statements are named {name!r} in sql/queries")
            # Our own files, never a caller's text: literal in every sense that matters to the driver.
            found[name] = cast(LiteralString, body.strip())
    return found


def query(name: str) -> LiteralString:
    """The statement of that name in `sql/queries/`; its comments say what one row is."""
    return _queries()[name]


@cache
def query_in(schema: str, name: str) -> bytes:
    """A statement of `sql/queries/` that names the store's schema itself, as `{schema}`, since it runs under no search path."""
    from psycopg import sql

    quoted = sql.Identifier(schema).as_string(None).replace("%", "%%")  # else the driver would take it for a parameter
    return sql.SQL(query(name)).format(schema=sql.SQL(quoted)).as_bytes(None)
