"""LoreRetriever: what its documents say, how it is called, and what its filters find."""

from __future__ import annotations

import json
import random
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.runnables import ConfigurableField, RunnableLambda, RunnablePassthrough
from langchain_core.tools import create_retriever_tool
from pydantic import ValidationError

from lore_retriever import AsyncMemoryStore, InvalidInput, Memories, MemoryStore, NewMemory
from lore_retriever.bridge import acall, call
from lore_retriever.filters import evaluate, parse_filter
from lore_retriever.langchain import LoreRetriever, LoreVectorStore
from lore_retriever.testing import HashEmbedder
from lore_retriever.types import Hit, Recall

KEYS = {
    "lore_id", "lore_rank", "lore_score", "lore_relevance", "lore_recency", "lore_reinforcement", "lore_truncated",
    "lore_full_length", "lore_excerpt_start", "lore_excerpt_end", "lore_kind", "lore_created_at", "lore_vector_rank",
    "lore_exact_rank", "lore_relaxed_rank", "lore_alias_rank", "lore_similarity", "lore_exact_score",
    "lore_relaxed_score", "lore_alias", "lore_strength", "lore_recall_id", "lore_visibility", "lore_owner",
    "lore_pinned", "lore_updated_at",
}  # fmt: skip


@pytest.fixture(scope="module")
def one_database(server: str, create_database: Callable[..., str], template: str) -> Iterator[str]:
    """A database for all tests of this file: each is an organisation of its own."""
    conninfo = create_database(template)
    yield conninfo
    name = str(psycopg.conninfo.conninfo_to_dict(conninfo)["dbname"])
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(psycopg.sql.SQL("DROP DATABASE {} WITH (FORCE)").format(psycopg.sql.Identifier(name)))


@pytest.fixture(params=["sync view", "async view"])
async def view(request: pytest.FixtureRequest, one_database: str) -> AsyncIterator[Any]:
    """ana's view of either store, empty."""
    org = uuid.uuid4().hex
    if request.param == "sync view":
        with MemoryStore.connect(one_database, embedder=HashEmbedder(32), max_size=4) as store:
            yield store.as_user(org, "ana")
        return
    async with AsyncMemoryStore.connect(one_database, embedder=HashEmbedder(32), max_size=4) as async_store:
        yield async_store.as_user(org, "ana")


async def remember(view: Any, *memories: NewMemory) -> None:
    await acall(view, lambda v: v.remember_many(memories))


def ids(found: Sequence[Document]) -> list[str | None]:
    return [document.id for document in found]


def gateways(count: int, **fields: Any) -> list[NewMemory]:
    return [
        NewMemory(content=f"gateway {n} restarts", id=f"g{n}", **({"metadata": {"n": n}} | fields))
        for n in range(count)
    ]


# What a document says


async def test_a_document_carries_all_that_recall_knows_and_the_user_s_metadata(view: Any) -> None:
    await remember(
        view, NewMemory(content="Kubernetes runs here.", id="m", metadata={"team": "infra"}, aliases=("k8s",))
    )
    [document] = await LoreRetriever(memories=view).ainvoke("k8s")
    assert set(document.metadata) == KEYS | {"team"}
    assert json.loads(json.dumps(document.metadata)) == document.metadata
    assert (document.id, document.page_content) == ("m", "Kubernetes runs here.")
    said = document.metadata
    assert (said["lore_id"], said["lore_rank"], said["lore_alias"], said["lore_alias_rank"]) == ("m", 1, "k8s", 1)
    assert (said["lore_exact_rank"], said["lore_exact_score"]) == (None, None)
    assert (said["lore_truncated"], said["lore_excerpt_start"], said["lore_excerpt_end"]) == (False, 0, 21)
    assert said["lore_score"] == pytest.approx(
        said["lore_relevance"] * said["lore_recency"] * said["lore_reinforcement"]
    )
    assert datetime.fromisoformat(said["lore_created_at"]).tzinfo is not None


