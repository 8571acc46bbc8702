"""Whose memories an agent, a graph or a tool reads comes from the credential of the run, never from an argument."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypedDict

import pytest
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import BaseTool
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import get_runtime

from lore_retriever import AsyncMemoryStore, MemoryStore, PermissionDenied, Scope
from lore_retriever.admin import StoreAdmin
from lore_retriever.identity import Identity, add_token_key, signed_scope, use_identity
from lore_retriever.langchain import LoreRetriever, create_recall_tool
from lore_retriever.llamaindex import LoreRetriever as IndexRetriever
from lore_retriever.llamaindex import create_recall_tool as create_index_tool
from lore_retriever.testing import HashEmbedder
from support import as_application, kept_database
from tokens import SECRET, signed

USERS = ("ana", "ben")


@pytest.fixture(scope="module")
def admin(create_database: Callable[..., str], template: str) -> Iterator[str]:
    with kept_database(create_database, template) as conninfo:
        with MemoryStore.connect(as_application(conninfo), embedder=HashEmbedder(32)) as store:
            for user in USERS:
                store.as_user("acme", user).remember(f"the gateway of {user} restarts at two", id="note")
            store.as_user("globex", "ana").remember("the gateway of globex", id="note", visibility="shared")
        yield conninfo


@dataclass(frozen=True, slots=True)
class Session:
    """What an application hands to a run."""

    scope: Scope


class State(TypedDict, total=False):
    found: list[str]


def graph(retriever: Any, tool: BaseTool) -> Any:
    """A graph of one step that searches with one shared retriever and one shared tool."""

    def step(state: State) -> State:
        return {
            "found": [d.page_content for d in retriever.invoke("gateway")] + [str(tool.invoke({"query": "gateway"}))]
        }

    async def astep(state: State) -> State:
        documents = await retriever.ainvoke("gateway")
        return {"found": [d.page_content for d in documents] + [str(await tool.ainvoke({"query": "gateway"}))]}

    built = StateGraph(State, context_schema=Session)
    built.add_node("search", RunnableLambda(step, afunc=astep))
    built.add_edge(START, "search")
    built.add_edge("search", END)
    return built.compile()


def current() -> Scope:
    return get_runtime(Session).context.scope


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_the_runtime_context_of_a_graph_is_the_caller_of_every_run(admin: str, kind: str) -> None:
    async def runs(store: Any) -> None:
        view = store.as_caller(current)
        app = graph(LoreRetriever(memories=view), create_recall_tool(view))
        sessions = [Session(Scope(org="acme", user=USERS[n % 2])) for n in range(20)]
        results = await asyncio.gather(*(app.ainvoke({}, context=session) for session in sessions))
        results += [await asyncio.to_thread(app.invoke, {}, context=session) for session in sessions[:4]]
        for session, result in zip(sessions + sessions[:4], results, strict=True):
            other = next(user for user in USERS if user != session.scope.user)
            assert len(result["found"]) == 2
            assert all(f"gateway of {session.scope.user}" in text for text in result["found"])
            assert not any(f"gateway of {other}" in text or "globex" in text for text in result["found"])

    async def main() -> None:
        if kind == "sync":
            with MemoryStore.connect(as_application(admin), embedder=HashEmbedder(32), max_size=2) as store:
                await runs(store)
            return
        async with AsyncMemoryStore.connect(as_application(admin), embedder=HashEmbedder(32), max_size=2) as store:
            await runs(store)

    asyncio.run(main())


WIDER: list[dict[str, Any]] = [
    {"org": "globex"},
    {"org": "globex", "user": "ana"},
    {"user": "ben"},
    {"scope": Scope(org="globex", user="ana")},
    {"memories": None},
    {"filter": {"lore_owner": "ben"}},
    {"filter": {"$or": [{"lore_owner": "ben"}, {"lore_visibility": "shared"}]}},
]


@pytest.mark.parametrize("argument", WIDER)
def test_no_keyword_of_invoke_widens_the_scope(admin: str, argument: dict[str, Any]) -> None:
    with MemoryStore.connect(as_application(admin), embedder=HashEmbedder(32), max_size=1) as store:
        retriever = LoreRetriever(memories=store.as_user("acme", "ana"))
        attempts: list[Callable[[], Any]] = [
            lambda: retriever.invoke("gateway", **argument),
            lambda: retriever.invoke("gateway", config={"configurable": argument, "metadata": {"org": "globex"}}),
            lambda: retriever.with_config(configurable=argument).invoke("gateway"),
            lambda: retriever.bind(**argument).invoke("gateway"),
        ]
        for attempt in attempts:
            try:
                documents = attempt()
            except (TypeError, ValueError):
                continue
            assert all("gateway of ana" in document.page_content for document in documents)


@pytest.mark.parametrize("argument", WIDER)
def test_no_argument_of_a_tool_widens_the_scope(admin: str, argument: dict[str, Any]) -> None:
    with MemoryStore.connect(as_application(admin), embedder=HashEmbedder(32), max_size=1) as store:
        view = store.as_user("acme", "ana")
        tool, index_tool = create_recall_tool(view), create_index_tool(view)
        assert {"org", "user", "scope", "owner", "memories"} & set(tool.args) == set()
        parameters = index_tool.metadata.get_parameters_dict()["properties"]
        assert {"org", "user", "scope", "owner", "memories"} & set(parameters) == set()
        given = {"query": "gateway", **argument}
        attempts: list[Callable[[], Any]] = [
            lambda: tool.invoke(given),
            lambda: tool.invoke({"name": "recall", "type": "tool_call", "id": "1", "args": given}),
            lambda: index_tool.call(**given),
        ]
        for attempt in attempts:
            try:
                text = str(attempt())
            except (TypeError, ValueError):
                continue
            assert "gateway of ben" not in text
            assert "globex" not in text


def test_neither_does_a_query_of_the_other_framework(admin: str) -> None:
    from llama_index.core.schema import QueryBundle

    with MemoryStore.connect(as_application(admin), embedder=HashEmbedder(32), max_size=1) as store:
        retriever = IndexRetriever(memories=store.as_user("acme", "ana"))
        bundle = QueryBundle("gateway", custom_embedding_strs=["globex"], embedding=[1.0] * 32)
        assert [node.node.get_content() for node in retriever.retrieve(bundle)] == [
            "the gateway of ana restarts at two"
        ]


def test_an_agent_s_token_is_checked_for_each_of_its_searches(admin: str) -> None:
    keeper = StoreAdmin.connect(admin)
    use_identity(keeper, Identity(mode="claims"))
    add_token_key(keeper, SECRET)
    try:
        with MemoryStore.connect(as_application(admin), embedder=HashEmbedder(32), max_size=1) as store:
            app = graph(LoreRetriever(memories=store.as_caller(current)), create_recall_tool(store.as_caller(current)))
            for user in USERS:
                result = app.invoke({}, context=Session(signed_scope(signed(org="acme", sub=user))))
                assert [f"gateway of {user}" in text for text in result["found"]] == [True, True]
            forged = signed_scope(signed(b"a key of the attacker's own choosing", org="globex", sub="ana"))
            for bad in (
                forged,
                signed_scope(signed(org="acme", sub="ana", exp=time.time() - 1)),
                Scope(org="acme", user="ana"),
            ):
                with pytest.raises(PermissionDenied):
                    app.invoke({}, context=Session(bad))
    finally:
        use_identity(keeper, Identity())
