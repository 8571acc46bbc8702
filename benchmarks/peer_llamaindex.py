"""llama-index: PGVectorStore in hybrid mode, as documented and tuned by hand."""

from __future__ import annotations

import json
from typing import Any

import psycopg
from generated import Question
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import FilterCondition, MetadataFilter, MetadataFilters, VectorStoreQuery
from llama_index.core.vector_stores.types import VectorStoreQueryMode
from llama_index.core.vector_stores.utils import node_to_metadata_dict
from llama_index.vector_stores.postgres import PGVectorStore
from peer_langchain import url_of
from peer_rows import set_for_database

K = 10
TABLE = "documents"


def conditions(question: Question) -> MetadataFilters:
    """The organisation, and what is shared in it or one's own."""
    either: list[Any] = [MetadataFilter(key="shared", value="yes"), MetadataFilter(key="owner", value=question.user)]
    return MetadataFilters(
        filters=[
            MetadataFilter(key="org", value=question.org),
            MetadataFilters(filters=either, condition=FilterCondition.OR),
        ],
        condition=FilterCondition.AND,
    )


def metadata_template() -> str:
    """The JSON that it stores beside a text, with marks where a row's own values go."""
    marked = {"org": "@org@", "owner": "@owner@", "shared": "@shared@", "memory": "@memory@"}
    node = TextNode(id_="@id@", text="", metadata=marked)
    return json.dumps(node_to_metadata_dict(node, remove_text=True, flat_metadata=False))


class LlamaIndex:
    """A PGVectorStore on a filled table; synchronous on psycopg2 as documented, asynchronous on asyncpg when tuned."""

    def __init__(self, conninfo: str, dimensions: int, *, tuned: bool) -> None:
        self.name = "llama-index, tuned" if tuned else "llama-index"
        self.is_async = tuned
        self.settings = {
            "search": "query(mode=HYBRID, similarity_top_k=10, sparse_top_k=10, filters): both lists joined, no fusion",
            "indexes": "HNSW (m 16, ef_construction 64), GIN (text_search_tsv)"
            + (", btree on metadata org" if tuned else ""),
            "settings": "use_halfvec, use_jsonb, hnsw_ef_search 100, hnsw.iterative_scan relaxed_order, random_page_cost 1.1"
            if tuned
            else "as documented: vector column, hnsw_ef_search 40",
            "connections": "aquery on asyncpg" if tuned else "query on psycopg2",
        }
        self.store = self.made(conninfo, dimensions, tuned=tuned)
        self.store._initialize()

    @staticmethod
    def made(conninfo: str, dimensions: int, *, tuned: bool, set_up: bool = False) -> PGVectorStore:
        """The store object; its table and indexes too, if they shall be made."""
        hnsw: dict[str, Any] = {"hnsw_m": 16, "hnsw_ef_construction": 64, "hnsw_ef_search": 100 if tuned else 40}
        if set_up:
            hnsw["hnsw_dist_method"] = "halfvec_cosine_ops" if tuned else "vector_cosine_ops"
        return PGVectorStore(
            connection_string=url_of(conninfo, "psycopg2").render_as_string(hide_password=False),
            async_connection_string=url_of(conninfo, "asyncpg").render_as_string(hide_password=False),
            table_name=TABLE,
            embed_dim=dimensions,
            hybrid_search=True,
            text_search_config="english",
            hnsw_kwargs=hnsw,
            use_halfvec=tuned,
            use_jsonb=tuned,
            indexed_metadata_keys={("org", "text")} if tuned else None,
            perform_setup=set_up,
            initialization_fail_on_error=True,
        )

    @staticmethod
    def fill(conninfo: str, dimensions: int, *, tuned: bool) -> None:
        """Its own table and indexes, filled from `rows` in the form that it writes itself."""
        set_for_database(
            conninfo, {"maintenance_work_mem": "2GB", "max_parallel_maintenance_workers": "0", "jit": "off"}
        )
        store = LlamaIndex.made(conninfo, dimensions, tuned=tuned, set_up=True)
        store._connect()
        store._create_extension()
        store._create_tables_if_not_exists()
        filled = "%(template)s"
        for name in ("id", "org", "owner", "shared", "memory"):
            filled = f"replace({filled}, '@{name}@', {name})"
        kinds = ("halfvec", "jsonb") if tuned else ("vector", "json")
        into = "INSERT INTO data_documents (text, metadata_, node_id, embedding)"
        statement = f"{into} SELECT content, ({filled})::{kinds[1]}, id, embedding::{kinds[0]} FROM rows"  # noqa: S608
        with psycopg.connect(conninfo, autocommit=True) as connection:
            connection.execute(statement, {"template": metadata_template()})  # type: ignore[arg-type]
        store._create_hnsw_index()
        if tuned:
            set_for_database(conninfo, {"random_page_cost": "1.1", "hnsw.iterative_scan": "relaxed_order"})

    def _asked(self, question: Question, mode: VectorStoreQueryMode) -> VectorStoreQuery:
        return VectorStoreQuery(
            query_embedding=question.vector.tolist(),
            query_str=question.text,
            mode=mode,
            similarity_top_k=K,
            sparse_top_k=K,
            filters=conditions(question),
        )

    def search(self, question: Question) -> Any:
        asked = self._asked(question, VectorStoreQueryMode.HYBRID)
        if self.is_async:
            return self._later(asked, "memory")
        return [node.metadata["memory"] for node in self.store.query(asked).nodes or []]

    def nearest(self, question: Question) -> Any:
        asked = self._asked(question, VectorStoreQueryMode.DEFAULT)
        return (
            self._later(asked, "id")
            if self.is_async
            else [node.node_id for node in self.store.query(asked).nodes or []]
        )

    async def _later(self, asked: VectorStoreQuery, what: str) -> list[str]:
        found = await self.store.aquery(asked)
        return [node.node_id if what == "id" else node.metadata["memory"] for node in found.nodes or []]

    def add(self, texts: list[str], vectors: list[list[float]], ids: list[str]) -> None:
        """Its own call for many rows."""
        metadata = {"org": "bulk", "owner": "user0", "shared": "no"}
        nodes: list[Any] = [
            TextNode(id_=name, text=text, embedding=vector, metadata=metadata | {"memory": name})
            for name, text, vector in zip(ids, texts, vectors, strict=True)
        ]
        self.store.add(nodes)

    def close(self) -> Any:
        return self.store.close() if self.is_async else self.store._engine.dispose()