async def test_a_long_memory_comes_as_its_marked_passage(view: Any) -> None:
    body = "\n\n".join(f"Paragraph {n} speaks of ordinary matters, and of nothing else." for n in range(60))
    await remember(view, NewMemory(content=body + "\n\nThe key hangs behind the walrus.", id="long"))
    [document] = LoreRetriever(memories=view).invoke("walrus")
    said = document.metadata
    assert said["lore_truncated"] is True
    assert said["lore_full_length"] == len(body) + 34
    whole = (await acall(view, lambda v: v.get("long"))).content
    assert document.page_content == whole[said["lore_excerpt_start"] : said["lore_excerpt_end"]]
    assert "walrus" in document.page_content


async def test_what_was_left_out_and_what_did_not_run_is_said_where_it_applies(one_database: str) -> None:
    class Broken(HashEmbedder):
        def embed_queries(self, texts: Sequence[str], /) -> list[Any]:
            raise RuntimeError("no model today")

    with MemoryStore.connect(one_database, embedder=Broken(32)) as store:
        view = store.as_user(uuid.uuid4().hex, "ana")
        view.remember_many([NewMemory(content=f"gateway {n} " + "x" * 1100, id=f"g{n}") for n in range(60)])
        found = LoreRetriever(memories=view, k=60).invoke("gateway")
    assert 10 < len(found) < 60
    assert {document.metadata["lore_omitted"] for document in found} == {60 - len(found)}
    assert "no model today" in found[0].metadata["lore_degraded"]


def _said(hit: Hit) -> tuple[Any, ...]:
    legs = {leg: (match.rank, match.value) for leg, match in hit.legs.items()}
    return hit.id, hit.text, hit.score, hit.relevance, legs.get("vector"), legs.get("exact"), legs.get("relaxed")


def _told(document: Document) -> tuple[Any, ...]:
    said = document.metadata
    legs = (
        (said["lore_vector_rank"], said["lore_similarity"]),
        (said["lore_exact_rank"], said["lore_exact_score"]),
        (said["lore_relaxed_rank"], said["lore_relaxed_score"]),
    )
    return (
        document.id,
        document.page_content,
        said["lore_score"],
        said["lore_relevance"],
        *(None if rank is None else (rank, value) for rank, value in legs),
    )


async def test_order_scores_and_ranks_are_those_of_recall_for_200_queries(view: Any) -> None:
    words = [
        "gateway",
        "restart",
        "deploy",
        "lease",
        "token",
        "queue",
        "index",
        "vacuum",
        "replica",
        "backup",
        "window",
        "schedule",
        "alert",
    ]
    pick = random.Random(7)
    kinds = ("document", "fact", "episode")
    created = [datetime(2026, 1 + n % 9, 1, tzinfo=UTC) for n in range(60)]
    await remember(
        view,
        *(
            NewMemory(content=" ".join(pick.choices(words, k=9)), id=f"m{n}", kind=kinds[n % 3], created_at=created[n])
            for n in range(60)
        ),
    )
    retriever = LoreRetriever(memories=view, k=8)
    documents = LoreVectorStore(memories=view)
    now = datetime(2026, 11, 1, tzinfo=UTC)
    for number in range(200):
        query = " ".join(pick.choices(words, k=1 + number % 3))
        found: Recall = await acall(view, lambda v, q=query: v.recall(q, limit=8, as_of=now))
        asked = {"as_of": now}
        via = await retriever.ainvoke(query, **asked) if number % 2 else retriever.invoke(query, **asked)
        assert [_told(document) for document in via] == [_said(hit) for hit in found.hits]
        if number % 20 == 0:
            assert ids(documents.similarity_search(query, k=8, **asked)) == [hit.id for hit in found.hits]


# How it is called


async def test_k_is_a_field_and_an_argument_of_the_call(view: Any) -> None:
    await remember(view, *gateways(12))
    retriever = LoreRetriever(memories=view, k=3)
    assert len(retriever.invoke("gateway")) == 3
    assert len(retriever.invoke("gateway", k=5)) == len(await retriever.ainvoke("gateway", None, k=5)) == 5
    assert len(retriever.invoke("gateway")) == 3
    assert len(LoreRetriever(memories=view).invoke("gateway")) == 10


@pytest.mark.parametrize("k", [0, -1, 1001])
async def test_a_k_that_is_no_number_of_hits_is_refused(view: Any, k: int) -> None:
    with pytest.raises(ValidationError):
        LoreRetriever(memories=view, k=k)
    with pytest.raises(InvalidInput, match="limit"):
        LoreRetriever(memories=view).invoke("gateway", k=k)


