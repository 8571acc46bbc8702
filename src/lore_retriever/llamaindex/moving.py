"""Moving in from LlamaIndex's own `PGVectorStore`. Needs only its table, not its package."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import psycopg
from llama_index.core.schema import BaseNode, TextNode
from llama_index.core.vector_stores.utils import metadata_dict_to_node
from psycopg import sql
from psycopg.rows import dict_row

from lore_retriever.bridge import perform
from lore_retriever.connecting import connected
from lore_retriever.errors import InvalidInput
from lore_retriever.ingest import is_held
from lore_retriever.inputs import checked_id, checked_memory
from lore_retriever.llamaindex.nodes import memory_of_node
from lore_retriever.llamaindex.vectorstore import LoreVectorStore
from lore_retriever.moving import plain_conninfo
from lore_retriever.operations.common import fetch
from lore_retriever.rows import Imported

__all__ = ["import_pgvectorstore"]

_WRITTEN_BY_THE_STORE = frozenset({"_node_content", "_node_type", "document_id", "doc_id", "ref_doc_id"})


def import_pgvectorstore(
    source: str,
    into: LoreVectorStore,
    *,
    table_name: str = "llamaindex",
    schema_name: str = "public",
    batch_size: int = 200,
    progress: Callable[[Imported], None] | None = None,
) -> Imported:
    """Store the nodes of a `PGVectorStore`, with their ids, metadata and relationships; what became of them.

    The source is only read, in one snapshot. Run it again after a break: what is held already is passed over. Of
    several rows with one node id, which that store makes when a node is added twice, the last counts. Vectors are
    made anew, unless `into` was given the `embed_model` that made them and it is the store's.

    Args:
        source: Connection string of its database, in SQLAlchemy's form too (`postgresql+psycopg2://…`).
        into: Where the nodes go.
        table_name, schema_name: As that store was made with; its table is `data_` and this name.
        batch_size: Nodes stored in one transaction: what a break can cost at most.
        progress: Called after each batch with what has been done so far.

    Raises:
        InvalidInput: If there is no such table, or a node cannot be stored; batches before it are stored.
        StoreUnavailable: If the source cannot be reached.
    """
    done = Imported()
    for rows in _batches(source, table_name, schema_name, batch_size, with_vectors=into.uses_embeddings):
        nodes = {row["node_id"]: _node(row) for row in rows}
        fresh = _not_held(into, list(nodes.values()))
        into.add(fresh)
        done.stored += len(fresh)
        done.unchanged += len(rows) - len(fresh)
        if progress is not None:
            progress(done)
    return done


def _batches(
    source: str, table_name: str, schema_name: str, size: int, *, with_vectors: bool
) -> Iterator[list[dict[str, Any]]]:
    """The last row of each node, in the order of writing, a batch at a time."""
    statement = sql.SQL(
        "SELECT t.node_id, t.text, t.metadata_ AS metadata, {vector} AS embedding FROM {table} AS t"
        " WHERE NOT EXISTS (SELECT FROM {table} AS later WHERE later.node_id = t.node_id AND later.id > t.id)"
        " ORDER BY t.id"
    ).format(
        vector=sql.SQL("t.embedding::real[]") if with_vectors else sql.SQL("NULL"),
        table=sql.Identifier(schema_name, f"data_{table_name.lower()}"),
    )
    with (
        connected(plain_conninfo(source), application_name="lore-retriever-import") as connection,
        connection.cursor("lore_import", row_factory=dict_row) as cursor,
    ):
        connection.read_only = True
        try:
            cursor.execute(statement)
        except (
            psycopg.errors.UndefinedColumn,
            psycopg.errors.UndefinedTable,
            psycopg.errors.InvalidSchemaName,
        ) as error:
            raise InvalidInput(
                f"the source holds no PGVectorStore {table_name!r} in schema {schema_name!r}: {error.diag.message_primary}."
            ) from error
        while rows := cursor.fetchmany(size):
            yield rows


def _node(row: Mapping[str, Any]) -> BaseNode:
    """The node of a row, as that store reads it; a bare one where it was not written by LlamaIndex."""
    metadata = row["metadata"] or {}
    try:
        node = metadata_dict_to_node(metadata, text=row["text"])
    except (KeyError, TypeError, ValueError):
        kept = {key: value for key, value in metadata.items() if key not in _WRITTEN_BY_THE_STORE}
        node = TextNode(text=row["text"], metadata=kept)
    node.node_id = checked_id(row["node_id"])
    node.embedding = row["embedding"]
    return node


def _not_held(into: LoreVectorStore, nodes: Sequence[BaseNode]) -> list[BaseNode]:
    """Those nodes that storing would change something for."""
    memories = [
        checked_memory(memory_of_node(node, visibility=into.visibility), what=f"node {node.node_id!r}")
        for node in nodes
    ]
    rows = perform(into.client, lambda space: fetch("own_states", ids=[memory.id for memory in memories]))
    held = {row["id"]: row for row in rows}
    return [
        node
        for node, memory in zip(nodes, memories, strict=True)
        if memory.id not in held or not is_held(memory, held[memory.id])
    ]
