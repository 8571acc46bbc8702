"""LoreVectorStore beyond the framework's own suite; every test runs over the view of either store."""

from __future__ import annotations

import asyncio
import uuid
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
import psycopg
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from lore_retriever import AsyncMemoryStore, InvalidInput, MemoryStore, PermissionDenied, ScopeMissing
from lore_retriever.langchain import LoreVectorStore
from lore_retriever.testing import HashEmbedder

LONG = "\n\n".join(f"Paragraph {n} speaks of ordinary matters at some length, and of nothing else." for n in range(60))
TAIL = "The spare key hangs behind the walrus painting."


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


def texts(found: list[Document]) -> list[str]:
    return [document.page_content for document in found]


def ids(found: list[Document]) -> list[str | None]:
    return [document.id for document in found]


# Writing


async def test_generators_are_stored_in_one_go(documents: LoreVectorStore) -> None:
    made = documents.add_texts((f"text {n}" for n in range(5)), ({"n": n} for n in range(5)))
    assert [document.metadata["n"] for document in documents.get_by_ids(made)] == [0, 1, 2, 3, 4]
    made = await documents.aadd_documents(Document(page_content=f"more {n}") for n in range(3))
    assert len(made) == 3


async def test_missing_ids_are_made_and_given_ones_kept(documents: LoreVectorStore) -> None:
    made = await documents.aadd_documents(
        [Document(page_content="a", id="A"), Document(page_content="b"), Document(page_content="c", id="C")]
    )
    assert (made[0], made[2]) == ("A", "C")
    assert texts(await documents.aget_by_ids(made)) == ["a", "b", "c"]


async def test_one_id_twice_in_a_batch_keeps_the_last_and_still_answers_one_id_each(
    documents: LoreVectorStore,
) -> None:
    assert documents.add_texts(["first", "other", "second"], ids=["m", "o", "m"]) == ["m", "o", "m"]
    assert texts(documents.get_by_ids(["m"])) == ["second"]


async def test_a_bad_item_stores_nothing_and_is_named(documents: LoreVectorStore) -> None:
    batch = [Document(page_content=f"text {n}", id=f"d{n}") for n in range(100)]
    batch[40] = Document(page_content="a\x00b", id="d40")
    with pytest.raises(InvalidInput, match=r"item 40 \('d40'\).*NUL"):
        documents.add_documents(batch)
    assert documents.get_by_ids([f"d{n}" for n in range(100)]) == []


async def test_lists_of_different_lengths_are_refused(documents: LoreVectorStore) -> None:
    with pytest.raises(ValueError, match="2 texts came with 1 metadatas"):
        documents.add_texts(["a", "b"], [{}])
    with pytest.raises(ValueError, match="2 texts came with 3 ids"):
        await documents.aadd_texts(["a", "b"], ids=["1", "2", "3"])
    with pytest.raises(ValueError, match="give a list"):
        documents.add_texts("abc")
    with pytest.raises(ValueError, match="give a list"):
        documents.delete("abc")


async def test_reserved_keys_set_the_memory_s_fields_and_stay_out_of_its_metadata(
    documents: LoreVectorStore,
) -> None:
    [made] = documents.add_documents(
        [
            Document(
                page_content="Roll back with helm rollback.",
                metadata={
                    "team": "infra",
                    "lore_kind": "runbook",
                    "lore_visibility": "shared",
                    "lore_created_at": "2026-01-31T09:00:00+00:00",
                    "lore_expires_at": datetime(2099, 1, 1, tzinfo=UTC),
                    "lore_pinned": True,
                    "lore_aliases": ["undo deploy"],
                    "lore_source": "wiki",
                    "lore_agent": "loader",
                    "lore_session": "s1",
                },
            )
        ]
    )
    from lore_retriever.bridge import acall

    memory = await acall(documents.memories, lambda view: view.get(made))
    assert memory.metadata == {"team": "infra"}
    assert (memory.kind, memory.visibility, memory.pinned) == ("runbook", "shared", True)
    assert (memory.source, memory.agent, memory.session) == ("wiki", "loader", "s1")
    assert memory.created_at == datetime(2026, 1, 31, 9, tzinfo=UTC)
    assert memory.expires_at == datetime(2099, 1, 1, tzinfo=UTC)
    [hit] = documents.recall("undo deploy", k=1).hits
    assert hit.legs["alias"].matched == "undo deploy"