async def test_filter_kinds_and_as_of_narrow_the_search(view: Any) -> None:
    await remember(view, *gateways(6, created_at=datetime(2026, 1, 1, tzinfo=UTC)))
    await remember(view, NewMemory(content="gateway rule", id="r", kind="decision"))
    retriever = LoreRetriever(memories=view, filter={"n": {"$lt": 3}})
    assert set(ids(retriever.invoke("gateway"))) == {"g0", "g1", "g2"}
    assert set(ids(await retriever.ainvoke("gateway", filter={"n": 5}))) == {"g5"}
    assert ids(LoreRetriever(memories=view, kinds=["decision"]).invoke("gateway")) == ["r"]
    early = LoreRetriever(memories=view).invoke("gateway", as_of=datetime(2026, 2, 1, tzinfo=UTC))
    assert "r" not in ids(early)
    assert len(early) == 6


async def test_nothing_a_call_says_changes_whose_memories_are_searched(view: Any) -> None:
    ben = view.store.as_user(view.scope.org, "ben")
    await remember(ben, NewMemory(content="ben's gateway secret", id="b"))
    retriever = LoreRetriever(memories=view)
    assert retriever.invoke("gateway secret") == []
    for argument in ("org", "user", "scope", "memories", "filters"):
        with pytest.raises(InvalidInput, match=argument):
            retriever.invoke("gateway secret", **{argument: "ben"})
    assert retriever.invoke("gateway", filter={"lore_owner": "ben"}) == []
    assert retriever.invoke("gateway", {"configurable": {"user": "ben"}, "metadata": {"user": "ben"}}) == []


async def test_it_works_in_a_chain_streams_and_can_be_configured(view: Any) -> None:
    await remember(view, *gateways(8))
    retriever = LoreRetriever(memories=view, k=2)
    chain = {"context": retriever | RunnableLambda(len), "question": RunnablePassthrough()} | RunnableLambda(dict)
    assert chain.invoke("gateway") == {"context": 2, "question": "gateway"}
    assert await chain.ainvoke("gateway") == {"context": 2, "question": "gateway"}
    assert [len(part) for part in retriever.stream("gateway")] == [2]
    assert [len(part) async for part in retriever.astream("gateway")] == [2]
    configurable = retriever.configurable_fields(k=ConfigurableField(id="k"))
    assert len(configurable.with_config(configurable={"k": 5}).invoke("gateway")) == 5
    assert len(await configurable.ainvoke("gateway", {"configurable": {"k": 7}})) == 7
    assert len(retriever.bind(k=4).invoke("gateway")) == 4
    assert len(retriever.with_retry().invoke("gateway")) == 2


async def test_callbacks_tags_and_tracing_parameters_reach_their_handlers(view: Any) -> None:
    await remember(view, *gateways(3))
    seen: list[Any] = []

    class Sync(BaseCallbackHandler):
        def on_retriever_start(self, serialized: Any, query: str, **kwargs: Any) -> None:
            seen.append(("start", query, kwargs["tags"], kwargs["metadata"]))

        def on_retriever_end(self, documents: Sequence[Document], **kwargs: Any) -> None:
            seen.append(("end", len(documents)))

        def on_retriever_error(self, error: BaseException, **kwargs: Any) -> None:
            seen.append(("error", type(error).__name__))

    class Async(AsyncCallbackHandler):
        async def on_retriever_end(self, documents: Sequence[Document], **kwargs: Any) -> None:
            seen.append(("async end", len(documents)))

    retriever = LoreRetriever(memories=view, tags=["memory"], metadata={"service": "billing"})
    retriever.invoke("gateway", {"callbacks": [Sync()], "tags": ["run"], "run_name": "look"})
    await retriever.ainvoke("gateway", {"callbacks": [Async()]})
    with pytest.raises(InvalidInput):
        retriever.invoke("gateway", {"callbacks": [Sync()]}, filter={"$no": 1})
    start, end, async_end, _, error = seen
    assert start[1] == "gateway"
    assert set(start[2]) == {"memory", "run"}
    assert (
        start[3]
        | {
            "service": "billing",
            "ls_retriever_name": "lore",
            "ls_vector_store_provider": "lore-retriever",
            "ls_embedding_provider": "HashEmbedder",
            "ls_embedding_model": "lore-retriever/hash",
        }
        == start[3]
    )
    assert (end, async_end, error) == (("end", 3), ("async end", 3), ("error", "InvalidInput"))


