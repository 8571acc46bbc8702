"""LangChain's own suites, all of their tests, on a synchronous store, an asynchronous one and one that from_texts made."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import psycopg
import pytest
from langchain_core.tools import BaseTool
from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests import (
    RetrieversIntegrationTests,
    ToolsIntegrationTests,
    VectorStoreIntegrationTests,
)
from langchain_tests.unit_tests import ToolsUnitTests

from lore_retriever import AsyncMemoryStore, Memories, MemoryStore
from lore_retriever.admin import StoreAdmin
from lore_retriever.embeddings import LangChainEmbedder
from lore_retriever.langchain import (
    LoreRetriever,
    LoreVectorStore,
    create_recall_tool,
)

_users = (f"user-{n}" for n in itertools.count())


def fake_embedder() -> LangChainEmbedder:
    return LangChainEmbedder(VectorStoreIntegrationTests.get_embeddings())


@pytest.fixture(scope="module")
def six_dimensions(server: str, create_database: Callable[..., str]) -> Iterator[str]:
    """A database whose vectors are those of the suites' fake embeddings; each test is a user of its own."""
    conninfo = create_database()
    StoreAdmin.connect(conninfo).migrate(fake_embedder())
    yield conninfo
    name = psycopg.conninfo.conninfo_to_dict(conninfo)["dbname"]
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(psycopg.sql.SQL("DROP DATABASE {} WITH (FORCE)").format(psycopg.sql.Identifier(str(name))))


class TestVectorStoreOnASyncStore(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, six_dimensions: str) -> Iterator[VectorStore]:
        with MemoryStore.connect(six_dimensions, embedder=fake_embedder()) as store:
            yield LoreVectorStore(memories=store.as_user("acme", next(_users)))


class TestVectorStoreOnAnAsyncStore(VectorStoreIntegrationTests):
    @pytest.fixture
    async def vectorstore(self, six_dimensions: str) -> AsyncIterator[VectorStore]:
        async with AsyncMemoryStore.connect(six_dimensions, embedder=fake_embedder()) as store:
            yield LoreVectorStore(memories=store.as_user("acme", next(_users)))


class TestVectorStoreFromTexts(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, six_dimensions: str) -> Iterator[VectorStore]:
        with LoreVectorStore.from_texts(
            [], self.get_embeddings(), connection=six_dimensions, org="acme", user=next(_users)
        ) as made:
            yield made


CORPUS = [
    "The gateway restarts every night at two.",
    "Restart the gateway with systemctl restart gateway.",
    "The gateway logs to /var/log/gateway.log.",
    "The cafeteria closes at three.",
]


@pytest.fixture
def six_texts(six_dimensions: str) -> Iterator[Memories]:
    with MemoryStore.connect(six_dimensions, embedder=fake_embedder()) as store:
        view = store.as_user("acme", next(_users))
        LoreVectorStore(memories=view).add_texts(CORPUS)
        yield view


@pytest.fixture
async def six_texts_async(six_dimensions: str) -> AsyncIterator[Any]:
    async with AsyncMemoryStore.connect(six_dimensions, embedder=fake_embedder()) as store:
        view = store.as_user("acme", next(_users))
        await LoreVectorStore(memories=view).aadd_texts(CORPUS)
        yield view


class _Retrievers:
    view: Any

    @property
    def retriever_constructor(self) -> type[LoreRetriever]:
        return LoreRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"memories": self.view}

    @property
    def retriever_query_example(self) -> str:
        return "gateway restart"


class TestRetrieverOnASyncStore(_Retrievers, RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _view(self, six_texts: Memories) -> None:
        self.view = six_texts


class TestRetrieverOnAnAsyncStore(_Retrievers, RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    async def _view(self, six_texts_async: Any) -> None:
        self.view = six_texts_async


class _RecallTool:
    view: Any

    @property
    def tool_constructor(self) -> BaseTool:
        return create_recall_tool(self.view)

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return {"query": ["gateway restart", "nightly schedule"]}


class TestRecallTool(_RecallTool, ToolsIntegrationTests):
    @pytest.fixture(autouse=True)
    def _view(self, six_texts: Memories) -> None:
        self.view = six_texts


class TestRecallToolOnAnAsyncStore(_RecallTool, ToolsIntegrationTests):
    @pytest.fixture(autouse=True)
    async def _view(self, six_texts_async: Any) -> None:
        self.view = six_texts_async


class TestRecallToolAsAUnit(_RecallTool, ToolsUnitTests):
    @pytest.fixture(autouse=True)
    def _view(self, six_texts: Memories) -> None:
        self.view = six_texts
