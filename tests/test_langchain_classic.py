"""Old friends: what langchain-classic and langchain-core build on retrievers and vector stores."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import psycopg
import pytest
from langchain_classic.chains import create_history_aware_retriever, create_retrieval_chain
from langchain_classic.chains.combine_documents import create_stuff_documents_chain
from langchain_classic.retrievers import (
    ContextualCompressionRetriever,
    EnsembleRetriever,
    MultiQueryRetriever,
    MultiVectorRetriever,
    ParentDocumentRetriever,
)
from langchain_classic.retrievers.document_compressors import LLMChainFilter
from langchain_core.documents import Document
from langchain_core.example_selectors import (
    MaxMarginalRelevanceExampleSelector,
    SemanticSimilarityExampleSelector,
)
from langchain_core.indexing import InMemoryRecordManager, aindex, index
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate
from langchain_core.stores import InMemoryStore
from langchain_text_splitters import RecursiveCharacterTextSplitter

from lore_retriever import AsyncMemoryStore, InvalidInput, MemoryStore
from lore_retriever.langchain import LoreRetriever, LoreVectorStore
from lore_retriever.testing import HashEmbedder


@pytest.fixture(scope="module")
def one_database(server: str, create_database: Callable[..., str], template: str) -> Iterator[str]:
    """A database for all tests of this file: each is an organisation of its own."""
    conninfo = create_database(template)
    yield conninfo
    name = str(psycopg.conninfo.conninfo_to_dict(conninfo)["dbname"])
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(psycopg.sql.SQL("DROP DATABASE {} WITH (FORCE)").format(psycopg.sql.Identifier(name)))


@pytest.fixture(params=["sync view", "async view"])
async def documents(request: pytest.FixtureRequest, one_database: str) -> AsyncIterator[LoreVectorStore]:
    """An empty vector store."""
    org = uuid.uuid4().hex
    if request.param == "sync view":
        with MemoryStore.connect(one_database, embedder=HashEmbedder(32), max_size=4) as store:
            yield LoreVectorStore(memories=store.as_user(org, "ana"))
        return
    async with AsyncMemoryStore.connect(one_database, embedder=HashEmbedder(32), max_size=4) as async_store:
        yield LoreVectorStore(memories=async_store.as_user(org, "ana"))


def ids(found: list[Document]) -> list[str | None]:
    return [document.id for document in found]


GATEWAYS = {
    "g1": "The gateway restarts at two.",
    "g2": "Deploys wait for the gateway.",
    "c": "The cafeteria closes at three.",
}


@pytest.fixture
def gateways(documents: LoreVectorStore) -> LoreVectorStore:
    documents.add_texts(list(GATEWAYS.values()), ids=list(GATEWAYS))
    return documents


async def test_an_ensemble_fuses_one_memory_found_twice(gateways: LoreVectorStore) -> None:
    ensemble = EnsembleRetriever(
        retrievers=[LoreRetriever(memories=gateways.memories, k=3), gateways.as_retriever(search_kwargs={"k": 2})],
        weights=[0.5, 0.5],
        id_key="lore_id",
    )
    found = ensemble.invoke("gateway restarts")
    assert ids(found)[0] == "g1"
    assert sorted(ids(found)) == ["c", "g1", "g2"]
    assert ids(await ensemble.ainvoke("gateway restarts")) == ids(found)


async def test_a_multi_query_retriever_joins_what_its_queries_find(gateways: LoreVectorStore) -> None:
    model = FakeListChatModel(responses=["gateway restart\ncafeteria hours"])
    retriever = MultiQueryRetriever.from_llm(LoreRetriever(memories=gateways.memories, k=1), model)
    assert sorted(ids(retriever.invoke("when?"))) == ["c", "g1"]
    assert sorted(ids(await retriever.ainvoke("when?"))) == ["c", "g1"]


async def test_compressors_read_the_documents(gateways: LoreVectorStore) -> None:
    verdicts = FakeListChatModel(responses=["YES", "NO", "NO"])
    retriever = ContextualCompressionRetriever(
        base_compressor=LLMChainFilter.from_llm(verdicts), base_retriever=LoreRetriever(memories=gateways.memories)
    )
    assert ids(retriever.invoke("The gateway restarts at two.")) == ["g1"]
    assert ids(await retriever.ainvoke("The gateway restarts at two.")) == ["g1"]


async def test_parents_are_found_by_their_children(documents: LoreVectorStore) -> None:
    parents = [
        Document(
            page_content=f"Chapter {n}. " + f"Ordinary words of chapter {n}. " * 20 + f"Secret {n * 111}.", id=f"p{n}"
        )
        for n in range(3)
    ]
    retriever = ParentDocumentRetriever(
        vectorstore=documents,
        docstore=InMemoryStore(),
        child_splitter=RecursiveCharacterTextSplitter(chunk_size=120, chunk_overlap=0),
        search_kwargs={"k": 2},
    )
    retriever.add_documents(parents, ids=["p0", "p1", "p2"])
    assert retriever.invoke("Secret 222")[0].page_content == parents[2].page_content
    assert (await retriever.ainvoke("Secret 111"))[0].page_content == parents[1].page_content


async def test_a_multi_vector_retriever_follows_its_id_key(documents: LoreVectorStore) -> None:
    kept = InMemoryStore()
    kept.mset([("full", Document(page_content="The whole report."))])
    documents.add_texts(["summary of gateways"], [{"doc_id": "full"}])
    retriever = MultiVectorRetriever(vectorstore=documents, docstore=kept)
    assert [found.page_content for found in retriever.invoke("gateways")] == ["The whole report."]


async def test_retrieval_chains_answer_from_the_documents(gateways: LoreVectorStore) -> None:
    prompt = ChatPromptTemplate.from_messages([("system", "{context}"), ("human", "{input}")])
    answer = create_stuff_documents_chain(
        FakeListChatModel(responses=["At two."] * 4),
        prompt,
        document_prompt=PromptTemplate.from_template("[{lore_id}] {page_content}"),
    )
    retriever = LoreRetriever(memories=gateways.memories, k=2)
    chain = create_retrieval_chain(retriever, answer)
    for result in (chain.invoke({"input": "gateway restarts"}), await chain.ainvoke({"input": "gateway restarts"})):
        assert result["answer"] == "At two."
        assert ids(result["context"])[0] == "g1"
    rephrase = create_history_aware_retriever(
        FakeListChatModel(responses=["cafeteria"]), retriever, ChatPromptTemplate.from_template("{input}{chat_history}")
    )
    assert ids(rephrase.invoke({"input": "and lunch?", "chat_history": [("human", "hi")]}))[0] == "c"


async def test_example_selectors_pick_from_the_store(documents: LoreVectorStore) -> None:
    examples = [{"input": word, "output": word.upper()} for word in ("sunny", "rainy", "gateway")]
    documents.add_texts([example["input"] for example in examples], examples)
    for kind in (SemanticSimilarityExampleSelector, MaxMarginalRelevanceExampleSelector):
        selector = kind(vectorstore=documents, k=1)
        assert selector.select_examples({"input": "gateway"}) == [examples[2]]
        assert await selector.aselect_examples({"input": "gateway"}) == [examples[2]]


# The indexing API


def pages(*contents: str, source: str = "handbook") -> list[Document]:
    return [Document(page_content=content, metadata={"source": source, "n": n}) for n, content in enumerate(contents)]


def counts(result: Any) -> tuple[int, int, int, int]:
    return result["num_added"], result["num_updated"], result["num_skipped"], result["num_deleted"]


@pytest.mark.parametrize("key_encoder", ["sha256", "blake2b"])
@pytest.mark.parametrize("cleanup", ["incremental", "full", "scoped_full"])
async def test_index_adds_what_is_new_skips_what_is_not_and_deletes_what_is_gone(
    documents: LoreVectorStore, cleanup: Any, key_encoder: Any
) -> None:
    records = InMemoryRecordManager(uuid.uuid4().hex)
    records.create_schema()

    def run(batch: list[Document]) -> tuple[int, int, int, int]:
        return counts(
            index(
                batch,
                records,
                documents,
                cleanup=cleanup,
                source_id_key="source",
                key_encoder=key_encoder,
            )
        )

    assert run(pages("alpha gateway", "bravo gateway", "charlie gateway")) == (3, 0, 0, 0)
    assert run(pages("alpha gateway", "bravo gateway", "charlie gateway")) == (0, 0, 3, 0)
    assert run(pages("alpha gateway", "bravo gateway changed", "charlie gateway")) == (1, 0, 2, 1)
    found = documents.similarity_search("gateway", k=10)
    assert {document.page_content for document in found} == {
        "alpha gateway",
        "bravo gateway changed",
        "charlie gateway",
    }
    assert found[0].metadata.keys() == {"source", "n"}


async def test_aindex_does_the_same(documents: LoreVectorStore) -> None:
    records = InMemoryRecordManager(uuid.uuid4().hex)
    await records.acreate_schema()

    async def run(batch: list[Document], **options: Any) -> tuple[int, int, int, int]:
        return counts(
            await aindex(
                batch,
                records,
                documents,
                cleanup="incremental",
                source_id_key="source",
                key_encoder="sha256",
                **options,
            )
        )

    assert await run(pages("alpha", "bravo")) == (2, 0, 0, 0)
    assert await run(pages("alpha", "charlie")) == (1, 0, 1, 1)
    assert await run(pages("alpha", "charlie"), force_update=True) == (0, 2, 0, 0)
    assert {document.page_content for document in await documents.asimilarity_search("x", k=10)} == {"alpha", "charlie"}


async def test_index_that_meets_an_unstorable_document_stores_nothing_of_its_batch(documents: LoreVectorStore) -> None:
    records = InMemoryRecordManager(uuid.uuid4().hex)
    with pytest.raises(InvalidInput, match="NUL"):
        index(pages("good", "b\x00d"), records, documents, key_encoder="sha256")
    assert documents.similarity_search("good") == []
