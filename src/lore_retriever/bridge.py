"""Any view from any code: what both frameworks' adapters stand on.

A host calls its adapters from threads, from the loop that opened a store, and from loops it made a moment ago. An
asynchronous pool serves its own loop only, so everything else goes to synchronous connections, in a thread where a
loop is running. Nothing here waits for another loop, so nothing here can hang on one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from lore_retriever.errors import InvalidInput
from lore_retriever.operations.common import OpenSpace
from lore_retriever.steps import Operation
from lore_retriever.views import AsyncMemories, Memories

__all__ = ["View", "acall", "aperform", "blocking", "call", "checked_view", "perform"]

View: TypeAlias = Memories | AsyncMemories
"""What every adapter takes: `store.as_user(…)` or `store.as_caller(…)` of either store."""

T = TypeVar("T")


def checked_view(value: object) -> View:
    """`value`, if it is a view.

    Raises:
        InvalidInput: If it is not; says how to make one.
    """
    if not isinstance(value, Memories | AsyncMemories):
        raise InvalidInput(
            f"memories is {type(value).__name__}; give what store.as_user(org=…, user=…) returns, of a MemoryStore or an"
            " AsyncMemoryStore."
        )
    return value


def blocking(view: View) -> Memories:
    """The view for synchronous code: itself, or its twin on synchronous connections.

    Raises:
        StoreUnavailable: If it is the view of an asynchronous store that is not open.
    """
    return view if isinstance(view, Memories) else Memories(view.store.blocking(), lambda: view.scope)


def _is_at_home(view: View) -> bool:
    return isinstance(view, AsyncMemories) and view.store.is_on_its_loop


def call(view: View, use: Callable[[Memories], T]) -> T:
    """Call a method of the view from synchronous code, as in `call(view, lambda v: v.recall("gateway"))`."""
    return use(blocking(view))


async def acall(view: View, use: Callable[[Any], Any]) -> Any:
    """The same from asynchronous code: awaited on the store's own loop, else in a thread."""
    if _is_at_home(view):
        return await use(view)
    return await asyncio.to_thread(lambda: use(blocking(view)))


def perform(view: View, make: Callable[[OpenSpace], Operation]) -> Any:
    """Run an operation from synchronous code; `make` is given the store's embedding space."""
    own = blocking(view)
    return own.store.perform(make(own.store.space), own.scope)


async def aperform(view: View, make: Callable[[OpenSpace], Operation]) -> Any:
    """The same from asynchronous code."""
    if isinstance(view, AsyncMemories) and view.store.is_on_its_loop:
        return await view.store.perform(make(await view.store.open_space()), view.scope)
    return await asyncio.to_thread(perform, view, make)
