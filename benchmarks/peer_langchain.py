"""langchain-postgres: PGVectorStore with its hybrid search and reciprocal rank fusion, as documented and tuned by hand."""

from __future__ import annotations

from typing import Any

import psycopg
from generated import Question
from langchain_core.embeddings import Embeddings
from langchain_postgres import Column, PGEngine, PGVectorStore
from langchain_postgres.v2.async_vectorstore import AsyncPGVectorStore
from langchain_postgres.v2.hybrid_search_config import HybridSearchConfig, reciprocal_rank_fusion
from langchain_postgres.v2.indexes import HNSWIndex, HNSWQueryOptions
from peer_rows import set_for_database
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import URL

K = 10
TABLE = "documents"
COLUMNS = ("org", "owner", "shared", "memory")

TUNED = """
ALTER TABLE documents ALTER COLUMN embedding TYPE halfvec({dimensions});
CREATE INDEX documents_org ON documents (org, owner);
CREATE INDEX documents_embedding ON documents USING hnsw (embedding halfvec_cosine_ops) WITH (m = 16, ef_construction = 64);
"""


class Handed(Embeddings):
    """Hands back the vector that it was given."""

    def __init__(self) -> None:
        self.next: list[float] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.next for _ in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.next

    async def aembed_query(self, text: str) -> list[float]:
        return self.next


def url_of(conninfo: str, driver: str) -> URL:
    """A connection string as SQLAlchemy takes it."""
    parts = conninfo_to_dict(conninfo)
    query = {"host": str(parts["host"])} if "host" in parts else {}
    if "port" in parts:
        query["port"] = str(parts["port"])
    return URL.create(
        f"postgresql+{driver}",
        username=str(parts["user"]) if "user" in parts else None,
        password=str(parts["password"]) if "password" in parts else None,
        database=str(parts["dbname"]),
        query=query,
    )


def hybrid() -> HybridSearchConfig:
    """A new configuration for each search: the store writes the query into it and never lets go of it."""
    return HybridSearchConfig(
        tsv_column="tsv",
        fusion_function=reciprocal_rank_fusion,
        fusion_function_parameters={"rrf_k": 60},
        primary_top_k=40,
        secondary_top_k=40,
    )


def conditions(question: Question) -> dict[str, Any]:
    """The organisation, and what is shared in it or one's own."""
    return {
        "$and": [
            {"org": {"$eq": question.org}},
            {"$or": [{"shared": {"$eq": "yes"}}, {"owner": {"$eq": question.user}}]},
        ]
    }


class LangChain:
    """A PGVectorStore on a filled table; synchronous as documented, asynchronous on asyncpg when tuned."""

    def __init__(self, conninfo: str, *, tuned: bool) -> None:
        self.name = "langchain-postgres, tuned" if tuned else "langchain-postgres"
        self.is_async = tuned
        self.conninfo = conninfo
        self.service = Handed()
        self.settings = {
            "search": "similarity_search(k=10, filter, hybrid_search_config): reciprocal_rank_fusion, rrf_k 60,"
            " primary_top_k 40, secondary_top_k 40",
            "indexes": "HNSW (m 16, ef_construction 64), GIN (tsv)" + (", btree (org, owner)" if tuned else ""),
            "settings": "halfvec column, hnsw.ef_search 100, hnsw.iterative_scan relaxed_order, random_page_cost 1.1"
            if tuned
            else "as installed: vector column, ef_search 40",
            "connections": "AsyncPGVectorStore on asyncpg" if tuned else "PGVectorStore, synchronous, on psycopg",
        }
        self.engine: Any = None
        self.store: Any = None

    @staticmethod
    def fill(conninfo: str, dimensions: int, *, tuned: bool) -> None:
        """Its own table, filled from `rows` in the form that it writes itself, with its own indexes."""
        engine = PGEngine.from_connection_string(url_of(conninfo, "psycopg"))
        engine.init_vectorstore_table(
            TABLE,
            dimensions,
            metadata_columns=[Column(name, "TEXT") for name in COLUMNS],
            id_column=Column("langchain_id", "TEXT"),
            hybrid_search_config=hybrid(),
        )
        with psycopg.connect(conninfo, autocommit=True) as connection:
            connection.execute(
                "INSERT INTO documents (langchain_id, content, embedding, tsv, org, owner, shared, memory, langchain_metadata)"
                " SELECT id, content, embedding::vector, to_tsvector('pg_catalog.english', content), org, owner, shared, memory,"
                " '{}' FROM rows"
            )
        set_for_database(conninfo, {"maintenance_work_mem": "2GB", "max_parallel_maintenance_workers": "0"})
        engine = PGEngine.from_connection_string(url_of(conninfo, "psycopg"))
        store = PGVectorStore.create_sync(
            engine, Handed(), TABLE, metadata_columns=list(COLUMNS), hybrid_search_config=hybrid()
        )
        store.apply_hybrid_search_index()
        if not tuned:
            store.apply_vector_index(HNSWIndex())
            return
        with psycopg.connect(conninfo, autocommit=True) as connection:
            connection.execute(TUNED.replace("{dimensions}", str(dimensions)))  # type: ignore[arg-type]
        set_for_database(conninfo, {"random_page_cost": "1.1", "hnsw.iterative_scan": "relaxed_order", "jit": "off"})

    async def aopen(self) -> None:
        """Connect, on the loop that will search."""
        self.engine = PGEngine.from_connection_string(url_of(self.conninfo, "asyncpg"), pool_size=2)
        self.store = await AsyncPGVectorStore.create(
            self.engine,
            self.service,
            TABLE,
            metadata_columns=list(COLUMNS),
            hybrid_search_config=hybrid(),
            index_query_options=HNSWQueryOptions(ef_search=100),
        )
        self.dense = await AsyncPGVectorStore.create(
            self.engine,
            self.service,
            TABLE,
            metadata_columns=list(COLUMNS),
            index_query_options=HNSWQueryOptions(ef_search=100),
        )

    def open(self) -> None:
        """Connect."""
        self.engine = PGEngine.from_connection_string(url_of(self.conninfo, "psycopg"))
        made = {"metadata_columns": list(COLUMNS)}
        self.store = PGVectorStore.create_sync(self.engine, self.service, TABLE, hybrid_search_config=hybrid(), **made)
        self.dense = PGVectorStore.create_sync(self.engine, self.service, TABLE, **made)

    def search(self, question: Question) -> Any:
        self.service.next = question.vector.tolist()
        given = {"k": K, "filter": conditions(question), "hybrid_search_config": hybrid()}
        if self.is_async:
            return self._later(self.store.asimilarity_search(question.text, **given), "memory")
        return [document.metadata["memory"] for document in self.store.similarity_search(question.text, **given)]

    def nearest(self, question: Question) -> Any:
        self.service.next = question.vector.tolist()
        given = {"k": K, "filter": conditions(question)}
        if self.is_async:
            return self._later(self.dense.asimilarity_search(question.text, **given), "id")
        return [document.id for document in self.dense.similarity_search(question.text, **given)]

    async def _later(self, searching: Any, what: str) -> list[str]:
        return [document.id if what == "id" else document.metadata["memory"] for document in await searching]

    def add(self, texts: list[str], vectors: list[list[float]], ids: list[str]) -> None:
        """Its own call for many rows."""
        metadata = [{"org": "bulk", "owner": "user0", "shared": "no", "memory": name} for name in ids]
        self.store.add_embeddings(texts, vectors, metadata, ids)

    def close(self) -> Any:
        return self.engine._pool.dispose() if self.is_async else self.engine._run_as_sync(self.engine._pool.dispose())
