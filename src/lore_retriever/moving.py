"""Moving in from LangChain's own Postgres stores, `PGVector` and `PGVectorStore`. Needs only their tables, not LangChain."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import psycopg

from lore_retriever.bridge import View
from lore_retriever.connecting import connected
from lore_retriever.errors import InvalidInput
from lore_retriever.rows import Columns, Imported, import_rows

__all__ = ["import_pgvector", "import_pgvectorstore", "plain_conninfo"]

_SQLALCHEMY = re.compile(r"^postgres(?:ql)?\+\w+://")


def plain_conninfo(connection: str) -> str:
    """A connection string as libpq reads it; SQLAlchemy's, which LangChain's own stores take, names a driver too."""
    return _SQLALCHEMY.sub("postgresql://", connection)


# langchain-postgres names a row by `id`; the older class of langchain-community by `custom_id`, or else `uuid`.
_PGVECTOR = """
    SELECT e.id AS id, e.document, e.cmetadata
    FROM langchain_pg_embedding AS e JOIN langchain_pg_collection AS c ON c.uuid = e.collection_id
    WHERE c.name = %(collection)s
    ORDER BY e.id
"""
_OLDER_PGVECTOR = """
    SELECT coalesce(e.custom_id, e.uuid::text) AS id, e.document, e.cmetadata
    FROM langchain_pg_embedding AS e JOIN langchain_pg_collection AS c ON c.uuid = e.collection_id
    WHERE c.name = %(collection)s
    ORDER BY e.uuid
"""


def import_pgvector(source: str, memories: View, *, collection: str, **options: Any) -> Imported:
    """Store the documents of a `PGVector` collection, with their ids and metadata; what became of them.

    Run it again after a break: what is held already is passed over.

    Args:
        source: Connection string of its database, in SQLAlchemy's form too (`postgresql+psycopg://…`).
        memories: View of either store to write to.
        collection: The collection's name.
        **options: Those of `import_rows`.

    Raises:
        InvalidInput: If there is no such collection, or this is no connection string.
        StoreUnavailable: If the source cannot be reached.
    """
    conninfo = plain_conninfo(source)
    with connected(conninfo) as connection:
        known = connection.execute(
            "SELECT 1 FROM information_schema.columns WHERE table_name = 'langchain_pg_embedding' AND column_name = 'id'"
        ).fetchone()
        try:
            found = connection.execute("SELECT 1 FROM langchain_pg_collection WHERE name = %s", [collection]).fetchone()
        except psycopg.errors.UndefinedTable as error:
            raise InvalidInput(f"the source holds no PGVector collections: {error.diag.message_primary}.") from error
    if found is None:
        raise InvalidInput(f"the source has no PGVector collection {collection!r}.")
    return import_rows(
        conninfo,
        memories,
        query=_PGVECTOR if known else _OLDER_PGVECTOR,
        params={"collection": collection},
        columns=Columns(content="document", id="id", metadata="cmetadata"),
        **options,
    )


def import_pgvectorstore(
    source: str,
    memories: View,
    *,
    table: str,
    schema: str = "public",
    id_column: str = "langchain_id",
    content_column: str = "content",
    metadata_json_column: str | None = "langchain_metadata",
    metadata_columns: Sequence[str] = (),
    **options: Any,
) -> Imported:
    """Store the documents of a `PGVectorStore` table, with their ids and metadata; what became of them.

    Run it again after a break: what is held already is passed over.

    Args:
        source: Connection string of its database, in SQLAlchemy's form too.
        memories: View of either store to write to.
        table, schema, id_column, content_column, metadata_json_column, metadata_columns: As the store was made with.
        **options: Those of `import_rows`.
    """
    return import_rows(
        plain_conninfo(source),
        memories,
        table=(schema, table),
        columns=Columns(content=content_column, id=id_column, metadata=metadata_json_column, keys=metadata_columns),
        **options,
    )
