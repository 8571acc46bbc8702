"""Endless and odd queries through every public way of asking: answered, cut with a word about it, never an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lore_retriever import Memories, NewMemory

ENDLESS = {
    "words": " ".join(f"w{n}" for n in range(90_000)),
    "exclusions": "-a " * 200_000,
    "alternatives": "a OR " * 120_000,
    "unsplit": "部署方案" * 50_000,
    "quotes": '"' * 600_000,
    "tsquery": "a & b | !c:* (d) <-> 'e'",
    "sql": "' OR 1=1 --",
    "NUL and a surrogate": "gate\x00way \ud800",
    "blank": " \n ",
}


def _langchain(name: str) -> Callable[[Memories, str], Any]:
    def ask(ana: Memories, query: str) -> Any:
        from lore_retriever.langchain import LoreRetriever, LoreVectorStore, create_memory_tools

        if name == "retriever":
            return LoreRetriever(memories=ana, k=5).invoke(query)
        if name == "tool":
            recall = next(tool for tool in create_memory_tools(ana) if tool.name == "recall")
            return recall.invoke({"query": query})
        return getattr(LoreVectorStore(memories=ana), name)(query, k=5)

    return ask


def _llamaindex(ana: Memories, query: str) -> Any:
    from lore_retriever.llamaindex import LoreRetriever

    return LoreRetriever(memories=ana, similarity_top_k=5).retrieve(query)


ENTRIES: dict[str, Callable[[Memories, str], Any]] = {
    "recall": lambda ana, query: ana.recall(query).hits,
    "several queries": lambda ana, query: ana.recall(["gateway", query, query]).hits,
    "explain": lambda ana, query: ana.explain(query),
    "build_context": lambda ana, query: ana.build_context(query, max_tokens=500).text,
    "LangChain retriever": _langchain("retriever"),
    "LangChain similarity_search": _langchain("similarity_search"),
    "LangChain similarity_search_with_score": _langchain("similarity_search_with_score"),
    "LangChain max_marginal_relevance_search": _langchain("max_marginal_relevance_search"),
    "LangChain tool": _langchain("tool"),
    "LlamaIndex retriever": _llamaindex,
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_endless_and_odd_queries_are_answered_whoever_asks(ana: Memories, entry: str) -> None:
    ana.remember_many([NewMemory(content=f"the gateway restarts nightly, {n}", id=f"m{n}") for n in range(5)])
    for name, query in ENDLESS.items():
        assert ENTRIES[entry](ana, query) is not None, name
    assert ENTRIES[entry](ana, "gateway")
