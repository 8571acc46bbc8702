"""What langchain-postgres and llama-index find on the same texts and vectors, saved for `eval run --with`.

`quality.py` calls this. They pin other versions of pgvector than this package allows, so it runs in an environment of its
own (`make .venv-peers/.made && .venv-peers/bin/pip install -e '.[embedded,offline,eval]'`):

    .venv-peers/bin/python benchmarks/quality_peers.py suites.toml --cache vectors.sqlite --save peers.json
    lore-retriever eval run suites.toml --cache vectors.sqlite --with peers.json

Both get the windows of lore-retriever as their documents, with exact vectors, the scope and filter as metadata, and 40
rows of either kind; a text's windows are collapsed to its first, which neither does by itself. Runs that the file holds
already, on the same data and vectors, are not made again.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import psycopg
from figures import database_of, run_command
from langchain_core.embeddings import Embeddings
from langchain_postgres import Column, PGEngine, PGVectorStore
from langchain_postgres.v2.hybrid_search_config import HybridSearchConfig, reciprocal_rank_fusion
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters, VectorStoreQuery
from llama_index.core.vector_stores.types import VectorStoreQueryMode
from llama_index.vector_stores.postgres import PGVectorStore as LlamaStore
from psycopg.conninfo import conninfo_to_dict

from lore_retriever.embeddings.base import Embedder
from lore_retriever.evaluation.bench import named_embedder
from lore_retriever.evaluation.runs import Run, load_runs, record, save_runs
from lore_retriever.evaluation.specs import open_suites
from lore_retriever.evaluation.suites import Query, Suite
from lore_retriever.windows import split_windows

POOL = 40


class ForLangChain(Embeddings):
    """Our embedder, as langchain-postgres wants one."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [list(vector) for vector in self._embedder.embed_texts(texts)]

    def embed_query(self, text: str) -> list[float]:
        return list(self._embedder.embed_queries([text])[0])


def pieces(suite: Suite, embedder: Embedder) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Every window: an id, its text, and the metadata that the searches need."""
    keys = filter_keys(suite)
    for document in suite.documents:
        if document.owner is not None:
            continue
        own = {key: str(document.metadata.get(key, "")) for key in keys}
        for window in split_windows(document.text, max_tokens=embedder.max_tokens, count_tokens=embedder.count_tokens):
            text = document.text[window.start : window.end]
            yield f"{document.id}#{window.ordinal}", text, {"doc": document.id, "scope": document.scope or "", **own}


def filter_keys(suite: Suite) -> list[str]:
    """Metadata keys that the suite's filters compare; equality is all that is compared here."""
    return sorted({key for query in suite.queries for key in query.filter or {}})


def conditions(query: Query) -> dict[str, str]:
    """What a hit's metadata must say."""
    return {"scope": query.scope or "", **{key: str(value) for key, value in (query.filter or {}).items()}}


def collapsed(documents: Sequence[str]) -> list[tuple[str, float]]:
    """Documents at their first place."""
    return [(each, 1 / rank) for rank, each in enumerate(dict.fromkeys(documents), start=1)]


def langchain_run(suite: Suite, embedder: Embedder, database: str, table: str) -> Run:
    """Hybrid search of langchain-postgres with its own reciprocal rank fusion, 40 + 40 rows."""
    service = ForLangChain(embedder)
    columns = ["doc", "scope", *filter_keys(suite)]
    engine = PGEngine.from_connection_string(with_driver(database, "psycopg"))
    engine.init_vectorstore_table(
        table,
        embedder.space.dimensions,
        metadata_columns=[Column(name, "TEXT") for name in columns],
        id_column=Column("langchain_id", "TEXT"),
        hybrid_search_config=hybrid(),
        overwrite_existing=True,
    )
    store = PGVectorStore.create_sync(engine, service, table, metadata_columns=columns, hybrid_search_config=hybrid())
    rows = list(pieces(suite, embedder))
    for start in range(0, len(rows), 500):
        ids, texts, metadata = map(list, zip(*rows[start : start + 500], strict=True))
        store.add_embeddings(texts, service.embed_documents(texts), metadata, ids)

    def search(query: Query) -> list[tuple[str, float]]:
        # A fresh configuration for each search: the store writes the query into it.
        found = store.similarity_search(query.text, k=POOL, filter=conditions(query), hybrid_search_config=hybrid())
        return collapsed([document.metadata["doc"] for document in found])[:10]

    return record(suite, "langchain-postgres", search, settings={"pool": POOL, "space": str(embedder.space)})