async def test_a_document_without_a_kind_is_a_document_and_private(documents: LoreVectorStore) -> None:
    documents.add_texts(["plain"])
    [hit] = documents.recall("plain").hits
    assert (hit.kind, hit.visibility) == ("document", "private")
    shared = LoreVectorStore(documents.memories, visibility="shared")
    shared.add_texts(["open to all"])
    assert shared.recall("open to all", k=1).hits[0].visibility == "shared"


@pytest.mark.parametrize(
    ("key", "value", "match"),
    [
        ("lore_knid", "fact", "lore_knid"),
        ("lore_visibility", "public", "visibility"),
        ("lore_created_at", "yesterday", "created_at"),
        ("lore_pinned", "perhaps", "pinned"),
    ],
)
async def test_a_reserved_key_that_cannot_be_meant_is_refused(
    documents: LoreVectorStore, key: str, value: str, match: str
) -> None:
    with pytest.raises(InvalidInput, match=match):
        documents.add_texts(["text"], [{key: value}])
    assert documents.similarity_search("text") == []


async def test_a_retrieved_document_can_be_stored_again(documents: LoreVectorStore) -> None:
    documents.add_documents(
        [Document(page_content="Fact one.", id="f", metadata={"n": 1, "lore_kind": "decision", "lore_pinned": True})]
    )
    found = documents.as_retriever().invoke("fact one")
    assert documents.add_documents(found) == ["f"]
    [hit] = documents.recall("fact one").hits
    assert (hit.kind, hit.pinned, hit.metadata) == ("decision", True, {"n": 1})


async def test_an_excerpt_is_not_stored_in_place_of_its_memory(documents: LoreVectorStore) -> None:
    documents.add_texts([LONG + "\n\n" + TAIL], ids=["long"])
    found = documents.similarity_search("walrus painting", k=1)
    with pytest.raises(InvalidInput, match="excerpt of 4"):
        documents.add_documents(found)
    assert documents.get_by_ids(["long"])[0].page_content == LONG + "\n\n" + TAIL


async def test_delete_forgets_what_is_one_s_own(documents: LoreVectorStore) -> None:
    documents.add_texts(["a", "b", "c"], ids=["a", "b", "c"])
    assert documents.delete(["a", "unknown"]) is True
    assert await documents.adelete([]) is True
    assert ids(documents.get_by_ids(["a", "b", "c"])) == ["b", "c"]
    with pytest.raises(ValueError, match="delete_all=True"):
        documents.delete()
    with pytest.raises(ValueError, match="delete_all=True"):
        await documents.adelete(None)
    assert ids(documents.get_by_ids(["b", "c"])) == ["b", "c"]
    assert await documents.adelete(delete_all=True) is True
    assert documents.get_by_ids(["b", "c"]) == []


@pytest.mark.parametrize(
    "name", ["O'Brien", 'a"; DROP TABLE memories; --', "x') OR 1=1 --", "%s %(ids)s", "ü 本 🦭", "1"]
)
async def test_ids_are_free_text(documents: LoreVectorStore, name: str) -> None:
    assert documents.add_texts(["named", "other"], ids=[name, "other"]) == [name, "other"]
    assert ids(await documents.aget_by_ids([name])) == [name]
    documents.delete([name])
    assert ids(documents.get_by_ids([name, "other"])) == ["other"]


