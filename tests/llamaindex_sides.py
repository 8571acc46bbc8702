"""Either store behind LlamaIndex's classes, called in its own style or in the other's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llama_index.core.memory import Memory
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from lore_retriever import AsyncMemories, AsyncMemoryStore, Memories, MemoryStore
from lore_retriever.llamaindex import LoreVectorStore
from lore_retriever.testing import HashEmbedder

NATURAL = ("sync store, called", "async store, awaited")
CROSSED = ("sync store, awaited", "async store, called")

_AWAITED = {
    "add": "async_add",
    "delete": "adelete",
    "delete_nodes": "adelete_nodes",
    "clear": "aclear",
    "get_nodes": "aget_nodes",
    "query": "aquery",
    "retrieve": "aretrieve",
}


@dataclass
class Side:
    """One store and one call style. `ana` is acme's ana on it."""

    ana: Memories | AsyncMemories
    awaited: bool
    run: Callable[[Any], Any]

    def store(self, **settings: Any) -> Any:
        """A LoreVectorStore whose methods block, whichever style they are called in."""
        return self.face(LoreVectorStore(memories=self.ana, **settings))

    def face(self, target: Any) -> Any:
        """`target` with its synchronous method names, called in this side's style."""
        return _Face(self, target)

    def view(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the view itself."""
        result = getattr(self.ana, method)(*args, **kwargs)
        return self.run(result) if isinstance(self.ana, AsyncMemories) else result


class _Face:
    def __init__(self, side: Side, target: Any) -> None:
        self._side = side
        self.target = target

    def __getattr__(self, name: str) -> Any:
        if not self._side.awaited or name not in _AWAITED:
            return getattr(self.target, name)
        method = getattr(self.target, _AWAITED[name])
        return lambda *args, **kwargs: self._side.run(method(*args, **kwargs))


@contextmanager
def open_side(name: str, conninfo: str) -> Iterator[Side]:
    """A side on a database, closed at the end."""
    awaited = name.endswith("awaited")
    with asyncio.Runner() as runner:
        if name.startswith("sync"):
            with MemoryStore.connect(conninfo, embedder=HashEmbedder(32), max_size=4) as store:
                yield Side(store.as_user("acme", "ana"), awaited, runner.run)
            return
        async_store = AsyncMemoryStore.connect(conninfo, embedder=HashEmbedder(32), max_size=4)
        runner.run(async_store.open())
        try:
            yield Side(async_store.as_user("acme", "ana"), awaited, runner.run)
        finally:
            runner.run(async_store.close())


@contextmanager
def lent_loop() -> Iterator[None]:
    """A current event loop for LlamaIndex's synchronous wrappers, which otherwise make one and never close it."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        yield
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def conversation(folder: Path, **settings: Any) -> Memory:
    """LlamaIndex's chat memory, on a database whose connections are closed after each use (its default leaks them)."""
    engine = create_async_engine(f"sqlite+aiosqlite:///{folder / 'chat.db'}", poolclass=NullPool)
    return Memory.from_defaults(async_engine=engine, **settings)