def hybrid() -> HybridSearchConfig:
    """Its own rank fusion over 40 + 40 rows."""
    return HybridSearchConfig(
        tsv_column="tsv", fusion_function=reciprocal_rank_fusion, primary_top_k=POOL, secondary_top_k=POOL
    )


def llama_run(suite: Suite, embedder: Embedder, database: str, table: str) -> Run:
    """Hybrid search of llama-index, 40 + 40 rows in the order of its own similarities."""
    store = LlamaStore.from_params(
        connection_string=with_driver(database, "psycopg2"),
        async_connection_string=with_driver(database, "asyncpg"),
        table_name=table,
        embed_dim=embedder.space.dimensions,
        hybrid_search=True,
        text_search_config="english",
    )
    rows = list(pieces(suite, embedder))
    for start in range(0, len(rows), 500):
        some = rows[start : start + 500]
        vectors = embedder.embed_texts([text for _, text, _ in some])
        nodes = [
            TextNode(id_=name, text=text, metadata=metadata, embedding=list(vector))
            for (name, text, metadata), vector in zip(some, vectors, strict=True)
        ]
        store.add(nodes)

    def search(query: Query) -> list[tuple[str, float]]:
        (vector,) = embedder.embed_queries([query.text])
        must = [MetadataFilter(key=key, value=value) for key, value in conditions(query).items()]
        asked = VectorStoreQuery(
            query_embedding=list(vector),
            query_str=query.text,
            mode=VectorStoreQueryMode.HYBRID,
            similarity_top_k=POOL,
            sparse_top_k=POOL,
            filters=MetadataFilters(filters=list(must)),
        )
        found = store.query(asked)
        ranked = sorted(zip(found.similarities or [], found.nodes or [], strict=True), key=lambda hit: -hit[0])
        return collapsed([node.metadata["doc"] for _, node in ranked])[:10]

    try:
        return record(suite, "llama-index", search, settings={"pool": POOL, "space": str(embedder.space)})
    finally:
        store.clear()


def with_driver(database: str, driver: str) -> str:
    """The connection URL for one of SQLAlchemy's drivers."""
    return database.replace(urlsplit(database).scheme, f"postgresql+{driver}", 1)


def url_of(conninfo: str) -> str:
    """A connection string as the URL that SQLAlchemy wants."""
    if urlsplit(conninfo).scheme:
        return conninfo
    part = {name: quote(str(value), safe="") for name, value in conninfo_to_dict(conninfo).items()}
    account = part.get("user", "") + (f":{part['password']}" if "password" in part else "")
    return f"postgresql://{account}@/{part.get('dbname', '')}?host={part.get('host', '')}&port={part.get('port', 5432)}"


def is_kept(runs: Sequence[Run], system: str, suite: Suite, embedder: Embedder) -> bool:
    """Whether the system was asked this suite before, on the same data and vectors."""
    wanted = (system, suite.name, suite.fingerprint, str(embedder.space))
    return any((run.system, run.suite, run.data_hash, run.settings.get("space")) == wanted for run in runs)


def ask_all(given: argparse.Namespace, database: str) -> None:
    """Both packages on every suite; the file grows with every suite that is done."""
    embedder = named_embedder(given.model, given.cache)
    runs = load_runs(given.save) if given.save.exists() else []
    for suite in open_suites(given.suites, only=given.only):
        table = "peers_" + hashlib.sha256(f"{suite.name}{embedder.space}".encode()).hexdigest()[:12]
        for system, run in (("langchain-postgres", langchain_run), ("llama-index", llama_run)):
            if is_kept(runs, system, suite, embedder):
                continue
            print(f"{suite.name}: {system}", flush=True)
            found = run(suite, embedder, database, f"{table}_{system[:5]}")
            runs = [each for each in runs if (each.system, each.suite) != (system, suite.name)]
            runs.append(found)
            save_runs(runs, given.save)


def main(arguments: Any = None) -> None:
    """Run both on every suite and save what they found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("suites", nargs="+", type=Path)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--database", help="URL of an empty database with pgvector; else one of a built-in Postgres")
    parser.add_argument("--model", default="offline")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--save", type=Path, required=True)
    given = parser.parse_args(arguments)
    with database_of(given.database) as conninfo:
        with psycopg.connect(conninfo, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        ask_all(given, url_of(conninfo))


if __name__ == "__main__":
    run_command(main)