async def test_an_update_leaves_nothing_of_the_old_wording(documents: LoreVectorStore) -> None:
    documents.add_texts(["walrus painting " * 400], [{"old": 1}], ids=["m"])
    await documents.aadd_texts(["harmless"], [{"new": 2}], ids=["m"])
    assert documents.get_by_ids(["m"]) == [Document(page_content="harmless", id="m", metadata={"new": 2})]
    [hit] = documents.recall("walrus painting").hits
    assert set(hit.legs) == {"vector"}
    assert (hit.text, hit.full_length) == ("harmless", 8)


# Searching


async def test_a_search_is_one_statement(documents: LoreVectorStore, monkeypatch: pytest.MonkeyPatch) -> None:
    from lore_retriever import driver, steps

    await documents.aadd_texts(["gateway"])
    documents.similarity_search("gateway")  # opens what is not open yet
    sent: list[str] = []
    query, query_in = steps.query, driver.query_in
    monkeypatch.setattr(steps, "query", lambda name: sent.append(name) or query(name))
    monkeypatch.setattr(driver, "query_in", lambda schema, name: sent.append(name) or query_in(schema, name))
    documents.similarity_search("gateway")
    await documents.as_retriever().ainvoke("gateway")
    documents.similarity_search_by_vector([1.0] + [0.0] * 31)
    assert sent == ["recall_at_once"] * 3


async def test_a_short_document_comes_back_as_it_was_stored(documents: LoreVectorStore) -> None:
    stored = Document(
        page_content="The gateway restarts at two.", id="g", metadata={"n": 1, "tags": ["a", {"b": None}]}
    )
    documents.add_documents([stored])
    for found in (
        documents.similarity_search("gateway"),
        await documents.asimilarity_search("gateway"),
        documents.get_by_ids(["g"]),
        [document for document, _ in documents.similarity_search_with_score("gateway")],
        [document for document, _ in await documents.asimilarity_search_with_relevance_scores("gateway")],
        documents.max_marginal_relevance_search("gateway"),
    ):
        assert found == [stored]


async def test_a_long_document_comes_as_the_marked_passage_that_matched(documents: LoreVectorStore) -> None:
    documents.add_texts([LONG + "\n\n" + TAIL], [{"n": 1}], ids=["long"])
    [found] = documents.similarity_search("walrus painting")
    whole = LONG + "\n\n" + TAIL
    assert TAIL in found.page_content
    assert found.metadata == {
        "n": 1,
        "lore_id": "long",
        "lore_truncated": True,
        "lore_full_length": len(whole),
        "lore_excerpt_start": whole.index(found.page_content),
        "lore_excerpt_end": len(whole),
    }
    assert documents.get_by_ids(["long"]) == [Document(page_content=whole, id="long", metadata={"n": 1})]


async def test_the_search_is_hybrid(documents: LoreVectorStore) -> None:
    documents.add_texts([f"vague words about errors and deploys, number {n}" for n in range(20)])
    documents.add_texts(["ERR-4471 means that the lease has run out"], ids=["e"])
    assert documents.similarity_search("why did ERR-4471 come back after the deploy?", k=1)[0].id == "e"
    found = documents.similarity_search_with_relevance_scores("ERR-4471", k=5, score_threshold=0.5)
    assert found[0][0].id == "e"