@pytest.mark.parametrize("side", ["sync", "async"])
async def test_a_batch_runs_side_by_side(one_database: str, side: str) -> None:
    together = threading.Barrier(4, timeout=20)

    class Waiting(HashEmbedder):
        def embed_queries(self, texts: Sequence[str], /) -> list[Any]:
            together.wait()  # breaks unless four searches are here at once
            return super().embed_queries(texts)

    queries = [f"gateway {n}" for n in range(4)]
    org = uuid.uuid4().hex
    if side == "sync":
        with MemoryStore.connect(one_database, embedder=Waiting(32), max_size=4) as store:
            view = store.as_user(org, "ana")
            view.remember_many(gateways(4))
            found = LoreRetriever(memories=view, k=1).batch(queries, {"max_concurrency": 4})
    else:
        async with AsyncMemoryStore.connect(one_database, embedder=Waiting(32), max_size=4) as async_store:
            async_view = async_store.as_user(org, "ana")
            await async_view.remember_many(gateways(4))
            found = await LoreRetriever(memories=async_view, k=1).abatch(queries)
    assert [documents[0].id for documents in found] == ["g0", "g1", "g2", "g3"]


async def test_it_makes_langchain_s_own_retriever_tool(view: Any) -> None:
    from langchain_core.prompts import PromptTemplate

    await remember(view, *gateways(2))
    tool = create_retriever_tool(
        LoreRetriever(memories=view),
        "look",
        "Looks.",
        document_prompt=PromptTemplate.from_template("{lore_id}: {page_content} ({lore_kind}, {lore_rank})"),
        response_format="content_and_artifact",
    )
    message = await tool.ainvoke({"name": "look", "args": {"query": "gateway 1"}, "id": "1", "type": "tool_call"})
    assert message.content.startswith("g1: gateway 1 restarts (fact, 1)\n\n")
    assert ids(message.artifact) == ["g1", "g0"]


async def test_no_secret_shows_in_its_repr_or_dump(app_database: str) -> None:
    with MemoryStore.connect(app_database, embedder=HashEmbedder(32)) as store:
        retriever = LoreRetriever(memories=store.as_user("acme", "ana"))
        assert "memories" not in retriever.model_dump()
        assert "password" not in repr(retriever) + str(retriever.model_dump())
        assert retriever.is_lc_serializable() is False


def test_something_else_than_a_view_is_refused(store: MemoryStore) -> None:
    for wrong in (store, None, "acme/ana"):
        with pytest.raises(ValidationError, match="Memories"):
            LoreRetriever(memories=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "query",
    [
        "",
        "   ",
        "a & b | !c:* (d) <-> 'e'",
        "What's your password policies?",
        '"',
        "\\",
        ":*",
        "' OR 1=1 --",
        "a\x00b",
        "\ud800",
        "🦭" * 500,
        "the of and",
        "lorem " * 100_000,
    ],
)
async def test_odd_queries_are_answered(view: Any, query: str) -> None:
    await remember(view, *gateways(2))
    found = LoreRetriever(memories=view).invoke(query)
    assert len(found) <= 2
    assert await LoreRetriever(memories=view).ainvoke(query) is not None
    if len(query) > 8000:
        assert "cut" in found[0].metadata["lore_degraded"]


# Filters

ROWS: list[dict[str, Any]] = [
    {},
    {"v": None},
    {"v": True},
    {"v": False},
    {"v": 0},
    {"v": 1},
    {"v": 2},
    {"v": 9},
    {"v": 10},
    {"v": 100},
    {"v": 2.5},
    {"v": -1},
    {"v": ""},
    {"v": "9"},
    {"v": "n/a"},
    {"v": "O'Brien"},
    {"v": "abc", "w": 1},
    {"v": "ABC", "w": 2},
    {"v": "50%"},
    {"v": []},
    {"v": ["a", "b"]},
    {"v": [1, None]},
    {"v": {"a": 1}},
    {"w": 10},
    {"w": "abc"},
]

