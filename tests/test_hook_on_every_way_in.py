"""`before_write` stands on every way in: the package's own and those of both frameworks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain_core.documents import Document
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.schema import TextNode

from lore_retriever import InvalidInput, Memories, MemoryStore, NewMemory
from lore_retriever.langchain import LoreVectorStore as LangChainStore
from lore_retriever.langchain import create_memory_tools as langchain_tools
from lore_retriever.llamaindex import LoreMemoryBlock, conversation_as_episode
from lore_retriever.llamaindex import LoreVectorStore as LlamaIndexStore
from lore_retriever.llamaindex import create_memory_tools as llamaindex_tools
from lore_retriever.testing import HashEmbedder

SAID = "the password is hunter2"
HIDDEN = "the password is [removed]"


def guard(memory: NewMemory) -> NewMemory | None:
    """Refuses what is forbidden, strips a secret from the rest."""
    if "forbidden" in memory.content:
        return None
    return memory.model_copy(update={"content": memory.content.replace("hunter2", "[removed]")})


@pytest.fixture
def ana(app_database: str) -> Iterator[Memories]:
    with MemoryStore.connect(app_database, embedder=HashEmbedder(32), before_write=guard) as store:
        yield store.as_user("acme", "ana")


def by_block(view: Memories, text: str) -> None:
    block = LoreMemoryBlock(memories=view, write_back=conversation_as_episode)
    asyncio.run(block.aput([ChatMessage(text, role="user")]))


def by_tool(tools: Any, name: Callable[[Any], str], use: Callable[[Any, str], Any]) -> Callable[[Memories, str], Any]:
    def write(view: Memories, text: str) -> Any:
        [remember] = [tool for tool in tools(view) if name(tool) == "remember"]
        return use(remember, text)

    return write


WAYS: dict[str, Callable[[Memories, str], Any]] = {
    "remember": lambda view, text: view.remember(text),
    "remember_many": lambda view, text: view.remember_many([NewMemory(content=text)], embed=False),
    "LangChain add_texts": lambda view, text: LangChainStore(memories=view).add_texts([text]),
    "LangChain add_documents": lambda view, text: LangChainStore(memories=view).add_documents(
        [Document(page_content=text)]
    ),
    "LangChain tool": by_tool(
        langchain_tools, lambda tool: str(tool.name), lambda tool, text: tool.invoke({"content": text})
    ),
    "LlamaIndex add": lambda view, text: LlamaIndexStore(memories=view).add([TextNode(text=text)]),
    "LlamaIndex node with a vector": lambda view, text: LlamaIndexStore(memories=view).add(
        [TextNode(text=text, embedding=[1.0] + [0.0] * 31)]
    ),
    "LlamaIndex tool": by_tool(
        llamaindex_tools, lambda tool: str(tool.metadata.name), lambda tool, text: tool.call(content=text)
    ),
    "LlamaIndex memory block": by_block,
}


@pytest.mark.parametrize("way", WAYS)
def test_what_the_hook_makes_of_a_text_is_what_is_stored(ana: Memories, way: str) -> None:
    WAYS[way](ana, SAID)
    [stored] = ana.list()
    assert stored.content.removeprefix("user: ") == HIDDEN
    assert ana.recall("hunter2").hits == () or "hunter2" not in ana.recall("hunter2").hits[0].text


@pytest.mark.parametrize("way", WAYS)
def test_what_the_hook_refuses_is_not_stored(ana: Memories, way: str) -> None:
    if "tool" in way:
        assert "refused" in str(WAYS[way](ana, "forbidden"))  # a model is told, its run goes on
    else:
        with pytest.raises(InvalidInput, match="refused by the store's before_write"):
            WAYS[way](ana, "forbidden")
    assert ana.list() == []