async def test_relevance_lies_between_0_and_1_falls_with_rank_and_gives_no_warning(documents: LoreVectorStore) -> None:
    documents.add_texts([f"the gateway restarts at {n} and logs to disk {n % 3}" for n in range(30)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for query in ("gateway restarts at 7", "ERR-1", "nothing of the sort", "disk"):
            scores = [score for _, score in documents.similarity_search_with_relevance_scores(query, k=20)]
            assert scores == sorted(scores, reverse=True)
            assert all(0 <= score <= 1 for score in scores)
            assert len(scores) == 20
    assert documents.similarity_search_with_relevance_scores("gateway restarts at 7", k=20)[0][1] > 0.9


async def test_a_threshold_keeps_the_same_documents_in_the_store_and_the_retriever(documents: LoreVectorStore) -> None:
    documents.add_texts([f"the gateway restarts at {n}" for n in range(12)])
    scored = await documents.asimilarity_search_with_relevance_scores("gateway at 7", k=10)
    threshold = scored[4][1]
    kept = [document.id for document, score in scored if score >= threshold]
    assert 5 <= len(kept) < 10
    retriever = documents.as_retriever(
        search_type="similarity_score_threshold", search_kwargs={"k": 10, "score_threshold": threshold}
    )
    assert ids(retriever.invoke("gateway at 7")) == ids(await retriever.ainvoke("gateway at 7")) == kept


async def test_with_score_gives_the_score_of_recall_larger_first(documents: LoreVectorStore) -> None:
    documents.add_texts([f"the gateway restarts at {n}" for n in range(6)])
    found = documents.similarity_search_with_score("gateway 3", k=6)
    assert [(document.id, score) for document, score in found] == [
        (hit.id, hit.score) for hit in documents.recall("gateway 3", k=6).hits
    ]


async def test_by_vector_asks_the_vector_leg_alone(documents: LoreVectorStore) -> None:
    stored = [f"words of a kind {n} and {n * 7 % 5}" for n in range(30)]
    made = documents.add_texts(stored)
    embed = HashEmbedder(32)
    query = [float(x) for x in embed.embed_queries(["words 3 of a kind"])[0]]
    vectors = np.array(embed.embed_texts(stored)) @ np.array(query)
    nearest = documents.similarity_search_by_vector(query, k=5)
    assert nearest == await documents.asimilarity_search_by_vector(query, k=5)
    got = [float(vectors[made.index(str(document.id))]) for document in nearest]
    assert np.allclose(got, np.sort(vectors)[::-1][:5], atol=1e-3)


@pytest.mark.parametrize(
    ("vector", "match"),
    [([1.0] * 7, "7 numbers.*32"), ([0.0] * 32, "zero"), ([float("nan")] * 32, "nan"), (["x"] * 32, "not a list")],
)
async def test_a_vector_that_cannot_be_of_the_store_s_space_is_refused(
    documents: LoreVectorStore, vector: list[Any], match: str
) -> None:
    for search in (documents.similarity_search_by_vector, documents.max_marginal_relevance_search_by_vector):
        with pytest.raises(InvalidInput, match=match):
            search(vector)


async def test_integers_are_numbers_of_a_vector(documents: LoreVectorStore) -> None:
    documents.add_texts(["a"], ids=["a"])
    assert ids(documents.similarity_search_by_vector([1] + [0] * 31)) == ["a"]


@pytest.mark.parametrize("lambda_mult", [0.0, 0.3, 0.5, 1.0])
async def test_mmr_picks_as_langchain_itself_does(documents: LoreVectorStore, lambda_mult: float) -> None:
    stored = [f"gateway {n % 4} restarts {'nightly' if n % 2 else 'weekly'} {n}" for n in range(24)]
    by_id = dict(zip(documents.add_texts(stored), stored, strict=True))
    query = "gateway restarts nightly"
    fetched = documents.similarity_search(query, k=15)
    embed = HashEmbedder(32)
    expected = maximal_marginal_relevance(
        np.array(embed.embed_queries([query])[0]),
        [list(vector) for vector in embed.embed_texts(texts(fetched))],
        lambda_mult=lambda_mult,
        k=6,
    )
    wanted = [fetched[place].id for place in expected]
    options = {"k": 6, "fetch_k": 15, "lambda_mult": lambda_mult}
    assert ids(documents.max_marginal_relevance_search(query, **options)) == wanted
    assert ids(await documents.amax_marginal_relevance_search(query, **options)) == wanted
    retriever = documents.as_retriever(search_type="mmr", search_kwargs=options)
    assert ids(retriever.invoke(query)) == wanted
    assert all(by_id[document.id or ""] == document.page_content for document in fetched)


async def test_mmr_by_vector_picks_among_the_nearest(documents: LoreVectorStore) -> None:
    stored = [f"gateway {n % 4} restarts {n}" for n in range(20)]
    documents.add_texts(stored)
    query = [float(x) for x in HashEmbedder(32).embed_queries(["gateway 2 restarts"])[0]]
    picked = documents.max_marginal_relevance_search_by_vector(query, k=3, fetch_k=8)
    assert picked == await documents.amax_marginal_relevance_search_by_vector(query, k=3, fetch_k=8)
    assert set(ids(picked)) <= set(ids(documents.similarity_search_by_vector(query, k=8)))
    assert picked[0].id == documents.similarity_search_by_vector(query, k=1)[0].id


async def test_mmr_looks_at_fetch_k_hits_and_no_further(documents: LoreVectorStore) -> None:
    documents.add_texts(["gateway restart"] * 5 + ["nothing alike: penguins"], ids=[*"abcde", "p"])
    assert "p" not in ids(documents.max_marginal_relevance_search("gateway restart", k=2, fetch_k=5, lambda_mult=0))
    assert "p" in ids(documents.max_marginal_relevance_search("gateway restart", k=2, fetch_k=6, lambda_mult=0))
    with pytest.raises(InvalidInput, match="lambda_mult is 2"):
        documents.max_marginal_relevance_search("gateway", lambda_mult=2)


async def test_mmr_with_a_memory_that_has_no_vector_yet_does_not_fail(documents: LoreVectorStore) -> None:
    from lore_retriever import NewMemory
    from lore_retriever.bridge import acall

    await acall(
        documents.memories,
        lambda view: view.remember_many([NewMemory(content="gateway ERR-9", id="w")], embed=False),
    )
    documents.add_texts(["gateway restart"], ids=["g"])
    assert set(ids(documents.max_marginal_relevance_search("gateway", k=2))) == {"g", "w"}
    assert documents.max_marginal_relevance_search("   ", k=2) == documents.similarity_search("   ", k=2)


async def test_conditions_narrow_every_kind_of_search(documents: LoreVectorStore) -> None:
    documents.add_texts(["gateway one", "gateway two", "gateway three"], [{"n": 1}, {"n": 2}, {"n": 3}], ids=[*"abc"])
    vector = [float(x) for x in HashEmbedder(32).embed_queries(["gateway"])[0]]
    wanted = {"filter": {"n": {"$gte": 2}}, "k": 10}
    for found in (
        documents.similarity_search("gateway", **wanted),
        documents.similarity_search_by_vector(vector, **wanted),
        documents.max_marginal_relevance_search("gateway", **wanted),
        documents.max_marginal_relevance_search_by_vector(vector, **wanted),
        [document for document, _ in documents.similarity_search_with_relevance_scores("gateway", **wanted)],
        documents.search("gateway", "similarity", **wanted),
        documents.as_retriever(search_kwargs=wanted).invoke("gateway"),
    ):
        assert set(ids(found)) == {"b", "c"}
    assert documents.similarity_search("gateway", kinds=["fact"]) == []


@pytest.mark.parametrize("argument", ["filters", "org", "user", "scope", "lore_owner"])
async def test_an_unknown_argument_of_a_search_is_refused_not_ignored(
    documents: LoreVectorStore, argument: str
) -> None:
    with pytest.raises(InvalidInput, match=argument):
        documents.similarity_search("gateway", **{argument: "ben"})
    with pytest.raises(InvalidInput, match=argument):
        documents.as_retriever().invoke("gateway", **{argument: "ben"})


async def test_a_second_search_sees_nothing_of_the_first(documents: LoreVectorStore) -> None:
    documents.add_texts(["apple pie", "orange juice"], ids=["a", "o"])
    retriever = documents.as_retriever(search_kwargs={"k": 2, "filter": {}})
    before = retriever.model_copy(deep=False).search_kwargs.copy()
    for query, first in (("apple", "a"), ("orange", "o")) * 3:
        found = retriever.invoke(query)
        assert found[0].id == first
        assert found[0].metadata["lore_exact_rank"] == 1
        assert found[1].metadata["lore_exact_rank"] is None
    both = await asyncio.gather(*(retriever.ainvoke(query) for query in ("apple", "orange") * 10))
    assert [found[0].id for found in both] == ["a", "o"] * 10
    assert retriever.search_kwargs == before


async def test_the_retriever_annotates_and_says_what_it_is(documents: LoreVectorStore) -> None:
    documents.add_texts(["gateway"], ids=["g"])
    retriever = documents.as_retriever()
    assert retriever.search_type == "hybrid"
    assert retriever.tags == ["LoreVectorStore", "_LoreEmbeddings"]
    assert retriever.invoke("gateway") != documents.similarity_search("gateway")
    assert ids(retriever.invoke("gateway", k=1)) == ["g"]
    assert retriever._get_ls_params()["ls_vector_store_provider"] == "lore-retriever"
    with pytest.raises(ValueError, match="not allowed"):
        documents.as_retriever(search_type="dense")


async def test_the_store_hands_back_its_embedder(documents: LoreVectorStore) -> None:
    documents.add_texts(["warm"])
    assert documents.embeddings is not None
    assert documents.embeddings.embed_query("x") == list(HashEmbedder(32).embed_queries(["x"])[0])


# Opening


def test_from_texts_makes_a_store_in_an_empty_database(empty_database: str) -> None:
    fake = DeterministicFakeEmbedding(size=6)
    with LoreVectorStore.from_texts(
        ["foo", "bar"], fake, [{"n": 1}, {"n": 2}], ids=["f", "b"], connection=empty_database, org="acme", user="ana"
    ) as made:
        assert made.similarity_search("foo", k=1) == [Document(page_content="foo", id="f", metadata={"n": 1})]
    documents = [Document(page_content="baz", id="z", metadata={"n": 3})]
    with LoreVectorStore.from_documents(documents, fake, connection=empty_database, org="acme", user="ana") as again:
        assert ids(again.get_by_ids(["f", "b", "z"])) == ["f", "b", "z"]
        assert again.embeddings is not None


async def test_afrom_texts_makes_an_asynchronous_store(empty_database: str) -> None:
    fake = DeterministicFakeEmbedding(size=6)
    async with await LoreVectorStore.afrom_texts(
        ["foo", "bar"], fake, ids=["f", "b"], connection=empty_database, org="acme", user="ana"
    ) as made:
        assert isinstance(made.memories.store, AsyncMemoryStore)
        assert ids(await made.asimilarity_search("foo", k=1)) == ["f"]
        with pytest.raises(InvalidInput, match="aclose"):
            made.close()


def test_from_texts_refuses_what_it_cannot_open(empty_database: str, app_database: str) -> None:
    from lore_retriever import EmbeddingSpaceMismatch, LoreError

    fake = DeterministicFakeEmbedding(size=6)
    with pytest.raises(ScopeMissing):
        LoreVectorStore.from_texts(["foo"], fake, connection=empty_database)
    with pytest.raises(EmbeddingSpaceMismatch, match=r"6 dimensions.*32 dimensions"):
        LoreVectorStore.from_texts(["foo"], fake, connection=app_database, org="acme", user="ana")
    with pytest.raises(LoreError) as refused:
        LoreVectorStore.from_texts(["foo"], fake, connection=app_database, schema="elsewhere", org="acme", user="ana")
    assert not isinstance(refused.value, PermissionDenied)


def test_a_store_in_place_of_a_view_is_refused(store: MemoryStore) -> None:
    with pytest.raises(InvalidInput, match="as_user"):
        LoreVectorStore(memories=store)  # type: ignore[arg-type]