OPERANDS: list[Any] = [None, True, 0, 1, 2.5, 9, "9", "abc", "O'Brien", "", "a%"]
CONDITIONS: list[dict[str, Any]] = [
    *({"v": {operator: value}} for operator in ("$eq", "$ne") for value in OPERANDS),
    *(
        {"v": {operator: value}}
        for operator in ("$lt", "$lte", "$gt", "$gte")
        for value in (0, 9, 10, 2.5, "9", "abc", "")
    ),
    *(
        {"v": {operator: values}}
        for operator in ("$in", "$nin")
        for values in ([], [None], [1, "9"], ["O'Brien", True])
    ),
    *({"v": {"$between": pair}} for pair in ([1, 10], [10, 1], ["a", "b"])),
    *({"v": {"$exists": there}} for there in (True, False)),
    *({"v": {"$is_empty": empty}} for empty in (True, False)),
    *({"v": {operator: pattern}} for operator in ("$like", "$ilike") for pattern in ("a%", "A_C", "50\\%", "%", "")),
    *({"v": {"$contains": value}} for value in ("a", "b", 1, None)),
    *({"v": {operator: ["a", 1]}} for operator in ("$any", "$all")),
    {"v": {"$gt": 1, "$lt": 10}},
    {"v": "abc", "w": 1},
    {},
]


@pytest.fixture(scope="module")
def rows(one_database: str) -> Iterator[Memories]:
    """A view of one memory for each of ROWS, by number."""
    with MemoryStore.connect(one_database, embedder=HashEmbedder(32), max_size=2) as store:
        view = store.as_user(uuid.uuid4().hex, "ana")
        LoreVectorStore(memories=view).add_texts(["row"] * len(ROWS), ROWS, ids=[str(n) for n in range(len(ROWS))])
        yield view


def passing(condition: dict[str, Any]) -> set[str]:
    tree = parse_filter(condition)
    return {str(n) for n, row in enumerate(ROWS) if evaluate(tree, {}, row)}


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda condition: json.dumps(condition))
def test_a_filter_finds_what_plain_python_finds(rows: Memories, condition: dict[str, Any]) -> None:
    found = LoreRetriever(memories=rows, k=100, filter=condition).invoke("row")
    assert set(ids(found)) == passing(condition)


def _joined(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    parts = st.lists(inner, max_size=3)
    return (
        parts.map(lambda given: {"$and": given})
        | parts.map(lambda given: {"$or": given})
        | inner.map(lambda given: {"$not": given})
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(condition=st.recursive(st.sampled_from(CONDITIONS), _joined, max_leaves=6))
def test_joined_filters_find_what_plain_python_finds(rows: Memories, condition: dict[str, Any]) -> None:
    documents = LoreVectorStore(memories=rows)
    assert set(ids(documents.similarity_search("row", k=100, filter=condition))) == passing(condition)


@pytest.mark.parametrize(
    "condition",
    [
        {"author' = 'x' OR '1'='1' --": "x"},
        {"v": "x') OR 1=1 --"},
        {"v": {"$in": ["x') OR 1=1 --"]}},
        {"v": {"$in": []}},
        {"v": "12:30 :x"},
        {"v": "%(org)s"},
        {"v') OR (1=1": {"$exists": True}},
        {"v": {"$like": "'; DROP TABLE memories; --"}},
        {"$or": []},
    ],
)
def test_an_injected_filter_finds_nothing(rows: Memories, condition: dict[str, Any]) -> None:
    assert LoreRetriever(memories=rows, filter=condition).invoke("row") == []


@pytest.mark.parametrize(
    ("condition", "match"),
    [
        ({"v": {"$in": "abc"}}, "takes a list"),
        ({"v": {"$regex": ".*"}}, "unknown operator"),
        ({"$where": "1=1"}, "filter"),
        ({"lore_knd": "fact"}, "lore_knd"),
        ({"v": {}}, "no operator"),
        ({"v": float("nan")}, "filter on 'v'"),
        ({"v\x00": 1}, "filter"),
    ],
)
def test_a_filter_that_cannot_be_meant_is_refused(rows: Memories, condition: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidInput, match=match):
        LoreRetriever(memories=rows).invoke("row", filter=condition)


def test_numbers_compare_as_numbers_and_other_values_are_passed_over(rows: Memories) -> None:
    found = call(rows, lambda view: view.recall("row", limit=100, filter={"v": {"$gte": 10}}))
    assert {hit.metadata["v"] for hit in found.hits} == {10, 100}
